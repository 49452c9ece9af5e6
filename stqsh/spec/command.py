"""What slots are told to do with queries: the items of the JSON array in a "commands" chunk."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stqsh.spec.query import SlotQuery


class CommandBase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="op"):
    """What all commands have in common: their "op" as JSON."""


class RegisterCommand(CommandBase, frozen=True, tag="register"):
    """Take a new query in."""

    query: SlotQuery


class ChangeCommand(CommandBase, frozen=True, kw_only=True):
    """A change of queries that are there: of the one with `id`, or of all in `ids`."""

    id: int = 0
    ids: tuple[int, ...] = ()

    @property
    def targets(self) -> tuple[int, ...]:
        """Return the ids of the queries."""
        return self.ids or (self.id,)


class DropCommand(ChangeCommand, frozen=True, tag="drop"):
    """Drop queries."""


class PauseCommand(ChangeCommand, frozen=True, tag="pause"):
    """Pause queries."""


class ResumeCommand(ChangeCommand, frozen=True, tag="resume"):
    """Resume paused queries."""


class DropStreamCommand(CommandBase, frozen=True, tag="drop_stream"):
    """Drop the stream itself."""

    id: int = 0


class MemoryCommand(CommandBase, frozen=True, kw_only=True, tag="memory"):
    """Change how much of its objects a stream that keeps significant ones may hold.

    Attributes:
        factor: the share of the cache distance in use, 0 to 1.
        k: objects that fewer queries need are dropped when they report.
        cache, area: the shares of the cache distance and of the regions' areas that load shedding leaves.
        part: the share that is dropped of the objects that k - 1 queries need.
    """

    factor: float = 1.0
    k: int = 1
    cache: float = 1.0
    area: float = 1.0
    part: float = 1.0


SlotCommand: TypeAlias = (
    RegisterCommand | DropCommand | PauseCommand | ResumeCommand | DropStreamCommand | MemoryCommand
)

_COMMANDS = msgspec.json.Decoder(tuple[SlotCommand, ...])


def unpack_commands(payload: bytes) -> tuple[SlotCommand, ...]:
    """Read the payload of a "commands" chunk. Raises `ValueError` for a command that there is not."""
    return _COMMANDS.decode(payload)
