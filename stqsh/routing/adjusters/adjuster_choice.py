"""Choose an adjuster, from the one that moves least to the one that moves most (after SSTD section 5)."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from stqsh.routing.adjusters import ADJUSTERS, ratio
from stqsh.routing.load import Load, leaf_costs
from stqsh.routing.table import RoutingTable

_LEAST_GAIN = 0.01
"""A table whose largest load is not less by this share is not worth a change."""
_ROUNDS = 8
"""The most adjusters that are applied one after the other."""


class Proposal(NamedTuple):
    """What an adjuster proposes.

    Attributes:
        adjuster: its name.
        table: the table.
    """

    adjuster: str
    table: RoutingTable


def proposals(
    table: RoutingTable, load: Load, limit: float, among: Container[str] = ADJUSTERS
) -> list[Proposal]:
    """Return what those among some adjusters propose that fit a table, first what moves least query weight.

    Each aims below `limit`, the ratio of the largest load to the mean that is allowed, half the way to 1, so
    that the next adjustment is not due at once. Gains below 1 % do not count.
    """
    goal = _goal(limit)
    found = [
        Proposal(name, proposed)
        for name, adjuster in ADJUSTERS.items()
        if name in among
        and table.strategy in adjuster.fits
        and (proposed := adjuster.propose(table, load, goal)) is not None
        and ratio(proposed, load) <= (1 - _LEAST_GAIN) * ratio(table, load)
    ]
    return sorted(found, key=lambda proposal: moved_queries(table, proposal.table, load))


def suggest(
    table: RoutingTable, load: Load, limit: float, among: Container[str] = ADJUSTERS
) -> Proposal | None:
    """Return the first of `proposals` that reaches their goal, else the most even one; None without any."""
    found = proposals(table, load, limit, among)
    enough = (proposal for proposal in found if ratio(proposal.table, load) <= _goal(limit))
    return next(enough, None) or min(found, key=lambda one: ratio(one.table, load), default=None)


def even_out(table: RoutingTable, load: Load, limit: float) -> tuple[RoutingTable, list[str]]:
    """Apply what is suggested until a table is even enough: where one adjuster is stuck, another may go on.

    Returns:
        The table, and the adjusters that were of use, each once; none if nothing is gained.
    """
    used: list[str] = []
    while len(used) < _ROUNDS and (found := suggest(table, load, limit)) is not None:
        table = found.table
        used.append(found.adjuster)
    return table, [*dict.fromkeys(used)]


def moved_queries(old: RoutingTable, new: RoutingTable, load: Load) -> float:
    """Return the share of the queries, counted in each cell, whose cells change owners; 0 without queries.

    Adjusters keep leaves that are split by texts, whose children may move.
    """
    moved = float(load.queries[old.owners != new.owners].sum())
    if new.texts is not None:
        children = leaf_costs(new, load.queries)[new.laid :]
        moved += float(children[old.slot[old.laid :] != new.slot[new.laid :]].sum())
    total = float(load.queries.sum())
    return moved / total if total > 0 else 0.0


def _goal(limit: float) -> float:
    return 1 + (limit - 1) / 2
