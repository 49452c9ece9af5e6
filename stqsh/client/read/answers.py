"""The answer of a snapshot for its user: the rows, and the meaning of their columns."""

from __future__ import annotations

from stqsh.client.read.selected_values import lengths_in, member_shapes, region_in
from stqsh.client.read.snapshots import SnapshotResult
from stqsh.client.results import Answer, RegionColumn
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.control_log import ControlDb


def answer_of(found: SnapshotResult, spec: SnapshotSpec, stream: StreamSpec, db: ControlDb) -> Answer:
    """Return the outcome of a snapshot of a stream; the regions that it names are read from `db`."""
    return Answer(
        tuple(found.table.column_names),
        found.table,
        found.step,
        found.at_us,
        location=_location(spec, stream),
        extent=None if stream.extent is None else _shown(spec).get(stream.extent),
        is_planar=stream.planar,
        in_metres=lengths_in(spec, planar=stream.planar),
        regions=_regions(spec, db),
    )


def _regions(spec: SnapshotSpec, db: ControlDb) -> RegionColumn | None:
    """Return the column of a SELECT that names members of a set of regions; None without one."""
    found = region_in(spec)
    if found is None:
        return None
    place, area = found
    return RegionColumn(place, lambda: member_shapes(db, area))


def _location(spec: SnapshotSpec, stream: StreamSpec) -> tuple[str, str] | None:
    """Return the names of the location's two columns in a SELECT; None unless both are selected."""
    shown = _shown(spec)
    x, y = shown.get(stream.x), shown.get(stream.y)
    return None if x is None or y is None else (x, y)


def _shown(spec: SnapshotSpec) -> dict[str, str]:
    """Return the names that a SELECT gives to columns of its stream."""
    columns = reversed(spec.result.select)
    return {column.value.name: column.name for column in columns if isinstance(column.value, ColumnExpr)}
