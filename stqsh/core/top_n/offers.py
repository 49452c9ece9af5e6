"""Offers and withdrawals of a slot's first n members, for Aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.matching.crossings import are_members
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.region_scaling import with_shed_reasons
from stqsh.core.matching.row_changes import RowChanges
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.partials import CandidateOffers, Partials
from stqsh.core.top_n.orders import with_distances
from stqsh.core.top_n.stepped_members import SteppedChanges, member_codes

AgeTest = Callable[[Array, Array, Array], Array]
"""Returns which versions are too old, bool (n,), given positions of queries, versions and steps."""


class TopNOffers:
    """The offers of one batch to Aggregate.

    Args:
        context: The context of the batch.
        changes: Computes what queries select of members.
        partials: Receives the offers.
        too_old: Returns which versions are older than the windows of queries; None without windows.
    """

    def __init__(
        self,
        context: QueryContext,
        changes: RowChanges,
        partials: Partials,
        too_old: AgeTest | None = None,
    ) -> None:
        self._context, self._queries, self._objects = context, context.queries, context.batch.objects
        self._changes, self._partials, self._too_old = changes, partials, too_old
        self._offered = [np.empty(0, np.int64)]

    def offer(self, changes: SteppedChanges) -> None:
        """Offer members that enter the first n or have new places there; withdraw members that leave."""
        queries, found = self._queries, changes.found
        came = found.where(found.op > 0)
        queries.sent[:] += np.bincount(found.query, minlength=len(queries))
        chosen: Any = pa.array(came.place)
        places = changes.places.take(chosen)
        ids, whole = queries.id[came.query], came.version.astype(np.int64)
        why, far = np.zeros(len(ids), np.int8), self._distances(came.query, whole, came.step)
        now = self._context.batch.timing.at(came.step)
        keys = self._changes.keys(came.query, came.version, far, now)
        self._partials.offer(CandidateOffers(came.step, ids, came.op, why, whole, places, keys))
        codes = member_codes(self._context.batch, found.query, found.step, changes.obj)
        self._offered.append(codes[found.op > 0])
        leaves = (found.op < 0) & ~np.isin(codes, self._offered[-1])
        left, obj, is_member = found.where(leaves), changes.obj[leaves], changes.is_member[leaves]
        versions = self._objects.versions_after(obj, left.step)
        elsewhere = np.flatnonzero(self._objects.numbers.have_departed(versions))
        is_member[elsewhere] = are_members(
            self._context, left.query[elsewhere], versions[elsewhere], left.step[elsewhere]
        )
        self._remove(left.query, left.step, obj, is_member)

    def withdraw(self, ids: Array, objects: Array, step: int, why: int) -> None:
        """Withdraw members of queries that end at a step, with their rows before it."""
        query, steps = np.searchsorted(self._queries.id, ids), np.full(len(ids), step)
        shown = self._objects.shown(objects, step - 1)
        far = self._distances(query, shown, steps - 1)
        self._withdraw(steps, query, np.full(len(ids), why, np.int8), shown, far)

    def withdraw_rest(self, ids: Array, objects: Array, members: Array) -> None:
        """Withdraw what resumed queries had offered and have not offered again.

        Args:
            ids: The ids of queries, (n,).
            objects: The objects that they had offered.
            members: The members of the queries after the first step, see `member_codes`.
        """
        if not len(ids):
            return
        batch = self._context.batch
        query, steps = np.searchsorted(self._queries.id, ids), np.full(len(ids), batch.timing.first)
        codes = member_codes(batch, query, steps, objects)
        gone = ~np.isin(codes, np.concatenate(self._offered))
        self._remove(query[gone], steps[gone], objects[gone], np.isin(codes, members)[gone])

    def _remove(self, query: Array, steps: Array, obj: Array, is_member: Array) -> None:
        """Withdraw objects after steps; objects that are still members were overtaken."""
        versions = self._objects.versions_after(obj, steps)
        why, show = self._objects.reasons(versions, obj, steps)
        why, show = np.where(is_member, OVERTAKEN, why), np.where(is_member, versions, show)
        if self._too_old is not None:
            late = self._too_old(query, versions, steps)
            why = np.where(late, self._context.batch.timing.silent, why)
        far = np.where(show == versions, self._distances(query, versions, steps), np.nan)
        gone = QueryUpdates(steps, query, np.full(len(query), -1, np.int8), why.astype(np.int8), show)
        self._withdraw(steps, query, with_shed_reasons(self._context, gone).why, show, far)

    def _withdraw(self, steps: Array, query: Array, why: Array, show: Array, far: Array) -> None:
        op, shows = np.full(len(query), -1, np.int8), self._queries.shows_distance[query] > 0
        none: Any = pa.repeat(pa.scalar(b"", pa.binary()), len(query))
        places, ids = with_distances(none, far, shows), self._queries.id[query]
        keys = self._changes.keys(np.full(len(query), -1), show, far)
        self._partials.offer(CandidateOffers(steps, ids, op, why, show.astype(np.int64), places, keys))

    def _distances(self, query: Array, show: Array, steps: Array) -> Array:
        """Return the shown distances of versions after steps, NaN for queries without DISTANCE."""
        found = np.full(len(query), np.nan)
        asking = np.flatnonzero((self._queries.shows_distance[query] > 0) & (show < self._objects.versions))
        if len(asking):
            found[asking] = self._context.distances(query[asking], show[asking], steps[asking])
        return found
