"""Snapshots that are remembered, and the load that they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.local import local_session
from support.repartition import POSTS, routing, run, write_posts

from stqsh.client.api import Session
from stqsh.client.results import Rows
from stqsh.routing.cells import Cells
from stqsh.routing.load import METRICS, PAIR, READ, RECORD, UPKEEP, Load
from stqsh.routing.neighbour_reach import Neighbours, reach_of
from stqsh.sources.recent_input import recent_input
from stqsh.sources.route_settings import RouteSettings
from stqsh.storage import asked_questions
from stqsh.storage.asked_questions import KINDS, note_snapshot, recent_snapshots
from stqsh.storage.catalogue import live_streams
from stqsh.storage.home import SessionHome
from stqsh.storage.session_settings import session_settings

CELLS = Cells((0.0, 0.0, 10.0, 10.0), 10)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run(session, POSTS.create.format(folder=tmp_path))
        yield session


def _asked(session: Session) -> list[tuple[str, list[float]]]:
    found = recent_snapshots(session.connection.home, 1, 0)
    return [(KINDS[kind], box) for kind, box in zip(found.kind.tolist(), found.boxes.tolist(), strict=True)]


def test_snapshots_are_remembered_by_kind_and_region(session: Session) -> None:
    run(session, "RUN 10 STEPS; SELECT id FROM posts INSIDE (1, 2, 3, 4); SELECT COUNT(*) FROM posts;")
    run(
        session,
        "SELECT id FROM posts NEAREST 3 TO (5, 6); SELECT TOPK(body, 2) FROM posts INSIDE (0, 0, 1, 1);",
    )
    everywhere = [-np.inf, -np.inf, np.inf, np.inf]
    expected = [
        ("range", [1, 2, 3, 4]),
        ("range", everywhere),
        ("nearest", [5, 6, 5, 6]),
        ("terms", [0, 0, 1, 1]),
    ]
    assert _asked(session) == expected
    run(session, "SELECT id FROM posts WHERE id = 7; REPARTITION posts USING agrid INTO 3 SLOTS;")
    assert _asked(session) == expected, "neither the look-up of a key nor what planning asks"


def test_a_routing_by_star_or_sstd_spreads_snapshots_too(session: Session) -> None:
    def snapshots() -> list[int]:
        slots = [one for one in session.execute("SHOW ROUTING;") if isinstance(one, Rows)][1]
        column = slots.columns.index("snapshots")
        return [row[column] for row in slots.rows]

    # Corners in which no cell has more than a few records.
    run(session, "RUN 60 STEPS;" + "SELECT id FROM posts INSIDE (6, 6, 9, 9);" * 500)
    run(session, "SET routing.cells = 64; REPARTITION posts USING agrid INTO 4 SLOTS; RUN 1 STEPS;")
    by_cost = snapshots()
    run(session, "SET routing.load = sstd; REPARTITION posts USING agrid INTO 4 SLOTS; RUN 1 STEPS;")
    by_sstd = snapshots()
    assert np.count_nonzero(by_sstd) > np.count_nonzero(by_cost) > 0
    assert float(str(routing(session)["max/mean"])) < 2


def test_the_load_of_a_cell_by_each_metric() -> None:
    chance = np.random.default_rng(3)
    boxes, asked = np.array([[0.0, 0.0, 0.6, 0.6]]), chance.integers(0, 9, (4, 4)).astype(np.float64)
    load = Load.of(Cells((0.0, 0.0, 1.0, 1.0), 4), *chance.random((2, 300)), boxes)
    records, queries = load.records, load.queries
    expected = {
        "cost": RECORD * records + PAIR * records * queries,
        "records": records,
        "pairs": records * queries,
        "star": RECORD * records + PAIR * records * queries + READ * records * asked,
        "sstd": records * (queries + asked),
    }
    assert expected.keys() == METRICS.keys()
    for name, weights in METRICS.items():
        np.testing.assert_allclose(replace(load, weights=weights, asked=asked).cost, expected[name])
    sorted_ = replace(load, weights=METRICS["star"], asked=asked, is_sorted=True)
    np.testing.assert_allclose(sorted_.cost, expected["star"] + UPKEEP * records * (asked > 0))


def test_neighbours_count_as_far_as_they_are_expected(session: Session) -> None:
    def queries() -> list[int]:
        connection = session.connection
        settings = RouteSettings.of(session_settings(connection.db))
        [stream] = live_streams(connection.db)
        load = recent_input(connection.home, connection.db, stream.spec, settings).load(CELLS)
        return [int(load.queries[0, 0]), int(load.queries[5, 5]), int(np.sum(load.asked))]

    run(session, "RUN 60 STEPS; SELECT id FROM posts NEAREST 1 TO (4, 4);")
    run(session, "REGISTER QUERY near AS SELECT id FROM posts NEAREST 3 TO (5, 5);")
    everywhere, _, asked = queries()
    assert everywhere == 1 and 1 <= asked <= 4, "a query for neighbours is on every slot"
    run(session, "SELECT id FROM posts NEAREST 100000 TO (4, 4); SET routing.load = sstd;")
    assert queries() == [0, 1, asked + 100]


@pytest.mark.parametrize("k", [1, 10, 200])
def test_the_reach_of_neighbours_is_near_that_of_the_real_ones(k: int) -> None:
    chance = np.random.default_rng(5)
    x, y = chance.beta(2, 3, (2, 20_000))
    cells, places = Cells((0.0, 0.0, 1.0, 1.0), 64), chance.uniform(0.1, 0.7, (50, 2))
    records = np.bincount(cells.of_places(x, y), minlength=64 * 64).reshape(64, 64).astype(np.float64)
    boxes = reach_of(cells, records, Neighbours(places, np.full(50, k)))
    expected = (boxes[:, 2] - boxes[:, 0]) / 2
    found = [np.sort(np.hypot(x - at[0], y - at[1]))[k - 1] for at in places]
    assert 0.7 < np.median(expected / found) < 1.4


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_questions, "MOST", 5)
    home = SessionHome(tmp_path)
    assert not len(recent_snapshots(home, 1, 0).kind)
    for step in range(1, 24):
        note_snapshot(home, 1 + step % 2, step, "range", (step, 0, step, 0))
    assert recent_snapshots(home, 2, 0).boxes[:, 0].tolist() == [19, 21, 23]
    assert recent_snapshots(home, 2, 21).boxes[:, 0].tolist() == [21, 23]
    assert home.asked.stat().st_size < 2 * 5 * 56
    home.asked.write_bytes(home.asked.read_bytes()[:-3])
    assert recent_snapshots(home, 2, 20).boxes[:, 0].tolist() == [21], "one that was cut off is left out"
    missing = SessionHome(tmp_path / "missing")
    note_snapshot(missing, 1, 1, "range", (0, 0, 1, 1))
    assert not len(recent_snapshots(missing, 1, 0).kind)
