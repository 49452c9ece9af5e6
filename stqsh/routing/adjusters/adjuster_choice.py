"""Choose an adjuster, preferring those that move less (after SSTD section 5)."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from stqsh.routing.adjusters import ADJUSTERS, ratio
from stqsh.routing.load import Load, leaf_costs
from stqsh.routing.table import RoutingTable

_LEAST_GAIN = 0.01
"""A change must reduce the largest load by at least this share."""
_ROUNDS = 8
"""The maximum number of adjusters applied one after the other."""


class Proposal(NamedTuple):
    """A table that an adjuster proposes.

    Attributes:
        adjuster: its name.
        table: the table.
    """

    adjuster: str
    table: RoutingTable


def proposals(
    table: RoutingTable,
    load: Load,
    limit: float,
    among: Container[str] = ADJUSTERS,
    transfer: float = 0.0,
) -> list[Proposal]:
    """Return the proposals of those given adjusters that fit a table, ordered by the query weight moved.

    Each aims halfway between 1 and `limit`, the allowed ratio of the largest load to the mean, so that the
    next adjustment is not due at once. Proposals that gain less than 1 % are left out. `transfer` is the
    cost to move a query, for adjusters that weigh moves.
    """
    goal = _goal(limit)
    found = [
        Proposal(name, proposed)
        for name, adjuster in ADJUSTERS.items()
        if name in among
        and table.strategy in adjuster.fits
        and (proposed := adjuster.propose(table, load, goal, transfer)) is not None
        and ratio(proposed, load) <= (1 - _LEAST_GAIN) * ratio(table, load)
    ]
    return sorted(found, key=lambda proposal: moved_queries(table, proposal.table, load))


def suggest(
    table: RoutingTable,
    load: Load,
    limit: float,
    among: Container[str] = ADJUSTERS,
    transfer: float = 0.0,
) -> Proposal | None:
    """Return the first of `proposals` that reaches the goal, else the most even one; None without any."""
    found = proposals(table, load, limit, among, transfer)
    enough = (proposal for proposal in found if ratio(proposal.table, load) <= _goal(limit))
    return next(enough, None) or min(found, key=lambda one: ratio(one.table, load), default=None)


def even_out(
    table: RoutingTable, load: Load, limit: float, transfer: float = 0.0
) -> tuple[RoutingTable, list[str]]:
    """Apply suggestions until a table is even enough: if one adjuster is stuck, another may continue.

    Returns:
        The table, and the adjusters that improved it, each once; none without an improvement.
    """
    used: list[str] = []
    while len(used) < _ROUNDS and (found := suggest(table, load, limit, transfer=transfer)) is not None:
        table = found.table
        used.append(found.adjuster)
    return table, [*dict.fromkeys(used)]


def moved_queries(old: RoutingTable, new: RoutingTable, load: Load) -> float:
    """Return the share of queries, counted per cell, whose cells change owners; 0 without queries.

    Adjusters keep leaves that are split by texts, but may move the leaves' children.
    """
    moved = float(load.queries[old.owners != new.owners].sum())
    if new.texts is not None:
        children = leaf_costs(new, load.queries)[new.laid :]
        moved += float(children[old.slot[old.laid :] != new.slot[new.laid :]].sum())
    total = float(load.queries.sum())
    return moved / total if total > 0 else 0.0


def _goal(limit: float) -> float:
    return 1 + (limit - 1) / 2
