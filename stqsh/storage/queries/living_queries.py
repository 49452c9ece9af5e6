"""The continuous queries that live at a point of the control log, for slots that learn of them later.

Most queries are registered one by one and differ in the corners of their rectangles only. They become columns
without being decoded one by one: the parts of a row that such queries share are compared as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.spec.command import PauseCommand, RegisterCommand
from stqsh.spec.log import LogKind, QueryBlock, QueryDropped, QueryPaused, QueryResumed
from stqsh.spec.query import QuerySpec, SlotQuery, slot_query
from stqsh.spec.query_rows import Path, QueryRows
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import steps_taken
from stqsh.storage.queries.query_commands import query_rows_of

OlderQueries: TypeAlias = "list[RegisterCommand | QueryRows]"

_KINDS: tuple[LogKind, ...] = ("register", "register_alike", "drop", "pause_query", "resume_query")
_CORNERS: tuple[Path, ...] = (("region", "x1"), ("region", "y1"), ("region", "x2"), ("region", "y2"))
_ABSENT = msgspec.Raw(b"")


class LivingQueries(NamedTuple):
    """The queries of a stream that live at a point of the log.

    Attributes:
        queries: the queries; rectangles that are otherwise alike are columns, which slots read many times as
            fast as one query at a time.
        paused: commands to pause those that are paused.
    """

    queries: OlderQueries
    paused: list[PauseCommand]


class _Rectangle(msgspec.Struct, gc=False, tag_field="type", tag="rect"):
    x1: float
    y1: float
    x2: float
    y2: float


class _Registered(msgspec.Struct, gc=False):
    """A row that registers a query with a rectangle: its stream, and what slots need, see `SlotQuery`."""

    stream_id: int
    id: int
    region: _Rectangle
    kind: msgspec.Raw
    condition: msgspec.Raw = _ABSENT
    select: msgspec.Raw = _ABSENT
    for_us: msgspec.Raw = _ABSENT
    options: msgspec.Raw = _ABSENT
    aggregates: msgspec.Raw = _ABSENT
    first: msgspec.Raw = _ABSENT

    @property
    def pattern(self) -> bytes:
        """What slots need except id and region, as it is written; JSON has no zero byte."""
        parts = self.kind, self.condition, self.select, self.for_us, self.options, self.aggregates, self.first
        return b"\0".join(parts)


_REGISTERED = msgspec.json.Decoder(_Registered)


def living_queries(
    control: ControlDb, stream_id: int, up_to: int, tick_us: int | None, step: int
) -> LivingQueries:
    """Return the queries of a stream that live before a step, with the steps in which they were registered.

    Where no answer depends on that step, several queries share the step of the first of them.

    Args:
        control: the control log.
        stream_id: the stream.
        up_to: the last row of the log that has taken effect.
        tick_us: the length of a tick, None before the clock runs.
        step: the step.
    """
    found: OlderQueries = []
    alike: dict[bytes, list[_Registered]] = {}
    dropped: set[int] = set()
    paused: dict[int, bool] = {}
    step_of = steps_taken(control)
    rows = control.rows_until(up_to, _KINDS)
    for seq, kind, spec, payload in rows:
        if kind == "register" and (one := _rectangle(spec)) is not None:
            if one.stream_id == stream_id:
                alike.setdefault(one.pattern, []).append(one)
            continue
        entry = control.decoded(seq, kind, spec)
        if getattr(entry, "stream_id", None) != stream_id:
            continue
        match entry:
            case QuerySpec():
                found.append(RegisterCommand(query=slot_query(entry), step=step_of(seq) or 0))
            case QueryBlock():
                found.append(replace(query_rows_of(entry, payload or b""), step=step_of(seq) or 0))
            case QueryDropped(id=id_):
                dropped.add(id_)
            case QueryPaused(id=id_) | QueryResumed(id=id_):
                paused[id_] = isinstance(entry, QueryPaused)
    specs = {seq: spec for seq, kind, spec, _ in rows if kind == "register"}

    def pattern(id_: int) -> SlotQuery:
        entry = control.decoded(id_, "register", specs[id_])
        assert isinstance(entry, QuerySpec), "the row registers a query"
        return slot_query(entry)

    for every in alike.values():
        some = [one for one in every if one.id not in dropped]  # a row may be forgotten once it is dropped
        found += _columns(some, pattern, step_of) if some else []
    kept = [_kept(one, dropped, tick_us, step) for one in found]
    are_paused = [id_ for id_, is_paused in paused.items() if is_paused and id_ not in dropped]
    return LivingQueries(
        [one for one in kept if one is not None], [PauseCommand(id=id_) for id_ in are_paused]
    )


def _rectangle(spec: str) -> _Registered | None:
    """Read the row of a query with a rectangle; None for another, or for one of an older version."""
    try:
        return _REGISTERED.decode(spec)
    except msgspec.DecodeError:
        return None


def _columns(
    alike: Sequence[_Registered], pattern: Callable[[int], SlotQuery], step_of: Callable[[int], int | None]
) -> Iterator[QueryRows]:
    """Yield queries of one pattern as columns; those whose answers depend on their step by that step."""
    example = pattern(alike[0].id)
    if example.for_us is None and not example.options.since_now:
        yield _together(example, alike, step_of(example.id) or 0)
        return
    by_step: dict[int, list[_Registered]] = {}
    for one in alike:
        by_step.setdefault(step_of(one.id) or 0, []).append(one)
    for step, some in by_step.items():
        yield _together(pattern(some[0].id), some, step)


def _together(pattern: SlotQuery, alike: Sequence[_Registered], step: int) -> QueryRows:
    regions = [one.region for one in alike]
    values = (
        [region.x1 for region in regions],
        [region.y1 for region in regions],
        [region.x2 for region in regions],
        [region.y2 for region in regions],
    )
    ids, corners = np.array([one.id for one in alike]), tuple(pa.array(some, pa.float64()) for some in values)
    return QueryRows(pattern, ids, _CORNERS, corners, step)


def _kept(
    one: RegisterCommand | QueryRows, dropped: set[int], tick_us: int | None, step: int
) -> RegisterCommand | QueryRows | None:
    """Return those of some queries that live before a step, None if there are none."""
    if isinstance(one, RegisterCommand):
        return None if one.query.id in dropped or _is_over(one.query, one.step, tick_us, step) else one
    if _is_over(one.pattern, one.step, tick_us, step):
        return None
    lives = ~np.isin(one.ids, list(dropped))
    return one.those(lives) if lives.any() else None


def _is_over(query: SlotQuery, begun: int | None, tick_us: int | None, step: int) -> bool:
    """Return whether FOR ends a query before a step that was registered in the step `begun`."""
    if query.for_us is None or tick_us is None:
        return False
    return (begun or 0) - (-query.for_us // tick_us) < step
