"""Commands to the slots: what the log's rows say about queries, as slots want to read it.

A command is a JSON object, or the queries of one pattern, whose numbers stay in arrays all the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.queries.registrations import pack_alike
from stqsh.routing.event_routing import EventRouting
from stqsh.spec.chunk import pack_json, unpack
from stqsh.storage.rows import LogRow, Spec

#: Commands in a chunk at the most: Spark doubles buffers, so large payloads cost it memory.
CHUNK_COMMANDS = 4_096

#: Of a query's spec, what slots never look at: they know it by its id.
_UNREAD = frozenset({"text", "name", "stream", "stream_id", "areas"})
_OPERATIONS = {
    "register": "register",
    "drop": "drop",
    "drop_alike": "drop",
    "pause_query": "pause",
    "resume_query": "resume",
    "drop_stream": "drop_stream",
}


@dataclass(frozen=True, eq=False)
class NewQueryGroup:
    """New queries of one pattern: ids int64 (n,), and what differs in their regions.

    numbers: float64 (n,) each. focals: the keys of their focal objects, None where the pattern says it.
    """

    pattern: Spec
    ids: NDArray[np.int64]
    numbers: dict[str, NDArray[np.float64]]
    focals: pa.Array[Any] | None = None

    def those(self, rows: NDArray[np.bool_]) -> NewQueryGroup:
        """Return some of the queries, by a mask."""
        numbers = {name: values[rows] for name, values in self.numbers.items()}
        focals = None if self.focals is None else self.focals.filter(pa.array(rows))
        return replace(self, ids=self.ids[rows], numbers=numbers, focals=focals)


Command: TypeAlias = "Spec | NewQueryGroup"
Concerned: TypeAlias = "list[NDArray[np.bool_]]"


def commands_of(rows: Sequence[LogRow]) -> dict[int, list[Command]]:
    """Collect the commands of log rows per stream, in the log's order."""
    commands: dict[int, list[Command]] = {}
    for row in rows:
        if row.kind == "register_alike":
            commands.setdefault(row.spec["stream_id"], []).append(alike_of(row))
        elif row.kind in _OPERATIONS:
            stream_id = row.spec["id"] if row.kind == "drop_stream" else row.spec["stream_id"]
            commands.setdefault(stream_id, []).append({"op": _OPERATIONS[row.kind], **_content(row)})
    return commands


def _content(row: LogRow) -> Spec:
    if row.kind == "register":
        return {"query": needed(row.spec)}
    name = "ids" if row.kind == "drop_alike" else "id"
    return {name: row.spec[name]}


def needed(query: Spec) -> Spec:
    """Return the parts of a query's spec that slots look at."""
    return {name: value for name, value in query.items() if name not in _UNREAD}


def alike_of(row: LogRow) -> NewQueryGroup:
    """Read a row `register_alike`: of a rectangle's corners the lower one comes first."""
    batch = unpack(row.payload or b"")
    numbers = {name: batch.column(name).to_numpy() for name in batch.schema.names if name != "name"}
    for low, high in (("x1", "x2"), ("y1", "y2")):
        if low in numbers:
            first, second = numbers[low], numbers[high]
            swapped = first > second
            numbers[low], numbers[high] = np.where(swapped, second, first), np.where(swapped, first, second)
    ids = np.arange(row.spec["first"], row.spec["first"] + row.spec["count"])
    focals = pa.array(row.spec["focal"]) if "focal" in row.spec else None
    return NewQueryGroup(needed(row.spec["pattern"]["spec"]), ids, numbers, focals)


def packed_commands(commands: Sequence[Command]) -> Iterator[tuple[str, bytes]]:
    """Pack commands in order: the kind and the payload of each chunk."""
    waiting: list[Spec] = []
    for command in commands:
        if isinstance(command, NewQueryGroup) or len(waiting) == CHUNK_COMMANDS:
            if waiting:
                yield "commands", pack_json(waiting)
            waiting = []
        if isinstance(command, NewQueryGroup):
            yield "register_alike", pack_alike(command.pattern, command.ids, command.numbers, command.focals)
        else:
            waiting.append(command)
    if waiting:
        yield "commands", pack_json(waiting)


def concerned_slots(routes: EventRouting, stream: Spec, commands: Sequence[Command]) -> Concerned:
    """Return which slots each command of an event stream concerns: bool (queries, slots) each."""
    everyone = np.ones((1, routes.slots), np.bool_)
    new = [command for command in commands if isinstance(command, dict) and command["op"] == "register"]
    found = iter(routes.slots_of_queries(stream, [command["query"] for command in new]))
    return [
        routes.slots_of_alike(stream, command.pattern, command.numbers, len(command.ids))
        if isinstance(command, NewQueryGroup)
        else next(found)[None]
        if command["op"] == "register"
        else everyone
        for command in commands
    ]


def for_slot(commands: Sequence[Command], concerned: Concerned, slot: int) -> list[Command]:
    """Return those commands that concern a slot, and of queries of one pattern those that do."""
    mine: list[Command] = []
    for command, slots in zip(commands, concerned, strict=True):
        rows = slots[:, slot]
        if isinstance(command, NewQueryGroup):
            mine += [command.those(rows)] if rows.any() else []
        elif rows[0]:
            mine.append(command)
    return mine
