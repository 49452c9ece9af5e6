"""The functions of the language: their arguments, types and meaning.

One table for the binder, the core, completion, HELP and the manual. `core/conditions/functions.py` has the
evaluation of each; aggregates and REGION, which need more than a row's values, are not among them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Argument: TypeAlias = Literal["number", "whole", "STRING", "TIMESTAMP", "alike", "text", "unit", "duration"]
"""The kind of an argument: a type, or a family of types.

"alike" is values of one family, "text" any value, which is converted to text, "unit" one of `UNITS` as a
constant, "duration" a constant such as 15 min.
"""


class Function(NamedTuple):
    """A function of the values of a row.

    Attributes:
        name: Its name.
        arguments: The kinds of its arguments.
        returns: The type of its values; "same" for the type of its first argument, BIGINT or DOUBLE for
            numbers, "alike" for the common type of its arguments.
        syntax: The syntax of a call.
        meaning: A description of its result.
        optional: The number of trailing arguments that may be omitted.
        repeats: Whether the last argument may be repeated.
    """

    name: str
    arguments: tuple[Argument, ...]
    returns: Literal["STRING", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "same", "alike"]
    syntax: str
    meaning: str
    optional: int = 0
    repeats: bool = False


_TABLE = (
    # numbers
    Function("ABS", ("number",), "same", "ABS(x)", "the number without its sign"),
    Function("CEIL", ("number",), "same", "CEIL(x)", "the least whole number that is not below x"),
    Function("FLOOR", ("number",), "same", "FLOOR(x)", "the greatest whole number that is not above x"),
    Function("MOD", ("whole", "whole"), "BIGINT", "MOD(n, m)", "the remainder of whole numbers, as n % m"),
    Function(
        "ROUND",
        ("number", "whole"),
        "same",
        "ROUND(x [, digits])",
        "x rounded to that many digits after the point, 0 unless said; halves go away from 0",
        optional=1,
    ),
    Function("SIGN", ("number",), "same", "SIGN(x)", "-1, 0 or 1"),
    Function("SQRT", ("number",), "DOUBLE", "SQRT(x)", "the square root; NULL of a negative number"),
    Function("TRUNC", ("number",), "same", "TRUNC(x)", "x without what stands after the point"),
    # choices
    Function(
        "COALESCE", ("alike",), "alike", "COALESCE(a, b, …)", "the first value that is not NULL", repeats=True
    ),
    Function(
        "GREATEST",
        ("alike",),
        "alike",
        "GREATEST(a, b, …)",
        "the greatest of the values that are not NULL",
        repeats=True,
    ),
    Function(
        "LEAST",
        ("alike",),
        "alike",
        "LEAST(a, b, …)",
        "the least of the values that are not NULL",
        repeats=True,
    ),
    Function("NULLIF", ("alike", "alike"), "same", "NULLIF(a, b)", "NULL where a = b, else a"),
    # texts
    Function(
        "CONCAT",
        ("text",),
        "STRING",
        "CONCAT(a, b, …)",
        "values joined as text, without those that are NULL",
        repeats=True,
    ),
    Function(
        "LEFT", ("STRING", "whole"), "STRING", "LEFT(text, n)", "the first n characters; all but the last -n"
    ),
    Function("LENGTH", ("STRING",), "BIGINT", "LENGTH(text)", "how many characters a text has"),
    Function("LOWER", ("STRING",), "STRING", "LOWER(text)", "the text in lower case"),
    Function(
        "LTRIM",
        ("STRING", "STRING"),
        "STRING",
        "LTRIM(text [, characters])",
        "the text without these characters, or blanks, at its beginning",
        optional=1,
    ),
    Function(
        "REPLACE",
        ("STRING", "STRING", "STRING"),
        "STRING",
        "REPLACE(text, old, new)",
        "the text with `new` in each place of `old`",
    ),
    Function("REVERSE", ("STRING",), "STRING", "REVERSE(text)", "the characters from last to first"),
    Function(
        "RIGHT",
        ("STRING", "whole"),
        "STRING",
        "RIGHT(text, n)",
        "the last n characters; all but the first -n",
    ),
    Function(
        "RTRIM",
        ("STRING", "STRING"),
        "STRING",
        "RTRIM(text [, characters])",
        "the text without these characters, or blanks, at its end",
        optional=1,
    ),
    Function(
        "STARTS_WITH",
        ("STRING", "STRING"),
        "BOOLEAN",
        "STARTS_WITH(text, part)",
        "whether the text begins with it",
    ),
    Function(
        "STRPOS",
        ("STRING", "STRING"),
        "BIGINT",
        "STRPOS(text, part)",
        "the place of the first such part, from 1; 0 if there is none",
    ),
    Function(
        "SUBSTRING",
        ("STRING", "whole", "whole"),
        "STRING",
        "SUBSTRING(text, from [, n])",
        "the n characters from that place on, which begins at 1; also SUBSTRING(text FROM a FOR n)",
        optional=1,
    ),
    Function(
        "TRIM",
        ("STRING", "STRING"),
        "STRING",
        "TRIM(text [, characters])",
        "the text without these characters, or blanks, at both ends",
        optional=1,
    ),
    Function("UPPER", ("STRING",), "STRING", "UPPER(text)", "the text in capitals"),
    # times
    Function("DATE", ("TIMESTAMP",), "STRING", "DATE(ts)", "the date as text: '2008-02-02'"),
    Function(
        "DATE_TRUNC",
        ("unit", "TIMESTAMP"),
        "TIMESTAMP",
        "DATE_TRUNC('hour', ts)",
        "when the hour began, the second, minute, day, week (on Monday), month, quarter or year",
    ),
    Function("DAY", ("TIMESTAMP",), "BIGINT", "DAY(ts)", "the day of the month, 1 to 31"),
    Function("DOW", ("TIMESTAMP",), "BIGINT", "DOW(ts)", "the day of the week: 0 is Sunday, 6 Saturday"),
    Function("DOY", ("TIMESTAMP",), "BIGINT", "DOY(ts)", "the day of the year, 1 to 366"),
    Function("EPOCH", ("TIMESTAMP",), "DOUBLE", "EPOCH(ts)", "seconds since 1970"),
    Function("HOUR", ("TIMESTAMP",), "BIGINT", "HOUR(ts)", "0 to 23"),
    Function("ISODOW", ("TIMESTAMP",), "BIGINT", "ISODOW(ts)", "the day of the week: 1 is Monday, 7 Sunday"),
    Function("MINUTE", ("TIMESTAMP",), "BIGINT", "MINUTE(ts)", "0 to 59"),
    Function("MONTH", ("TIMESTAMP",), "BIGINT", "MONTH(ts)", "1 to 12"),
    Function("QUARTER", ("TIMESTAMP",), "BIGINT", "QUARTER(ts)", "1 to 4"),
    Function("SECOND", ("TIMESTAMP",), "BIGINT", "SECOND(ts)", "0 to 59"),
    Function(
        "TIME_BUCKET",
        ("duration", "TIMESTAMP"),
        "TIMESTAMP",
        "TIME_BUCKET(15 min, ts)",
        "the last multiple of the duration since 1970 that is not later",
    ),
    Function(
        "TO_TIMESTAMP", ("number",), "TIMESTAMP", "TO_TIMESTAMP(x)", "the time that many seconds after 1970"
    ),
    Function("WEEK", ("TIMESTAMP",), "BIGINT", "WEEK(ts)", "the week of the year, 1 to 53, by ISO 8601"),
    Function("YEAR", ("TIMESTAMP",), "BIGINT", "YEAR(ts)", "the year"),
)

FUNCTIONS: dict[str, Function] = {one.name: one for one in _TABLE}
"""The functions by name."""
ALIASES = {
    "CEILING": "CEIL",
    "CHAR_LENGTH": "LENGTH",
    "DATETRUNC": "DATE_TRUNC",
    "DAYOFWEEK": "DOW",
    "DAYOFYEAR": "DOY",
    "IFNULL": "COALESCE",
    "LCASE": "LOWER",
    "SUBSTR": "SUBSTRING",
    "UCASE": "UPPER",
}
"""Aliases of functions."""
PLACES = {
    "ST_DISTANCE": ("ST_DISTANCE(place, place)", "metres between two places, or the stream's unit"),
    "ST_DWITHIN": ("ST_DWITHIN(place, place, 500 m)", "whether they are at most that far apart"),
    "ST_INTERSECTS": ("ST_INTERSECTS(loc, region)", "loc INTERSECTS region, for a region that has a name"),
    "ST_POINT": ("ST_POINT(x, y)", "a place, as an argument of the others; loc is the stream's location"),
    "ST_WITHIN": ("ST_WITHIN(loc, region)", "loc INSIDE region, for a region that has a name"),
    "ST_X": ("ST_X(loc)", "the longitude, or x"),
    "ST_Y": ("ST_Y(loc)", "the latitude, or y"),
}
"""The functions of places: their syntax and their results."""
PARTS = frozenset({name for name, one in FUNCTIONS.items() if one.arguments == ("TIMESTAMP",)} - {"DATE"})
"""The functions that return a part of a time: those that EXTRACT(part FROM ts) supports."""
UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
"""The units of DATE_TRUNC."""


def named(name: str) -> Function | None:
    """Return the function of an upper-case name or alias; None for an unknown name."""
    return FUNCTIONS.get(ALIASES.get(name, name))
