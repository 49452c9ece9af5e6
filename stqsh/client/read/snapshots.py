"""Snapshot SELECTs of a client: answered from the published state, or else through the control log.

On the engine's host the answer is read directly from the slots' arrays (architecture.md), without the engine;
the client waits only for a batch under way. On a cluster the engine queries the executors that hold the slots
(`stqsh.engine.operators.located_snapshots`), which is as fast and needs no batch. If there is no such state
(another host, a restart, a region that the slots do not have yet), the question is appended to the control
log, the next batch takes it to the slots, and the answer is returned as a file. Both ways use the same two
functions of `stqsh.core.snapshots.select`.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from msgspec.json import Decoder
from msgspec.structs import replace

from stqsh.client.connection import ENGINE_LOOK_S, Connection
from stqsh.client.read.slot_states import SlotStates
from stqsh.errors import NotPublishedError
from stqsh.lang.binder.bind import bind
from stqsh.lang.errors import NotSupportedError
from stqsh.profile import Profile
from stqsh.spec.log import SnapshotAsked
from stqsh.spec.measure import QueryMeasure, total
from stqsh.spec.query import BoundQuery, SnapshotSpec
from stqsh.spec.region import NearestSpec
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import definitions_version
from stqsh.storage.control_log import append
from stqsh.storage.engine_info import has_process, is_alive, read_engine
from stqsh.storage.rows import Progress
from stqsh.storage.session_settings import session_settings
from stqsh.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from stqsh.client.catalogue_view import SessionCatalogue
    from stqsh.client.read.asked_slots import AskedCount, AskedSlots
    from stqsh.client.read.past import ArchiveUse, SlotsOfPast
    from stqsh.core.snapshots.analysis import OperatorRun
    from stqsh.core.snapshots.cache.event_views import Usage
    from stqsh.core.snapshots.cache.snapshot_cache import SnapshotCache
    from stqsh.core.state.slot_state import SlotState
    from stqsh.lang.ast.statements import Select

    T = TypeVar("T")

_MEASURE = Decoder(QueryMeasure | None)
_REMEMBERED = 1000
"""Maximum number of statements whose specs are cached."""

PATIENCE_S = 10.0
"""How long to wait for a batch under way before the question goes through the log."""
LOCATED_S = 15.0
"""How long to wait for the engine of a cluster, which itself waits for a batch under way."""
ASK_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """The rows of a snapshot, and the step whose state they show (0: before the first).

    `archive` describes the archive files that were read; None if the answer came from kept events only.
    """

    table: pa.Table
    step: int
    at_us: int | None
    archive: ArchiveUse | None = None


class SnapshotReader:
    """Answers the snapshots of one client.

    `direct` is whether the published state may be read; a test and a measurement of the log turn it off.
    """

    def __init__(
        self, connection: Connection, profile: Profile | None = None, *, direct: bool = True
    ) -> None:
        self._connection, self._profile, self.direct = connection, profile, direct
        self._states = SlotStates(connection)
        self._asked: AskedSlots | None = None
        self._bound: dict[str, tuple[tuple[int, str | None, str | None], SnapshotSpec, StreamSpec]] = {}
        self._kept: SnapshotCache | None = None

    @property
    def asked(self) -> AskedSlots:
        """The chooser of the slots to query."""
        from stqsh.client.read.asked_slots import AskedSlots  # numba

        if self._asked is None:
            self._asked = AskedSlots(self._connection)
        return self._asked

    def bound(self, statement: Select, view: SessionCatalogue) -> tuple[SnapshotSpec, StreamSpec]:
        """Return the specs of a SELECT and its stream; cached until log, views or functions change."""
        version = definitions_version(self._connection.db)
        known = self._bound.get(statement.text)
        if known is None or known[0] != version:
            spec = bind(statement, view).spec
            stream = view.stream(spec.stream)
            assert stream is not None, "bind has found the stream"
            if stream.archive is not None:
                from stqsh.client.read.past import with_past  # numba

                spec = with_past(spec, stream)
            if len(self._bound) >= _REMEMBERED:
                self._bound.clear()
            self._bound[statement.text] = known = version, spec, stream
        return known[1], known[2]

    def ask(self, spec: SnapshotSpec, stream: StreamSpec) -> SnapshotResult:
        """Answer a snapshot spec over a stream.

        Raises:
            EngineDeadError: the engine is needed and dies.
            SourceError: a stream cannot be read.
            ArchiveReadError: a file of the archive is missing or damaged.
        """
        from stqsh.client.read.slot_answers import answer, merged

        progress = self._connection.progress()
        if progress.step == 0:
            return merged([], spec, stream, Progress())
        if spec.past:
            return self._ask_past(spec, stream, progress.step)
        kept = self.kept() if stream.is_event else None
        found = self.read(lambda states: answer(self.asked, states, spec, stream, kept), progress.step)
        if kept is not None and kept.is_due:
            kept.save()
        if found is not None:
            return found
        shares, progress = self._shares(spec, progress.step)
        return merged(shares, spec, stream, progress)

    def note(self, spec: SnapshotSpec, stream: StreamSpec, step: int) -> None:
        """Remember a snapshot that showed the state after a step, for routings that are planned later."""
        from stqsh.storage.asked_questions import note_snapshot

        if spec.lookup is not None or step == 0:
            return
        region = spec.region
        place = region.place if isinstance(region, NearestSpec) else None
        if region.is_nearest and place is None:  # of an object: it may be anywhere
            return
        measures = () if spec.aggregates is None else spec.aggregates.measures
        counts_terms = any(one.function == "topk" for one in measures)
        kind = "terms" if counts_terms else "range" if place is None else "nearest"
        box = self.asked.box(spec, stream) if place is None else (*place, *place)
        k = region.k if isinstance(region, NearestSpec) else 0
        note_snapshot(self._connection.home, stream.id, step, kind, box, k)

    def _ask_past(self, spec: SnapshotSpec, stream: StreamSpec, step: int) -> SnapshotResult:
        """Answer a snapshot of the past from the slots and the archive. Raises as `ask` does."""
        from stqsh.client.read.past import archived_shares
        from stqsh.client.read.slot_answers import merged

        found = self._of_past(spec, stream, step)
        shares, use = archived_shares(self._connection, found, stream)
        return dataclasses.replace(
            merged([*found.shares, *shares], spec, stream, found.progress), archive=use
        )

    def _of_past(self, spec: SnapshotSpec, stream: StreamSpec, step: int) -> SlotsOfPast:
        from stqsh.client.read.past import remote_slots, slots_of_past

        found = self.read(lambda states: slots_of_past(self.asked, states, spec, stream), step)
        return remote_slots(self._connection, *self._shares(spec, step), spec) if found is None else found

    def kept(self) -> SnapshotCache:
        """Return this client's cache for snapshots of events, which begins with what earlier clients built.

        Its size is limited by `cache.views` and `cache.objects`.
        """
        from stqsh.client.read.view_files import SessionViewFiles
        from stqsh.core.snapshots.cache.snapshot_cache import SnapshotCache

        settings = session_settings(self._connection.db, self._profile)
        texts = (str(settings[name].value) for name in ("cache.views", "cache.objects"))
        views, objects = (0 if text == "0" else parse_size(text) for text in texts)
        if self._kept is None:
            files = SessionViewFiles(self._connection.home, self._connection.db)
            self._kept = SnapshotCache(views, files=files)
        self._kept.limit(views, objects)
        return self._kept

    def save(self) -> None:
        """Store what the cache has built, for later clients."""
        if self._kept is not None:
            self._kept.save()

    def opened(self, streams: Iterable[int]) -> SnapshotCache:
        """Return this client's cache, with what is stored of some streams' events."""
        from stqsh.client.read.slot_answers import open_kept

        kept, step = self.kept(), self._connection.progress().step
        if step:
            self.read(lambda states: open_kept(states, streams, kept), step)
        return kept

    def planned(self, spec: SnapshotSpec) -> Usage | None:
        """Return how the cache would answer a snapshot, over all slots; None if the slots must be scanned."""
        from stqsh.client.read.slot_answers import planned

        if spec.past:
            return None
        step, kept = self._connection.progress().step, self.kept()
        found = self.read(lambda states: planned(states, spec, kept), step) if step else None
        if not found:
            return None
        return reduce(lambda one, other: one.plus(other), found)

    def count_asked(self, spec: SnapshotSpec, stream: StreamSpec) -> AskedCount | None:
        """Return how many slots a snapshot queries; None before the first step, and if it goes by the log."""
        from stqsh.client.read.slot_answers import count_asked

        step = self._connection.progress().step
        return self.read(lambda states: count_asked(self.asked, states, spec, stream), step) if step else None

    def measure(self, spec: BoundQuery) -> QueryMeasure:
        """Return the measurements of a query or snapshot over all slots.

        They are empty before the first step. Raises as `ask` does.
        """
        from stqsh.client.read.slot_answers import measures

        step = self._connection.progress().step
        if step == 0:
            return total([])
        found = self.read(lambda states: measures(states, spec), step)
        if found is None:
            shares, _ = self._shares(_measurement(spec), step)
            found = _decoded(shares)
        return total(found)

    def analyse(self, spec: SnapshotSpec, stream: StreamSpec) -> tuple[OperatorRun, ...]:
        """Answer a snapshot, and return the work of each operator, the whole answer last.

        Raises:
            NotSupportedError: the slots' state is not on this host.
        """
        from stqsh.client.read.slot_answers import analysis

        step = self._connection.progress().step
        if not step:
            return analysis([], spec, stream)
        if spec.past:
            from stqsh.client.read.past import analysis_of_past

            found = self.read(lambda states: analysis_of_past(self._connection, states, spec, stream), step)
        else:
            found = self.read(lambda states: analysis(states, spec, stream), step)
        if not found:
            raise NotSupportedError("EXPLAIN ANALYZE SELECT where the slots' state is not on this host")
        return found

    def read(self, use: Callable[[list[SlotState]], T], step: int) -> T | None:
        """Return the result of `use` on all slots' states at one step, or None if there are no states.

        The step is `step` or later. `use` may raise `NotPublishedError` if the states are insufficient.
        """
        if not self.direct:
            return None
        # Without an engine, missing states will never appear.
        return self._states.read(
            use, lambda: PATIENCE_S if is_alive(read_engine(self._connection.home)) else 0.0, step
        )

    def _shares(self, spec: SnapshotSpec, least: int) -> tuple[list[pa.RecordBatch], Progress]:
        """Return the slots' shares of an answer and its step: from the executors, or else through the log."""
        found = self.located(spec, least) if self.direct else None
        return self._answer_by_log(spec) if found is None else found

    def located(
        self, spec: SnapshotSpec, least: int = 0, patience_s: float = LOCATED_S
    ) -> tuple[list[pa.RecordBatch], Progress] | None:
        """Query the slots in the executors of a cluster, without a batch.

        Return their shares of the answer and its step; None if they cannot answer, and on a single
        machine.

        Args:
            spec: the snapshot.
            least: the earliest acceptable step.
            patience_s: how long to wait for the answer.
        """
        from stqsh.storage.snapshot_answers import put_ask, read_answer, take_answer, withdraw_ask  # pyarrow

        engine, home = self._connection.engine_info(), self._connection.home
        if engine is None or not engine.cluster or not has_process(engine):
            return None
        name, begun = put_ask(home, spec, least), time.monotonic()
        while (now := time.monotonic()) < begun + patience_s:
            content = take_answer(home, name)
            if content is not None:
                return read_answer(content)
            if now > begun + ENGINE_LOOK_S and not has_process(self._connection.engine_info() or engine):
                break
            time.sleep(ASK_POLL_S)
        withdraw_ask(home, name)
        return None

    def located_table(self, spec: SnapshotSpec, stream: StreamSpec) -> pa.Table:
        """Answer a snapshot from the slots in the executors of a cluster, without a batch.

        Raises:
            NotPublishedError: they do not answer now.
        """
        from stqsh.client.read.slot_answers import merged

        step = self._connection.progress().step
        found = self.located(spec, step) if step else ([], Progress())
        if found is None:
            raise NotPublishedError("the slots are on other hosts, which do not answer now")
        return merged(found[0], spec, stream, found[1]).table

    def _answer_by_log(self, spec: SnapshotSpec) -> tuple[list[pa.RecordBatch], Progress]:
        """Query the slots through the control log; wait for their shares of the answer and its step."""
        from stqsh.storage.snapshot_answers import read_answer, take_answer  # pyarrow

        row = append(self._connection.db, SnapshotAsked(spec))
        if is_alive(read_engine(self._connection.home)):
            self._connection.wake()
        else:
            self._connection.restart()  # another client may have stopped it
        for _ in self._connection.watch():
            content = take_answer(self._connection.home, row.seq)
            if content is not None:
                found = read_answer(content)
                assert found is not None, "what goes through the log is answered"
                return found
        raise AssertionError("unreachable: watch has no end")


def _decoded(shares: list[pa.RecordBatch]) -> list[QueryMeasure]:
    contents = (share.column("measure")[0].as_py() for share in shares)
    found = (_MEASURE.decode(content or b"null") for content in contents)
    return [measure for measure in found if measure is not None]


def _measurement(spec: BoundQuery) -> SnapshotSpec:
    """Return the log's request for the cost of a query or a snapshot."""
    if isinstance(spec, SnapshotSpec):
        return replace(spec, measure=0)
    return SnapshotSpec(
        stream=spec.stream,
        stream_id=spec.stream_id,
        kind=spec.kind,
        members=spec.members,
        join=spec.join,
        areas=spec.areas,
        measure=spec.id,
    )
