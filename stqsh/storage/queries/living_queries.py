"""The continuous queries that live at a point of the control log, for slots that receive them later.

Most queries are registered singly and differ only in the measures of their regions. They become columns
without being decoded one by one: many rows of the log are decoded as one text, and the common parts of such
queries are compared as raw JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.spec.command import PauseCommand, RegisterCommand
from stqsh.spec.log import LogKind, QueryAltered, QueryBlock, QueryDropped, QueryPaused, QueryResumed
from stqsh.spec.query import QuerySpec, SlotQuery, slot_query
from stqsh.spec.query_rows import REGION_PATH, QueryRows
from stqsh.spec.region import CircleSpec, NearestSpec, RectangleSpec, Region
from stqsh.storage.control_log import ControlDb, last_seq
from stqsh.storage.layouts import PASSING, SEPARATE
from stqsh.storage.progress import steps_taken
from stqsh.storage.queries.query_commands import query_rows_of

OlderQueries: TypeAlias = "list[RegisterCommand | QueryRows]"

_PORTION = 1 << 16
"""The number of log rows decoded as one text, small enough for SQLite's limit on the length of a text."""
_ABSENT = msgspec.Raw(b"")
_MEASURES: dict[type, tuple[str, ...]] = {
    RectangleSpec: ("x1", "y1", "x2", "y2"),
    CircleSpec: ("x", "y", "radius"),
    NearestSpec: ("x", "y"),
}
"""The fields in which the regions of alike queries differ."""


class LivingQueries(NamedTuple):
    """The queries of a stream that live at a point of the log.

    Attributes:
        queries: the queries; those that differ only in the measures of their regions are columns, which slots
            read many times as fast as single queries.
        paused: commands that pause the paused ones.
    """

    queries: OlderQueries
    paused: list[PauseCommand]


class MovedQueries(NamedTuple):
    """Queries that a change of the routing may move.

    Attributes:
        ids: int64, the ids of such queries, ascending.
        since: a row of the log; all queries that were registered or altered after it are among them, too.
    """

    ids: NDArray[np.int64]
    since: int


def ids_of(queries: RegisterCommand | QueryRows) -> list[int]:
    """Return the ids of the queries of a command."""
    return [queries.query.id] if isinstance(queries, RegisterCommand) else queries.ids.tolist()


class _RegisteredMembers(msgspec.Struct, gc=False):
    region: Region
    condition: msgspec.Raw = _ABSENT
    since_now: msgspec.Raw = _ABSENT
    min_accuracy: msgspec.Raw = _ABSENT


class _Registered(msgspec.Struct, gc=False):
    """A row that registers a query: its stream, and the fields that slots need, see `SlotQuery`."""

    stream_id: int
    id: int
    kind: msgspec.Raw
    members: _RegisteredMembers
    result: msgspec.Raw = _ABSENT
    timing: msgspec.Raw = _ABSENT

    @property
    def pattern(self) -> tuple[object, ...] | None:
        """The raw JSON that alike queries have in common; None if the query can have no alike.

        JSON contains no zero byte, so that byte can separate the parts.
        """
        members = self.members
        match members.region:
            case RectangleSpec():
                shape: object = RectangleSpec
            case CircleSpec(area=area):
                shape = (CircleSpec, area)
            case NearestSpec(k, focal=None):
                shape = (NearestSpec, k)
            case _:
                return None
        own = members.condition, members.since_now, members.min_accuracy
        return shape, b"\0".join((self.kind, *own, self.result, self.timing))


_REGISTERED = msgspec.json.Decoder(list[_Registered])


