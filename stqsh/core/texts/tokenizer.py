"""Split texts into terms, for `CONTAINS` and for keyword queries."""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.kernels.index.hashing import KeyBytes, key_bytes
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_hashes import have_terms
from stqsh.core.kernels.text.term_sets import CodedTexts, contains_terms, drop_repeats, recode, split_texts

_OTHER, _OTHER_ASCII = r"[^\p{L}\p{N}]", "[^a-z0-9]"
"""The characters between terms: RE2's complement of Unicode letters and numbers; and for lower-case ASCII."""

_BETWEEN = f"{_OTHER}+"
"""The separator of terms."""

_ASCII = 128
_MANY = 1_000
"""A phrase is searched by regular expressions in at least this many texts: compiling one takes up to 1 ms."""

_SURROGATES = range(0xD800, 0xE000)
_ASSIGNED = 0x40000
"""Code points from here on are not letters: Unicode's last ideographs are below."""


def tokens(texts: pa.Array[Any]) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Return the distinct terms of each text, in order of first occurrence.

    A term is a maximal run of Unicode letters and digits of the text in lower case (converted code point by
    code point, by Unicode's simple mapping).

    Args:
        texts: A string array; NULL has no terms.

    Returns:
        offsets int32 (n + 1,), and the terms of all texts: text i has the terms from offsets[i] to before
        offsets[i + 1].
    """
    coded, dictionary = coded_terms(texts)
    positions: Any = pa.array(coded.codes)
    return coded.start, dictionary.take(positions)


def coded_terms(texts: pa.Array[Any]) -> tuple[CodedTexts, pa.StringArray]:
    """Return the terms of texts as codes, in order of first occurrence, and the term of each code.

    A text of 100 characters takes half a microsecond.
    """
    (ends, text), of_terms = _lower(texts)
    start, offsets, data = split_texts(ends, text, of_terms)
    words: Any = pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets.data), pa.py_buffer(data.data)
    )
    coded: Any = words.dictionary_encode()
    return drop_repeats(start, frozen(coded.indices.to_numpy()), len(coded.dictionary)), coded.dictionary


def have_any_term(texts: pa.Array[Any], hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return which texts have one of some terms, bool (n,), in less than half the time of `coded_terms`.

    Args:
        texts: A string array; NULL has no terms.
        hashes: The set of terms, a table as for `add_hashes`.
    """
    (ends, text), of_terms = _lower(texts)
    return have_terms(ends, text, of_terms, hashes)


def _lower(texts: pa.Array[Any]) -> tuple[KeyBytes, npt.NDArray[np.bool_]]:
    """Return texts in lower case, and which code points may be part of terms."""
    whole: Any = texts
    lower: Any = pc.utf8_lower(whole.fill_null("") if whole.null_count else whole)
    content = key_bytes(lower)
    return content, _of_terms(foreign=content.data.max(initial=0) >= _ASCII)


@cache
def _of_terms(*, foreign: bool) -> npt.NDArray[np.bool_]:
    """Return whether each code point, of ASCII or of Unicode, is a letter or a digit.

    One pass of a regular expression finds them, in 70 ms for Unicode, and the result is cached. Compiling it
    for each batch would take 4 ms, more than the texts take.
    """
    points = chain(range(_SURROGATES.start), range(_SURROGATES.stop, _ASSIGNED)) if foreign else range(_ASCII)
    runs = pc.split_pattern_regex(pa.array(["".join(map(chr, points))]), _BETWEEN)[0].as_py()
    found = np.zeros(_ASSIGNED if foreign else _ASCII, np.bool_)
    for run in filter(None, runs):
        found[ord(run[0]) : ord(run[-1]) + 1] = True
    return frozen(found)


def contains(texts: pa.Array[Any], phrases: Any, how: str) -> pa.Array[Any]:
    """Return whether each text has the terms of its phrase: all of them, or one.

    The distinct texts and phrases are split once each; a pair costs some tens of nanoseconds. If there is
    only one phrase, texts are not split, which takes a tenth of the time.

    Args:
        texts: A string array, plain or dictionary-encoded, or one string scalar for all phrases.
        phrases: A string array of the same length, or one string scalar for all texts (two scalars are one
            row); without nulls.
        how: "all" or "any".

    Returns:
        A `pa.BooleanArray` (n,); null where the text is null.
    """
    if isinstance(phrases, pa.Scalar) and not isinstance(texts, pa.Scalar) and len(texts) >= _MANY:
        return _contains_phrase(texts, phrases, how)
    repeat: Any = pa.repeat
    rows = next((len(side) for side in (texts, phrases) if not isinstance(side, pa.Scalar)), 1)
    texts, phrases = (
        (repeat(side, rows) if isinstance(side, pa.Scalar) else side).dictionary_encode()
        for side in (texts, phrases)
    )
    vocabulary = pa.concat_arrays([texts.dictionary, phrases.dictionary])
    coded, terms = coded_terms(vocabulary)
    coded = recode(coded, np.arange(len(terms), dtype=np.int32))
    missing = pc.is_null(texts.dictionary).take(texts.indices).fill_null(True).to_numpy(zero_copy_only=False)
    text = texts.indices.fill_null(0).to_numpy()
    phrase = phrases.indices.to_numpy() + np.int32(len(texts.dictionary))
    truth: Any = contains_terms(coded, frozen(text), frozen(phrase), how == "all")
    found: pa.Array[Any] = pa.array(truth, mask=missing)
    return found


def _contains_phrase(texts: Any, phrase: Any, how: str) -> pa.Array[Any]:
    """Return whether each text has the terms of one phrase, see `contains`."""
    terms = [str(term) for term in coded_terms(pa.array([phrase.as_py()]))[1].to_pylist()]
    coded = texts.dictionary_encode()
    lower: Any = pc.utf8_lower(coded.dictionary)
    other = _OTHER_ASCII if pc.all(pc.string_is_ascii(lower)).as_py() else _OTHER
    truth: Any = pa.array(np.full(len(lower), how == "all"))
    for sought in terms if how == "all" else filter(None, ["|".join(terms)]):
        there = pc.match_substring_regex(lower, f"(?:^|{other})(?:{sought})(?:$|{other})")
        truth = pc.and_(truth, there) if how == "all" else there
    found: pa.Array[Any] = truth.take(coded.indices)
    return found


def needed_words(
    phrases: pa.Array[Any], every: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], pa.StringArray]:
    """Return for each query the words of which a text needs at least one; none if its phrase has no words.

    A text that satisfies a query with `CONTAINS ALL` has each of its words, so one word represents the query;
    for `CONTAINS ANY`, all words are returned, because a text may have any of them. Tornado's textual
    summaries (section 3.1) use the rarest word. The stage that deals records does not know how often words
    occur, so this uses the longest word, because long words are mostly rare.

    Args:
        phrases: a string array (n,).
        every: whether a text needs all words of the phrase, or any; bool (n,).

    Returns:
        The number of words of each query, int64 (n,), and the words of all queries, one query after the
        other.
    """
    start, words = tokens(phrases)
    rows = np.repeat(np.arange(len(phrases)), np.diff(start))
    lengths = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    longest_first = np.lexsort((-lengths, rows))
    _, longest = np.unique(rows[longest_first], return_index=True)
    needed = ~every[rows]
    needed[longest_first[longest]] = True
    return np.bincount(rows[needed], minlength=len(phrases)), words.filter(pa.array(needed))
