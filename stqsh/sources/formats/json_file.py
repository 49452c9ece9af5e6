"""Read JSON lines: one object per line.

Arrow reads whole blocks. If it rejects a block, it reads the lines that end like objects, and the other lines
are read one by one, because most damaged lines are cut off. If that fails as well, all lines are read one by
one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.formats.json_signatures import cut_off_lines, line_signatures
from stqsh.sources.formats.pyarrow_typing import Array, arrow_json, pc
from stqsh.sources.formats.record_parser import TEXT_LIMIT, BadRows, RowBlock, RowLocation
from stqsh.sources.formats.record_schema import RecordSchema, match_names
from stqsh.sources.formats.row_blocks import BOM, TextBlock, is_utf8
from stqsh.sources.formats.text_values import TextValues
from stqsh.sources.formats.time_formats import TimeFormat

JsonObject: TypeAlias = Mapping[str, object]

_PROBED_LINES = 100
#: The bytes with which a blank line may begin.
_BLANKS = np.frombuffer(b"\n\r \t", np.uint8)
_LF = 10
#: The most forms of lines that are tried, and the number of lines tried of each.
_MOST_FORMS, _TRIED_LINES = 16, 32
#: The bytes with which an object ends.
_ENDS = (b"}", b"}\r")
CUT_OFF = "not JSON: unexpected end of data"
"""The reason in the dead letter of a line that is cut off."""
#: The message of msgspec for such a line, which takes it a third of the time that orjson needs.
_TRUNCATED = "Input data was truncated"
#: A line that is null: Arrow crashes if it is the first line, and otherwise reads it as an object.
_NULL_FIRST, _NULL_LATER = re.compile(rb"\s*null"), b"\nnull"
_INFINITE = re.compile(rb"NaN|Infinity|[0-9][eE]\+?[0-9]{3}")
_MICROS = 1_000_000
#: The integer -0, which Python reads as 0.
_SIGNED_ZERO = re.compile(rb"-0[^0-9.eE]")
_TYPES: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float64(),
    "BOOLEAN": pa.bool_(),
}


def json_blocks(blocks: Iterable[TextBlock], layout: RecordSchema, origin: str) -> Iterator[RowBlock]:
    """Read the blocks of a JSON lines text; `origin` names its source in errors.

    Raises:
        SourceError: no object has the key or the time.
    """
    names: Sequence[str] | None = None
    for text in blocks:
        if names is None:
            names = member_names(text.text, layout, origin)
        yield json_block(text, names, layout)


def member_names(text: bytes, layout: RecordSchema, origin: str) -> list[str]:
    """Return the declared columns' names as a file's first objects spell them, preferring exact case."""
    present: dict[str, None] = {}
    for found in _first_values(text):
        if isinstance(found, dict):
            present |= dict.fromkeys(flat_members(found))
    if present:
        match_names(filter(None, (layout.key, layout.time)), list(present), origin)
    return _names_among(present, layout)


def record_names(text: bytes, layout: RecordSchema) -> list[str] | None:
    """Return the declared columns' names in the first object with key and time; None if there is none."""
    for line in BytesIO(text):
        found, _ = load_object(line)
        names = _names_among(flat_members(found or {}), layout)
        needed = [names[layout.position(name)] for name in (layout.key, layout.time) if name]
        if found and all(member(found, name) is not None for name in needed):
            return names
    return None


def _names_among(present: Iterable[str], layout: RecordSchema) -> list[str]:
    """Return the declared columns' names as an object spells them; a null column may be absent."""
    known = list(present)
    lower = {name.lower(): name for name in reversed(known)}
    return [name if name in known else lower.get(name.lower(), name) for name in layout.names]


def flat_members(found: JsonObject, prefix: str = "") -> Iterator[str]:
    """Yield the names of an object's members; an inner object's members follow it: `a`, `a.b`.

    >>> list(flat_members({"a": {"b": 1}, "c": 2}))
    ['a', 'a.b', 'c']
    """
    for name, value in found.items():
        yield prefix + name
        if isinstance(value, dict):
            yield from flat_members(value, f"{prefix}{name}.")