def living_queries(
    control: ControlDb,
    stream_id: int,
    up_to: int,
    tick_us: int | None,
    step: int,
    *,
    moved: MovedQueries | None = None,
) -> LivingQueries:
    """Return the queries of a stream that live before a step, with the steps in which they were registered.

    Queries whose answers do not depend on that step may share the step of the first of them.

    Args:
        control: the control log.
        stream_id: the stream.
        up_to: the last row of the log that has taken effect.
        tick_us: the length of a tick, None before the clock runs.
        step: the step.
        moved: return only these; None for all.
    """
    with control.reading():  # so that no query can be forgotten during the reads
        step_of = steps_taken(control)
        dropped, paused, altered, altered_at = _changes(control, stream_id, up_to)
        found: OlderQueries = [
            replace(_as_registered(query_rows_of(block, payload), altered_at), step=step_of(seq) or 0)
            for seq, block, payload in _blocks(control, up_to)
            if block.stream_id == stream_id
        ]
        if moved is not None:
            found = [_among(one, moved) for one in found if isinstance(one, QueryRows)]
            chosen = set(moved.ids.tolist()) | {id_ for id_, at in altered_at.items() if at > moved.since}
            altered = {id_: altered[id_] for id_ in altered.keys() & chosen}
        alike: dict[tuple[object, ...], list[_Registered]] = {}
        for one in _registered(control, up_to, moved):
            if one.stream_id != stream_id or one.id in dropped or one.id in altered_at:
                continue
            if (pattern := one.pattern) is None:
                found.append(RegisterCommand(query=_query(control, one.id), step=step_of(one.id) or 0))
            else:
                alike.setdefault(pattern, []).append(one)
        found += [
            RegisterCommand(query=query, step=step_of(id_) or 0) for id_, query in sorted(altered.items())
        ]
        for some in alike.values():
            found += _columns(control, some, step_of)
    kept = [_kept(one, dropped, tick_us, step) for one in found]
    are_paused = [id_ for id_, is_paused in paused.items() if is_paused and id_ not in dropped]
    return LivingQueries(
        [one for one in kept if one is not None], [PauseCommand(id=id_) for id_ in are_paused]
    )


def _as_registered(rows: QueryRows, altered: Collection[int]) -> QueryRows:
    """Return the queries that still have the regions with which they were registered."""
    others = ~np.isin(rows.ids, list(altered))
    return rows if others.all() else rows.those(others)


def _among(rows: QueryRows, moved: MovedQueries) -> QueryRows:
    """Return the queries that may move."""
    return rows.those(np.isin(rows.ids, moved.ids) | (rows.ids > moved.since))


def _changes(
    control: ControlDb, stream_id: int, up_to: int
) -> tuple[set[int], dict[int, bool], dict[int, SlotQuery], dict[int, int]]:
    """Return the changes to the queries of a stream.

    Returns:
        The dropped queries; for each query that was ever paused, whether it is paused; the altered queries;
        and the row that altered each last.
    """
    kinds: tuple[LogKind, ...] = ("drop", "pause_query", "resume_query", "alter_query")
    rows = control.query(
        f"SELECT seq, kind, spec FROM log WHERE {PASSING} AND kind IN (?, ?, ?, ?) AND seq <= ? ORDER BY seq",
        *kinds,
        up_to,
    )
    dropped: set[int] = set()
    paused: dict[int, bool] = {}
    altered: dict[int, SlotQuery] = {}
    altered_at: dict[int, int] = {}
    for seq, kind, spec in rows:
        entry = control.decoded(seq, kind, spec)
        match entry:
            case QueryDropped(id=id_, stream_id=of) if of == stream_id:
                dropped.add(id_)
            case QueryPaused(id=id_, stream_id=of) | QueryResumed(id=id_, stream_id=of) if of == stream_id:
                paused[id_] = isinstance(entry, QueryPaused)
            case QueryAltered(id=id_, stream_id=of, query=query) if of == stream_id:
                altered[id_], altered_at[id_] = slot_query(query), seq
    return dropped, paused, altered, altered_at


def _blocks(control: ControlDb, up_to: int) -> Iterator[tuple[int, QueryBlock, bytes]]:
    """Yield each row that registers many queries together: its number, content and payload."""
    rows = control.query(
        f"SELECT seq, spec, payload FROM log WHERE {SEPARATE} AND kind = 'register_alike' AND seq <= ?"
        " ORDER BY seq",
        up_to,
    )
    for seq, spec, payload in rows:
        entry = control.decoded(seq, "register_alike", spec)
        assert isinstance(entry, QueryBlock), "the row registers queries"
        yield seq, entry, payload or b""


