"""The forms in which text writes values of a type, recognized for whole columns at once.

Arrow casts a column only if each of its values can be cast, and in one form: a column that mixes forms, or
holds bad values, is cut into rows of one form each, which Arrow then casts as a whole.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Mask
from stqsh.sources.formats.pyarrow_typing import Array, pc

_WHOLE = r"[+-]?[0-9]+"
_HEX, _SHORT_HEX = r"-?0[xX][0-9a-fA-F]{1,16}", r"-?0[xX][0-9a-fA-F]{1,8}"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NOT_FINITE = r"(?i:[+-]?(nan(\(.*\))?|inf|infinity))"
_DATE = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|[12][0-9]))"
)
_HOUR, _MINUTE = "([01][0-9]|2[0-3])", "[0-5][0-9]"
_CLOCK = rf"[T ]{_HOUR}(:{_MINUTE}(:{_MINUTE}(\.[0-9]+)?)?)?"
_OFFSET = rf"(Z|[+-]{_HOUR}(:?{_MINUTE})?)"
_LEAP_DAY = r"^[0-9]{4}-02-29"
_UTF8 = r"([\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*"
_FORMS = {
    "STRING": (_UTF8,),
    "BIGINT": (_WHOLE, _HEX),
    "INT": (_WHOLE, _SHORT_HEX),
    "DOUBLE": (rf"{_NUMBER}|{_NOT_FINITE}",),
    "FLOAT": (rf"{_NUMBER}|{_NOT_FINITE}",),
    "BOOLEAN": (r"(?i:true|false|0|1)",),
    "TIMESTAMP": (_WHOLE, _HEX, _NUMBER, rf"{_DATE}({_CLOCK})?", rf"{_DATE}{_CLOCK}{_OFFSET}"),
}
"""The forms of each type, as regular expressions over bytes."""
_LARGEST = {"BIGINT": 2**63 - 1, "INT": 2**31 - 1, "TIMESTAMP": 2**63 - 1}


def rows_by_form(text: Array, kind: str) -> list[NDArray[np.int64]]:
    """Return the rows that are written in each form of a type.

    Args:
        text: binary or string, (n,), trimmed unless `kind` is STRING.
        kind: the type, such as "TIMESTAMP".

    Returns:
        Ascending rows for each form that occurs. A row in none of them is bad; one that is in some may still
        be bad, as a number too large for its type in hexadecimal. Nulls are rows of the first form.
    """
    data = text.view(pa.binary())
    left = np.ones(len(text), np.bool_)
    found = []
    for number, form in enumerate(_FORMS[kind]):
        # Alternatives need a group of their own, or the anchors would belong to the outer ones.
        looks = pc.match_substring_regex(data, f"^({form})$")
        rows = left & _filled(looks, number == 0)
        left &= ~rows
        if form == _WHOLE:
            rows &= _fits(text.view(pa.string()), _LARGEST[kind])
        if _DATE in form:
            rows &= ~_is_false_leap_day(text.view(pa.string()))
        if rows.any():
            found.append(np.flatnonzero(rows))
    return found


def is_not_finite(text: Array) -> Mask:
    """Return which values, (n,), binary or string, are NaN or an infinity."""
    return _filled(pc.match_substring_regex(text.view(pa.binary()), rf"^\s*({_NOT_FINITE})\s*$"), False)


def _fits(text: Array, largest: int) -> Mask:
    """Return which whole numbers lie between `-largest - 1` and `largest`, by their digits."""
    digits = pc.replace_substring_regex(text, r"^[+-]?0*", "")
    length, most = pc.binary_length(digits), str(largest)
    limit = pc.if_else(pc.starts_with(text, "-"), str(largest + 1), most)
    return _filled(
        pc.or_(
            pc.less(length, len(most)), pc.and_(pc.equal(length, len(most)), pc.less_equal(digits, limit))
        ),
        True,
    )


def _is_false_leap_day(text: Array) -> Mask:
    """Return which times name the 29th of February in a year that has none."""
    out = _filled(pc.match_substring_regex(text, _LEAP_DAY), False)
    rows = np.flatnonzero(out)
    if len(rows):
        years = pc.utf8_slice_codeunits(text.take(rows), 0, 4).cast(pa.int64()).to_numpy()
        out[rows] = (years % 4 != 0) | ((years % 100 == 0) & (years % 400 != 0))
    return out


def _filled(found: Array, missing: bool) -> Mask:
    return np.array(pc.fill_null(found, missing).to_numpy(zero_copy_only=False), np.bool_)
