"""Arrow columns as lists of text, a whole column at a time: the fast half of every output format.

Nulls and NaN become `null` (JSON) or an empty text. Instants are ISO 8601 in UTC with `Z`, with fractions
only where there are any. Numbers are written as JSON writes them, the shortest text that reads back the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len, set_cell_size

from stqsh.client.read.projection import project

if TYPE_CHECKING:
    from stqsh.client.results import Updates
    from stqsh.storage.rows import QueryRow

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
NULL = b"null"
SIGNS = {1: "+", -1: "-"}
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def outputs(query: QueryRow) -> tuple[str, ...]:
    """The names of what a query selects."""
    return tuple(name for name, _ in query.spec["select"])


def selected(updates: Updates, query: QueryRow) -> list[Column]:
    """What a query selects, for all rows of the updates."""
    return project(updates, query.spec["select"])


def alike(queries: list[QueryRow]) -> list[list[QueryRow]]:
    """The queries in groups of those whose select lists are the same."""
    groups: dict[bytes, list[QueryRow]] = {}
    for query in queries:
        groups.setdefault(orjson.dumps(query.spec["select"]), []).append(query)
    return list(groups.values())


def is_numeric(column: Column) -> bool:
    """Whether the column holds numbers."""
    return pa.types.is_integer(column.type) or pa.types.is_floating(column.type)


def occurring(updates: Updates) -> list[QueryRow]:
    """The queries that have rows among these updates, by id."""
    ids = np.unique(updates.table.column("query").to_numpy()).tolist()
    return [updates.queries[number] for number in ids]


def integers(table: pa.Table, name: str) -> list[int]:
    """A column of whole numbers without nulls as a list."""
    numbers: list[int] = table.column(name).to_numpy().tolist()
    return numbers


def steps_at(table: pa.Table) -> list[str]:
    """The time of each update's step as text; few distinct ones are many rows."""
    distinct, places = np.unique(table.column("at_us").to_numpy(), return_inverse=True)
    named = [instant(at) or "" for at in distinct.tolist()]
    return [named[place] for place in places.tolist()]


def json_fragments(column: Column) -> list[bytes]:
    """Each value of the column as a JSON text."""
    array = whole(column)
    if pa.types.is_timestamp(array.type):
        texts = instants(array.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))
        return [NULL if text is None else b'"%b"' % text.encode() for text in texts]
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return _number_fragments(array)
    return _cut(array.to_pylist())


def rounded(column: Column) -> Column:
    """Numbers as people want them: six decimals, nine for what is very small."""
    if not pa.types.is_floating(column.type):
        return column
    numbers: Any = pc.cast(column, pa.float64())
    # Not with the digits that `pc.round` takes: it leaves 39.821600000000004.
    tiny, usual = (pc.divide(pc.round(pc.multiply(numbers, scale)), scale) for scale in (1e9, 1e6))
    return cast("Column", pc.if_else(pc.less(pc.abs(numbers), pa.scalar(1e-3)), tiny, usual))


def texts(column: Column) -> list[str]:
    """Each value of the column as plain text; nulls and NaN are empty."""
    array = whole(column)
    if pa.types.is_timestamp(array.type):
        return [text or "" for text in instants(array.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))]
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return [value or "" for value in array.to_pylist()]
    return ["" if text == NULL else text.decode() for text in json_fragments(array)]


def readable(column: Column) -> list[str]:
    """Each value of the column as people read it: numbers rounded, control characters escaped."""
    return escaped(texts(rounded(column)))


def escaped(found: list[str], but: str = "") -> list[str]:
    """Texts with control characters, save those of `but`, as one writes them: a value clears no terminal."""
    if _CONTROLS.search("".join(found)) is None:
        return found
    return [
        _CONTROLS.sub(lambda one: one[0] if one[0] in but else one[0].encode("unicode_escape").decode(), text)
        for text in found
    ]


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return cell_len(text)


def cut_to(text: str, width: int) -> str:
    """A text that is too wide cut to so many columns of a terminal, with an ellipsis at its end."""
    return set_cell_size(text, width - 1) + "…"


def instants(column: Column) -> list[str | None]:
    """Microseconds since the epoch (int64, shape (n,)) as ISO 8601 texts; `None` for nulls."""
    array = whole(column)
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[us]")
    distinct, places = np.unique(values, return_inverse=True)
    named: list[str | None] = [_trim(text) for text in np.datetime_as_string(distinct, unit="us").tolist()]
    result = [named[place] for place in places.tolist()]
    for null in _nulls(array):
        result[null] = None
    return result


def instant(at_us: int | None) -> str | None:
    """One instant, microseconds since the epoch, as ISO 8601 in UTC."""
    return None if at_us is None else _trim(str(np.datetime64(at_us, "us")))


def _trim(text: str) -> str:
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"


def _cut(values: list[object]) -> list[bytes]:
    """The JSON text of each value, from one call: a raw newline can only be the serialiser's indentation."""
    if not values:
        return []
    return orjson.dumps(values, option=orjson.OPT_INDENT_2)[4:-2].split(b",\n  ")


def _number_fragments(array: pa.Array[Any]) -> list[bytes]:
    if len(array) == 0:
        return []
    values = np.ascontiguousarray(array.fill_null(0).to_numpy(zero_copy_only=False))
    fragments = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    for null in _nulls(array):
        fragments[null] = NULL
    return fragments


def _nulls(array: pa.Array[Any]) -> list[int]:
    if not array.null_count:
        return []
    places: list[int] = np.flatnonzero(pc.is_null(array).to_numpy(zero_copy_only=False)).tolist()
    return places


def whole(column: Column) -> pa.Array[Any]:
    """The column in one piece."""
    one: Any = column
    if isinstance(column, pa.ChunkedArray):
        one = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return cast("pa.Array[Any]", one)
