"""`stqsh bench routing`: each figure runs at a tiny size, and unequal answers are found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from routing.maps import FOUR_MAPS, leaves_are_rectangles, load_of, squares_around

from stqsh.bench import cli
from stqsh.bench.paper_figures import Goal
from stqsh.bench.routing.baselines import BASELINES
from stqsh.bench.routing.driven_slots import Answers, DrivenSlots
from stqsh.bench.routing.maps import read_places, resampled
from stqsh.bench.routing.measuring import QUICK, RoutingScale, Trial, check_answers, measured
from stqsh.bench.routing.runner import ROUTING, run
from stqsh.bench.routing.world import EVENTS, load_by, range_queries, records
from stqsh.routing.load import slot_loads
from stqsh.routing.strategies import STRATEGIES

TINY = RoutingScale(
    0.01, batches=1, tries=1, windows=3, most_slots=8, biased_slots=12, partitions=(16, 64), cells=8
)


def silent(_: str) -> None:
    pass


@pytest.mark.parametrize("name", ROUTING.functions)
def test_every_figure_has_rows_for_its_columns_and_goals(name: str, tmp_path: Path) -> None:
    [result] = run([name], tmp_path, silent, scale=TINY)
    assert result.name == name
    assert result.rows and result.notes and result.goals
    for row in result.rows:
        assert set(row) <= set(result.columns)
    assert all(goal.found is not None and np.isfinite(goal.found) for goal in result.goals)
    written = json.loads((tmp_path / f"{name}.json").read_bytes())
    assert len(written["results"]) == len(result.rows)
    assert [goal["reached"] for goal in written["goals"]] == [goal.is_reached for goal in result.goals]


def test_real_places_are_one_more_map_of_cheetah7(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    places = rng.normal((-97.7, 30.3), 0.1, (2_000, 2))
    places[:4] = 0
    lines = [f"{at},{x},{y}" for at, (x, y) in enumerate(places.tolist())]
    (tmp_path / "objects.csv").write_text("\n".join(["id,longitude,latitude", *lines, "9,,"]) + "\n")
    pattern = str(tmp_path / "*.csv")
    read = read_places(pattern)
    assert 1_960 < len(read) < 1_996 and read.min() >= 0 and read.max() < 1
    assert read.std() > 0.1
    assert len(resampled(read)(rng, 10)) == 10
    with pytest.raises(ValueError, match="no files"):
        read_places(str(tmp_path / "*.txt"))
    [result] = run(["cheetah7"], None, silent, scale=replace(TINY, places=pattern))
    assert "real objects" in {row["map"] for row in result.rows}
    assert len(result.goals) == 2


def test_unknown_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="no figure 'sstd7'; there are balance"):
        run(["sstd7"], None, silent)
    with pytest.raises(SystemExit) as left:
        cli.app(["routing", "--figure", "sstd7"])
    assert left.value.code == 2


def test_goals_are_upper_or_lower_bounds() -> None:
    assert Goal("gain", "> 2", 2.0, 2.0).is_reached
    assert not Goal("gain", "> 2", 2.0, 1.9).is_reached
    assert not Goal("gain", "> 2", 2.0, None).is_reached
    assert Goal("ratio", "-", 1.3, 1.2, least=False).is_reached
    assert not Goal("ratio", "-", 1.3, 1.4, least=False).is_reached


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("slots", [1, 3, 8, 64, 120])
def test_baselines_are_rectangles_that_tile_the_cells(name: str, slots: int) -> None:
    load = load_of(FOUR_MAPS["condensed"])
    table = BASELINES[name](load, slots)
    assert table.slots == slots
    assert leaves_are_rectangles(table)
    used = len(np.unique(table.owners))
    assert used >= slots * (0.9 if name == "str" else 1)  # columns of cells may be too wide
    assert slot_loads(table, load.cost).sum() == pytest.approx(load.cost.sum())


def test_baselines_even_what_they_count() -> None:
    load = load_of(FOUR_MAPS["condensed"])
    counts = slot_loads(BASELINES["str"](load, 8), load.records)
    assert counts.max() < 1.3 * counts.mean()
    pairs = load.records * load.queries
    evened, blocks = (
        slot_loads(BASELINES[name](load, 8), pairs) for name in ("k-d by pairs", "uniform blocks")
    )
    assert evened.max() < blocks.max() / 2


def test_baselines_take_a_load_without_queries() -> None:
    load = load_by(np.full((10, 2), 0.3), np.empty((0, 4)), 16)
    for lay in BASELINES.values():
        assert lay(load, 5).slots == 5


def test_answers_do_not_depend_on_the_routing_or_its_changes() -> None:
    places = FOUR_MAPS["hot spots"]
    rng = np.random.default_rng(1)
    boxes = squares_around(places(rng, 300), 0.02)
    load = load_by(places(rng, 2_000), boxes)
    tables = {name: lay(load, 5) for name, lay in STRATEGIES.items()}
    driven = {name: DrivenSlots(table, EVENTS, range_queries(boxes), boxes) for name, table in tables.items()}
    for step in range(1, 7):
        drawn = records(step, places(rng, 500))
        for at, slots in enumerate(driven.values()):
            slots.take(drawn, rng)
            slots.route(list(tables.values())[(at + step) % len(tables)])
    check_answers(driven)
    one = DrivenSlots(STRATEGIES["object"](load, 1), EVENTS, range_queries(boxes), boxes)
    assert one.answers == Answers()
    with pytest.raises(ValueError, match="gave"):
        check_answers({**driven, "one that missed all": one})


def test_a_slot_that_lacks_a_query_is_found() -> None:
    places = FOUR_MAPS["uniform"]
    boxes = squares_around(places(np.random.default_rng(1), 50), 0.2)
    tables = {name: STRATEGIES[name](load_of(places, side=16), 3) for name in ("object", "grid")}
    [found] = measured([Trial(places, boxes, tables, 300)], replace(QUICK, batches=1))
    assert found["object"].copies == 3
    assert found["grid"].spent.shape == (1, 3) and found["grid"].makespan_ms > 0

    class Forgetful(DrivenSlots):
        def __post_init__(self) -> None:
            super().__post_init__()
            self._due[0] = False

    rng = np.random.default_rng(2)
    whole = DrivenSlots(tables["object"], EVENTS, range_queries(boxes), boxes)
    lacking = Forgetful(tables["grid"], EVENTS, range_queries(boxes), boxes)
    drawn = records(1, places(rng, 1_000))
    for slots in (whole, lacking):
        slots.take(drawn, rng)
    with pytest.raises(ValueError, match="lacking gave"):
        check_answers({"whole": whole, "lacking": lacking})