def _registered(control: ControlDb, up_to: int, moved: MovedQueries | None) -> Iterator[_Registered]:
    """Yield the content of the rows that register one query each, only of those in `moved` unless it is None.

    Raises:
        HomeError: a row is damaged.
        OtherVersionError: a row was written by a version that cannot be read any more.
    """
    last = min(up_to, last_seq(control))
    for first in range(0 if moved is None else min(moved.since, last), last, _PORTION):
        yield from _decoded(control, "seq > ? AND seq <= ?", first, min(first + _PORTION, last))
    if moved is None:
        return
    earlier = moved.ids[moved.ids <= min(moved.since, last)]
    for first in range(0, len(earlier), _PORTION):
        ids = msgspec.json.encode(earlier[first : first + _PORTION].tolist()).decode()
        yield from _decoded(control, "seq IN (SELECT value FROM json_each(?))", ids)


def _decoded(control: ControlDb, chosen: str, *values: str | int) -> list[_Registered]:
    """Return the content of rows that register one query each, chosen by a condition with values."""
    rows = f"FROM log WHERE kind = 'register' AND {chosen}"
    [(text,)] = control.query(f"SELECT CAST('[' || group_concat(spec) || ']' AS BLOB) {rows}", *values)
    try:
        return _REGISTERED.decode(text or b"[]")
    except msgspec.DecodeError:
        for (seq,) in control.query(f"SELECT seq {rows}", *values):
            _query(control, seq)  # raises the error that names the bad row
        raise


def _query(control: ControlDb, id_: int) -> SlotQuery:
    """Return a query by the number of the row that registers it."""
    [(spec,)] = control.query("SELECT spec FROM log WHERE seq = ?", id_)
    entry = control.decoded(id_, "register", spec)
    assert isinstance(entry, QuerySpec), "the row registers a query"
    return slot_query(entry)


def _columns(
    control: ControlDb, alike: Sequence[_Registered], step_of: Callable[[int], int | None]
) -> Iterator[QueryRows]:
    """Yield queries of one pattern as columns, separated by step if their answers depend on it."""
    example = _query(control, alike[0].id)
    if example.timing.for_us is None and not example.members.since_now:
        yield _together(example, alike, step_of(example.id) or 0)
        return
    by_step: dict[int, list[_Registered]] = {}
    for one in alike:
        by_step.setdefault(step_of(one.id) or 0, []).append(one)
    for step, some in by_step.items():
        yield _together(_query(control, some[0].id), some, step)


def _together(pattern: SlotQuery, alike: Sequence[_Registered], step: int) -> QueryRows:
    names = _MEASURES[type(pattern.region)]
    regions = [one.members.region for one in alike]
    values = [pa.array(list(map(attrgetter(name), regions)), pa.float64()) for name in names]
    ids = np.array([one.id for one in alike])
    return QueryRows(pattern, ids, tuple((*REGION_PATH, name) for name in names), tuple(values), step)


def _kept(
    one: RegisterCommand | QueryRows, dropped: set[int], tick_us: int | None, step: int
) -> RegisterCommand | QueryRows | None:
    """Return the part of some queries that lives before a step, None if there is none."""
    if isinstance(one, RegisterCommand):
        return None if one.query.id in dropped or _is_over(one.query, one.step, tick_us, step) else one
    if _is_over(one.pattern, one.step, tick_us, step):
        return None
    lives = ~np.isin(one.ids, list(dropped))
    return one.those(lives) if lives.any() else None


def _is_over(query: SlotQuery, begun: int | None, tick_us: int | None, step: int) -> bool:
    """Return whether FOR ends a query, registered in the step `begun`, before a step."""
    for_us = query.timing.for_us
    if for_us is None or tick_us is None:
        return False
    return (begun or 0) - (-for_us // tick_us) < step
