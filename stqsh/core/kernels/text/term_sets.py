"""Terms of texts as codes: distinct within each text, ascending, and compared without the texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.jit import Array, Flag, Int, kernel


class CodedTexts(NamedTuple):
    """Term codes of texts laid end to end: those of text i are `codes[start[i]:start[i + 1]]`.

    start: int32 (texts + 1,). codes: int32, distinct within a text.
    """

    start: Array
    codes: Array


class CutTexts(NamedTuple):
    """Texts cut into terms: text i has those from start[i] to start[i + 1], or is `foreign`: not in ASCII.

    start: int32 (texts + 1,); foreign: bool (texts,). Term k is data[offsets[k]:offsets[k + 1]]; int32 and
    uint8.
    """

    start: Array
    foreign: Array
    offsets: Array
    data: Array


@kernel
def cut(offsets: Array, text: Array) -> CutTexts:
    """Cut texts into runs of letters and digits.

    Texts in lower case, laid end to end: offsets integer (n + 1,), text uint8. Foreign ones get no terms.
    """
    count = len(offsets) - 1
    start, foreign = np.empty(count + 1, np.int32), np.zeros(count, np.bool_)
    size = np.int64(offsets[count] - offsets[0])
    # There are at most as many terms as every other byte, and one for each text.
    ends, data = np.empty(size // 2 + count + 1, np.int32), np.empty(size, np.uint8)
    terms, used = np.int64(0), np.int64(0)
    start[0] = ends[0] = 0
    for i in range(count):
        within, first, began = False, terms, used
        for at in range(offsets[i], offsets[i + 1]):
            byte = text[at]
            if byte >= 128:
                foreign[i] = True
                break
            if (97 <= byte <= 122) or (48 <= byte <= 57):
                data[used] = byte
                used += 1
                within = True
            elif within:
                terms += 1
                ends[terms] = used
                within = False
        if foreign[i]:
            terms, used = first, began
        elif within:
            terms += 1
            ends[terms] = used
        start[i + 1] = terms
    return CutTexts(start, foreign, ends[: terms + 1].copy(), data[:used].copy())


@kernel
def distinct(begin: Array, end: Array, codes: Array, size: int, skip: int) -> CodedTexts:
    """Drop codes that came before in the same text, and the code `skip`.

    Text i has codes[begin[i]:end[i]], below `size`.
    """
    seen = np.full(size, -1, np.int64)
    if skip >= 0:
        seen[skip] = len(begin)
    start, out = np.empty(len(begin) + 1, np.int32), np.empty(len(codes), np.int32)
    used = 0
    start[0] = 0
    for text in range(len(begin)):
        for at in range(begin[text], end[text]):
            code = codes[at]
            if seen[code] < text:
                seen[code] = text
                out[used] = code
                used += 1
        start[text + 1] = used
    return CodedTexts(start, out[:used].copy())


@kernel
def renamed(coded: CodedTexts, names: Array) -> CodedTexts:
    """The same texts under other codes: code c becomes `names[c]`; ascending in each text.

    names: int32, distinct.
    """
    codes = np.empty(len(coded.codes), np.int32)
    for text in range(len(coded.start) - 1):
        begin = coded.start[text]
        for at in range(begin, coded.start[text + 1]):
            code = names[coded.codes[at]]
            # Texts have a few dozen terms: insertion beats a general sort, and needs no memory.
            to = at
            while to > begin and codes[to - 1] > code:
                codes[to] = codes[to - 1]
                to -= 1
            codes[to] = code
    return CodedTexts(coded.start.copy(), codes)


@kernel
def has_terms(codes: Array, span: tuple[Int, Int], terms: Array, asked: tuple[Int, Int], every: Flag) -> Flag:
    """Whether `codes[span]` holds all of `terms[asked]`, or one of them; both ascending."""
    at, end = span
    for k in range(asked[0], asked[1]):
        term = terms[k]
        while at < end and codes[at] < term:
            at += 1
        found = at < end and codes[at] == term
        if found != every:
            return found
    return every


@kernel
def holds(texts: CodedTexts, phrases: CodedTexts, pairs: tuple[Array, Array], every: bool) -> Array:
    """Whether the text pairs[0][i] has the terms of the phrase pairs[1][i]: all, or one of them; bool (n,).

    Both coded alike and ascending. A phrase without terms asks for nothing: all of them are there, none is.
    """
    out = np.empty(len(pairs[0]), np.bool_)
    for i in range(len(out)):
        text, phrase = pairs[0][i], pairs[1][i]
        span = texts.start[text], texts.start[text + 1]
        asked = phrases.start[phrase], phrases.start[phrase + 1]
        out[i] = has_terms(texts.codes, span, phrases.codes, asked, every)
    return out


class TermSpans(NamedTuple):
    """Term codes of texts, with gaps: those of text i are `codes[begin[i]:end[i]]`; int32, ascending."""

    begin: Array
    end: Array
    codes: Array


@kernel
def count_terms(spans: TermSpans, texts: Array, seen: Array) -> None:
    """Count each term of the texts, int32 (n,), -1 for none; seen: int64 (terms,)."""
    for text in texts:
        if text < 0:
            continue
        for at in range(spans.begin[text], spans.end[text]):
            seen[spans.codes[at]] += 1


@kernel
def packed(spans: TermSpans) -> Array:
    """The codes without gaps, after a -1 that belongs to no text; begin and end are moved to them. int32."""
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
