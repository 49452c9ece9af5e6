"""Commands to the slots: what the log's rows say about queries, as slots want to read it.

A command is a JSON object, or the queries of one template, whose values stay in arrays all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import orjson
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
from stqsh.spec.query import SlotQuery
from stqsh.spec.query_rows import QueryRows, pack_alike
from stqsh.spec.stream import StreamSpec
from stqsh.storage.query_templates import QueryTemplate
from stqsh.storage.rows import LogRow, Spec

#: Commands in a chunk at the most: Spark doubles buffers, so large payloads cost it memory.
CHUNK_COMMANDS = 4_096

_COMMANDS: dict[str, Callable[[LogRow], SlotCommand]] = {
    "register": lambda row: RegisterCommand(query=needed(row.spec)),
    "drop": lambda row: DropCommand(id=row.spec["id"]),
    "pause_query": lambda row: PauseCommand(id=row.spec["id"]),
    "resume_query": lambda row: ResumeCommand(id=row.spec["id"]),
    "drop_stream": lambda row: DropStreamCommand(id=row.spec["id"]),
}


Command: TypeAlias = "SlotCommand | QueryRows"
Concerned: TypeAlias = "list[NDArray[np.bool_]]"


def commands_of(rows: Sequence[LogRow]) -> dict[int, list[Command]]:
    """Collect the commands of log rows per stream, in the log's order."""
    commands: dict[int, list[Command]] = {}
    for row in rows:
        if row.kind == "register_alike":
            commands.setdefault(row.spec["stream_id"], []).append(query_rows_of(row))
        elif row.kind in _COMMANDS:
            stream_id = row.spec["id"] if row.kind == "drop_stream" else row.spec["stream_id"]
            commands.setdefault(stream_id, []).append(_COMMANDS[row.kind](row))
    return commands


def needed(query: Spec) -> SlotQuery:
    """Return the parts of a query's spec that slots look at."""
    return msgspec.convert(query, SlotQuery)


def query_rows_of(row: LogRow) -> QueryRows:
    """Read a row `register_alike`."""
    rows = unpack(row.payload or b"")
    template = QueryTemplate.from_json(orjson.dumps(row.spec["template"]))
    ids = np.arange(row.spec["first"], row.spec["first"] + row.spec["count"])
    paths = tuple(path for path, _ in template.holes)
    return QueryRows(needed(row.spec["example"]), ids, paths, tuple(template.values(rows)))


def packed_commands(commands: Sequence[Command]) -> Iterator[tuple[str, bytes]]:
    """Pack commands in order: the kind and the payload of each chunk."""
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
    """Return which slots each command of an event stream concerns: bool (queries, slots) each."""
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
    """Return those commands that concern a slot, and of queries of one template those that do."""
    mine: list[Command] = []
    for command, slots in zip(commands, concerned, strict=True):
        rows = slots[:, slot]
        if isinstance(command, QueryRows):
            mine += [command.those(rows)] if rows.any() else []
        elif rows[0]:
            mine.append(command)
    return mine
