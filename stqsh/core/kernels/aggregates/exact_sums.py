"""Exact sums of doubles and whole numbers as integers in limbs (Neal 2015, small superaccumulators).

A sum is an integer multiple of 2 ** -1088, kept in limbs of 32 bits: limb `place` counts multiples of
2 ** (32 * place - 1088), so that limb 34 begins with the units. Limbs are int64, so carries can wait: a limb
takes 2 ** 30 terms before it must be normalised. Sums do not depend on the order of their terms, and terms
can be subtracted again.
"""

from __future__ import annotations

import math

import numpy as np

from stqsh.core.kernels.jit import Array, Int, inlined, kernel

UNIT_PLACE = 34
"""The limb that begins with the units."""

_MASK = np.int64(0xFFFFFFFF)
_FRACTION = np.int64(0xFFFFFFFFFFFFF)
_ONE = np.int64(1)


@kernel
def double_places(bits: Array) -> tuple[int, int]:
    """Return the lowest and the highest place that the terms, the bits of finite doubles, reach."""
    low, high = 1 << 30, -1
    for i in range(len(bits)):
        exponent = (bits[i] >> 52) & 2047
        if exponent == 0:
            if bits[i] & _FRACTION == 0:
                continue
            exponent = 1
        place = (exponent + 13) >> 5
        low = min(low, place)
        high = max(high, place + 2)
    return low, high


@inlined
def add_double(bits: Int, sign: Int, limbs: Array, at: Int) -> None:
    """Add a term, the bits of a finite double, with a sign to flat limbs, whose place 0 would be at `at`."""
    exponent, mantissa = (bits >> 52) & 2047, bits & _FRACTION
    if exponent == 0:
        exponent = np.int64(1)
    else:
        mantissa |= _ONE << 52
    if mantissa != 0:
        position = exponent + 13
        place, shift = at + (position >> 5), position & 31
        first, second = (mantissa & _MASK) << shift, (mantissa >> 32) << shift
        signed = sign * ((bits >> 63) | 1)
        limbs[place] += signed * (first & _MASK)
        limbs[place + 1] += signed * (((first >> 32) & _MASK) + (second & _MASK))
        limbs[place + 2] += signed * (second >> 32)


@kernel
def add_doubles(bits: Array, rows: Array, signs: Array, low: int, limbs: Array) -> None:
    """Add the terms, the bits of finite doubles, to the rows of limbs, whose first place is `low`."""
    flat, width = limbs.reshape(-1), limbs.shape[1]
    for i in range(len(bits)):
        add_double(bits[i], np.int64(signs[i]), flat, np.int64(rows[i]) * width - low)


@kernel
def add_wholes(values: Array, rows: Array, signs: Array, limbs: Array) -> None:
    """Add whole numbers, int64 (n,), to the rows of limbs, whose first place is `UNIT_PLACE`."""
    for i in range(len(values)):
        sign = np.int64(signs[i])
        limbs[rows[i], 0] += sign * (values[i] & _MASK)
        limbs[rows[i], 1] += sign * (values[i] >> 32)


@kernel
def normalise(limbs: Array) -> None:
    """Carry, so that equal sums have equal limbs: all but the last are in 0 .. 2 ** 32."""
    for row in range(limbs.shape[0]):
        for place in range(limbs.shape[1] - 1):
            carry = limbs[row, place] >> 32
            limbs[row, place] -= carry << 32
            limbs[row, place + 1] += carry


@kernel
def rounded(limbs: Array, low: int) -> Array:
    """Return normalised sums as doubles, rounded once to nearest, ties to even; infinite beyond the range."""
    count = limbs.shape[1]
    out = np.empty(limbs.shape[0])
    digits = np.zeros(count + 4, np.int64)  # two zeros, the limbs, and what they carry
    bits = np.zeros(1, np.int64)
    power = bits.view(np.float64)
    for row in range(limbs.shape[0]):
        is_negative = count > 0 and limbs[row, count - 1] < 0
        carry = np.int64(0)
        for i in range(count):
            value = (-limbs[row, i] if is_negative else limbs[row, i]) + carry
            carry = value >> 32
            digits[i + 2] = value - (carry << 32)
        digits[count + 2] = carry & _MASK
        digits[count + 3] = carry >> 32
        mantissa, exponent = _leading(digits, low)
        bits[0] = (exponent + 1023) << 52
        is_normal = -1022 <= exponent <= 1023
        result = float(mantissa) * power[0] if is_normal else math.ldexp(float(mantissa), exponent)
        out[row] = -result if is_negative and mantissa != 0 else result
    return out


@kernel
def _leading(digits: Array, low: int) -> tuple[Int, Int]:
    """Return the first 55 to 62 bits of a number, the last of which is set if more follow, and its exponent.

    A double has fewer bits, so to make one of them rounds the number once.

    Args:
        digits: The number, in digits of 32 bits, the lowest first; two zeros come before them.
        low: The place of the lowest.
    """
    top, more = len(digits) - 1, np.int64(0)
    while top > 1 and digits[top] == 0:
        top -= 1
    if top < 2:
        return np.int64(0), np.int64(0)
    first, second, third = digits[top], digits[top - 1], digits[top - 2]
    for i in range(top - 2):
        more |= digits[i]
    exponent = np.int64(32 * (top - 3 + low) - 1088)
    if first >> 24 > 0:
        more |= third | (second & 3)
        return (first << 30) | (second >> 2) | np.int64(more != 0), exponent + 2
    shift = np.int64(22) - 8 * (np.int64(first >> 8 > 0) + np.int64(first >> 16 > 0))
    more |= third & ((_ONE << (32 - shift)) - 1)
    bits = (first << (32 + shift)) | (second << shift) | (third >> (32 - shift))
    return bits | np.int64(more != 0), exponent - shift


@kernel
def wholes(limbs: Array, low: int, fits: Array) -> Array:
    """Return normalised sums of whole numbers as int64; `low` is the first place.

    Places reach from the units to 64 bits at least. There are more where sums of doubles share the columns:
    those below the units are 0, and those above 64 bits repeat the sign where the sum fits. `fits`,
    bool (rows,), tells on return which sums do.
    """
    out = np.zeros(limbs.shape[0], np.int64)
    units, count = UNIT_PLACE - low, limbs.shape[1]
    for row in range(limbs.shape[0]):
        top = count - 1
        high = limbs[row, top]
        fits[row] = True
        while top > units + 1:
            top -= 1
            fits[row] = fits[row] and -1 <= high <= 0
            high = (high << 32) + limbs[row, top]
        fits[row] = fits[row] and -(_ONE << 31) <= high < (_ONE << 31)
        if fits[row]:
            out[row] = (high << 32) + limbs[row, units]
    return out