def member(found: JsonObject, name: str) -> object:
    """Return a member of an object, None if absent; `a.b` is member b of a, unless a member is named `a.b`.

    >>> member({"a": {"b": 1}}, "a.b"), member({"a.b": 2}, "a.b"), member({"a": 3}, "a.b")
    (1, 2, None)
    """
    if name in found or "." not in name:
        return found.get(name)
    for end in (place for place, letter in enumerate(name) if letter == "."):
        inner = found.get(name[:end])
        if isinstance(inner, dict):
            value = member(inner, name[end + 1 :])
            if value is not None:
                return value
    return None


def json_block(text: TextBlock, names: Sequence[str], layout: RecordSchema) -> RowBlock:
    """Read the objects of a block; line by line if Arrow rejects the block or would deviate from JSON."""
    columns = read_whole(text.text, names, layout, _count_lines(text.text))
    if columns is None:
        return _read_lines(text, names, layout)
    locate = partial(_locate, text)
    ordinals = np.arange(len(columns[0]), dtype=np.int64)
    return RowBlock(columns, ordinals, locate, text.number, size=len(text.text))


def read_whole(text: bytes, names: Sequence[str], layout: RecordSchema, lines: int) -> list[Array] | None:
    """Read a block of `lines` lines with Arrow; None if Arrow fails or may deviate from JSON."""
    if not is_utf8(text) or text.startswith(BOM) or _NULL_FIRST.match(text):
        return None
    kinds = [
        _TYPES.get(kind) or _time_type(text, name, layout.times)
        for name, (_, kind) in zip(names, layout.columns, strict=True)
    ]
    schema = _schema(text, names, kinds)
    if schema is None:
        return None
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
    except pa.ArrowInvalid:
        return None
    columns = [_column(table, name) for name in names]
    if all(column.null_count for column in columns) and _NULL_LATER in text:
        return None
    return columns if table.num_rows == lines and all(map(_is_finite, columns)) else None


def _schema(text: bytes, names: Sequence[str], kinds: Sequence[pa.DataType]) -> pa.Schema | None:
    """Return the schema by which Arrow finds columns, with `a.b` as b of a; None if that may be ambiguous."""
    fields: dict[str, Any] = {}
    for name, kind in zip(names, kinds, strict=True):
        path = _path(text, name)
        if path is None:
            return None
        within = fields
        for outer in path[:-1]:
            within = within.setdefault(outer, {})
            if not isinstance(within, dict):
                return None
        if within.setdefault(path[-1], kind) is not kind:
            return None
    return pa.schema([(name, _struct(kind)) for name, kind in fields.items()])


def _path(text: bytes, name: str) -> list[str] | None:
    """Return the nested members that lead to a column; None if one of their names may contain a dot.

    >>> _path(b'{"a": {"b": 1}}', "a.b"), _path(b'{"a.b": 1}', "a.b")
    (['a', 'b'], ['a.b'])
    """
    path = name.split(".")
    ends = [(i, j) for i in range(len(path)) for j in range(i + 2, len(path) + 1)]
    dotted = [inner for i, j in ends if b'"%b"' % (inner := ".".join(path[i:j])).encode() in text]
    if not dotted:
        return path
    is_nested = re.search(rb'"%b"\s*:\s*\{' % re.escape(path[0].encode()), text)
    return [name] if dotted == [name] and not is_nested else None


def _struct(fields: pa.DataType | dict[str, Any]) -> pa.DataType:
    if not isinstance(fields, dict):
        return fields
    return pa.struct([(name, _struct(kind)) for name, kind in fields.items()])


def _column(table: pa.Table, name: str) -> Array:
    """Return a column of a table, or a member of a column of objects."""
    if name in table.column_names:
        return table.column(name).combine_chunks()
    outer, *path = name.split(".")
    found: Array = pc.struct_field(table.column(outer).combine_chunks(), path)
    return found


