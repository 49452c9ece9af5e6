"""GeoJSON: a Feature for each record, one per line in a pipe, and a FeatureCollection in a file.

The geometry is the record's location in the stream's coordinates, `null` if there is none; for a group of
GROUP BY REGION(zones) it is the region. The properties are those of JSON lines, but the select list is beside
the others instead of in a `row`, because maps and tables only show flat properties; a column with the name of
another property is called `row.NAME`. For a snapshot, the location is known if both its columns are selected,
or the column of extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stqsh.client.read.group_keys import group_types, group_values
from stqsh.client.read.selected_values import region_group
from stqsh.errors import StqshError
from stqsh.shell.writers.columns import (
    AnyColumn,
    CellColumn,
    UpdateGroup,
    answer_columns,
    head_columns,
    json_objects,
    json_template,
    render_in_order,
    row_columns,
)
from stqsh.shell.writers.jsonl import mark_line
from stqsh.shell.writers.text_columns import NULL, json_fragments, whole

if TYPE_CHECKING:
    from stqsh.client.results import Answer, Rows, SnapshotMark, Updates
    from stqsh.shell.writers.text_columns import Column
    from stqsh.shell.writers.writer import ByteSink, Target

_OPENING, _END = b'{"type":"FeatureCollection","features":[\n', b"\n]}\n"


class GeoJsonWriter:
    """Writes Features, one per line."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def updates(self, updates: Updates) -> None:
        """Write a Feature for each update: at the location of its record, or with the region of its group."""
        if updates.table.num_rows:
            shapes = render_in_order(updates, _group_shapes)
            self._write(shapes, render_in_order(updates, _group_properties))

    def mark(self, mark: SnapshotMark) -> None:
        """Write a Feature without a geometry."""
        self._write([NULL], [mark_line(mark).rstrip()])

    def rows(self, statement: int, rows: Rows) -> None:
        """Write Features without a geometry."""
        self._write([NULL] * len(rows.rows), _data_properties(statement, row_columns(rows), len(rows.rows)))

    def answer(self, statement: int, answer: Answer) -> None:
        """Write a Feature for each row."""
        count = answer.table.num_rows
        points = [NULL] * count
        if answer.extent is not None:
            points = _extents(answer.table.column(answer.names.index(answer.extent)))
        elif answer.location is not None:
            # By position, because a select list may name a column twice.
            x, y = (answer.table.column(answer.names.index(name)) for name in answer.location)
            points = _points(x, y)
        elif answer.regions is not None:
            points = _shapes(answer.table.column(answer.regions.place), answer.regions.shapes())
        self._write(points, _data_properties(statement, answer_columns(answer), count))

    def script(self, text: str) -> None:
        """Write the script unchanged; raise `StqshError` in a FeatureCollection, which it would corrupt."""
        if isinstance(self._target.stream, FeatureCollection):
            raise StqshError("a script cannot be written as GeoJSON", hint=r"\o FILE.stq takes it")
        self._target.write_script(text)

    def _write(self, points: Iterable[bytes], properties: Iterable[bytes]) -> None:
        feature = b'{"type":"Feature","geometry":%b,"properties":%b}\n'
        self._target.write(b"".join(feature % pair for pair in zip(points, properties, strict=True)))


@dataclass
class FeatureCollection:
    """A file to which Features are written, one per line, as one FeatureCollection."""

    file: ByteSink
    _is_begun: bool = field(default=False, init=False)

    def write(self, data: bytes) -> None:
        """Write Features; each line end in the data must end a Feature."""
        if data:
            self.file.write((b",\n" if self._is_begun else _OPENING) + data[:-1].replace(b"\n", b",\n"))
            self._is_begun = True

    def flush(self) -> None:
        """Flush the buffer."""
        self.file.flush()

    def end(self) -> None:
        """Complete the collection."""
        self.file.write(_END if self._is_begun else _OPENING.rstrip() + _END.lstrip())


def _group_shapes(group: UpdateGroup) -> list[bytes]:
    """Return the geometries of updates."""
    table, stream = group.updates.table, group.updates.stream.spec
    axes = [f"c.{stream.x}", f"c.{stream.y}"]
    if stream.extent is not None and f"c.{stream.extent}" in table.column_names:
        return _extents(table.column(f"c.{stream.extent}"))
    if set(axes) <= set(table.column_names):
        return _points(*(table.column(axis) for axis in axes))
    region, lookups = region_group(group.query.spec), group.updates.lookups
    if region is None or lookups is None:
        return [NULL] * table.num_rows
    place, area = region
    keys: Any = whole(table.column("key"))
    return _shapes(group_values(keys, group_types(group.query))[place], lookups.shapes(area))


def _shapes(names: Column, shapes: Mapping[str, bytes]) -> list[bytes]:
    return [NULL if name is None else shapes.get(name, NULL) for name in names.to_pylist()]


def _group_properties(group: UpdateGroup) -> list[bytes]:
    head, selected = head_columns(group.updates), group.selected()
    record = (head.query, head.step, head.at, head.op, head.key)
    reasons = [b"" if reason == NULL else b',"why":' + reason for reason in head.why.json()]
    shown = json_template([_beside(column, head._fields) for column in selected])
    template = json_template(record)[:-1] + b"%b" + (b"}" if shown == b"{}" else b"," + shown[1:])
    columns = [*(column.json() for column in record), reasons, *(column.json() for column in selected)]
    return list(map(template.__mod__, zip(*columns, strict=True)))


def _data_properties(statement: int, columns: Sequence[AnyColumn], count: int) -> list[bytes]:
    number = CellColumn("statement", [statement] * count)
    shown = [number, *(_beside(column, (number.name,)) for column in columns)]
    return json_objects(shown, json_template(shown))


def _beside(column: AnyColumn, taken: Sequence[str]) -> AnyColumn:
    """Return a column under a free name."""
    return replace(column, name=f"row.{column.name}") if column.name in taken else column


def _points(x: Column, y: Column) -> list[bytes]:
    point = b'{"type":"Point","coordinates":[%b,%b]}'
    return [
        NULL if NULL in pair else point % pair
        for pair in zip(json_fragments(x), json_fragments(y), strict=True)
    ]


def _extents(texts: Column) -> list[bytes]:
    """Return the geometries of a column of WKT."""
    import shapely  # takes a while to load

    shapes = shapely.to_geojson(shapely.from_wkt(whole(texts).to_pylist()))
    return [NULL if shape is None else shape.encode() for shape in shapes]
