"""Snapshots over rows that no stream holds: of files, of answers of queries, and the one row without FROM."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from stqsh.client.catalogue_view import SessionCatalogue
from stqsh.client.read.answers import answer_of
from stqsh.client.read.snapshots import SnapshotResult
from stqsh.client.results import Answer
from stqsh.client.statements.context import StatementContext
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.snapshots.row_snapshots import answer_over_rows
from stqsh.core.state.slot_state import SlotState
from stqsh.lang.ast.statements import Select
from stqsh.lang.binder.bare_words import read_words
from stqsh.lang.binder.bind import bind
from stqsh.spec.chunk import unpack
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import wall_clock_us
from stqsh.storage.rows import Progress


class WithRows(SessionCatalogue):
    """The catalogue of a session, in which rows are a stream of their name."""

    def __init__(self, desk: StatementContext, rows: StreamSpec) -> None:
        super().__init__(desk.link.db, desk.profile)
        self._rows = rows

    def stream(self, name: str) -> StreamSpec | None:
        """Return the rows, or a stream of the session."""
        return self._rows if name == self._rows.name else super().stream(name)


def answer_rows(
    desk: StatementContext,
    statement: Select,
    stream: StreamSpec,
    rows: Iterable[pa.RecordBatch],
    progress: Progress,
) -> Answer:
    """Return the answer of a SELECT over rows.

    Args:
        desk: The client.
        statement: The SELECT.
        stream: The rows as a stream: their columns, and which of them are place and time.
        rows: The rows, see `answer_over_rows`.
        progress: Of which step the rows are. NOW is its time; before the first step, that of the wall clock.

    Raises:
        BindError: the SELECT does not fit the rows.
    """
    reading = read_words(statement, WithRows(desk, stream))
    spec: SnapshotSpec = bind(reading.statement, WithRows(desk, stream)).spec
    at_us = progress.at_us()
    now_us = wall_clock_us() if at_us is None else at_us
    table = answer_over_rows(rows, spec, stream, now_us=now_us, state=_areas(desk, spec))
    answer = answer_of(SnapshotResult(table, progress.step, at_us), spec, stream, desk.link.db)
    return replace(answer, remark="\n".join(reading.notes)) if reading.notes else answer


def _areas(desk: StatementContext, spec: SnapshotSpec) -> SlotState:
    """Return a state that has the named regions of a query."""
    state = SlotState.fresh(0)
    for area in spec.areas:
        PolygonTable(state).define(area, unpack(area_geometry(desk.link.db, area)))
    return state
