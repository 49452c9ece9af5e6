"""Split texts into terms, for `CONTAINS` and for keyword queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.kernels.index.hashing import key_bytes
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.text.term_sets import CodedTexts, contains_terms, drop_repeats, recode, split_texts

_BETWEEN = r"[^\p{L}\p{N}]+"
"""The separator of terms, with RE2's classes of Unicode letters and numbers."""


def tokens(texts: pa.Array[Any]) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Return the distinct terms of each text, in order of first occurrence.

    A term is a maximal run of Unicode letters and digits of the text in lower case (code point by code point,
    by Unicode's simple mapping).

    Args:
        texts: A string array; NULL has no terms.

    Returns:
        offsets int32 (n + 1,) and the terms of all texts: text i's are those from offsets[i] to
        offsets[i + 1].
    """
    coded, dictionary = coded_terms(texts)
    positions: Any = pa.array(coded.codes)
    return coded.start, dictionary.take(positions)


def coded_terms(texts: pa.Array[Any]) -> tuple[CodedTexts, pa.StringArray]:
    """Return the terms of texts as codes, in order of first occurrence, and the terms of the codes.

    The empty string may be among those terms; no text has it. An ASCII text of 100 characters takes half a
    microsecond. Others are split by a regular expression, which takes five times as long.
    """
    whole: Any = texts
    lower: Any = pc.utf8_lower(whole.fill_null("") if whole.null_count else whole)
    start, foreign, offsets, data = split_texts(*key_bytes(lower))
    words: Any = pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets.data), pa.py_buffer(data.data)
    )
    begin, end = start[:-1].copy(), start[1:].copy()
    at: Any = np.flatnonzero(foreign)
    if len(at):
        lists: Any = pc.split_pattern_regex(lower.take(at), _BETWEEN)
        stretches = len(words) + lists.offsets.to_numpy()
        begin[at], end[at] = stretches[:-1], stretches[1:]
        words = pa.concat_arrays([words, lists.values])
    coded: Any = words.dictionary_encode()
    terms, codes = coded.dictionary, frozen(coded.indices.to_numpy())
    empty = terms.index("").as_py() if len(at) else -1  # occurs before and after separators
    return drop_repeats(begin, end, codes, len(terms), empty), terms


def contains(texts: pa.Array[Any], phrases: Any, how: str) -> pa.Array[Any]:
    """Return whether each text has the terms of its phrase: all of them, or one.

    The distinct texts and phrases are split once each; a pair costs some tens of nanoseconds.

    Args:
        texts: A string array, or one string scalar for all phrases.
        phrases: A string array of the same length, or one string scalar for all texts (two scalars are one
            row); none is null.
        how: "all" or "any".

    Returns:
        A `pa.BooleanArray` (n,); null where the text is.
    """
    repeat: Any = pa.repeat
    rows = next((len(side) for side in (texts, phrases) if not isinstance(side, pa.Scalar)), 1)
    texts, phrases = (
        (repeat(side, rows) if isinstance(side, pa.Scalar) else side).dictionary_encode()
        for side in (texts, phrases)
    )
    vocabulary = pa.concat_arrays([texts.dictionary, phrases.dictionary])
    coded, terms = coded_terms(vocabulary)
    coded = recode(coded, np.arange(len(terms), dtype=np.int32))
    missing = texts.indices.is_null().to_numpy(zero_copy_only=False)
    text = texts.indices.fill_null(0).to_numpy()
    phrase = phrases.indices.to_numpy() + np.int32(len(texts.dictionary))
    truth: Any = contains_terms(coded, frozen(text), frozen(phrase), how == "all")
    found: pa.Array[Any] = pa.array(truth, mask=missing)
    return found
