"""Commands and questions to slots: the items of the JSON arrays in "commands" and "ask" chunks."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stqsh.spec.older_queries import composed_items
from stqsh.spec.query import AskSpec, SlotQuery


class CommandBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="op"):
    """The base of all commands: their "op" as JSON."""


class RegisterCommand(CommandBase, frozen=True, tag="register"):
    """Add a query.

    Attributes:
        query: the query.
        step: the step in which it was registered, if a later routing sends it to the slot; None for a new
            query.
    """

    query: SlotQuery
    step: int | None = None


class ChangeCommand(CommandBase, frozen=True, kw_only=True):
    """A change of the query with `id`."""

    id: int


class DropCommand(ChangeCommand, frozen=True, tag="drop"):
    """Drop queries."""


class PauseCommand(ChangeCommand, frozen=True, tag="pause"):
    """Pause queries."""


class ResumeCommand(ChangeCommand, frozen=True, tag="resume"):
    """Resume paused queries."""


class AlterCommand(ChangeCommand, frozen=True, kw_only=True, tag="alter"):
    """Give a query another region, condition or number of neighbours.

    A slot that did not know the query adds it in its previous form, and holds no member of it.

    Attributes:
        query: the query in its new form.
        before: the previous form of the query.
        step: the step in which it was registered; None if that is the same step as the change.
        paused: whether it is paused.
        only_known: whether slots that do not know the query can ignore the command.
    """

    query: SlotQuery
    before: SlotQuery
    step: int | None = None
    paused: bool = False
    only_known: bool = False


class DropStreamCommand(CommandBase, frozen=True, tag="drop_stream"):
    """Drop the stream itself."""

    id: int = 0


class _Op(msgspec.Struct):
    op: str


def drops_stream(packed: bytes | memoryview) -> bool:
    """Return whether commands, packed as JSON, drop a stream."""
    content = bytes(packed)
    name = str(DropStreamCommand.__struct_config__.tag)
    return name.encode() in content and any(
        one.op == name for one in msgspec.json.decode(content, type=list[_Op])
    )


class MemoryCommand(CommandBase, frozen=True, kw_only=True, omit_defaults=False, tag="memory"):
    """Change how many objects a stream that keeps significant ones may hold.

    Attributes:
        factor: the share of the cache distance in use, 0 to 1.
        k: objects that fewer queries need are dropped when they report.
        cache, area: the shares of the cache distance and of the regions' areas that load shedding leaves.
        part: the dropped share of the objects that k - 1 queries need.
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    part: float = 1.0


SlotCommand: TypeAlias = (
    RegisterCommand
    | DropCommand
    | PauseCommand
    | ResumeCommand
    | AlterCommand
    | DropStreamCommand
    | MemoryCommand
)

_COMMANDS = msgspec.json.Decoder(tuple[SlotCommand, ...])
_ASKS = msgspec.json.Decoder(tuple[AskSpec, ...])


def unpack_commands(payload: bytes) -> tuple[SlotCommand, ...]:
    """Read the payload of a "commands" chunk, also of an earlier version; raise `ValueError` for others."""
    try:
        return _COMMANDS.decode(payload)
    except msgspec.ValidationError:
        return msgspec.convert(composed_items(msgspec.json.decode(payload)), tuple[SlotCommand, ...])


def unpack_asks(payload: bytes) -> tuple[AskSpec, ...]:
    """Read the payload of an "ask" chunk, also of an earlier version."""
    try:
        return _ASKS.decode(payload)
    except msgspec.ValidationError:
        return msgspec.convert(composed_items(msgspec.json.decode(payload)), tuple[AskSpec, ...])
