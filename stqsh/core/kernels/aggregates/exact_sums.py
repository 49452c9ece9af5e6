"""Exact sums of doubles and whole numbers as integers in limbs (Neal 2015, small superaccumulators).

A sum is an integer multiple of 2 ** -1088, stored in limbs of 32 bits: limb `place` counts multiples of
2 ** (32 * place - 1088), so limb 34 begins with the units. Limbs are int64, so carries can be delayed: a limb
can add 2 ** 30 terms before it must be normalised. Sums are exact. They do not depend on the order of their
terms, and terms can be subtracted again. A term changes two or three limbs.
"""

from __future__ import annotations

import math

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, inlined, kernel

UNIT_PLACE = 34
"""The limb that begins with the units."""

_MASK = np.int64(0xFFFFFFFF)
_FRACTION = np.int64(0xFFFFFFFFFFFFF)
_ONE = np.int64(1)
_INFINITE = 2047
"""The exponent in the bits of a double that is not finite."""

_SHORT = 3
"""Sums of at most this many limbs are rounded in registers, unless their value needs more bits."""


@kernel
def double_places(bits: Array) -> tuple[int, int]:
    """Return the lowest and the highest place that the terms, given as bits of finite doubles, reach."""
    low: Int = np.int64(_INFINITE)
    high: Int = np.int64(1)
    for i in range(len(bits)):
        exponent, is_zero = (bits[i] >> 52) & 2047, bits[i] << 1 == 0
        low = min(low, np.int64(_INFINITE) if is_zero else exponent)
        high = max(high, exponent)
    if low == _INFINITE:
        return 1 << 30, -1
    return (max(low, np.int64(1)) + 13) >> 5, ((high + 13) >> 5) + 2


@inlined
def add_double(bits: Int, sign: Int, limbs: Array, at: Int) -> None:
    """Add a term, the bits of a finite double, with a sign to flat limbs; place 0 would be at index `at`."""
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
    """Add terms, the bits of finite doubles, to the rows of limbs; `low` is the first place of the limbs."""
    flat, width = limbs.reshape(-1), limbs.shape[1]
    for i in range(len(bits)):
        add_double(bits[i], np.int64(signs[i]), flat, np.int64(rows[i]) * width - low)


@kernel
def are_plain(bits: Array, exponents: Int, sign: Int) -> bool:
    """Return whether no float is infinite, NaN or -0.0, from the floats' bits and the two bit masks."""
    others = 0
    for i in range(len(bits)):
        others += (bits[i] & exponents == exponents) | (bits[i] == sign)
    return others == 0


@kernel
def add_to_few(bits: Array, rows: Array, low: int, limbs: Array) -> None:
    """Add terms to few rows of few limbs, like `add_doubles` with signs of 1.

    Terms of a row with the same exponent are first added together in two halves, which saves steps.
    """
    each = 32 * (limbs.shape[1] - 2)
    base = np.int64(32 * low - 13)
    first, sums = max(base, 1), np.zeros(2 * each * len(limbs), np.int64)
    for i in range(len(bits)):
        exponent, mantissa, sign = (bits[i] >> 52) & 2047, bits[i] & _FRACTION, bits[i] >> 63
        mantissa |= np.int64(exponent != 0) << 52
        mantissa = (mantissa ^ sign) - sign
        at = np.uint64(2 * (np.int64(rows[i]) * each + max(exponent, first) - base))
        sums[at] += mantissa & _MASK
        sums[at + np.uint64(1)] += mantissa >> 32
    for row in range(len(limbs)):
        for position in range(each):
            at = 2 * (row * each + position)
            place, shift = position >> 5, position & 31
            second = (sums[at] >> 32) + (sums[at + 1] & _MASK)
            third = (sums[at + 1] >> 32) + (second >> 32)
            low_part, middle = (sums[at] & _MASK) << shift, (second & _MASK) << shift
            limbs[row, place] += low_part & _MASK
            limbs[row, place + 1] += (low_part >> 32) + (middle & _MASK)
            limbs[row, place + 2] += (middle >> 32) + (third << shift)


@kernel
def add_wholes(values: Array, rows: Array, signs: Array, limbs: Array) -> None:
    """Add whole numbers, int64 (n,), to the rows of limbs; the limbs' first place is `UNIT_PLACE`."""
    for i in range(len(values)):
        sign = np.int64(signs[i])
        limbs[rows[i], 0] += sign * (values[i] & _MASK)
        limbs[rows[i], 1] += sign * (values[i] >> 32)


