"""A set of terms by their hashes, and the texts that have one of these terms.

A text is scanned once and its terms are hashed as they end, so terms are neither copied nor coded. Two terms
with one hash count as equal, so a text may be reported without having a term, but none is missed.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.hashing import mix64
from stqsh.core.kernels.jit import kernel
from stqsh.core.kernels.text.term_sets import code_point

_NONE, _ONE = np.uint64(0), np.uint64(1)
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@kernel
def _place(table: Array, h: np.uint64) -> np.uint64:
    """Return the position of a hash in a table, or the empty position where it belongs."""
    mask = np.uint64(len(table) - 1)
    at = h & mask
    while table[at] != _NONE and table[at] != h:
        at = (at + _ONE) & mask
    return at


@kernel
def add_hashes(table: Array, hashes: Array) -> int:
    """Add hashes to a set, and return the number of new hashes.

    Args:
        table: An open-addressing table, uint64 (power of two,), longer than the set; 0 means empty.
        hashes: uint64 (n,); 0 counts as 1.
    """
    added = 0
    for given in hashes:
        h = max(given, _ONE)
        at = _place(table, h)
        added += int(table[at] == _NONE)
        table[at] = h
    return added


@kernel
def have_terms(offsets: Array, text: Array, of_terms: Array, table: Array) -> Array:
    """Return which texts have a term of the set, bool (n,).

    Args:
        offsets, text, of_terms: As for `split_texts`.
        table: As for `add_hashes`, filled with the `hash_keys` of the terms.
    """
    count = len(offsets) - 1
    found = np.zeros(count, np.bool_)
    for i in range(count):
        at, end, h, within = int(offsets[i]), int(offsets[i + 1]), _BASIS, False
        while at <= end and not found[i]:
            point, width = -1, 1  # the end of a text ends a term, too
            if at < end:
                point = int(text[at])
            if point >= 128:
                point, width = code_point(text, at)
            if 0 <= point < len(of_terms) and of_terms[point]:
                for byte in range(at, at + width):
                    h = (h ^ np.uint64(text[byte])) * _PRIME
                within = True
            elif within:
                h = max(mix64(h), _ONE)
                found[i] = table[_place(table, h)] == h
                h, within = _BASIS, False
            at += width
    return found
