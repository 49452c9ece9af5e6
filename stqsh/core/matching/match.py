"""Find the pairs of events and queries in which an event may change the query's answer."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.updates import UpdateArrays, count_pairs, make_updates
from stqsh.core.kernels.index.static_rects import CandidatePairs, QueryLifetimes, filter_alive
from stqsh.core.matching.crossings import without_crossings
from stqsh.core.matching.moving_index import moving_pairs, with_region_events
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.row_changes import StayingMembers, staying_members, together
from stqsh.core.matching.time_events import with_time_events
from stqsh.core.objects.batch_objects import joined


class JoinResult(NamedTuple):
    """The result of `RegionIndex.join`.

    Attributes:
        pairs: The pairs of events and queries.
        events: The events that the pairs refer to, in the order in which the index joined them.
        order: The position of each of `events` among the given events, int32; None if the order is unchanged.
    """

    pairs: CandidatePairs
    events: Transitions
    order: Array | None


class RegionIndex(Protocol):
    """An index of static regions."""

    def join(self, events: Transitions) -> JoinResult:
        """Return the pairs of events and queries where an object entered or left a region's box.

        For queries whose tag requests it, they include pairs where the object stayed inside.
        """


def match(
    context: QueryContext, index: RegionIndex, lives: QueryLifetimes
) -> tuple[CandidatePairs, Transitions]:
    """Return the pairs of a batch's events with the queries alive at their steps, and the events.

    The flags WAS and IS mean that the object was and is a member: it is in the region (box and shape), is not
    the focal object, and satisfies the condition. Each pair appears once and may have neither flag.

    The events are those of the objects, those that time causes (`with_time_events`), those of idle objects
    that a region of a condition moved over (`with_region_events`), and those of idle objects that a query's
    region moved over. The last have the same version and place before and after; the place is not filled in.
    If an object was a member and still is, there is a pair if the query has a condition or a shape, or if the
    context requires it, but not if the object was idle.
    """
    batch = context.batch
    events = with_time_events(batch.objects.events, context.conditions, batch.objects)
    events = with_region_events(context, events)
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


def region_updates(
    context: QueryContext, index: RegionIndex, lives: QueryLifetimes, wanted: Array
) -> tuple[UpdateArrays, StayingMembers]:
    """Return the updates that a batch's events cause for queries alive at their steps; count the pairs.

    The second value has the members with new records that stay in the answers of `wanted` queries, bool.
    """
    pairs, events = match(context, index, lives)
    count_pairs(pairs, context.queries.tested, context.queries.matched)
    why, show = context.batch.objects.reasons(events.new, events.obj, events.step)
    updates, crossing = without_crossings(context, make_updates(pairs, events, why, show), wanted)
    return updates, together(staying_members(pairs, events, wanted), crossing)


def renumbered(event: Array, order: Array | None, more: int = 0) -> Array:
    """Map numbers of events through a reordering; `more` further events follow unchanged."""
    if order is None:
        return event
    numbers = np.arange(len(order) + more, dtype=np.int32)
    numbers[order] = numbers[: len(order)].copy()
    return numbers[event]
