"""Figures 16 and 17: INSIDE before a selection or a join in a plan, and after it.

What counts is the number of tuples that pass from the first operator to the second. With the selection or the
join first, INSIDE takes what they leave of all records. With INSIDE first, they take its positive and
negative updates. Figure 16 also checks that both plans send the same number of updates in the end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, registered
from stqsh.bench.papers.sole.town import SIDE, TownWorld, square
from stqsh.spec.expression import ColumnExpr, CompareExpr, LiteralExpr
from stqsh.spec.query import Members, SlotQuery, with_members
from stqsh.spec.region import MovingRectangleSpec

_SHARES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
_TRUCK = "bus"
"""The generator's kind that stands for the paper's trucks: 5 % of all objects."""

_UNITS = 10


@dataclass(frozen=True)
class PlanTuples:
    """What INSIDE takes and sends, and how many objects are inside in the end."""

    records: int
    updates: int
    inside: int


@dataclass(frozen=True)
class PlanPoint:
    """The tuples between the operators of both plans, for a region with this share of the town in %."""

    query: str
    share: float
    other_first: int
    inside_first: int

    @property
    def gain(self) -> float:
        """The factor by which INSIDE first saves tuples."""
        return self.other_first / self.inside_first


def selection(bench: FigureRun) -> list[FigureResult]:
    """Figure 16: trucks inside a region, stationary or moving."""
    rows, points = list[Row](), list[PlanPoint]()
    for moving, share in product((False, True), bench.scale.some(_SHARES)):
        bench.say(f"INSIDE before a selection, {share:.0%} of the town, {_kind(moving)}")
        query = central(bench.world, share, moving=moving)
        whole = _plan(bench, share, moving=moving)
        trucks = _inside(bench, query, kinds=(_TRUCK,))
        pushed = _inside(bench, _of_trucks(query))
        point = PlanPoint(_kind(moving), 100 * share, trucks.records, whole.updates)
        points.append(point)
        rows.append(
            {
                "query": point.query,
                "share": point.share,
                "inside": 100 * whole.inside / bench.world.objects,
                "records": whole.records,
                "trucks": point.other_first,
                "updates": point.inside_first,
                "ratio": point.gain,
                "same": "yes" if trucks.updates == pushed.updates else "NO",
                "paper": "INSIDE" if share <= 0.32 else "selection",
            }
        )
    columns = {
        "query": "query",
        "share": "region, % of town",
        "inside": "objects inside, %",
        "records": "records",
        "trucks": "selection first",
        "updates": "INSIDE first",
        "ratio": "gain x",
        "same": "same answers",
        "paper": "paper: first",
    }
    title = "tuples between the operators: selection (5 %) and INSIDE"
    charts = _charts(points, "selection first")
    return [FigureResult("16", title, columns, rows, notes=[_note(bench)], charts=charts)]


def _note(bench: FigureRun) -> str:
    return (
        f"{_units(bench)} time units, the first answer among them, which is what grows with the region: the "
        "longer a query lives, the less it weighs. The paper does not say for how long its queries lived."
    )


def central(world: TownWorld, share: float, *, moving: bool) -> SlotQuery:
    """Return a square with this share of the town's area, in its middle or around an object that is there."""
    keys, places = world.places
    side, middle = share**0.5 * SIDE, SIDE / 2
    if not moving:
        return SlotQuery(id=1, kind="range", members=Members(region=square((middle, middle), side)))
    focal = int(np.argmin(np.abs(places - middle).max(axis=1)))
    return SlotQuery(
        id=1, kind="range", members=Members(region=MovingRectangleSpec(keys[focal].as_py(), side, side))
    )


def _of_trucks(query: SlotQuery) -> SlotQuery:
    condition = CompareExpr("=", ColumnExpr("kind"), LiteralExpr(_TRUCK, "STRING"))
    return with_members(query, condition=condition)


def _charts(points: list[PlanPoint], first: str) -> list[Chart]:
    charts = []
    for kind in ("stationary", "moving"):
        mine = [point for point in points if point.query == kind]
        shares = [point.share for point in mine]
        lines = [
            Line(first, shares, [point.other_first for point in mine]),
            Line("INSIDE first", shares, [point.inside_first for point in mine]),
        ]
        charts.append(Chart(f"{kind} query", "region, % of the town", "tuples", lines, log="xy"))
    return charts


def join(bench: FigureRun) -> list[FigureResult]:
    """Figure 17: favourite objects inside a region, stationary or moving."""
    rows, points = list[Row](), list[PlanPoint]()
    for moving, share in product((False, True), bench.scale.some(_SHARES)):
        bench.say(f"INSIDE before a join, {share:.0%} of the town, {_kind(moving)}")
        whole = _plan(bench, share, moving=moving)
        point = PlanPoint(_kind(moving), 100 * share, whole.records, whole.updates)
        points.append(point)
        row: Row = {"query": point.query, "share": point.share, **asdict(whole)}
        rows.append({**row, "ratio": point.gain, "paper": "about 10"})
    columns = {
        "query": "query",
        "share": "region, % of town",
        "records": "join first",
        "updates": "INSIDE first",
        "ratio": "gain x",
        "paper": "paper x",
    }
    charts = _charts(points, "join first")
    return [
        FigureResult(
            "17", "tuples that the join has to look at", columns, rows, notes=[_note(bench)], charts=charts
        )
    ]


def _plan(bench: FigureRun, share: float, *, moving: bool) -> PlanTuples:
    """Run INSIDE over all records, once for figures 16 and 17."""
    query = central(bench.world, share, moving=moving)
    return bench.once(("inside", share, moving), lambda: _inside(bench, query))


def _inside(bench: FigureRun, query: SlotQuery, kinds: tuple[str, ...] = ()) -> PlanTuples:
    """Run INSIDE over all records, or over those of some kinds."""
    slot = DrivenSlot(bench.world, kinds=kinds)
    stats = [batch.stats for batch in slot.units(_units(bench), registered([query]))]
    return PlanTuples(
        sum(batch.records for batch in stats), sum(batch.updates for batch in stats), slot.sizes[1]
    )


def _units(bench: FigureRun) -> int:
    return min(_UNITS, bench.scale.span)


def _kind(moving: bool) -> str:
    return "moving" if moving else "stationary"
