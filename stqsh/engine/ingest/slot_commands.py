"""Commands to the slots: the log's rows about queries, in the form that slots read.

A command is a JSON object, or the queries of one template, whose values stay in arrays throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stqsh.routing.event_routing import EventRouting
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
from stqsh.spec.query import QuerySpec, slot_query
from stqsh.spec.query_rows import QueryRows, pack_alike
from stqsh.spec.stream import StreamSpec
from stqsh.storage.query_templates import QueryTemplate
from stqsh.storage.rows import LogRow

#: Maximum number of commands in a chunk: Spark doubles buffers, so large payloads cost it memory.
CHUNK_COMMANDS = 4_096

_CHANGES: dict[type, type[DropCommand | PauseCommand | ResumeCommand]] = {
    QueryDropped: DropCommand,
    QueryPaused: PauseCommand,
    QueryResumed: ResumeCommand,
}
Command: TypeAlias = "SlotCommand | QueryRows"
Concerned: TypeAlias = "list[NDArray[np.bool_]]"


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


def packed_commands(commands: Sequence[Command]) -> Iterator[tuple[str, bytes]]:
    """Pack commands in order; yield the kind and the payload of each chunk."""
    waiting: list[SlotCommand] = []
    for command in commands:
        if isinstance(command, QueryRows) or len(waiting) == CHUNK_COMMANDS:
            if waiting:
                yield "commands", msgspec.json.encode(waiting)
            waiting = []
        if isinstance(command, QueryRows):
            yield "register_alike", pack_alike(command)
        else:
            waiting.append(command)
    if waiting:
        yield "commands", msgspec.json.encode(waiting)


def concerned_slots(routes: EventRouting, stream: StreamSpec, commands: Sequence[Command]) -> Concerned:
    """Return which slots each command of an event stream concerns: bool (queries, slots) for each."""
    everyone = np.ones((1, routes.slots), np.bool_)
    new = [command.query for command in commands if isinstance(command, RegisterCommand)]
    found = iter(routes.slots_of_queries(stream, new))
    return [
        routes.slots_of_alike(stream, command)
        if isinstance(command, QueryRows)
        else next(found)[None]
        if isinstance(command, RegisterCommand)
        else everyone
        for command in commands
    ]


def for_slot(commands: Sequence[Command], concerned: Concerned, slot: int) -> list[Command]:
    """Return the commands that concern a slot; of queries of one template, only those that do."""
    mine: list[Command] = []
    for command, slots in zip(commands, concerned, strict=True):
        rows = slots[:, slot]
        if isinstance(command, QueryRows):
            mine += [command.those(rows)] if rows.any() else []
        elif rows[0]:
            mine.append(command)
    return mine
