"""Select lists, computed by the reader of updates: the engine only sends the stream's columns.

Most select lists only name columns, which are copied. Other expressions are evaluated by the core's own
code on the record of each update. Columns of a joined table come from the file that the engine prepared for
the table, and regions come from the control log; a client reads each once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from stqsh.checksums import DamagedFileError
from stqsh.client.read.selected_values import member_shapes
from stqsh.errors import StqshError
from stqsh.spec.chunk import WHY, unpack
from stqsh.spec.expression import (
    CallExpr,
    ColumnExpr,
    DistanceExpr,
    Expr,
    JoinExpr,
    NowExpr,
    areas_of,
    find_nodes,
    has_node,
    reads_location,
)
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import area_geometry, table_by_id
from stqsh.storage.layouts import PASSING
from stqsh.storage.progress import step_taken
from stqsh.storage.update_log.reader import DISTANCE

if TYPE_CHECKING:
    from stqsh.client.read.subscription import TailOptions
    from stqsh.client.results import Updates
    from stqsh.core.conditions.resolver import Resolver
    from stqsh.core.state.joined_tables import JoinedTables
    from stqsh.core.state.slot_state import SlotState
    from stqsh.spec.query import SelectColumn
    from stqsh.storage.control_log import ControlDb
    from stqsh.storage.home import SessionHome

Column: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"

CONTENT = "content.arrow"
"""The file with the rows of a prepared table, in the table's folder of the session's home."""


_CHANGED = WHY.index("changed")


class FunctionError(StqshError):
    """A registered function fails, or returns values of a wrong type or number."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a registered function fails: {reason}")


class QueryPause(NamedTuple):
    """A pause of a query: the step in which it began, and the step in which the query was resumed."""

    query: int
    begun: int
    resumed: int


class RowLookups:
    """The tables and regions that a session's select lists look up; each is read on first use.

    Threads may share it.
    """

    def __init__(self, home: SessionHome, db: ControlDb) -> None:
        self._home, self._db = home, db
        self._reading = threading.Lock()
        self._state: SlotState | None = None
        self._tables: set[int] = set()
        self._areas: set[int] = set()
        self._shapes: dict[int, Mapping[str, bytes]] = {}

    def shapes(self, area: int) -> Mapping[str, bytes]:
        """Return the geometries of the members of a set of regions as GeoJSON texts, by name."""
        with self._reading:
            if area not in self._shapes:
                self._shapes[area] = member_shapes(self._db, area)
            return self._shapes[area]

    def resolver(self, stream: StreamSpec, expr: Expr) -> Resolver:
        """Return a resolver for the columns and tables of an expression over a stream.

        Raises:
            KeyError: a table or a region is unknown.
        """
        tables, areas = {node.table for node in find_nodes(expr, JoinExpr)}, areas_of(expr)
        from stqsh.core.conditions.resolver import Resolver
        from stqsh.core.state.slot_state import SlotState

        with self._reading:
            if self._state is None:
                self._state = SlotState.fresh(0)
            found = Resolver(self._state, stream)
            for table in tables - self._tables:
                self._take(table, found.tables)
                self._tables.add(table)
            for area in areas - self._areas:
                found.areas.define(area, unpack(area_geometry(self._db, area)))
                self._areas.add(area)
        return found

    def pauses(self) -> list[QueryPause]:
        """Return the pauses of all queries."""
        rows = self._db.query(
            f"SELECT seq, kind, json_extract(spec, '$.id') FROM log WHERE {PASSING}"
            " AND kind IN ('pause_query', 'resume_query') ORDER BY seq"
        )
        begun: dict[int, int | None] = {}
        found: list[QueryPause] = []
        for seq, kind, query in rows:
            step = step_taken(self._db, seq)
            if kind == "pause_query":
                begun.setdefault(query, step)
            elif (first := begun.pop(query, None)) is not None and step is not None:
                found.append(QueryPause(query, first, step))
        return found

    def _take(self, table: int, known: JoinedTables) -> None:
        """Read a table; a table whose file was removed by DROP has no rows.

        Raises:
            DamagedFileError: the file of a table that was not dropped is missing.
        """
        row = table_by_id(self._db, table)
        known.define(row.spec)
        file = self._home.table(table) / CONTENT
        if not file.exists():
            if row.dropped_seq is None:
                raise DamagedFileError(
                    f"{file.parent.parent.name}/{file.parent.name}/{CONTENT}", "is missing"
                )
            return
        with pa.memory_map(str(file)) as source:
            content = pa.ipc.open_file(source)
            for number in range(content.num_record_batches):
                known.add(table, content.get_batch(number))


