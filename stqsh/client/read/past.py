"""Snapshots of the past: combine slots and archives in one answer (STAR section 3.1, SSTD 3.2).

Every event is either in the slots or in the archive. With its share, each slot reports how many events it had
released up to the step of the answer. The archive files with exactly that many events are those of the
batches up to that step: later files are ignored, and a file that a batch under way has yet to write is waited
for. Therefore each event counts once.
Imports numba and pyarrow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.client.connection import Connection
from stqsh.client.read.asked_slots import AskedSlots
from stqsh.client.read.kept_events import kept_since
from stqsh.client.read.slot_answers import placed
from stqsh.core.conditions.evaluation import columns_read
from stqsh.core.conditions.region_test import reach_of
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.conditions.time_ranges import EVER, TimeRange, time_bounds
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.snapshots.analysis import OperatorRun, analyse
from stqsh.core.snapshots.groups import NOW
from stqsh.core.snapshots.row_snapshots import shares_over_events
from stqsh.core.snapshots.select import LET_GO, nothing
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import StqshError
from stqsh.lang.errors import NotSupportedError
from stqsh.spec.chunk import unpack
from stqsh.spec.query import BoundQuery, SnapshotSpec, focal_keys
from stqsh.spec.region import Place
from stqsh.spec.stream import StreamSpec
from stqsh.storage.archive_files import ArchiveFile, archived_files, first_files
from stqsh.storage.archive_reader import Wanted, check_files, read_events
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.rows import Progress
from stqsh.units import counted

_PATIENCE_S = 60.0
"""How long to wait for the files of a batch under way."""


class ArchiveUse(NamedTuple):
    """The archive files that a snapshot reads, and all files that exist at its step."""

    read: list[ArchiveFile]
    files: list[ArchiveFile]

    def text(self) -> str:
        """Describe how much of the archive is read."""
        events, of = (sum(file.events for file in files) for files in (self.read, self.files))
        files = f"{len(self.read):,} of {counted(len(self.files), 'file')}"
        return f"{files}, with {events:,} of {counted(of, 'event')}"


@dataclass(frozen=True)
class SlotsOfPast:
    """The slots' part of a snapshot of the past, at one step.

    Attributes:
        spec: the snapshot, with its moving regions placed at their focal objects.
        shares: the slots' shares of the answer.
        progress: the progress at that step.
        place: the place of its region's focal object, None while it is absent.
        lookups: has the tables and areas that the snapshot refers to.
    """

    spec: SnapshotSpec
    shares: list[pa.RecordBatch]
    progress: Progress
    place: Place | None
    lookups: SlotState

    @property
    def let_go(self) -> int:
        """The number of events that the slots had released to the archive."""
        return sum(int((share.schema.metadata or {}).get(LET_GO, 0)) for share in self.shares)

    @property
    def now_us(self) -> int:
        """The value of NOW, µs."""
        if not self.shares:
            return self.progress.at_us() or 0
        return int((self.shares[0].schema.metadata or {})[NOW])


def with_past(spec: SnapshotSpec, stream: StreamSpec) -> SnapshotSpec:
    """Turn a snapshot into one of the past if its stream has an archive and its condition bounds the time."""
    if not reaches_back(spec, stream):
        return spec
    # A key may recur after KEEP, so it does not identify an event of the past.
    return replace(spec, past=True, lookup=None)


def reaches_back(spec: BoundQuery, stream: StreamSpec, progress: Progress | None = None) -> bool:
    """Return whether a query's condition bounds the times of a stream with an archive.

    With the progress: also whether these times begin before the oldest event that is kept.
    """
    if stream.archive is None or not stream.lets_go:
        return False
    now_us = None if progress is None else progress.at_us()
    times = time_bounds(spec.condition, stream.time, now_us or 0)
    if times is None or progress is None:
        return times is not None
    since = kept_since(progress, stream)
    return since is not None and times.since < since


def archive_use(files: list[ArchiveFile], spec: SnapshotSpec, stream: StreamSpec, now_us: int) -> ArchiveUse:
    """Return the archive files with events of the times that a snapshot selects."""
    times = _times(spec, stream, now_us)
    read = [file for file in files if file.since_us < times.until and file.last_us >= times.since]
    return ArchiveUse(read, files)


def slots_of_past(
    asked: AskedSlots, states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec
) -> SlotsOfPast:
    """Return the slots' part from their states; raise `NotPublishedError` if the states are insufficient."""
    (spec, place), clock = placed(states, spec), states[0].clock
    shares = asked.shares(states, spec, stream, place)
    progress = Progress(step=clock.step, base_tick=clock.base_tick, tick_us=clock.tick_us)
    return SlotsOfPast(spec, shares, progress, place, _lookups(states[0], spec))