@kernel
def normalise(limbs: Array) -> None:
    """Carry in sums, (places, rows), so that equal sums have equal limbs: all but the last below 2 ** 32."""
    for place in range(limbs.shape[0] - 1):
        lower, upper = limbs[place], limbs[place + 1]
        for row in range(limbs.shape[1]):
            upper[row] += lower[row] >> 32
            lower[row] &= _MASK


@kernel
def rounded(limbs: Array, low: int) -> Array:
    """Return sums, (places, rows), as doubles, rounded once to nearest, ties to even; infinite on overflow.

    The limbs need not be normalised.
    """
    count, rows = limbs.shape
    out, bits = np.empty(rows), np.zeros(1, np.int64)
    digits = np.zeros(count + 6, np.int64)  # two zeros, the limbs, their carries, and more zeros
    power, last, scale = bits.view(np.float64), np.int64(1 << 30), 0.0
    for row in range(rows):
        carry = np.int64(0)
        for place in range(count):
            value = limbs[place, row] + carry
            carry = value >> 32
            digits[place + 2] = value & _MASK
        is_negative = carry < 0
        if is_negative:
            over = _ONE
            for place in range(2, count + 2):
                value = (digits[place] ^ _MASK) + over
                over = value >> 32
                digits[place] = value & _MASK
            carry = ~carry + over
        digits[count + 2], digits[count + 3] = carry & _MASK, carry >> 32
        if count <= _SHORT and digits[5] >> 21 == 0:
            more = (np.uint64(digits[3]) << np.uint64(32)) | np.uint64(digits[2])
            mantissa, exponent = _leading_of_two((digits[5] << 32) | digits[4], more, low)
        else:
            mantissa, exponent = _leading(digits, low)
        if exponent != last and -1022 <= exponent <= 1023:
            bits[0] = (exponent + 1023) << 52
            last, scale = exponent, power[0]
        result = float(mantissa) * scale if exponent == last else math.ldexp(float(mantissa), exponent)
        out[row] = -result if is_negative and mantissa != 0 else result
    return out


@inlined
def _leading_of_two(high: Int, low: Int, place: int) -> tuple[Int, Int]:
    """Do the work of `_leading` for a number of at most 117 bits, of which `low` holds the last 64."""
    shift, base = np.int64(0), np.int64(32 * place - 1088)
    if high == 0:
        shift = np.int64(2) * np.int64(low >> np.uint64(62) != 0)
        mantissa = np.int64(low >> np.uint64(shift))
    else:
        rest, shift = high, np.int64(10)
        for size in (32, 16, 8):
            if rest >> size > 0:
                rest >>= size
                shift += size
        mantissa = (high << (64 - shift)) | np.int64(low >> np.uint64(shift))
    cut = low & ((np.uint64(1) << np.uint64(shift)) - np.uint64(1))
    return mantissa | np.int64(cut != 0), base + shift


@kernel
def _leading(digits: Array, low: int) -> tuple[Int, Int]:
    """Return the first 55 to 62 bits of a number and its exponent; the last bit is set if more bits follow.

    A double has fewer bits, so converting the result to a double rounds the number only once.

    Args:
        digits: The digits of 32 bits, lowest first, after two zeros.
        low: The place of the lowest digit.
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
    """Return normalised sums of whole numbers, (places, rows), as int64.

    The places cover at least 64 bits from the units on. If sums of doubles share the columns, there are more
    places: those below the units are 0, and those above 64 bits repeat the sign if the sum fits.

    Args:
        limbs: The sums.
        low: The first place.
        fits: Filled with whether each sum fits, bool (rows,); a sum that does not fit is returned as 0.
    """
    out = np.zeros(limbs.shape[1], np.int64)
    units, count = UNIT_PLACE - low, limbs.shape[0]
    for row in range(limbs.shape[1]):
        top = count - 1
        high = limbs[top, row]
        fits[row] = True
        while top > units + 1:
            top -= 1
            fits[row] = fits[row] and -1 <= high <= 0
            high = (high << 32) + limbs[top, row]
        fits[row] = fits[row] and -(_ONE << 31) <= high < (_ONE << 31)
        if fits[row]:
            out[row] = (high << 32) + limbs[units, row]
    return out
