"""Figures 16 and 17: INSIDE as an operator within a plan, against a selection or a join before it.

What counts are the tuples that pass from the first operator to the second. With the selection or the join
first, INSIDE takes what they leave of all records. With INSIDE first, they take its positive and negative
updates. That both plans send as many updates in the end is looked at, too.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Chart, FigureResult, Line
from stqsh.bench.sole.slot_driver import DrivenSlot, registered
from stqsh.bench.sole.town import SIDE, Spec, TownWorld

_SHARES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
_TRUCK = "bus"
"""The generator's kind that stands for the paper's trucks: 5 % of all objects."""

_UNITS = 10


def selection(bench: FigureRun) -> list[FigureResult]:
    """Figure 16: trucks inside a region, stationary or moving."""
    kinds_and_shares = product((False, True), bench.scale.some(_SHARES))
    rows = [_row(bench, share, moving=moving) for moving, share in kinds_and_shares]
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
    charts = _charts(rows, "selection first", "trucks")
    return [FigureResult("16", title, columns, rows, charts, notes=[_note(bench)])]


def _row(bench: FigureRun, share: float, *, moving: bool) -> dict[str, Any]:
    bench.say(f"INSIDE before a selection, {share:.0%} of the town, {_kind(moving)}")
    query = central(bench.world, share, moving=moving)
    whole = _plan(bench, share, moving=moving)
    trucks = _inside(bench, query, kinds=(_TRUCK,))
    pushed = _inside(bench, _of_trucks(query))
    return {
        "query": _kind(moving),
        "share": 100 * share,
        "inside": 100 * whole["inside"] / bench.world.objects,
        "records": whole["records"],
        "trucks": trucks["records"],
        "updates": whole["updates"],
        "ratio": trucks["records"] / whole["updates"],
        "same": "yes" if trucks["updates"] == pushed["updates"] else "NO",
        "paper": "INSIDE" if share <= 0.32 else "selection",
    }


def _note(bench: FigureRun) -> str:
    return (
        f"{_units(bench)} time units, the first answer among them, which is what grows with the region: the "
        "longer a query lives, the less it weighs. The paper does not say for how long its queries lived."
    )


def central(world: TownWorld, share: float, *, moving: bool) -> Spec:
    """Return a square of this share of the town's area, in its middle, or around an object that is there."""
    keys, places = world.places
    side, middle = share**0.5 * SIDE, SIDE / 2
    focal = int(np.argmin(np.abs(places - middle).max(axis=1)))
    near, far = middle - side / 2, middle + side / 2
    region: Spec = {"type": "rect", "x1": near, "y1": near, "x2": far, "y2": far}
    if moving:
        region = {"type": "moving_rect", "focal": keys[focal].as_py(), "xdist": side, "ydist": side}
    return {"id": 1, "kind": "range", "region": region, "condition": None, "for_us": None}


def _of_trucks(query: Spec) -> Spec:
    return {**query, "condition": ["cmp", "=", ["col", "kind"], ["lit", _TRUCK, "STRING"]]}


def _charts(rows: list[dict[str, Any]], first: str, column: str) -> list[Chart]:
    charts = []
    for kind in ("stationary", "moving"):
        mine = [row for row in rows if row["query"] == kind]
        shares = [row["share"] for row in mine]
        lines = [
            Line(first, shares, [row[column] for row in mine]),
            Line("INSIDE first", shares, [row["updates"] for row in mine]),
        ]
        charts.append(Chart(f"{kind} query", "region, % of the town", "tuples", lines, log="xy"))
    return charts


def join(bench: FigureRun) -> list[FigureResult]:
    """Figure 17: favourite objects inside a region, stationary or moving."""
    rows = []
    for moving, share in product((False, True), bench.scale.some(_SHARES)):
        bench.say(f"INSIDE before a join, {share:.0%} of the town, {_kind(moving)}")
        whole = _plan(bench, share, moving=moving)
        gain = whole["records"] / whole["updates"]
        rows.append(
            {"query": _kind(moving), "share": 100 * share, **whole, "ratio": gain, "paper": "about 10"}
        )
    columns = {
        "query": "query",
        "share": "region, % of town",
        "records": "join first",
        "updates": "INSIDE first",
        "ratio": "gain x",
        "paper": "paper x",
    }
    charts = _charts(rows, "join first", "records")
    return [
        FigureResult("17", "tuples that the join has to look at", columns, rows, charts, notes=[_note(bench)])
    ]


def _plan(bench: FigureRun, share: float, *, moving: bool) -> dict[str, int]:
    """INSIDE over all records; the same for figures 16 and 17."""
    query = central(bench.world, share, moving=moving)
    return bench.once(("inside", share, moving), lambda: _inside(bench, query))


def _inside(bench: FigureRun, query: Spec, kinds: tuple[str, ...] = ()) -> dict[str, int]:
    """INSIDE over all records, or those of some kinds: what goes in, what comes out, how many are inside."""
    slot = DrivenSlot(bench.world, kinds=kinds)
    batches = slot.units(_units(bench), registered([query]))
    return {
        "records": sum(batch.records for batch in batches),
        "updates": sum(batch.updates for batch in batches),
        "inside": slot.sizes[1],
    }


def _units(bench: FigureRun) -> int:
    return min(_UNITS, bench.scale.span)


def _kind(moving: bool) -> str:
    return "moving" if moving else "stationary"
