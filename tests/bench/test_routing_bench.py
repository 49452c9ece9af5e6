"""`stqsh bench routing`: each figure runs at a tiny size, and unequal answers are found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing.maps import FOUR_MAPS, leaves_are_rectangles, load_of, squares_around

from stqsh.arrays import Floats
from stqsh.bench import cli
from stqsh.bench.papers.cheetah.latencies import answered
from stqsh.bench.papers.cheetah.questions import (
    BY_CELL,
    BY_KEY,
    counts,
    lookups,
    neighbours,
    objects_of,
    routed,
)
from stqsh.bench.papers.figure import Goal
from stqsh.bench.papers.figures import ROUTING
from stqsh.bench.papers.routing.asked import bound, check_equal
from stqsh.bench.papers.routing.baselines import BASELINES
from stqsh.bench.papers.routing.driven_slots import Answers, DrivenSlots
from stqsh.bench.papers.routing.maps import read_places, resampled
from stqsh.bench.papers.routing.trials import QUICK, RoutingScale, Trial, check_answers, measured
from stqsh.bench.papers.routing.world import EVENTS, POSTS, load_by, queries_like, range_queries, records
from stqsh.bench.papers.runner import run
from stqsh.bench.papers.sstd.merged_queries import terms_query
from stqsh.bench.papers.sstd.snapshots import RoutedPosts, under_all
from stqsh.bench.papers.sstd.textual_splits import TEXTS, trial_of
from stqsh.routing.load import slot_loads
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable
from stqsh.spec.query import Members, SlotQuery
from stqsh.spec.region import NearestSpec

TINY = RoutingScale(
    0.01,
    batches=1,
    tries=1,
    windows=3,
    most_slots=8,
    biased_slots=12,
    partitions=(16, 64),
    cells=8,
    cases=1,
)


def silent(_: str) -> None:
    pass


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTING.functions)
def test_every_figure_has_rows_for_its_columns_and_goals(name: str, tmp_path: Path) -> None:
    [result] = run(ROUTING, [name], silent, scale=TINY, out=tmp_path)
    assert result.name == name
    assert result.rows and result.notes and result.goals
    for row in result.rows:
        assert set(row) <= set(result.columns)
    assert all(goal.found is not None and np.isfinite(goal.found) for goal in result.goals)
    written = json.loads((tmp_path / f"{name}.json").read_bytes())
    assert len(written["results"]) == len(result.rows)
    assert [goal["reached"] for goal in written["goals"]] == [goal.is_reached for goal in result.goals]


@pytest.mark.parametrize(("name", "goals"), [("cheetah7", 2), ("cheetah7b", 1)])
def test_real_places_are_one_more_map_of_cheetah7(name: str, goals: int, tmp_path: Path) -> None:
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
    [result] = run(ROUTING, [name], silent, scale=replace(TINY, places=pattern))
    assert "real objects" in {row["map"] for row in result.rows}
    assert len(result.goals) == goals


def test_unknown_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="no figure 'sstd6'; there are balance"):
        run(ROUTING, ["sstd6"], silent, scale=TINY)
    with pytest.raises(SystemExit) as left:
        cli.app(["routing", "--figure", "sstd6"])
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


_NEAREST = Members(region=NearestSpec(5, 0.0, 0.0))
MERGED = {
    "neighbours": (
        SlotQuery(kind="nearest", members=Members(region=NearestSpec(5, 0.0, 0.0))),
        ["w1 w2"] * 20,
    ),
    "terms": (terms_query(5), None),
}


@pytest.mark.parametrize("kind", MERGED)
def test_merged_answers_do_not_depend_on_the_routing(kind: str) -> None:
    places = FOUR_MAPS["hot spots"]
    boxes = squares_around(places(np.random.default_rng(1), 20), 0.2)
    tables = {name: STRATEGIES[name](load_of(places, side=16), 3) for name in ("object", "grid")}
    pattern, phrases = MERGED[kind]

    def texts(rng: np.random.Generator, places: Floats) -> pa.Array[Any]:
        return pa.array([f"w{one} w{other}" for one, other in rng.integers(0, 4, (len(places), 2))])

    trial = Trial(places, boxes, tables, 300, texts=texts, phrases=phrases, pattern=pattern)
    driven, rng = trial.driven(), np.random.default_rng(2)
    for step in range(1, 5):
        drawn = trial.drawn(step, rng)
        for slots in driven.values():
            slots.take(drawn, rng)
    check_answers(driven)
    assert (driven["grid"].copies == 3) is (kind == "neighbours")
    assert driven["object"].answers.updates > len(boxes)
    assert all(len(slots.merging) == 4 and min(slots.merging) > 0 for slots in driven.values())

    other = trial.driven()["grid"]
    for step in range(1, 5):
        other.take(trial.drawn(step, rng), rng)
    with pytest.raises(ValueError, match="other gave"):
        check_answers({**driven, "other": other})


def test_counts_of_terms_are_part_of_answers() -> None:
    table, boxes = RoutingTable.by_object(2), np.array([[0.0, 0.0, 1.0, 1.0]])
    found = []
    for count in (300, 299):
        places = FOUR_MAPS["uniform"](np.random.default_rng(1), count)
        slots = DrivenSlots(table, POSTS, queries_like(terms_query(5), boxes), boxes)
        for step in (1, 2):
            slots.take(records(step, places, pa.repeat("rain", count)), np.random.default_rng(2))
        found.append(slots.answers)
    assert found[0].updates == found[1].updates > 1
    assert found[0].checksum != found[1].checksum


def test_another_answer_to_a_snapshot_is_found() -> None:
    trial = trial_of(TEXTS["alike"], 0.1, replace(TINY, share=0.001))
    drawn = [trial.drawn(1, np.random.default_rng(seed)) for seed in (1, 2)]
    select = "SELECT TOPK(body, 3) FROM events INSIDE RECT(0, 0, 1, 1) WINDOW 1 s"
    one, same, other = (
        RoutedPosts(table, posts)
        for table, posts in (
            (trial.tables["object"], drawn[0]),
            (trial.tables["agrid"], drawn[0]),
            (trial.tables["agrid"], drawn[1]),
        )
    )
    assert set(under_all({"one": one, "same": same}, bound(select, POSTS), 1)) == {"one", "same"}
    with pytest.raises(ValueError, match="other has another answer than one to SELECT TOPK"):
        under_all({"one": one, "other": other}, bound(select, POSTS), 1)


def test_neighbours_are_asked_of_the_slot_at_their_place_first() -> None:
    trial = trial_of(TEXTS["alike"], 0.1, replace(TINY, share=0.02))
    posts = trial.drawn(1, np.random.default_rng(1))
    (x, y), every = posts.places[0].tolist(), len(posts)
    routed = {name: RoutedPosts(trial.tables[name], posts) for name in ("object", "quadtree")}
    few, all_ = (
        under_all(routed, bound(f"SELECT id, DISTANCE FROM events NEAREST {k} TO ({x}, {y})", POSTS), 1)
        for k in (1, every)
    )
    assert few["object"].slots == all_["object"].slots == all_["quadtree"].slots == 8
    assert few["quadtree"].slots == 1
    assert few["quadtree"].posts < all_["quadtree"].posts <= every


@given(st.data())
def test_a_snapshot_is_answered_when_its_last_slot_has_answered_all_before(data: st.DataObject) -> None:
    times = st.floats(0.5, 4)
    spent = np.array(
        data.draw(st.lists(st.tuples(*[st.just(0.0) | times] * 3), min_size=1, max_size=4)), np.float64
    )
    gaps = data.draw(st.lists(times, min_size=1, max_size=30))
    which = np.array([data.draw(st.integers(0, len(spent) - 1)) for _ in gaps])
    coming = np.cumsum(gaps)
    free, wanted = np.zeros(3), []
    for came, row in zip(coming, which, strict=True):
        asked = spent[row] > 0
        free[asked] = np.maximum(free[asked], came) + spent[row][asked]
        wanted.append(free[asked].max(initial=came))
    assert answered(coming, which, spent) == pytest.approx(wanted)


def test_snapshots_have_the_same_answers_by_place_as_by_key() -> None:
    places = FOUR_MAPS["hot spots"]
    drawn = objects_of(places, 2_000, 5)
    centres = drawn.places[:5]
    by_key, by_cell = (routed(drawn, 6, strategy) for strategy in (BY_KEY, BY_CELL))
    x, y = drawn.places.T
    for k, area in ((1, 0.01), (40, 0.2)):
        for (cx, cy), nearest, counted in zip(
            centres.tolist(), neighbours(centres, k), counts(centres, area), strict=True
        ):
            found = [each.ask(nearest, 1) for each in (by_key, by_cell)]
            wanted = np.sort(np.hypot(x - cx, y - cy))[:k]
            assert all(one.answer["distance"].to_numpy() == pytest.approx(wanted) for one in found)
            assert found[0].slots == 6 and found[1].slots <= 6
            half = area**0.5 / 2
            inside = int(((abs(x - cx) <= half) & (abs(y - cy) <= half)).sum())
            for each in (by_key, by_cell):
                assert each.ask(counted, 1).answer.column(0).to_pylist() == [inside]
    assert by_cell.ask(neighbours(centres, 1)[0], 1).slots == 1
    [place] = by_key.ask(lookups(drawn, 8)[7], 2).answer.to_pylist()
    assert list(place.values()) == drawn.places[7].tolist()
    with pytest.raises(ValueError, match="answers to counts differ"):
        check_equal([pa.table({"n": [1]}), pa.table({"n": [2]})], "counts")


def test_the_cost_of_an_empty_batch_is_measured_on_slots_without_records() -> None:
    """Slots whose records all expire let circles grow until they hold all, which once took minutes."""
    boxes = squares_around(FOUR_MAPS["uniform"](np.random.default_rng(1), 20), 0.2)
    pattern = SlotQuery(kind="nearest", members=_NEAREST)
    tables = {"object": RoutingTable.by_object(3)}
    [found] = measured([Trial(FOUR_MAPS["uniform"], boxes, tables, 3_000, pattern=pattern)], TINY)
    assert 0 < found["object"].floor_ms < found["object"].makespan_ms


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