def alike_lines(
    text: bytes, lines: Sequence[bytes], layout: RecordSchema
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide lines that Arrow rejects as a whole into those that it can read together, and the others.

    Lines are grouped by their form (see `line_signatures`), and a few lines of each form are tried. A line
    that is wrong despite its form may therefore be in the first part; the caller then reads the lines one by
    one.

    Args:
        text: the lines, joined.
        lines: the lines, none of them blank.

    Returns:
        The places of the lines in each part, int64, ascending.
    """
    forms, form, counts = np.unique(
        line_signatures(text, len(lines)), return_inverse=True, return_counts=True
    )
    places = np.argsort(form, kind="stable")
    begins = np.cumsum(counts) - counts
    alike = np.zeros(len(forms), np.bool_)
    for which in np.argsort(-counts, kind="stable")[:_MOST_FORMS].tolist():
        tried = places[begins[which] : begins[which] + _TRIED_LINES].tolist()
        sample = b"\n".join(lines[at] for at in tried)
        columns = read_whole(sample, layout.names, layout, len(tried)) if forms[which] else None
        alike[which] = columns is not None
    chosen = alike[form]
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


def _is_finite(column: Array) -> bool:
    """Return whether a column contains neither NaN nor infinity, which Arrow accepts and JSON forbids."""
    return not pa.types.is_floating(column.type) or pc.all(pc.is_finite(column)).as_py() is not False


def _time_type(text: bytes, name: str, times: TimeFormat) -> pa.DataType:
    """Return the Arrow type for times, numeric or text, according to the first object with a time."""
    for found in _first_values(text):
        value = member(found, name) if isinstance(found, dict) else None
        if value is not None:
            number = pa.int64() if _are_exact(times) else pa.float64()
            return pa.string() if isinstance(value, str) else number
    return pa.string()


def _are_exact(times: TimeFormat) -> bool:
    """Return whether numeric times must be exact to the last digit; otherwise they are read as DOUBLE."""
    return bool(times.pattern) or times.per_second >= _MICROS


def _first_values(text: bytes) -> Iterator[Any]:
    """Yield the values of the first lines that are valid JSON, without copying the text."""
    for line in islice(BytesIO(text), _PROBED_LINES):
        with suppress(orjson.JSONDecodeError):
            yield orjson.loads(line)


# -- line by line --------------------------------------------------------------------------------------------


def _lines(text: bytes) -> tuple[list[bytes], list[int]]:
    """Return the lines that are not blank, and their numbers within the block from 0."""
    lines = text.split(b"\n")
    kept = [number for number, line in enumerate(lines) if line.strip()]
    return [lines[number] for number in kept], kept


def _count_lines(text: bytes) -> int:
    """Return the number of lines that are not blank."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _LF)
    begins = data[np.append(0, ends[ends < len(data) - 1] + 1)] if text else data
    if np.isin(begins, _BLANKS).any():
        return len(_lines(text)[0])
    return len(ends) + (len(text) > 0 and not text.endswith(b"\n"))


def _locate(text: TextBlock, ordinals: NDArray[np.int64]) -> list[RowLocation]:
    lines, numbers = _lines(text.text)
    return [RowLocation(text.first_line + numbers[i], shown_line(lines[i])) for i in ordinals.tolist()]


def shown_line(line: bytes) -> str:
    """Return the beginning of a line for its dead letter."""
    return line[: TEXT_LIMIT * 4].decode(errors="replace").strip()[:TEXT_LIMIT]


class ReadLines(NamedTuple):
    """The columns of the lines that are objects, with their places, int64 (n,), and the bad lines."""

    columns: list[Array]
    places: NDArray[np.int64]
    dead: BadRows


def _read_lines(text: TextBlock, names: Sequence[str], layout: RecordSchema) -> RowBlock:
    """Separate the lines that are not objects; Arrow reads the others, or they are read one by one."""
    lines, numbers = _lines(text.text)
    found = read_ended(TextValues.of(lines), names, layout) or _read_each(lines, names, layout)
    dead = tuple(
        (RowLocation(text.first_line + numbers[place], shown_line(lines[place])), reason)
        for place, reason in zip(found.dead.places.tolist(), found.dead.reasons, strict=True)
    )
    return RowBlock(found.columns, found.places, partial(_locate, text), text.number, dead, len(text.text))


def read_ended(lines: TextValues, names: Sequence[str], layout: RecordSchema) -> ReadLines | None:
    """Read all lines that end like objects with Arrow, if the other lines turn out to be no objects.

    Returns:
        None if Arrow or that condition fails, or if all or none of the lines end like objects.
    """
    is_ended = np.logical_or.reduce([lines.end_with(ending) for ending in _ENDS])
    ended = np.flatnonzero(is_ended)
    if len(ended) in (0, len(lines)):
        return None
    columns = read_whole(lines.some(is_ended), names, layout, len(ended))
    if columns is None:
        return None
    others = np.flatnonzero(~is_ended)
    is_cut = cut_off_lines(lines.text, lines.begins[others], lines.ends[others])
    cut, others = others[is_cut], others[~is_cut]
    objects, _, dead = _loaded_each(lines.take(others), others.tolist())
    bad = BadRows.joined([BadRows(cut, [CUT_OFF] * len(cut)), BadRows.of(dead)])
    return None if objects else ReadLines(columns, ended, bad)


def _read_each(lines: Sequence[bytes], names: Sequence[str], layout: RecordSchema) -> ReadLines:
    objects, good, dead = _loaded_each(lines, range(len(lines)))
    columns = None
    if dead and good:
        columns = read_whole(b"\n".join([lines[at] for at in good]), names, layout, len(good))
    if columns is None:
        columns = [
            _times_as_text((member(one, name) for one in objects), layout.times)
            if kind == "TIMESTAMP"
            else as_text(member(one, name) for one in objects)
            for name, (_, kind) in zip(names, layout.columns, strict=True)
        ]
    return ReadLines(columns, np.array(good, np.int64), BadRows.of(dead))


def _loaded_each(
    lines: Sequence[bytes], places: Iterable[int]
) -> tuple[list[JsonObject], list[int], list[tuple[int, str]]]:
    """Decode the lines at some places; return the objects, their places, and the bad places with reasons."""
    objects: list[JsonObject] = []
    good: list[int] = []
    dead: list[tuple[int, str]] = []
    for line, place in zip(lines, places, strict=True):
        found, reason = load_object(line)
        if found is None:
            dead.append((place, reason))
        else:
            objects.append(found)
            good.append(place)
    return objects, good, dead


def load_object(line: bytes) -> tuple[JsonObject | None, str]:
    """Decode a JSON object; return it, or None and the reason."""
    if line.startswith(b"{") and not line.endswith(_ENDS) and _is_cut_off(line):
        return None, CUT_OFF
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        found = _with_infinite(line)
        if found is None:
            return None, f"not JSON: {str(problem).split(':')[0]}"
    if not isinstance(found, dict):
        return None, "not a JSON object"
    return (_with_signs(found, line) if b"-0" in line and _SIGNED_ZERO.search(line) else found), ""


def _is_cut_off(line: bytes) -> bool:
    """Return whether a line ends before its value does."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError as problem:
        return str(problem) == _TRUNCATED
    except (RecursionError, UnicodeDecodeError):
        return False
    return False


def _with_infinite(line: bytes) -> Any:
    """Decode JSON, turning the NaN and infinities that many programs write into texts; None if invalid."""
    if not _INFINITE.search(line):
        return None
    try:
        found = json.loads(line, parse_constant=str, parse_float=_finite_or_text)
        orjson.dumps(found)  # fails for invalid Unicode, which the other module accepts
    except (ValueError, TypeError, RecursionError):
        return None
    return found


def _with_signs(found: JsonObject, line: bytes) -> JsonObject:
    """Return an object whose zeros keep their written signs, as Arrow reads them."""
    try:
        written = json.loads(line, parse_int=str)
    except RecursionError:
        return found
    return {name: "-0" if value == 0 and written[name] == "-0" else value for name, value in found.items()}


def _finite_or_text(number: str) -> float | str:
    value = float(number)
    return value if math.isfinite(value) else number


def as_text(values: Iterable[object]) -> Array:
    """Return JSON values as text for the CSV parser, with numbers in JSON notation."""
    return pa.array([_text(value) for value in values], pa.string())


def _times_as_text(values: Iterable[object], times: TimeFormat) -> Array:
    """Return times as text, with the same numbers that `read_whole` would return."""
    if _are_exact(times):
        return as_text(values)
    return as_text(repr(float(value)) if type(value) in (int, float) else value for value in values)  # type: ignore[arg-type]


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()
