"""The planner's view of the control log: the rows that slots and clock have applied, and the pending rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stqsh.engine.planning.planner_state import (
    CLOCK_ENTRIES,
    COMMANDS,
    DEFINITIONS,
    PlannerState,
    focal_keys_of,
)
from stqsh.spec.log import (
    QueryAltered,
    QueryBlock,
    RecordsFound,
    SnapshotAsked,
    StreamDropped,
    StreamRouted,
    TableDropped,
)
from stqsh.spec.offset import Offset
from stqsh.spec.query import AskSpec, QuerySpec, focal_keys
from stqsh.spec.region import Key
from stqsh.spec.stream import StreamSpec, TableSpec
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.rows import LogRow

#: Larger than every number in the log.
FAR = 1 << 62
_LIGHT = (*CLOCK_ENTRIES, StreamRouted)
"""Entries that do not concern slots, and entries whose effect each slot finds by itself."""


class PendingLog:
    """The control log around one offset: the planner's state before it, and the rows after it.

    `pending` are the rows waiting to be applied, `held` those behind a table that is still being prepared.
    """

    def __init__(self, control: ControlDb) -> None:
        self._control = control
        self._forget()

    def _forget(self) -> None:
        self.read_to = 0
        self.planner_state = PlannerState()
        self.pending: list[LogRow] = []
        self.held: list[LogRow] = []
        self._clock_rows: list[LogRow] = []

    def read(self, offset: Offset) -> None:
        """Read new rows of the log, and fold those before `offset` into the planner's state."""
        if offset.seq < self.planner_state.seq:
            self._forget()
        new = read_log(self._control, self.read_to, whole=False)
        self.read_to = new[-1].seq if new else self.read_to
        self.pending += self.held + new
        self.held = []
        waiting = [row for row in self._clock_rows if row.seq > offset.clock_seq]
        self._clock_rows = waiting + [row for row in new if isinstance(row.entry, CLOCK_ENTRIES)]
        taken = 0
        while taken < len(self.pending) and self.pending[taken].seq <= offset.seq:
            self.planner_state.apply(self.pending[taken])
            taken += 1
        del self.pending[:taken]

    def hold(self, ready: Callable[[int], bool]) -> None:
        """Hold rows starting at the first CREATE TABLE whose table is neither ready nor dropped.

        `ready` is called with the table's id.
        """
        dropped = {row.entry.id for row in self.pending if isinstance(row.entry, TableDropped)}
        for number, row in enumerate(self.pending):
            if isinstance(row.entry, TableSpec) and row.seq not in dropped and not ready(row.seq):
                self.pending, self.held = self.pending[:number], self.pending[number:]
                return

    def undefined(self, offset: Offset) -> int:
        """Return the number of the last waiting definition that the slots do not have, 0 for none."""
        known = max(offset.defined, offset.seq)
        numbers = [row.seq for row in self.pending if isinstance(row.entry, DEFINITIONS) and row.seq > known]
        return numbers[-1] if numbers else 0

    def clock_rows(self, offset: Offset) -> list[LogRow]:
        """List the RUN, PLAY, PAUSE and stop rows that the clock has not applied."""
        return [row for row in self._clock_rows if row.seq > offset.clock_seq]

    def streams(self) -> dict[int, StreamSpec]:
        """Return the streams that exist once all waiting rows are applied, by id."""
        streams = dict(self.planner_state.streams)
        for row in self.pending:
            if isinstance(row.entry, StreamSpec):
                streams[row.seq] = row.entry
            elif isinstance(row.entry, StreamDropped):
                streams.pop(row.entry.id, None)
        return streams

    def has_commands(self, *, that_change_answers: bool = False) -> bool:
        """Return whether commands to the slots wait for a step. Routing commands change no answer."""
        return any(
            isinstance(row.entry, COMMANDS)
            and not (that_change_answers and isinstance(row.entry, StreamRouted))
            for row in self.pending
        )

    def is_light(self, first: Offset, last: Offset, *, with_routes: bool) -> bool:
        """Return whether a batch applies only clock rows, and, `with_routes`, routings."""
        if (first.seq, first.defined) == (last.seq, last.defined):
            return True
        light, up_to = _LIGHT if with_routes else CLOCK_ENTRIES, max(last.seq, last.defined)
        return all(isinstance(row.entry, light) for row in self.pending if row.seq <= up_to)

    def undealt(self, offset: Offset) -> dict[int, int]:
        """Return the streams that get a dealer because their routing first changes now, and the step."""
        streams = self.streams()
        routed = {row.entry.id for row in self.pending if isinstance(row.entry, StreamRouted)}
        new = {stream for stream in routed & streams.keys() if streams[stream].needs_dealer}
        return dict.fromkeys(sorted(new - offset.dealers.keys()), offset.step)

    def lookups(self) -> FocalLookups:
        """Return the look-ups that the waiting rows need."""
        return FocalLookups(self.pending, self.planner_state)

    def ledger_at(self, seq: int) -> PlannerState:
        """Fold the waiting rows up to `seq` into a copy of the planner's state."""
        planner_state = self.planner_state.copy()
        for row in self.pending:
            if row.seq <= seq:
                planner_state.apply(row)
        return planner_state


