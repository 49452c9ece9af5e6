"""Snapshot SELECTs of a client: answered from the published state, else by way of the control log.

On the engine's host the answer is read straight from the slots' arrays (architecture.md), without
the engine's help and without waiting for anything but a batch under way. Where there is no such state
(another host, a restart, a region that the slots have not been told of) the question goes into the control
log, the next batch carries it to the slots, and the answer comes back as a file. The same two functions of
`stqsh.core.snapshots.select` make the answer on either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from msgspec.json import Decoder
from msgspec.structs import replace

from stqsh.client.connection import Connection
from stqsh.lang.binder.bind import bind
from stqsh.spec.log import SnapshotAsked
from stqsh.spec.measure import QueryMeasure, total
from stqsh.spec.query import BoundQuery, SnapshotSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.control_log import ControlDb, append, get_meta, last_seq
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.rows import Progress
from stqsh.storage.snapshot_answers import read_answer, take_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from stqsh.client.catalogue_view import SessionCatalogue
    from stqsh.core.state.slot_state import SlotState
    from stqsh.lang.ast.statements import Select
    from stqsh.storage.slot_files import PublishedSlots

    T = TypeVar("T")

_MEASURE = Decoder(QueryMeasure | None)
_REMEMBERED = 1000
"""Statements whose specs are kept at the most."""

PATIENCE_S = 10.0
"""So long a batch under way is waited for before the question goes by the log."""


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """What a snapshot found: its rows, and the step after which they were true (0: before the first)."""

    table: pa.Table
    step: int
    at_us: int | None


class SnapshotReader:
    """Asks for snapshots on behalf of one client.

    `direct`: whether the published state may be read; a test and a measurement of the log's way say no.
    """

    def __init__(self, link: Connection, *, direct: bool = True) -> None:
        self._link, self.direct = link, direct
        self._published: PublishedSlots | None = None
        self._bound: dict[str, tuple[int, SnapshotSpec, StreamSpec]] = {}

    def bound(self, statement: Select, view: SessionCatalogue) -> tuple[SnapshotSpec, StreamSpec]:
        """The spec of a SELECT and that of its stream; remembered for as long as nothing new is logged."""
        seq = last_seq(self._link.db)
        known = self._bound.get(statement.text)
        if known is None or known[0] != seq:
            spec = bind(statement, view).spec
            stream = view.stream(spec.stream)
            assert stream is not None, "bind has found the stream"
            if len(self._bound) >= _REMEMBERED:
                self._bound.clear()
            self._bound[statement.text] = known = seq, spec, stream
        return known[1], known[2]

    def is_about_to_play(self, stream: StreamSpec) -> bool:
        """Whether a stream plays and no step has taken it in yet: it would look empty by mistake."""
        return self._link.progress().seq < stream.id and plays(self._link.db, stream.id)

    def wait_for(self, stream: StreamSpec, tell: Callable[[Progress], None] | None = None) -> None:
        """Wait until a stream that plays has begun, or is paused or dropped instead. Raises as `ask` does.

        `tell` is told the progress at each look.
        """
        for progress in self._link.watch():
            if progress.seq >= stream.id or not plays(self._link.db, stream.id):
                return
            if tell is not None:
                tell(progress)

    def ask(self, spec: SnapshotSpec, stream: StreamSpec) -> SnapshotResult:
        """Answer a snapshot spec over a stream, whose StreamSpec is given.

        Raises `EngineDeadError` where the engine is needed and dies, `SourceError` for an unreadable stream.
        """
        progress = self._link.progress()
        if progress.step == 0:
            return _merged([], spec, stream, Progress())
        found = self.read(lambda states: _answer(states, spec, stream), progress.step)
        return self._ask_log(spec, stream) if found is None else found

    def measure(self, spec: BoundQuery) -> QueryMeasure:
        """What all slots together say of a query or snapshot.

        No figures where no step was taken yet. Raises as `ask` does.
        """
        step = self._link.progress().step
        if step == 0:
            return total([])
        measures = self.read(lambda states: _measures(states, spec), step)
        return total(self._measures_by_log(spec) if measures is None else measures)

    def _measures_by_log(self, spec: BoundQuery) -> list[QueryMeasure]:
        shares, _ = self._answer_by_log(_measurement(spec))
        contents = (share.column("measure")[0].as_py() for share in shares)
        found = (_MEASURE.decode(content or b"null") for content in contents)
        return [measure for measure in found if measure is not None]

    def read(self, use: Callable[[list[SlotState]], T], step: int) -> T | None:
        """What `use` makes of all slots' states at one step, not before `step`; None where there are none.

        `use` may raise `NotPublishedError` for states that will not do.
        """
        if not self.direct:
            return None
        from stqsh.storage.slot_files import NotPublishedError

        try:
            return self._open().read(use, step, self._patience_s)
        except NotPublishedError:
            return None

    def _patience_s(self) -> float:
        """How long states may take that are not there: without an engine nobody will bring them."""
        return PATIENCE_S if is_alive(read_engine(self._link.home)) else 0.0

    def _open(self) -> PublishedSlots:
        """The published state; raises `NotPublishedError` where an engine was never here."""
        from stqsh.storage.slot_files import NotPublishedError, PublishedSlots

        if self._published is None:
            slots, folder = get_meta(self._link.db, "slots"), self._link.home.arena()
            if slots is None or not folder.is_dir():
                raise NotPublishedError("no engine has run on this host")
            self._published = PublishedSlots(folder, int(slots))
        return self._published

    def _ask_log(self, spec: SnapshotSpec, stream: StreamSpec) -> SnapshotResult:
        shares, progress = self._answer_by_log(spec)
        return _merged(shares, spec, stream, progress)

    def _answer_by_log(self, spec: SnapshotSpec) -> tuple[list[pa.RecordBatch], Progress]:
        """Ask by way of the control log, and wait for the slots' shares of the answer and their step."""
        row = append(self._link.db, SnapshotAsked(spec))
        if is_alive(read_engine(self._link.home)):
            self._link.wake()
        else:
            self._link.restart()  # another client may have stopped it
        for _ in self._link.watch():
            content = take_answer(self._link.home, row.seq)
            if content is not None:
                return read_answer(content)
        raise AssertionError("unreachable: watch has no end")


