"""Packed inverted lists of coded texts: the texts in which each term occurs.

Places ascend within a list. A list stores the difference of each place to the one before, in groups of seven
bits, lowest first; the highest bit is set in all bytes of a number except its last byte. Most words of texts
are common, so most differences take one byte. Packing and unpacking cost one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, kernel
from stqsh.core.kernels.text.term_sets import CodedTexts


class PackedLists(NamedTuple):
    """The places of term t are packed in data[starts[t]:starts[t + 1]]; int64 (terms + 1,), and uint8."""

    starts: Array
    data: Array


@kernel
def list_terms(coded: CodedTexts, text: Array, terms: int) -> PackedLists:
    """List the places of each term.

    Args:
        coded: The texts; codes are below `terms`.
        text: The number of the text at each place, int32 (n,); -1 for none.
        terms: The number of terms.
    """
    last, starts = np.full(terms, -1, np.int64), np.zeros(terms + 1, np.int64)
    for place in np.flatnonzero(text >= 0):
        for at in range(coded.start[text[place]], coded.start[text[place] + 1]):
            code = coded.codes[at]
            starts[code + 1] += _width(place - last[code])
            last[code] = place
    for term in range(terms):
        starts[term + 1] += starts[term]
    last[:] = -1
    ends, data = starts[:-1].copy(), np.empty(starts[terms], np.uint8)
    for place in np.flatnonzero(text >= 0):
        for at in range(coded.start[text[place]], coded.start[text[place] + 1]):
            code = coded.codes[at]
            left, to = place - last[code], ends[code]
            while left >= 128:
                data[to] = left & 127 | 128
                left >>= 7
                to += 1
            data[to] = left
            ends[code], last[code] = to + 1, place
    return PackedLists(starts, data)


@kernel
def _width(number: Int) -> Int:
    """Return the number of bytes that a number takes."""
    width = 1
    while number >= 128:
        number >>= 7
        width += 1
    return width


@kernel
def unpack_list(data: Array) -> Array:
    """Return the places of one list, int32 (n,), ascending."""
    places, count, place, number, shift = np.empty(len(data), np.int32), 0, -1, 0, 0
    for byte in data:
        number |= int(byte & 127) << shift
        shift += 7
        if byte < 128:
            place += number
            places[count] = place
            count += 1
            number, shift = 0, 0
    return places[:count].copy()
