"""Words of 64 bits that hold several numbers, so that one addition adds all of them.

Each number is a signed field that is wide enough for its largest possible total, so fields never overflow
into each other and the words can be taken apart exactly. Adding a record costs one addition per word instead
of one per number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.groups.region_members import PlaceOrder, put_in_rows
from stqsh.core.kernels.jit import Flag, Int, inlined, kernel

WORD_BITS = 64
"""The number of bits of a word."""

_LOW = np.int64(0xFFFFFFFF)


class WordFields(NamedTuple):
    """The fields of words, each a signed number whose total does not reach the next field; (f,) each.

    Attributes:
        word: The word that contains the field, counted from 1.
        shift: The position of the field's lowest bit in the word.
        size: The number of bits of the field.
        column: The field's total; for a digit of a sum, the total of the sum's first limb.
        limbs: How many limbs this sum has; 0 for a field that is no digit of a sum.
        room: How many totals are reserved for these limbs.
        position: The bits from the lowest bit of the first limb to the lowest bit of the digit.
    """

    word: Array
    shift: Array
    size: Array
    column: Array
    limbs: Array
    room: Array
    position: Array


@kernel
def double_bits(bits: Array) -> tuple[Int, Int]:
    """Return the lowest bit that any double sets, and the bit above the highest, from the doubles' bits.

    Bit positions count from 2 ** -1088, as limbs do.
    """
    low, high = np.int64(1 << 30), np.int64(-1)
    for i in range(len(bits)):
        position, mantissa = _apart(bits[i])
        if mantissa == 0:
            continue
        high = max(high, position + 53)
        below = min(low - position, np.int64(53))
        if below > 0 and mantissa & ((np.int64(1) << below) - 1) != 0:
            while mantissa & 1 == 0:
                mantissa >>= 1
                position += 1
            low = position
    return low, high


@inlined
def _apart(bits: Int) -> tuple[Int, Int]:
    """Return the bit position at which the mantissa of a finite double begins, and the mantissa."""
    exponent, mantissa = (bits >> 52) & 2047, bits & np.int64(0xFFFFFFFFFFFFF)
    if exponent == 0:
        exponent = np.int64(1)
    else:
        mantissa |= np.int64(1) << 52
    return exponent + 13, mantissa


@kernel
def pack_digits(
    values: Array, order: PlaceOrder, is_double: Flag, low: Int, fields: WordFields, words: Array
) -> None:
    """Add the digits of values, whole numbers or the bits of doubles, to the words of records.

    Args:
        values: The values, int64 (n,), in the order of the records.
        order: The order of the words.
        is_double: Whether the values are doubles.
        low: The lowest bit of the doubles, see `double_bits`.
        fields: The digits, the lowest first. All but the last are as wide as the first two are apart.
        words: The words, (n, m).
    """
    digits = len(fields.word)
    every = fields.position[1] - fields.position[0] if digits > 1 else np.int64(63)
    mask = (np.uint64(1) << np.uint64(every)) - np.uint64(1)
    by_row, within = put_in_rows(values, order), order.within
    for k in range(len(values)):
        value, shift = by_row[within[k]], np.int64(0)
        size = np.uint64(value) if value >= 0 else ~np.uint64(value) + np.uint64(1)
        if is_double:
            position, mantissa = _apart(value)
            size, shift = np.uint64(mantissa), position - low
        if size == 0:
            continue
        for j in range(digits):
            if shift >= 0:
                digit = size << np.uint64(shift) if shift < 64 else np.uint64(0)
            else:
                digit = size >> np.uint64(-shift) if shift > -64 else np.uint64(0)
            if j < digits - 1:
                digit &= mask
            signed = np.int64(digit) if value >= 0 else -np.int64(digit)
            words[k, fields.word[j]] += signed << fields.shift[j]
            shift -= every


@kernel
def take_apart(words: Array, fields: WordFields, totals: Array) -> None:
    """Unpack the totals of words, (words, n), into `totals`, (columns, n), which is 0 before."""
    words_of, sizes, columns = fields.word, fields.size, fields.column
    limbs, room, positions = fields.limbs, fields.room, fields.position
    for f in range(len(words_of)):
        own, size, column = words[words_of[f] - 1], sizes[f], columns[f]
        place, shift = column + (positions[f] >> 5), positions[f] & 31
        for i in range(words.shape[1]):
            value = own[i]
            if size < WORD_BITS:
                unused = WORD_BITS - size
                value = (value << unused) >> unused
                own[i] = (own[i] - value) >> size
            if limbs[f] == 0:
                totals[column, i] = value
            else:
                low, high = (value & _LOW) << shift, (value >> 32) << shift
                totals[place, i] += low & _LOW
                totals[place + 1, i] += (low >> 32) + (high & _LOW)
                totals[place + 2, i] += high >> 32
    for f in range(len(words_of)):
        if limbs[f] > 0 and positions[f] < 32:
            _carry(totals[columns[f] : columns[f] + room[f]], limbs[f])


@kernel
def _carry(totals: Array, limbs: Int) -> None:
    """Normalise the limbs of sums, (room, n); the limbs after the first `limbs` only repeat the sign."""
    for place in range(len(totals) - 1):
        for i in range(totals.shape[1]):
            carry = totals[place, i] >> 32
            totals[place, i] -= carry << 32
            totals[place + 1, i] += carry
    for place in range(len(totals) - 1, limbs - 1, -1):
        for i in range(totals.shape[1]):
            totals[place - 1, i] += totals[place, i] << 32
            totals[place, i] = 0