def _measurement(spec: BoundQuery) -> SnapshotSpec:
    """Return the question what a query or a snapshot costs, as the log carries it."""
    if isinstance(spec, SnapshotSpec):
        return replace(spec, measure=0)
    return SnapshotSpec(
        stream=spec.stream,
        stream_id=spec.stream_id,
        kind=spec.kind,
        region=spec.region,
        condition=spec.condition,
        join=spec.join,
        areas=spec.areas,
        measure=spec.id,
    )


def plays(db: ControlDb, stream: int) -> bool:
    """Whether the last word on a stream's running was PLAY."""
    rows = db.query(
        "SELECT kind FROM log WHERE kind IN ('play', 'pause', 'drop_stream') AND "
        "json_extract(spec, '$.id') = ? ORDER BY seq DESC LIMIT 1",
        stream,
    )
    return bool(rows) and rows[0][0] == "play"


def _answer(states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec) -> SnapshotResult:
    """The answer on the slots' states; raises `NotPublishedError` where they lack what it is about."""
    from stqsh.core.snapshots.select import part

    place = _place(states, spec)
    shares = [share for share in (part(state, spec, place) for state in states) if share is not None]
    clock = states[0].header["clock"]
    progress = Progress(step=clock["step"], base_tick=clock["base_tick"], tick_us=clock["tick_us"])
    return _merged(shares, spec, stream, progress)


def _measures(states: list[SlotState], spec: BoundQuery) -> list[QueryMeasure]:
    from stqsh.core.snapshots.query_cost import measure

    place = _place(states, spec)
    return [found for found in (measure(state, spec, place) for state in states) if found is not None]


def _place(states: list[SlotState], spec: BoundQuery) -> tuple[float, float] | None:
    """Where the focal object is, if there is one. Raises `NotPublishedError` for unknown tables and areas."""
    from stqsh.core.snapshots.select import focal, knows
    from stqsh.storage.slot_files import NotPublishedError

    if not all(knows(state, spec) for state in states):
        raise NotPublishedError("the slots have not heard of a table or region")
    if spec.region.focal_key is None:
        return None
    return next((found for found in (focal(state, spec) for state in states) if found), None)


def _merged(
    shares: Sequence[pa.RecordBatch], spec: SnapshotSpec, stream: StreamSpec, progress: Progress
) -> SnapshotResult:
    from stqsh.core.snapshots.select import nothing, whole

    table = whole(shares or [nothing(stream, spec)], spec)
    return SnapshotResult(table, progress.step, progress.at_us())
