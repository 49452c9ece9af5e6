"""The turns of a session: the batches that did more than go on. By them its slots can be rebuilt.

Slots are a fold over the log of commands and the records of the replay stores. Which commands took effect
with which step, and which streams advanced, is in Spark's offsets, which are deleted after ten batches. So
the two offsets are kept of each batch that takes in commands, or in which other streams advance than before.
Between two of these batches the same streams advance with the clock, in however many batches.

Sessions with live streams keep none: their records cannot be read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from stqsh.spec.offset import Offset
from stqsh.storage.control_log import ControlDb, get_meta, set_meta

Taking: TypeAlias = "tuple[int, ...] | None"
"""The streams that advance with the clock; None for all."""

_REBUILT = "rebuilt"
"""The key in the session's meta data of how often its slots were rebuilt."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch that does something else than go on: the offsets before and after it."""

    first: Offset
    last: Offset


def goes_on(first: Offset, last: Offset) -> bool:
    """Return whether nothing happens between two offsets but that streams advance."""
    return _standing(first) == _standing(last)


def _standing(offset: Offset) -> Offset:
    """Return an offset without what changes while the session only goes on."""
    clock = replace(offset, clock_seq=0, step=0, base_tick=None, tick_us=None, rows={}, answered=0)
    plays = replace(clock, run=None, run_done=0, play=None, behind=0, due_us=None, room=0, gap=(0, 0))
    return replace(plays, by_slot=False, slices=1, boot="")


def taking(first: Offset, last: Offset, before: Taking) -> Taking:
    """Return the streams that advance in a batch; `before` are those of the batch before it."""
    if last.step == first.step:
        return before
    if first.run is not None or last.run is not None or last.run_done != first.run_done:
        return None
    return last.play.streams if last.play is not None else None


def note_turn(control: ControlDb, batch: int, turn: Turn) -> None:
    """Record a turn; joins a transaction that is open."""
    with control.transaction() as connection:
        connection.execute(
            "INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?)",
            (
                batch,
                turn.first.seq,
                turn.last.seq,
                goes_on(replace(turn.first, seq=0), replace(turn.last, seq=0)),
                msgspec.json.encode([_short(turn.first), _short(turn.last)]).decode(),
            ),
        )


def read_turns(control: ControlDb, up_to: int) -> list[Turn]:
    """Return the turns up to a batch, in order."""
    rows = control.query("SELECT offsets FROM turns WHERE batch <= ? ORDER BY batch", up_to)
    pairs: Iterable[list[dict[str, object]]] = (msgspec.json.decode(text) for (text,) in rows)
    return [Turn(*(Offset.from_json(offset) for offset in pair)) for pair in pairs]


def forget_turns(control: ControlDb) -> None:
    """Delete the turns that only took in commands of which none is left; joins a transaction that is open."""
    with control.transaction() as connection:
        connection.execute(
            "DELETE FROM turns WHERE only_commands"
            " AND NOT EXISTS (SELECT 1 FROM log WHERE seq > turns.after AND seq <= turns.seq)"
        )


def _short(offset: Offset) -> dict[str, object]:
    """Return an offset as JSON values, without what is as at the beginning or of no later use."""
    kept = replace(offset, behind=0, due_us=None, room=0, boot="", by_slot=False, gap=(0, 0), play=None)
    none = Offset().to_json()
    return {name: value for name, value in kept.to_json().items() if value != none[name]}


class RebuiltSlots(msgspec.Struct, frozen=True):
    """How often the slots of a session were rebuilt from the beginning, and why they last were."""

    times: int = 0
    why: str = ""


def rebuilt_slots(control: ControlDb) -> RebuiltSlots:
    """Return how often the slots of a session were rebuilt because files of theirs were damaged."""
    known = get_meta(control, _REBUILT)
    return RebuiltSlots() if known is None else msgspec.json.decode(known, type=RebuiltSlots)


def note_rebuilt(control: ControlDb, why: str) -> None:
    """Count a rebuilding of the slots."""
    with control.transaction():
        now = RebuiltSlots(rebuilt_slots(control).times + 1, why)
        set_meta(control, _REBUILT, msgspec.json.encode(now).decode())
