"""The settings by which routings are planned."""

from __future__ import annotations

from dataclasses import dataclass

from stqsh.profile import Profile
from stqsh.routing.load import METRICS, CostWeights
from stqsh.routing.strategies import LEAVES_A_SLOT
from stqsh.routing.text_splits import SIMILAR

SIDE = 256
"""The default number of cells per side of a new table."""
RECENT = 200_000
"""The default number of records that are considered recent."""
PACKAGE = 20_000
"""The default number of queries that a change of the routing moves at once."""


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """The settings that begin with `routing.`, without `routing.text_leaves`.

    Attributes:
        cells: the number of cells per side of a new table, a power of two: the granularity of Tornado's
            virtual fine grid (section 3.1) and the cell size of CheetahGIS (section IV).
        recent: the most records that are considered recent.
        load: the name of the workload metric, see `METRICS`.
        leaves: the leaves of a new qttree, per slot: SSTD's theta (section 4.1.2).
        similar: the least share of a square's queries in its quarters for a split by texts: SSTD's epsilon
            (equation 3).
        package: about how many queries a change moves at once, counted for each slot: CheetahGIS's size of
            packages (section V-D5).
    """

    cells: int = SIDE
    recent: int = RECENT
    load: str = "cost"
    leaves: int = LEAVES_A_SLOT
    similar: float = SIMILAR
    package: int = PACKAGE

    @staticmethod
    def of(settings: Profile) -> RouteSettings:
        """Return those in force."""
        return RouteSettings(
            cells=settings.number("routing.cells"),
            recent=settings.number("routing.recent"),
            load=settings.text("routing.load"),
            leaves=settings.number("routing.leaves"),
            similar=settings.share("routing.similar"),
            package=settings.number("routing.package"),
        )

    @property
    def weights(self) -> CostWeights:
        """The workload metric."""
        return METRICS[self.load]

    def layout(self, strategy: str, *, by_texts: bool = False) -> str:
        """Return what determines a new table of a strategy, apart from its input, in words.

        Only settings that differ from their defaults are named, so it is "" for tables of older versions.
        """
        usual = _values(RouteSettings(), strategy)
        found = _values(self, strategy)
        if not by_texts:
            found.pop("routing.similar", None)
        return ", ".join(f"{name} = {value}" for name, value in found.items() if value != usual[name])


def settings_of_layout(layout: str, strategy: str) -> dict[str, str]:
    """Return the values of all settings by which a strategy laid out a table, from `RouteSettings.layout`."""
    differing = dict(part.split(" = ") for part in layout.split(", ") if part)
    return _values(RouteSettings(), strategy) | differing


def _values(settings: RouteSettings, strategy: str) -> dict[str, str]:
    """Return the settings that determine a new table of a strategy, by name, as texts."""
    if strategy == "object":
        return {}
    found = {"routing.cells": str(settings.cells), "routing.load": settings.load}
    if strategy == "qttree":
        found |= {"routing.leaves": str(settings.leaves), "routing.similar": str(settings.similar)}
    return found
