"""Queries as commands to the slots, as the control log has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import structs

from stqsh.spec.chunk import unpack
from stqsh.spec.command import (
    DropCommand,
    DropStreamCommand,
    PauseCommand,
    RegisterCommand,
    ResumeCommand,
    SlotCommand,
)
from stqsh.spec.log import QueryBlock, QueryDropped, QueryPaused, QueryResumed, StreamDropped
from stqsh.spec.query import QuerySpec, SlotQuery, slot_query
from stqsh.spec.query_rows import Path, QueryRows
from stqsh.spec.region import RectangleSpec
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.progress import steps_taken
from stqsh.storage.queries.query_templates import QueryTemplate
from stqsh.storage.rows import LogRow

Command: TypeAlias = "SlotCommand | QueryRows"

_ANY = RectangleSpec(0.0, 0.0, 0.0, 0.0)
_CORNERS: tuple[Path, ...] = (("region", "x1"), ("region", "y1"), ("region", "x2"), ("region", "y2"))

_CHANGES: dict[type, type[DropCommand | PauseCommand | ResumeCommand]] = {
    QueryDropped: DropCommand,
    QueryPaused: PauseCommand,
    QueryResumed: ResumeCommand,
}


def commands_of(rows: Sequence[LogRow]) -> dict[int, list[Command]]:
    """Return the commands of log rows per stream, in the log's order."""
    commands: dict[int, list[Command]] = {}
    for row in rows:
        found = _command(row)
        if found is not None:
            stream_id, command = found
            commands.setdefault(stream_id, []).append(command)
    return commands


def _command(row: LogRow) -> tuple[int, Command] | None:
    """Return the id of the stream that a row concerns and its command; None for a row without one."""
    entry = row.entry
    match entry:
        case QuerySpec():
            return entry.stream_id, RegisterCommand(query=slot_query(entry))
        case QueryBlock():
            return entry.stream_id, query_rows_of(entry, row.payload or b"")
        case QueryDropped() | QueryPaused() | QueryResumed():
            return entry.stream_id, _CHANGES[type(entry)](id=entry.id)
        case StreamDropped():
            return entry.id, DropStreamCommand(id=entry.id)
    return None


def query_rows_of(block: QueryBlock, payload: bytes) -> QueryRows:
    """Return the queries of a log row from its payload."""
    template = QueryTemplate.from_json(block.template)
    ids = np.arange(block.first, block.first + block.count)
    paths = tuple(path for path, _ in template.holes)
    return QueryRows(slot_query(block.example), ids, paths, tuple(template.values(unpack(payload))))


def living_queries(
    control: ControlDb, stream_id: int, up_to: int, tick_us: int | None, step: int
) -> Iterator[RegisterCommand | QueryRows | PauseCommand]:
    """Yield the queries of a stream that live before a step, with the steps in which they were registered.

    Those that are paused follow as commands to pause them.

    Args:
        control: the control log.
        stream_id: the stream.
        up_to: the last row of the log that has taken effect.
        tick_us: the length of a tick, None before the clock runs.
        step: the step.
    """
    commands = commands_of(read_log(control, 0, up_to)).get(stream_id, [])
    dropped = {command.id for command in commands if isinstance(command, DropCommand)}
    paused: dict[int, bool] = {}
    step_of = steps_taken(control)
    for command in commands:
        match command:
            case RegisterCommand(query):
                begun = step_of(query.id) or 0
                if query.id not in dropped and not _is_over(query, begun, tick_us, step):
                    yield RegisterCommand(query=query, step=begun)
            case QueryRows():
                begun = step_of(int(command.ids[-1])) or 0
                if not _is_over(command.pattern, begun, tick_us, step):
                    rows = ~np.isin(command.ids, list(dropped))
                    yield replace(command.those(rows), step=begun)
            case PauseCommand(id=id_) | ResumeCommand(id=id_):
                paused[id_] = isinstance(command, PauseCommand)
    yield from (PauseCommand(id=id_) for id_, is_paused in paused.items() if is_paused and id_ not in dropped)


def gathered(commands: Sequence[RegisterCommand | QueryRows]) -> list[RegisterCommand | QueryRows]:
    """Return queries with those that differ only in the corners of their rectangles in columns.

    Slots read such columns many times as fast as one query at a time.
    """
    found: list[RegisterCommand | QueryRows] = []
    alike: dict[tuple[SlotQuery, int | None], list[SlotQuery]] = {}
    for command in commands:
        if isinstance(command, RegisterCommand) and isinstance(command.query.region, RectangleSpec):
            pattern = structs.replace(command.query, id=0, region=_ANY)
            alike.setdefault((pattern, command.step), []).append(command.query)
        else:
            found.append(command)
    for (_, step), queries in alike.items():
        values = tuple(
            pa.array([getattr(query.region, str(name)) for query in queries], pa.float64())
            for _, name in _CORNERS
        )
        ids = np.array([query.id for query in queries])
        found.append(QueryRows(queries[0], ids, _CORNERS, values, step))
    return found


def _is_over(query: SlotQuery, begun: int, tick_us: int | None, step: int) -> bool:
    """Return whether FOR ends a query before a step that was registered in the step `begun`."""
    if query.for_us is None or tick_us is None:
        return False
    return begun - (-query.for_us // tick_us) < step
