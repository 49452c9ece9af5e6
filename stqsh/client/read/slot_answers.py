"""Answers to snapshots from the slots' states; imports numpy, pyarrow and lark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import pyarrow as pa

from stqsh.client.read.asked_slots import AskedCount, AskedSlots
from stqsh.client.read.projection import FunctionError
from stqsh.client.read.snapshots import SnapshotResult
from stqsh.core.conditions.user_functions import FAILURE
from stqsh.core.contract.snapshot_selection import PresentObjects
from stqsh.core.snapshots.analysis import OperatorRun, analyse
from stqsh.core.snapshots.cache.event_views import Usage
from stqsh.core.snapshots.cache.snapshot_cache import SnapshotCache
from stqsh.core.snapshots.query_cost import measure
from stqsh.core.snapshots.select import focal_places, knows, nothing, part, selection_of, whole
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import NotPublishedError
from stqsh.lang.binder.bind import bind
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.spec.measure import QueryMeasure
from stqsh.spec.query import BoundQuery, QuerySpec, SnapshotSpec, at_places
from stqsh.spec.region import FocalPlace, Key, Place
from stqsh.spec.stream import StreamSpec
from stqsh.storage.rows import Progress

Bound = TypeVar("Bound", QuerySpec, SnapshotSpec, BoundQuery)


def answer(
    asked: AskedSlots,
    states: list[SlotState],
    spec: SnapshotSpec,
    stream: StreamSpec,
    kept: SnapshotCache | None,
) -> SnapshotResult:
    """Return the answer from the slots' states; raise `NotPublishedError` if the states are insufficient."""
    spec, place = placed(states, spec)
    shares = asked.shares(states, spec, stream, place, kept)
    clock = states[0].clock
    progress = Progress(step=clock.step, base_tick=clock.base_tick, tick_us=clock.tick_us)
    return merged(shares, spec, stream, progress)


def count_asked(
    asked: AskedSlots, states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec
) -> AskedCount:
    """Return how many slots `answer` queries."""
    spec, place = placed(states, spec)
    return asked.count(states, spec, stream, place)


def planned(states: list[SlotState], spec: SnapshotSpec, kept: SnapshotCache) -> list[Usage]:
    """Return, for each slot that need not be scanned, how the cache would answer a snapshot."""
    spec, place = placed(states, spec)
    selections = ((state, selection_of(state, spec, place)) for state in states)
    found = (kept.planned(state, one) for state, one in selections if one is not None)
    return [usage for usage in found if usage is not None]


def open_kept(states: list[SlotState], streams: Iterable[int], kept: SnapshotCache) -> None:
    """Read the stored caches of some streams' events."""
    for stream in streams:
        for state in states:
            present = PresentObjects.of(state, stream)
            if present is not None:
                kept.open(state, present)


def analysis(states: list[SlotState], spec: SnapshotSpec, stream: StreamSpec) -> tuple[OperatorRun, ...]:
    """Return what each operator did for a snapshot."""
    spec, place = placed(states, spec)
    return analyse(states, spec, place, nothing(stream, spec))


def measures(states: list[SlotState], spec: BoundQuery) -> list[QueryMeasure]:
    """Return the measurements of each slot that has the stream."""
    spec, place = placed(states, spec)
    return [found for found in (measure(state, spec, place) for state in states) if found is not None]


def placed(states: list[SlotState], spec: Bound) -> tuple[Bound, Place | None]:
    """Place a query's moving regions at their focal objects; return it with the centre of its own region.

    Raises:
        NotPublishedError: a table or an area is unknown.
    """
    if not all(knows(state, spec) for state in states):
        raise NotPublishedError("the slots do not know a table or region yet")
    places: dict[Key, FocalPlace] = {}
    for state in states:
        places |= focal_places(state, spec)
    return at_places(spec, places)


def merged(
    shares: Sequence[pa.RecordBatch], spec: SnapshotSpec, stream: StreamSpec, progress: Progress
) -> SnapshotResult:
    """Merge shares into an answer; raise `FunctionError` if a user's function failed."""
    _check_functions(shares)
    table = whole(shares or [nothing(stream, spec)], spec)
    return SnapshotResult(table, progress.step, progress.at_us())


def first_keys(states: list[SlotState], stream: StreamSpec, prefix: str, most: int) -> tuple[str, ...]:
    """Return the answer of `SELECT key FROM stream WHERE key LIKE 'prefix%' LIMIT …` on the slots' states."""
    return _values(states, stream, OfferedValues(stream.key, prefix, most))


def frequent_values(
    states: list[SlotState], stream: StreamSpec, column: str, prefix: str, most: int
) -> tuple[str, ...]:
    """Return the most frequent texts of a column that begin with a prefix, by frequency, then by text."""
    return _values(states, stream, OfferedValues(column, prefix, most))


class OfferedValues(NamedTuple):
    """Values of a column that begin with a prefix, at most `most`.

    For the key these are the first ones in its order, for another column the most frequent texts.
    """

    column: str
    prefix: str
    most: int

    def question(self, stream: StreamSpec) -> SnapshotSpec:
        """Return the snapshot that selects these values."""
        if self.column == stream.key:
            return _snapshot(stream, self.prefix, self.most)
        name = _quoted(self.column)
        start = f"SELECT {name} FROM {_quoted(stream.name)}{_beginning(name, self.prefix)}"
        return _bound(f"{start} GROUP BY {name} ORDER BY COUNT(*) DESC, {name} LIMIT {self.most}", stream)

    def found(self, shares: Sequence[pa.RecordBatch], stream: StreamSpec) -> tuple[str, ...]:
        """Extract the values from the slots' shares of the answer."""
        spec = self.question(stream)
        found = whole(shares or [nothing(stream, spec)], spec).column(0).to_pylist()
        texts = map(str, found) if self.column == stream.key else filter(None, found)
        return tuple(text for text in texts if text.startswith(self.prefix))[: self.most]


def _values(states: list[SlotState], stream: StreamSpec, wanted: OfferedValues) -> tuple[str, ...]:
    spec = wanted.question(stream)
    shares = (part(state, spec) for state in states)
    return wanted.found([share for share in shares if share is not None], stream)


def _snapshot(stream: StreamSpec, prefix: str, most: int) -> SnapshotSpec:
    key = _quoted(stream.key)
    like = _beginning(key, prefix) if stream.types[stream.key] == "STRING" else ""
    limit = f" LIMIT {most}" if like or not prefix else ""
    return _bound(f"SELECT {key} FROM {_quoted(stream.name)}{like}{limit}", stream)


def _beginning(column: str, prefix: str) -> str:
    """Return the WHERE clause for a prefix; "" if LIKE would read the prefix as a pattern."""
    if not prefix or set(prefix) & set("%_\\"):
        return ""
    return f" WHERE {column} LIKE '" + prefix.replace("'", "''") + "%'"


def _bound(text: str, stream: StreamSpec) -> SnapshotSpec:
    [statement] = parse(text)
    spec: SnapshotSpec = bind(statement, Catalogue({stream.name: stream})).spec
    return spec


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_functions(shares: Iterable[pa.RecordBatch]) -> None:
    """Raise `FunctionError` if a function has failed in a slot's share."""
    for share in shares:
        reason = (share.schema.metadata or {}).get(FAILURE)
        if reason is not None:
            raise FunctionError(reason.decode())