def remote_slots(
    connection: Connection, shares: list[pa.RecordBatch], progress: Progress, spec: SnapshotSpec
) -> SlotsOfPast:
    """Return the slots' part from shares of slots that are not on this host.

    Raises:
        NotSupportedError: the snapshot needs more than those shares.
    """
    if spec.joins or focal_keys(spec):
        what = "a join" if spec.joins else "a region around an object"
        raise NotSupportedError(f"{what} over archived events, where the slots' state is not on this host")
    lookups = SlotState.fresh(0)
    for area in spec.areas:
        PolygonTable(lookups).define(area, unpack(area_geometry(connection.db, area)))
    return SlotsOfPast(spec, shares, progress, None, lookups)


def archived_shares(
    connection: Connection, found: SlotsOfPast, stream: StreamSpec
) -> tuple[Iterator[pa.RecordBatch], ArchiveUse]:
    """Return the archive's shares of an answer, which complement those of the slots, and the files used.

    Raises:
        ArchiveReadError: a file is missing or damaged; may also be raised while shares are read.
        EngineDeadError: a batch was under way, and its engine has died.
    """
    assert stream.archive is not None, "the stream has an archive"
    spec, folder, now_us = found.spec, Path(stream.archive), found.now_us
    use = archive_use(_files_of(connection, stream, found.let_go), spec, stream, now_us)
    check_files(folder, stream.name, use.read)
    box = reach_of(spec.region, Resolver(found.lookups, stream), found.place).box
    times = _times(spec, stream, now_us)
    wanted = Wanted(
        _columns(spec, stream),
        None if times.since == EVER.since else times.since,
        None if times.until == EVER.until else times.until,
        tuple(box.tolist()),
    )
    events = read_events(folder, stream.name, (stream.x, stream.y, stream.time), use.read, wanted)
    shares = shares_over_events(events, spec, stream, now_us=now_us, place=found.place, state=found.lookups)
    return shares, use


def analysis_of_past(
    connection: Connection, states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec
) -> tuple[OperatorRun, ...]:
    """Return what each operator did for a snapshot of the past; raise as `archived_shares` does."""
    (spec, place), clock = placed(states, spec), states[0].clock
    progress = Progress(step=clock.step, base_tick=clock.base_tick, tick_us=clock.tick_us)

    def archived(shares: list[pa.RecordBatch]) -> tuple[int, Iterator[pa.RecordBatch]]:
        found = SlotsOfPast(spec, shares, progress, place, _lookups(states[0], spec))
        others, use = archived_shares(connection, found, stream)
        return sum(file.events for file in use.read), others

    return analyse(states, spec, place, nothing(stream, spec), archived)


def _times(spec: SnapshotSpec, stream: StreamSpec, now_us: int) -> TimeRange:
    """Return a range that contains all times that a snapshot selects."""
    times = time_bounds(spec.condition, stream.time, now_us)
    assert times is not None, "a snapshot of the past bounds the time"
    window = spec.timing.window_us
    return times if window is None else times.within(TimeRange(now_us - window, now_us))


def _files_of(connection: Connection, stream: StreamSpec, let_go: int) -> list[ArchiveFile]:
    """Return the files with exactly the events that slots released; wait for those being written.

    Raises:
        EngineDeadError: the engine has died.
        StqshError: no set of files has exactly these events.
    """

    def find() -> list[ArchiveFile] | None:
        return first_files(archived_files(connection.db, stream.id), let_go)

    if (found := find()) is not None:
        return found
    if not is_alive(read_engine(connection.home)):
        connection.restart()  # events that its last batch released are written when the batch is repeated
    deadline = time.monotonic() + _PATIENCE_S
    for _ in connection.watch():
        if (found := find()) is not None:
            return found
        if time.monotonic() > deadline:
            break
    listed = sum(file.events for file in archived_files(connection.db, stream.id))
    raise StqshError(
        f"the archive of {stream.name} lists {listed:,} events, and the slots have given {let_go:,} to it",
        hint="put the session's folder back from a backup as a whole",
    )


def _columns(spec: SnapshotSpec, stream: StreamSpec) -> list[str]:
    """Return the columns of events that a snapshot reads, in the order of the stream's columns."""
    aggregates = spec.aggregates
    values = [
        spec.condition,
        *spec.result.of_rows,
        *([] if aggregates is None else aggregates.over_records),
    ]
    location = stream.x, stream.y
    read = {*location, stream.time}
    if not spec.adds_up or spec.region.is_nearest or spec.region.focal_key is not None:
        read.add(stream.key)
    for value in values:
        read |= set() if value is None else columns_read(value, location)
    return [name for name, _ in stream.columns if name in read]


def _lookups(state: SlotState, spec: SnapshotSpec) -> SlotState:
    """Return a state with copies of a slot's tables and areas, which stay valid when the slot advances."""
    tables = [f"t{join.table_id}/" for join in spec.joins]
    names = state.names(tuple(["areas/", *tables] if spec.areas else tables))
    header = {**deepcopy(state.header), "lengths": {}}
    copied = SlotState(header)
    for name in names:
        copied.replace(name, np.asarray(state.array(name)))
    return copied
