"""The words of which a text needs one to satisfy a keyword query: Tornado's textual summaries (section 3.1).

A text that satisfies a query with `CONTAINS ALL` has each of its words, so one of them stands for the whole
query; with `CONTAINS ANY` it may be any. Tornado takes the rarest word. How often words occur is not
known where records are dealt, so the longest is taken, as long words are mostly rare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.texts.tokenizer import tokens


def needed_words(
    phrases: pa.Array[Any], every: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], pa.StringArray]:
    """Return the words of which a text needs one, for each query; none if its phrase has no words.

    Args:
        phrases: a string array (n,).
        every: whether a text needs all words of the phrase, or any; bool (n,).

    Returns:
        The number of words of each query, int64 (n,), and the words of all queries, one after the other.
    """
    start, words = tokens(phrases)
    rows = np.repeat(np.arange(len(phrases)), np.diff(start))
    lengths = pc.utf8_length(words).to_numpy(zero_copy_only=False)
    longest_first = np.lexsort((-lengths, rows))
    _, longest = np.unique(rows[longest_first], return_index=True)
    needed = ~every[rows]
    needed[longest_first[longest]] = True
    return np.bincount(rows[needed], minlength=len(phrases)), words.filter(pa.array(needed))
