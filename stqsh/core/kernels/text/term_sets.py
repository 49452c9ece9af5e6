"""Terms of texts as codes, distinct within each text and ascending.

Because the codes of a text ascend, a test for terms merges two ordered lists. Costs are linear in the bytes
or in the codes of the texts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.shapes import IndexRange
from stqsh.core.kernels.jit import Flag, Int, kernel


class CodedTexts(NamedTuple):
    """Term codes of texts, stored end to end: `codes[start[i]:start[i + 1]]` are those of text i.

    Attributes:
        start: int32 (texts + 1,).
        codes: int32, distinct within a text.
    """

    start: Array
    codes: Array


class SplitTexts(NamedTuple):
    """Texts split into terms: text i has the terms from start[i] to before start[i + 1].

    Attributes:
        start: int32 (texts + 1,).
        offsets: int32; term k is data[offsets[k]:offsets[k + 1]], in UTF-8.
        data: uint8.
    """

    start: Array
    offsets: Array
    data: Array


@kernel
def split_texts(offsets: Array, text: Array, of_terms: Array) -> SplitTexts:
    """Split texts into maximal runs of the code points that terms consist of.

    Args:
        offsets: The starts of texts, integer (n + 1,).
        text: Texts in lower case, end to end, in valid UTF-8, uint8.
        of_terms: Whether each code point may be part of a term, bool; code points beyond its end may not.
    """
    count = len(offsets) - 1
    start = np.empty(count + 1, np.int32)
    size = np.int64(offsets[count] - offsets[0])
    # There is at most one term for every other byte, and one for each text.
    ends, data = np.empty(size // 2 + count + 1, np.int32), np.empty(size, np.uint8)
    terms, used = np.int64(0), np.int64(0)
    start[0] = ends[0] = 0
    for i in range(count):
        at, end, within = int(offsets[i]), int(offsets[i + 1]), False
        while at < end:
            point, width = int(text[at]), 1
            if point >= 128:
                point, width = code_point(text, at)
            if point < len(of_terms) and of_terms[point]:
                for byte in range(at, at + width):
                    data[used] = text[byte]
                    used += 1
                within = True
            elif within:
                terms += 1
                ends[terms] = used
                within = False
            at += width
        if within:
            terms += 1
            ends[terms] = used
        start[i + 1] = terms
    return SplitTexts(start, ends[: terms + 1].copy(), data[:used].copy())


@kernel
def code_point(text: Array, at: int) -> tuple[int, int]:
    """Return the code point beyond ASCII at a position of valid UTF-8, and its number of bytes."""
    first = int(text[at])
    width = 2 + int(first >= 0xE0) + int(first >= 0xF0)
    point = first & (0x7F >> width)
    for byte in range(at + 1, at + width):
        point = point << 6 | int(text[byte] & 0x3F)
    return point, width


@kernel
def drop_repeats(start: Array, codes: Array, size: int) -> CodedTexts:
    """Drop codes that occurred earlier in the same text.

    Text i has codes[start[i]:start[i + 1]], below `size`.
    """
    seen = np.full(size, -1, np.int64)
    ends, out = np.empty(len(start), np.int32), np.empty(len(codes), np.int32)
    used = 0
    ends[0] = 0
    for text in range(len(start) - 1):
        for at in range(start[text], start[text + 1]):
            code = codes[at]
            if seen[code] < text:
                seen[code] = text
                out[used] = code
                used += 1
        ends[text + 1] = used
    return CodedTexts(ends, out[:used].copy())


@kernel
def recode(coded: CodedTexts, names: Array) -> CodedTexts:
    """Replace each code c by `names[c]`, int32, distinct; the results ascend within each text."""
    codes = np.empty(len(coded.codes), np.int32)
    for text in range(len(coded.start) - 1):
        begin = coded.start[text]
        for at in range(begin, coded.start[text + 1]):
            code = names[coded.codes[at]]
            # Texts have a few dozen terms: insertion sort beats a general sort, and needs no memory.
            to = at
            while to > begin and codes[to - 1] > code:
                codes[to] = codes[to - 1]
                to -= 1
            codes[to] = code
    return CodedTexts(coded.start.copy(), codes)


@kernel
def has_terms(codes: Array, span: IndexRange, terms: Array, asked: IndexRange, every: Flag) -> Flag:
    """Return whether `codes[span]` contains all of `terms[asked]`, or one of them; both are ascending."""
    at, end = span
    for k in range(asked.begin, asked.end):
        term = terms[k]
        while at < end and codes[at] < term:
            at += 1
        found = at < end and codes[at] == term
        if found != every:
            return found
    return every


@kernel
def contains_terms(coded: CodedTexts, text: Array, phrase: Array, every: bool) -> Array:
    """Return whether text i has all of the terms of phrase i, or one of them; bool (n,).

    A phrase without terms is contained in each text if all terms are required, and in none otherwise.

    Args:
        coded: Texts and phrases, with the same codes, ascending.
        text: Positions of texts, integer (n,).
        phrase: Positions of phrases, integer (n,).
        every: Whether all terms are required.
    """
    out = np.empty(len(text), np.bool_)
    for i in range(len(out)):
        span = IndexRange(coded.start[text[i]], coded.start[text[i] + 1])
        asked = IndexRange(coded.start[phrase[i]], coded.start[phrase[i] + 1])
        out[i] = has_terms(coded.codes, span, coded.codes, asked, every)
    return out


class TermSpans(NamedTuple):
    """Term codes of texts, with gaps: `codes[begin[i]:end[i]]` are those of text i; int32, ascending."""

    begin: Array
    end: Array
    codes: Array


@kernel
def count_terms(spans: TermSpans, texts: Array, seen: Array) -> None:
    """Add the terms of texts, int32 (n,), -1 for none, to the counts `seen`, int64 (terms,)."""
    for text in texts:
        if text < 0:
            continue
        for at in range(spans.begin[text], spans.end[text]):
            seen[spans.codes[at]] += 1


@kernel
def pack_terms(spans: TermSpans) -> Array:
    """Return the codes without gaps, after a -1 that belongs to no text, int32; update `begin` and `end`."""
    out = np.empty(1 + np.sum(spans.end - spans.begin), np.int32)
    out[0] = -1
    used = 1
    for text in range(len(spans.begin)):
        count = spans.end[text] - spans.begin[text]
        if spans.begin[text]:
            for i in range(count):
                out[used + i] = spans.codes[spans.begin[text] + i]
            spans.begin[text], spans.end[text] = used, used + count
            used += count
    return out


@kernel
def add_terms(spans: TermSpans, texts: Array, more: Array) -> TermSpans:
    """Return the terms of texts extended by further terms.

    Args:
        spans: Terms of texts.
        texts: Rows of the spans, int32 (n,); -1 for none.
        more: Further terms of each text, int32 (k, n); -1 for none.

    Returns:
        The terms of the n texts, followed by a row without terms.
    """
    count, room = len(texts), np.int64(more.size)
    for text in texts:
        if text >= 0:
            room += spans.end[text] - spans.begin[text]
    begin, end = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    codes, used = np.empty(room, np.int32), np.int64(0)
    for i in range(count):
        first = begin[i] = used
        if texts[i] >= 0:
            for at in range(spans.begin[texts[i]], spans.end[texts[i]]):
                codes[used] = spans.codes[at]
                used += 1
        for k in range(len(more)):
            used = _insert_term(codes, first, used, more[k, i])
        end[i] = used
    begin[count] = end[count] = used
    return TermSpans(begin, end, codes[:used])


@kernel
def _insert_term(codes: Array, first: Int, used: Int, term: Int) -> Int:
    """Insert a term, unless it is -1, into ascending codes from `first` on; return their end."""
    to = used
    while to > first and codes[to - 1] > term:
        to -= 1
    if term < 0 or (to > first and codes[to - 1] == term):
        return used
    for at in range(used, to, -1):
        codes[at] = codes[at - 1]
    codes[to] = term
    return used + 1


SPELLED = 12
"""The number of bytes of a spelled hash."""


@kernel
def spell_hashes(hashes: Array) -> Array:
    """Spell hashes, uint64 (n,), as "=" and 11 ASCII characters each, end to end; uint8 (n * SPELLED,)."""
    out = np.empty(len(hashes) * SPELLED, np.uint8)
    for i in range(len(hashes)):
        left = hashes[i]
        out[i * SPELLED] = 61
        for at in range(i * SPELLED + 1, (i + 1) * SPELLED):
            out[at] = 48 + (left & np.uint64(63))
            left >>= np.uint64(6)
    return out