# A snapshot through the log with moving regions takes two questions: first the locations of focal objects,
# then the rest. Deliver appends the second question, with the locations, before the next batch is decided.


def snapshots(rows: Iterable[LogRow], after: int, up_to: int) -> list[tuple[int, SnapshotAsked]]:
    """Return the snapshots among log rows `after < seq <= up_to`, each with its number."""
    return [
        (row.seq, row.entry)
        for row in rows
        if isinstance(row.entry, SnapshotAsked) and after < row.seq <= up_to
    ]


def last_snapshot(rows: Iterable[LogRow], offset: Offset) -> int:
    """Return the number of the last snapshot not yet sent to the slots, 0 for none."""
    return max((seq for seq, _ in snapshots(rows, offset.answered, FAR)), default=0)


def awaits_place(rows: Sequence[LogRow], offset: Offset) -> bool:
    """Return whether Deliver has yet to append the second question of a snapshot."""
    second = {asked.asked_first for _, asked in snapshots(rows, 0, FAR)}
    first = snapshots(rows, 0, offset.answered)
    return any(wants_place(asked) and seq not in second for seq, asked in first)


def wants_place(asked: SnapshotAsked) -> bool:
    """Return whether a snapshot's first question asks for the locations of its focal objects."""
    return bool(focal_keys(asked.spec)) and asked.asked_first is None


def question(seq: int, asked: SnapshotAsked) -> AskSpec:
    """Return the question to the slots for a snapshot's row."""
    return AskSpec(ask=asked.asked_first or seq, spec=asked.spec, place=asked.place)


# A moving query needs its focal object on every slot. An object that only its own slot holds is looked up.


@dataclass(frozen=True, slots=True)
class FocalLookups:
    """The look-ups that waiting log rows need; `planner_state` is the planner's state before them."""

    rows: Sequence[LogRow]
    planner_state: PlannerState

    def needed(self, taken: dict[int, int]) -> int:
        """Return the row of the log up to which focal objects must be looked up, 0 for none.

        Args:
            taken: the number of records taken of each stream; before the first there is nothing to look up.
        """
        return max((seq for seq, stream, _ in self._unknown() if taken.get(stream, 0)), default=0)

    def keys(self, up_to: int) -> dict[int, tuple[Key, ...]]:
        """Return the keys to look up for the rows up to `up_to`, by stream, each once."""
        keys: dict[int, dict[Key, None]] = {}
        for seq, stream, key in self._unknown():
            if seq <= up_to:
                keys.setdefault(stream, {})[key] = None
        return {stream: tuple(wanted) for stream, wanted in keys.items()}

    def has_found(self, up_to: int) -> bool:
        """Return whether Deliver has answered the look-ups up to `up_to`."""
        return any(isinstance(row.entry, RecordsFound) and row.entry.up_to >= up_to for row in self.rows)

    def _unknown(self) -> list[tuple[int, int, Key]]:
        """List (log number, stream id, key) of waiting queries whose focal object is not broadcast yet."""
        return [
            (row.seq, row.entry.stream_id, key)
            for row in self.rows
            if isinstance(row.entry, QuerySpec | QueryBlock | QueryAltered)
            for keys in focal_keys_of(row.entry)
            for key in keys
            if not self.planner_state.broadcasts(row.entry.stream_id, key)
        ]
