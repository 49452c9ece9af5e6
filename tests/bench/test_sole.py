"""The figures of SOLE on a village: that they run, and what their tables and pictures hold."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stqsh.bench.papers import runner
from stqsh.bench.papers.drawing import MISSING, can_draw, draw
from stqsh.bench.papers.figure import Chart, FigureResult, Line
from stqsh.bench.papers.figures import SOLE
from stqsh.bench.papers.sole import served
from stqsh.bench.papers.sole.curves import Curve
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.pipeline import central
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, memory, registered
from stqsh.bench.papers.sole.supported import supported
from stqsh.bench.papers.sole.town import SIDE, Drive, TownQueries, TownScale
from stqsh.spec.region import MovingRectangleSpec, RectangleSpec

VILLAGE = TownScale(first=300, coming=10, units=4, nodes=100, share=0.004, points=2, span=2)

EXPECTED = {
    "12": ["12"],
    "13": ["13a", "13b"],
    "14": ["14"],
    "16": ["16"],
    "17": ["17"],
    "18": ["18"],
    "19": ["19"],
    "20": ["20"],
    "21": ["21a", "21b", "21c"],
    "22": ["22"],
    "23": ["23"],
    "24": ["24"],
    "25": ["25a", "25b"],
}


def run_figure(name, out, say=lambda text: None):
    return runner.run(SOLE, [name], say, scale=VILLAGE, out=out)


@pytest.fixture(scope="module")
def bench():
    return FigureRun(VILLAGE, lambda text: None)


@pytest.fixture(scope="module")
def world(bench):
    return bench.world


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=[pytest.mark.spark] * (number == "21")) for number in SOLE.functions],
)
def test_every_figure_has_rows_for_its_columns_and_curves_to_draw(bench, number, tmp_path, monkeypatch):
    # Figure 21c plays at the pace of the clock: the fewest batches of which some are left to count, and steps
    # enough for a busy machine.
    monkeypatch.setattr(served, "_BATCHES", 5)
    monkeypatch.setattr(served, "_STEPS_A_BATCH", 8)
    results = list(SOLE.measure(number, bench))
    assert [result.name for result in results] == EXPECTED[number]
    for result in results:
        assert result.rows
        assert result.charts
        assert "paper" in result.columns
        for row in result.rows:
            assert set(result.columns) <= set(row)
        for chart in result.charts:
            assert all(len(line.x) == len(line.y) for line in chart.lines)
        runner.write_figure(result, "sole", VILLAGE, tmp_path, drawn=can_draw())
        written = json.loads((tmp_path / f"figure-{result.name}.json").read_bytes())
        assert list(written["columns"]) == list(result.columns)
        assert len(written["results"]) == len(result.rows)


def test_the_town_grows_by_as_many_objects_each_time_unit(bench, world):
    assert VILLAGE.first + VILLAGE.coming * (VILLAGE.units - 1) <= world.objects
    assert world.objects <= VILLAGE.first + VILLAGE.coming * VILLAGE.units


def test_every_object_reports_once_a_time_unit(world):
    for unit in (0, 1):
        steps = range(30 * unit + 1, 30 * unit + 31)
        keys = [key for step in steps for key in world.step(step).records.column("oid").to_pylist()]
        assert len(keys) == len(set(keys)) == world.objects


@pytest.mark.parametrize("drive", [Drive(10, 60.0), Drive(90, 5.0)])
def test_no_object_is_quicker_than_its_drive(bench, drive):
    world = bench.driving(drive)
    one, other = (
        {
            row["oid"]: (row["lon"], row["lat"])
            for step in unit
            for row in world.step(step).records.to_pylist()
        }
        for unit in (range(1, drive.unit_s + 1), range(drive.unit_s + 1, 2 * drive.unit_s + 1))
    )
    ways = [np.hypot(*np.subtract(one[key], other[key])) for key in one]
    assert 0 < max(ways) <= drive.metres_a_second * drive.unit_s * (1 + 1e-9)


def test_the_same_objects_drive_whatever_the_report_interval(bench):
    found = [bench.driving(Drive(unit_s)).places for unit_s in (10, 30)]
    places = [dict(zip(keys.to_pylist(), at.tolist(), strict=True)) for keys, at in found]
    assert places[0] == places[1]


def test_queries_have_the_sizes_and_the_share_of_moving_ones_asked_for(world):
    specs = TownQueries(200, (0.01,), moving=0.5).of(world)
    moving = [spec.region for spec in specs if isinstance(spec.region, MovingRectangleSpec)]
    still = [spec.region for spec in specs if isinstance(spec.region, RectangleSpec)]
    assert len(moving) + len(still) == 200
    assert 60 < len(moving) < 140
    assert {round(region.xdist / SIDE, 6) for region in moving} == {0.1}
    assert {round((region.x2 - region.x1) / SIDE, 6) for region in still} == {0.1}
    assert TownQueries(200, (0.01,), moving=0.5).of(world) == specs


def test_a_slot_counts_the_answers_of_its_queries(world):
    query = central(world, 0.16, moving=False)
    slot = DrivenSlot(world)
    slot.units(1, registered([query]))
    _, places = world.places
    inside = (np.abs(places - SIDE / 2) <= 0.2 * SIDE).all(axis=1)
    assert slot.sizes[1] == inside.sum()


def test_a_full_cache_misses_nothing(world):
    queries = registered(TownQueries(5, (0.01,), moving=1.0).of(world))
    exact, significant = DrivenSlot(world), DrivenSlot(world, "significant")
    for slot, first in ((exact, queries), (significant, [memory(1.0), *queries])):
        slot.units(2, first)
    assert significant.sizes == exact.sizes
    assert significant.array("objects/known").sum() < exact.array("objects/known").sum()


def test_curves_are_read_between_their_points():
    curve = Curve([100.0, 80.0, 50.0], [100.0, 95.0, 60.0])
    assert curve.load_for(95) == 80
    assert curve.accuracy_at(90) == 97.5
    assert curve.load_for(50) is None


def test_supported_queries_are_where_the_load_crosses_the_budget():
    assert supported([100, 1000], [0.5, 0.9], 0.7) == 316
    assert supported([100, 1000], [0.5, 0.9], 0.95) == 1000
    assert supported([100, 1000], [0.5, 0.9], 0.4) is None


def test_a_figure_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="no figure '15'; there are 12, 13"):
        run_figure("15", tmp_path)


def test_without_matplotlib_tables_come_and_what_to_do_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "can_draw", lambda: False)
    said = []
    run_figure("17", tmp_path, said.append)
    assert MISSING in said
    assert "join first" in capsys.readouterr().out
    assert (tmp_path / "figure-17.json").exists()
    assert not list(tmp_path.glob("*.png"))


def test_the_town_is_kept_for_the_next_call(tmp_path):
    run_figure("17", tmp_path)
    said = []
    run_figure("17", tmp_path, said.append)
    assert not any("letting the town fill" in text for text in said)


def test_charts_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    lines = [Line("ours", [1, 10, 100], [1.0, None, 3.0]), Line("paper", [1, 100], [1, 2], paper=True)]
    charts = [Chart("a", "x", "y", lines, log="x"), Chart("b", "x", "y", lines, log="xy")]
    path = tmp_path / "figure.png"
    draw(FigureResult("99", "a title", {}, [], charts=charts), path)
    assert path.read_bytes().startswith(b"\x89PNG")
