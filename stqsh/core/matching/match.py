"""Matching: which queries a batch's events may concern, and what objects were and are to their regions."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.updates import UpdateArrays, count_pairs, make_updates
from stqsh.core.kernels.index.static_rects import CandidatePairs, QueryLifetimes, filter_alive
from stqsh.core.matching.moving_index import moving_pairs
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.time_events import with_time_events
from stqsh.core.objects.batch_objects import joined

Array = npt.NDArray[Any]


class JoinResult(NamedTuple):
    """The result of `RegionIndex.join`.

    Holds the pairs, the events to which they refer in an order that suits the index, and the position (int32)
    of each of these among the events given; None where the order is unchanged.
    """

    pairs: CandidatePairs
    events: Transitions
    order: Array | None


class RegionIndex(Protocol):
    """Where the static regions are."""

    def join(self, events: Transitions) -> JoinResult:
        """Return the pairs of events and queries where an object came into a region's box or went out of it.

        Of queries whose tag says so also those where it stayed inside.
        """


def match(
    context: QueryContext, index: RegionIndex, lives: QueryLifetimes
) -> tuple[CandidatePairs, Transitions]:
    """Return the pairs that a batch's events cause for the queries that live then, and the events they name.

    WAS and IS say whether the object was and is a member: in the region (box and shape), not the focal
    object, and the condition holds. A pair comes once; one may have neither flag. Events are those of the
    objects, those that time causes (`with_time_events`), and those of objects that did nothing themselves
    while a region moved over them: same version, same place before and after, and the place is not given.

    Where an object was a member and still is, there is a pair if the query has a condition or a shape, or
    the context asks for it; but not if the object did nothing itself.
    """
    batch = context.batch
    events = with_time_events(batch.objects.events, context.conditions, batch.objects)
    pairs, ordered, order = index.join(events)
    if (lives.since >= batch.timing.first).any() or (lives.until <= batch.timing.last).any():
        pairs = filter_alive(pairs, ordered, lives)
    pairs = context.filter_by_shape(pairs, ordered)
    moving, unmoved = moving_pairs(context, events, lives)
    if not len(pairs.event):
        events = joined(events, unmoved) if len(unmoved.step) else events
        return context.conditions.filter_pairs(moving, events), events
    if len(moving.event):
        moving = moving._replace(event=renumbered(moving.event, order, len(unmoved.step)))
        pairs = CandidatePairs(*(np.concatenate(pair) for pair in zip(pairs, moving, strict=True)))
    events = joined(ordered, unmoved) if len(unmoved.step) else ordered
    return context.conditions.filter_pairs(pairs, events), events


def region_updates(context: QueryContext, index: RegionIndex, lives: QueryLifetimes) -> UpdateArrays:
    """Return the updates that a batch's events bring to the queries that live then, and count their pairs."""
    pairs, events = match(context, index, lives)
    count_pairs(pairs, context.queries.tested, context.queries.matched)
    why, show = context.batch.objects.reasons(events.new, events.obj, events.step)
    return make_updates(pairs, events, why, show)


def renumbered(event: Array, order: Array | None, more: int = 0) -> Array:
    """Numbers of events by where they are in an order; `more` come behind them as they are."""
    if order is None:
        return event
    numbers = np.arange(len(order) + more, dtype=np.int32)
    numbers[order] = numbers[: len(order)].copy()
    return numbers[event]