def project(updates: Updates, select: Sequence[SelectColumn]) -> list[Column]:
    """Compute the columns of a select list for all rows of `updates`, in the list's order.

    Columns keep their Arrow types (INT is int32, FLOAT float32, TIMESTAMP timestamp[us]); other expressions
    give int64, float64, bool or string. DISTANCE is null where the log has none.
    """
    return [_column(updates, column.value) for column in select]


def at_step(answer: pa.Table, step: int, at_us: int | None) -> pa.Table:
    """Return the rows of an answer, with the step and time for which they are shown."""
    for position, (name, value) in enumerate((("step", step), ("at_us", at_us))):
        column = pa.repeat(pa.scalar(value, pa.int64()), answer.num_rows)
        answer = answer.set_column(position, name, column)
    return answer


def selected(updates: Updates, options: TailOptions, first: int) -> Updates:
    """Return the rows that a TAIL shows: from its first step, of its kind, and satisfying its condition."""
    table = updates.table
    wanted = table.column("step").to_numpy() >= first
    if options.only is not None:
        wanted &= table.column("op").to_numpy() == options.only
    chosen = replace(updates, table=table.filter(pa.array(wanted)))
    if options.where is None or not chosen.table.num_rows:
        return chosen
    # A filter drops NULL, because NULL is not TRUE.
    return replace(chosen, table=chosen.table.filter(satisfying(chosen, options.where)))


def satisfying(updates: Updates, condition: Expr) -> Any:
    """Return which rows satisfy a bound condition (a `pa.BooleanArray`; null for SQL's UNKNOWN)."""
    return _computed(updates, condition)


def _column(updates: Updates, expr: Expr) -> Column:
    table = updates.table
    match expr:
        case ColumnExpr(name):
            return table.column(f"c.{name}")
        case DistanceExpr():
            return _distance(table)
        case JoinExpr(number, by, wanted):
            # Do not use `compute` here: it would convert timestamps to numbers.
            keys = table.column(f"c.{by}") if isinstance(by, str) else _column(updates, by)
            return _resolver(updates, expr).tables.values(number, _whole(keys), wanted)
    computed: Column = _computed(updates, expr)
    return computed


def _shown_at(updates: Updates) -> Any:
    """Return the time as of which each row is shown, µs; an old row of a change has its last send time.

    That is the time of the step before, or of the last step before a pause that ended with the change.
    """
    table = updates.table
    at: Any = _whole(table.column("at_us"))
    changed = table.column("why").to_numpy() == _CHANGED
    if not changed.any():
        return at
    steps_back = changed.astype("int64")
    for pause in updates.lookups.pauses() if updates.lookups is not None else ():
        step, query = (table.column(name).to_numpy() for name in ("step", "query"))
        of_pause = changed & (query == pause.query) & (step == pause.resumed)
        steps_back[of_pause] = pause.resumed - pause.begun + 1
    import pyarrow.compute as pc

    return pc.subtract(at, pa.array(steps_back * updates.stream.spec.tick_us))


def _computed(updates: Updates, expr: Expr) -> Any:
    from stqsh.core.conditions.evaluation import columns_read, compute_shown

    table, spec = updates.table, updates.stream.spec
    names = columns_read(expr, (spec.x, spec.y))
    columns = {name: _whole(table.column(f"c.{name}")) for name in names}
    columns[DISTANCE if has_node(expr, DistanceExpr) else ""] = _whole(_distance(table))
    looks_up = has_node(expr, JoinExpr) or reads_location(expr)
    resolver = _resolver(updates, expr) if looks_up else None
    now_us = _shown_at(updates) if has_node(expr, NowExpr) else 0
    found = compute_shown(expr, columns, now_us, resolver)
    if has_node(expr, CallExpr):
        _check_functions()
    return found


def _check_functions() -> None:
    """Raise `FunctionError` if a function has failed in this thread since the last check."""
    from stqsh.core.conditions.user_functions import take_failures

    failed = take_failures()
    if failed.times:
        raise FunctionError(failed.text)


def _resolver(updates: Updates, expr: Expr) -> Resolver:
    assert updates.lookups is not None, "updates with joins and regions come from a session"
    return updates.lookups.resolver(updates.stream.spec, expr)


def _distance(table: pa.Table) -> Column:
    if DISTANCE in table.column_names:
        return table.column(DISTANCE)
    return pa.nulls(table.num_rows, pa.float64())


def _whole(column: Column) -> pa.Array[Any]:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks()
    return column
