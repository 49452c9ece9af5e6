"""Following events: which range queries an object's move, coming or going concerns."""

from __future__ import annotations

from stqsh.core.kernels.events.updates import UpdateArrays, count_pairs, make_updates
from stqsh.core.kernels.index.static_rects import QueryLifetimes
from stqsh.core.matching.match import RegionIndex, match
from stqsh.core.matching.query_context import QueryContext


def follow(context: QueryContext, index: RegionIndex, lives: QueryLifetimes) -> UpdateArrays:
    """The updates that a batch's events bring to the queries that live then; their pairs are counted."""
    pairs, events = match(context, index, lives)
    count_pairs(pairs, context.queries["tested"], context.queries["matched"])
    why, show = context.batch.objects.reasons(events.new, events.obj, events.step)
    return make_updates(pairs, events, why, show)
