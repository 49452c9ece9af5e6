"""Commands to the slots: rows of the log about queries, in the form that slots read.

A command is a JSON object, or the queries of one template, whose values stay in arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stqsh.routing.query_routing import QueryRouting
from stqsh.spec.command import (
    AlterCommand,
    RegisterCommand,
    SlotCommand,
)
from stqsh.spec.query_rows import QueryRows, pack_alike
from stqsh.spec.stream import StreamSpec
from stqsh.storage.queries.query_commands import Command

#: Maximum number of commands in a chunk: Spark doubles buffers, so large payloads cost it memory.
CHUNK_COMMANDS = 4_096

Concerned: TypeAlias = "list[NDArray[np.bool_]]"


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


def concerned_slots(routes: QueryRouting, stream: StreamSpec, commands: Sequence[Command]) -> Concerned:
    """Return the slots that each command of a stream concerns: bool (queries, slots) for each.

    ALTER concerns the slots of the new region; the other slots need it only if they know the query.
    """
    everyone = np.ones((1, routes.slots), np.bool_)
    regions = [_with_region(command) for command in commands]
    found = iter(routes.slots_of(stream, [one for one in regions if one is not None]))
    return [everyone if one is None else next(found) for one in regions]


def _with_region(command: Command) -> RegisterCommand | QueryRows | None:
    """Return the queries whose regions determine the slots of a command; None for all slots."""
    if isinstance(command, AlterCommand):
        return RegisterCommand(query=command.query)
    return command if isinstance(command, RegisterCommand | QueryRows) else None


def for_slot(commands: Sequence[Command], concerned: Concerned, slot: int) -> list[Command]:
    """Return the commands that concern a slot; of queries of one template, only the ones concerned."""
    mine: list[Command] = []
    for command, slots in zip(commands, concerned, strict=True):
        rows = slots[:, slot]
        if isinstance(command, QueryRows):
            mine += [command.those(rows)] if rows.any() else []
        elif rows[0]:
            mine.append(command)
        elif isinstance(command, AlterCommand):
            mine.append(msgspec.structs.replace(command, only_known=True))
    return mine
