"""The turns of a session: the batches that do more than advance streams. Slots are rebuilt by them.

Slots are a fold over the commands in the log and the records of the replay stores. Only Spark's offsets
determine which commands took effect in which step and which streams advanced, and Spark deletes them after
ten batches. Therefore both offsets are kept of each batch that takes in commands or advances other streams
than the batch before it. Between two such batches the same streams advance with the clock, in any number of
batches.

Sessions with live streams have no turns, because their records cannot be read again.
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
"""The metadata key of the number of times that a session's slots were rebuilt."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A batch in which more happens than streams advancing: the offsets before and after it."""

    first: Offset
    last: Offset


def goes_on(first: Offset, last: Offset) -> bool:
    """Return whether nothing but streams advancing happens between two offsets."""
    return _standing(first) == _standing(last)


def _standing(offset: Offset) -> Offset:
    """Return an offset without the fields that change while streams merely advance."""
    clock = replace(offset, clock_seq=0, step=0, base_tick=None, tick_us=None, rows={}, answered=0)
    plays = replace(clock, run=None, run_done=0, play=None, behind=0, due_us=None, room=0, gap=(0, 0))
    return replace(plays, by_slot=False, slices=1, boot="")


def taking(first: Offset, last: Offset, before: Taking) -> Taking:
    """Return the streams that advance in a batch; `before` are those of the preceding batch."""
    if last.step == first.step:
        return before
    if first.run is not None or last.run is not None or last.run_done != first.run_done:
        return None
    return last.play.streams if last.play is not None else None


def note_turn(control: ControlDb, batch: int, turn: Turn) -> None:
    """Record a turn; joins an open transaction."""
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
    """Delete the turns that only took in commands, all of which are forgotten; joins an open transaction."""
    with control.transaction() as connection:
        connection.execute(
            "DELETE FROM turns WHERE only_commands"
            " AND NOT EXISTS (SELECT 1 FROM log WHERE seq > turns.after AND seq <= turns.seq)"
        )


def _short(offset: Offset) -> dict[str, object]:
    """Return an offset as JSON values, without fields that are at their defaults or are not needed later."""
    kept = replace(offset, behind=0, due_us=None, room=0, boot="", by_slot=False, gap=(0, 0), play=None)
    none = Offset().to_json()
    return {name: value for name, value in kept.to_json().items() if value != none[name]}


class RebuiltSlots(msgspec.Struct, frozen=True):
    """How often a session's slots were rebuilt from the beginning, and the last reason."""

    times: int = 0
    why: str = ""


def rebuilt_slots(control: ControlDb) -> RebuiltSlots:
    """Return how often a session's slots were rebuilt because files of theirs were damaged."""
    known = get_meta(control, _REBUILT)
    return RebuiltSlots() if known is None else msgspec.json.decode(known, type=RebuiltSlots)


def note_rebuilt(control: ControlDb, why: str) -> None:
    """Count a rebuild of the slots."""
    with control.transaction():
        now = RebuiltSlots(rebuilt_slots(control).times + 1, why)
        set_meta(control, _REBUILT, msgspec.json.encode(now).decode())
