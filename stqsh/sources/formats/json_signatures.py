"""Classify JSON lines without decoding their values: which lines are objects, and of what form.

Arrow rejects a whole block because of one line that is not JSON, or that has text where others have a number.
A signature of each line, computed in one pass over the bytes, determines which lines can be read together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.core.kernels.jit import Flag, Int, kernel
from stqsh.sources.formats.row_blocks import is_utf8

Bytes = NDArray[np.uint8]

_LF, _QUOTE, _ESCAPE, _COLON, _COMMA = 10, 34, 92, 58, 44
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
_MINUS, _PLUS, _POINT, _ZERO, _NINE = 45, 43, 46, 48, 57
_SMALL_A, _SMALL_E, _SMALL_U = 97, 101, 117
#: The first high and the first low surrogate of UTF-16, and the end of the low ones.
_HIGH, _LOW, _LOW_END = 0xD800, 0xDC00, 0xE000
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_ESCAPED = np.frombuffer(b'"\\/bfnrt', np.uint8)
#: FNV-1a's offset and prime (64 bits).
_BASIS, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
#: A number whose exponent has more digits may be infinite.
_EXPONENT_DIGITS = 2
#: The type of objects and lists.
_CONTAINER = 5


def line_signatures(text: bytes, count: int) -> NDArray[np.uint64]:
    """Return a signature of each of `count` lines, uint64 (count,); 0 for lines that may not be objects.

    Lines with equal signatures have the same members in the same order, with values of the same types. The
    signature is an FNV-1a hash of the members' names and types, in O(bytes).
    """
    signatures, others = _signatures(np.frombuffer(text, np.uint8), count)
    if others.any() and not is_utf8(text):
        lines = text.split(b"\n")
        for line in np.flatnonzero(others).tolist():
            if not is_utf8(lines[line]):
                signatures[line] = 0
    return signatures


@kernel
def _signatures(data: Bytes, count: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the signature of each line, and whether it contains non-ASCII bytes; `data` is uint8 (n,)."""
    signatures, others = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
    start = 0
    for line in range(count):
        stop = start
        high = np.uint8(0)
        while stop < len(data) and data[stop] != _LF:
            high |= data[stop]
            stop += 1
        others[line] = high >= 128
        signatures[line] = _object(data, start, stop)
        start = stop + 1
    return signatures, others


