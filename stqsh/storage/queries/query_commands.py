"""Conversion of control log rows about queries into commands to the slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from stqsh.spec.chunk import unpack
from stqsh.spec.command import (
    AlterCommand,
    DropCommand,
    DropStreamCommand,
    PauseCommand,
    RegisterCommand,
    ResumeCommand,
    SlotCommand,
)
from stqsh.spec.log import (
    QueryAltered,
    QueryBlock,
    QueryDropped,
    QueryPaused,
    QueryResumed,
    StreamDropped,
)
from stqsh.spec.query import QuerySpec, slot_query
from stqsh.spec.query_rows import QueryRows
from stqsh.storage.queries.query_templates import QueryTemplate
from stqsh.storage.rows import LogRow

Command: TypeAlias = "SlotCommand | QueryRows"

_CHANGES: dict[type, type[DropCommand | PauseCommand | ResumeCommand]] = {
    QueryDropped: DropCommand,
    QueryPaused: PauseCommand,
    QueryResumed: ResumeCommand,
}


def commands_of(rows: Sequence[LogRow]) -> dict[int, list[Command]]:
    """Return the commands in log rows by stream, in the log's order."""
    commands: dict[int, list[Command]] = {}
    for row in rows:
        found = _command(row)
        if found is not None:
            stream_id, command = found
            commands.setdefault(stream_id, []).append(command)
    return commands


def _command(row: LogRow) -> tuple[int, Command] | None:
    """Return the stream id and the command of a row; None for a row without a command."""
    entry = row.entry
    match entry:
        case QuerySpec():
            return entry.stream_id, RegisterCommand(query=slot_query(entry))
        case QueryBlock():
            return entry.stream_id, query_rows_of(entry, row.payload or b"")
        case QueryDropped() | QueryPaused() | QueryResumed():
            return entry.stream_id, _CHANGES[type(entry)](id=entry.id)
        case QueryAltered(query=query, before=before, step=step, paused=paused):
            changed = slot_query(query)
            return query.stream_id, AlterCommand(
                id=entry.id, query=changed, before=before, step=step, paused=paused
            )
        case StreamDropped():
            return entry.id, DropStreamCommand(id=entry.id)
    return None


def query_rows_of(block: QueryBlock, payload: bytes) -> QueryRows:
    """Return the queries of a log row, given its payload."""
    template = QueryTemplate.from_json(block.template)
    ids = np.arange(block.first, block.first + block.count)
    paths = tuple(path for path, _ in template.holes)
    return QueryRows(slot_query(block.example), ids, paths, tuple(template.values(unpack(payload))))
