"""Commands to the slots: what the log's rows say about queries, as slots want to read it.

A command is a JSON object, or the queries of one template, whose values stay in arrays all the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from stqsh.routing.event_routing import EventRouting
from stqsh.spec.chunk import pack_json, unpack
from stqsh.spec.query_rows import QueryRows, pack_alike
from stqsh.spec.stream import StreamSpec
from stqsh.storage.query_templates import QueryTemplate
from stqsh.storage.rows import LogRow, Spec

#: Commands in a chunk at the most: Spark doubles buffers, so large payloads cost it memory.
CHUNK_COMMANDS = 4_096

#: Of a query's spec, what slots never look at: they know it by its id.
_UNREAD = frozenset({"text", "name", "stream", "stream_id", "areas"})
_OPERATIONS = {
    "register": "register",
    "drop": "drop",
    "pause_query": "pause",
    "resume_query": "resume",
    "drop_stream": "drop_stream",
}


Command: TypeAlias = "Spec | QueryRows"
Concerned: TypeAlias = "list[NDArray[np.bool_]]"


def commands_of(rows: Sequence[LogRow]) -> dict[int, list[Command]]:
    """Collect the commands of log rows per stream, in the log's order."""
    commands: dict[int, list[Command]] = {}
    for row in rows:
        if row.kind == "register_alike":
            commands.setdefault(row.spec["stream_id"], []).append(query_rows_of(row))
        elif row.kind in _OPERATIONS:
            stream_id = row.spec["id"] if row.kind == "drop_stream" else row.spec["stream_id"]
            commands.setdefault(stream_id, []).append({"op": _OPERATIONS[row.kind], **_content(row)})
    return commands


def _content(row: LogRow) -> Spec:
    if row.kind == "register":
        return {"query": needed(row.spec)}
    return {"id": row.spec["id"]}


def needed(query: Spec) -> Spec:
    """Return the parts of a query's spec that slots look at."""
    return {name: value for name, value in query.items() if name not in _UNREAD}


def query_rows_of(row: LogRow) -> QueryRows:
    """Read a row `register_alike`."""
    rows = unpack(row.payload or b"")
    template = QueryTemplate.from_json(orjson.dumps(row.spec["template"]))
    ids = np.arange(row.spec["first"], row.spec["first"] + row.spec["count"])
    paths = tuple(path for path, _ in template.holes)
    return QueryRows(needed(row.spec["example"]), ids, paths, tuple(template.values(rows)))


def packed_commands(commands: Sequence[Command]) -> Iterator[tuple[str, bytes]]:
    """Pack commands in order: the kind and the payload of each chunk."""
    waiting: list[Spec] = []
    for command in commands:
        if isinstance(command, QueryRows) or len(waiting) == CHUNK_COMMANDS:
            if waiting:
                yield "commands", pack_json(waiting)
            waiting = []
        if isinstance(command, QueryRows):
            yield "register_alike", pack_alike(command)
        else:
            waiting.append(command)
    if waiting:
        yield "commands", pack_json(waiting)


def concerned_slots(routes: EventRouting, stream: StreamSpec, commands: Sequence[Command]) -> Concerned:
    """Return which slots each command of an event stream concerns: bool (queries, slots) each."""
    everyone = np.ones((1, routes.slots), np.bool_)
    new = [command for command in commands if isinstance(command, dict) and command["op"] == "register"]
    found = iter(routes.slots_of_queries(stream, [command["query"] for command in new]))
    return [
        routes.slots_of_alike(stream, command)
        if isinstance(command, QueryRows)
        else next(found)[None]
        if command["op"] == "register"
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
