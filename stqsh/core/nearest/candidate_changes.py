"""The changes of candidates that a slot offers to Aggregate for its kNN queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions, places_after
from stqsh.core.kernels.events.updates import GONE, LEFT
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.index.static_rects import IS, CandidatePairs
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kernels.knn.ranking import RankChanges
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.objects.batch_objects import arrivals_at


class CandidateChanges(NamedTuple):
    """Changes of candidates, (n,) each, with queries given by position.

    Attributes:
        step: int64.
        query: The position of the query, int64.
        op, why: int8.
        show: The row as in `stqsh.core.kernels.events.updates.UpdateArrays`, int64.
        distance: float64, NaN for none.
        obj: int32.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    show: Array
    distance: Array
    obj: Array


def with_reasons(
    context: QueryContext, offers: RankChanges, query: Array, events: Transitions
) -> CandidateChanges:
    """Add the reasons of objects that left to the kernel's offers; `query` has the position for each.

    The object's own state has priority as a reason. An object that is still present, but outside of the
    circle or on another slot, is overtaken only if the condition holds.
    """
    why, show = offers.why.copy(), offers.version.astype(np.int64)
    left = np.flatnonzero(offers.event >= 0)
    own, shown = _own_reasons(context, offers, left)
    elsewhere = context.batch.objects.numbers.have_departed(offers.version[left])
    elsewhere &= ~np.isnan(context.centres(query[left], offers.step[left])[0])
    reasons = np.where(elsewhere, OVERTAKEN, why[left])
    why[left], show[left] = np.where(own == LEFT, reasons, own), shown
    beyond = left[(why[left] == OVERTAKEN)]
    why[beyond] = _if_satisfying(context, query[beyond], offers.event[beyond], events)
    distance = np.where(show != offers.version, np.nan, offers.rank)
    silent = left[own == context.batch.timing.silent]  # they have a last place, which the kernel lacks
    distance[silent] = context.distances(query[silent], offers.version[silent], offers.step[silent])
    return CandidateChanges(offers.step, query, offers.op, why, show, distance, offers.obj)


def _own_reasons(context: QueryContext, offers: RankChanges, at: Array) -> tuple[Array, Array]:
    batch = context.batch
    versions, objects, steps = offers.version[at], offers.obj[at], offers.step[at]
    return batch.objects.reasons(versions, objects, steps)


def _if_satisfying(context: QueryContext, query: Array, event: Array, events: Transitions) -> Array:
    """Return OVERTAKEN if the condition holds after the event, else LEFT; int8 (n,)."""
    pairs = CandidatePairs(event.astype(np.int32), query.astype(np.int32), np.full(len(event), IS, np.uint8))
    holds = context.conditions.filter_pairs(pairs, events).flags != 0
    return np.where(holds, OVERTAKEN, LEFT).astype(np.int8)


def no_longer_candidates(context: QueryContext, query: Array, obj: Array, step: int) -> CandidateChanges:
    """Return the removals, at a step, of sent objects that are no longer candidates."""
    objects, steps = context.batch.objects, np.full(len(obj), step)
    versions = objects.versions_after(obj, steps)
    why, show = objects.reasons(versions, obj, steps)
    x, _ = context.centres(query, steps)
    present = arrivals_at(objects, step)
    still = np.flatnonzero((why == LEFT) & ~np.isnan(x) & np.isin(obj, present.obj))
    event = np.searchsorted(present.obj, obj[still])
    why[still] = _if_satisfying(context, query[still], event, present)
    lost = show != versions
    distance = np.where(lost | (why == GONE), np.nan, distances(context, query, versions, step))
    return CandidateChanges(steps, query, np.full(len(obj), -1, np.int8), why, show, distance, obj)


def sent_before_pause(
    context: QueryContext, query: Array, obj: Array, step: int, why: int
) -> CandidateChanges:
    """Return the removals of what retired queries sent before they paused, as it was before the step."""
    before = np.full(len(obj), step - 1)
    versions = context.batch.objects.versions_after(obj, before)
    distance = distances(context, query, versions, step - 1)
    count = len(obj)
    return CandidateChanges(
        np.full(count, step),
        query,
        np.full(count, -1, np.int8),
        np.full(count, why, np.int8),
        context.batch.objects.numbers.or_keys(versions, obj).astype(np.int64),
        distance,
        obj,
    )


def distances(context: QueryContext, query: Array, versions: Array, step: int) -> Array:
    """Return the distances of versions from queries' centres after a step; NaN if either is missing."""
    objects, steps = context.batch.objects, np.full(len(versions), step)
    if context.batch.spec.extent is not None:
        return context.distances(query, versions, steps)
    places = places_after(versions, steps, *objects.sources, objects.timing.unending)
    return distances_between(*context.centres(query, steps), *places, context.planar)


def concatenated(some: list[CandidateChanges]) -> CandidateChanges:
    """Concatenate tables of changes."""
    kinds = (np.int64, np.int64, np.int8, np.int8, np.int64, np.float64, np.int32)
    none = CandidateChanges(*(np.empty(0, kind) for kind in kinds))
    return CandidateChanges(*(np.concatenate(column) for column in zip(none, *some, strict=True)))