def cut_off_lines(text: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which lines are certainly the beginning of an incomplete object, bool (n,).

    The result is false for some such lines, too: those with escapes, non-ASCII letters or nested values.

    Args:
        text: the text of the lines.
        begins: the beginning of each line in it, int64 (n,).
        ends: the end of each line in it, int64 (n,).
    """
    return _cut_off_lines(np.frombuffer(text, np.uint8), begins, ends)


@kernel
def _cut_off_lines(data: Bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = np.zeros(len(begins), np.bool_)
    for line in range(len(begins)):
        found[line] = _is_cut_off(data, begins[line], ends[line])
    return found


@kernel
def _is_cut_off(data: Bytes, i: Int, stop: Int) -> Flag:
    """Return whether the line from `i` on is an incomplete object with plain members only."""
    more = i < stop and data[i] == _OPEN
    for k in range(i, stop):
        more &= data[k] < 128 and data[k] != _ESCAPE
    if not more:
        return False
    while more:
        i = _blank(data, i + 1, stop)
        if i < stop:
            i = _behind_member(data, i, stop)
        more = 0 <= i < stop and data[i] == _COMMA
    return i == stop


@kernel
def _behind_member(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the place after the member at `i`: `stop` if the line ends within it, -1 if it is not plain."""
    end = _string(data, i, stop)
    if end < 0:
        return _open_string(data, i, stop)
    i = _blank(data, end, stop)
    if i < stop:
        if data[i] != _COLON:
            return -1
        i = _blank(data, i + 1, stop)
    if i < stop:
        kind, end = _value(data, i, stop)
        if end < 0:
            return _open_string(data, i, stop)
        i = _blank(data, end, stop) if kind != _CONTAINER else -1
    return i


@kernel
def _open_string(data: Bytes, i: Int, stop: Int) -> Int:
    """Return `stop` if an unclosed string without escapes begins at `i`, -1 otherwise."""
    if data[i] != _QUOTE:
        return -1
    for k in range(i + 1, stop):
        if data[k] < 32 or data[k] == _QUOTE:
            return -1
    return stop


@kernel
def _blank(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the first non-blank place from `i` on."""
    while i < stop and (data[i] == 32 or data[i] == 9 or data[i] == 13):
        i += 1
    return i


@kernel
def _object(data: Bytes, start: Int, stop: Int) -> Int:
    """Return the signature of the object in a line, or 0 if the line is not an object."""
    found, closed = _BASIS, False
    i = _blank(data, start, stop)
    more = i < stop and data[i] == _OPEN
    while more:
        more = False
        i = _blank(data, i + 1, stop)
        end = _string(data, i, stop)
        if end > 0:
            for k in range(i, end):
                found = (found ^ np.uint64(data[k])) * _PRIME
            i = _blank(data, end, stop)
            if i < stop and data[i] == _COLON:
                kind, end = _value(data, _blank(data, i + 1, stop), stop)
                found = (found ^ np.uint64(kind)) * _PRIME
                i = _blank(data, end, stop) if end > 0 else stop
                closed = i < stop and data[i] == _CLOSE
                more = i < stop and data[i] == _COMMA
    if closed and _blank(data, i + 1, stop) == stop:
        return found
    return np.uint64(0)


@kernel
def _value(data: Bytes, i: Int, stop: Int) -> tuple[Int, Int]:
    """Return the type code and the end of the value at `i`; the end is -1 if there is none."""
    kind, end = 0, -1
    first = data[i] if i < stop else 0
    if first == _QUOTE:
        kind, end = 1, _string(data, i, stop)
    elif first == _MINUS or _ZERO <= first <= _NINE:
        kind, end = 2, _number(data, i, stop)
    elif first == _TRUE[0]:
        kind, end = 3, _word(data, i, stop, _TRUE)
    elif first == _FALSE[0]:
        kind, end = 3, _word(data, i, stop, _FALSE)
    elif first == _NULL[0]:
        kind, end = 4, _word(data, i, stop, _NULL)
    elif first in (_OPEN, _OPEN_LIST):
        kind, end = _CONTAINER, _nested(data, i, stop)
    return kind, end


@kernel
def _string(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the end of the string at `i`; -1 if there is none."""
    if i >= stop or data[i] != _QUOTE:
        return -1
    i += 1
    while i < stop:
        byte = data[i]
        if byte == _QUOTE:
            return i + 1
        if byte < 32:
            return -1
        i = _escape(data, i, stop) if byte == _ESCAPE else i + 1
        if i < 0:
            return -1
    return -1


@kernel
def _escape(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the end of the escape at `i`, counting a surrogate pair as one; -1 if there is none."""
    if i + 1 < stop and (data[i + 1] == _ESCAPED).any():
        return i + 2
    unit = _code_unit(data, i, stop)
    if unit < 0 or _LOW <= unit < _LOW_END:
        return -1
    if unit < _HIGH or unit >= _LOW_END:
        return i + 6
    return i + 12 if _LOW <= _code_unit(data, i + 6, stop) < _LOW_END else -1


@kernel
def _code_unit(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the UTF-16 code unit of the `\\uXXXX` at `i`; -1 if there is none."""
    if i + 6 > stop or data[i] != _ESCAPE or data[i + 1] != _SMALL_U:
        return -1
    unit = 0
    for k in range(i + 2, i + 6):
        digit, letter = data[k] - _ZERO, (data[k] | 32) - _SMALL_A + 10
        if 0 <= digit <= 9:
            unit = unit * 16 + digit
        elif 10 <= letter <= 15:
            unit = unit * 16 + letter
        else:
            return -1
    return unit


@kernel
def _digits(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the end of the digits from `i` on."""
    while i < stop and _ZERO <= data[i] <= _NINE:
        i += 1
    return i


@kernel
def _number(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the end of the number at `i`; -1 if there is none, or if it may be infinite."""
    if data[i] == _MINUS:
        i += 1
    end = _digits(data, i, stop)
    if end == i or (data[i] == _ZERO and end > i + 1):
        return -1
    i = end
    if i < stop and data[i] == _POINT:
        end = _digits(data, i + 1, stop)
        if end == i + 1:
            return -1
        i = end
    if i < stop and (data[i] | 32) == _SMALL_E:
        i += 1
        if i < stop and (data[i] == _PLUS or data[i] == _MINUS):
            i += 1
        end = _digits(data, i, stop)
        if end == i or end > i + _EXPONENT_DIGITS:
            return -1
        i = end
    return i


@kernel
def _word(data: Bytes, i: Int, stop: Int, word: Bytes) -> Int:
    """Return the end of `word` at `i`; -1 if it is not there."""
    if i + len(word) > stop:
        return -1
    for k in range(len(word)):
        if data[i + k] != word[k]:
            return -1
    return i + len(word)


@kernel
def _nested(data: Bytes, i: Int, stop: Int) -> Int:
    """Return the end of an object or a list, by counting brackets; the parser checks its content."""
    depth = 0
    while i < stop:
        byte = data[i]
        if byte == _QUOTE:
            i = _string(data, i, stop) - 1
            if i < 0:
                return -1
        elif byte in (_OPEN, _OPEN_LIST):
            depth += 1
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    return -1
