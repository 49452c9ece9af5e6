"""What a map shows: all objects of one step with their slots, the answers of the log, regions as rings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stqsh.client.api import Session
from stqsh.client.map.object_places import PlacesRequest, QueryMembers, places
from stqsh.client.map.region_outlines import circle
from stqsh.client.map.scene import MapFeed, Scene
from stqsh.core.kernels.geometry.distance import distances
from tests.support.local import local_session

STREAM = """CREATE MOVING STREAM cars (id {type}, x DOUBLE, y DOUBLE, at TIMESTAMP, what STRING)
  KEY id LOCATION (x, y) TIME at FROM FILE '{glob}' TICK 1 s REPORT EVERY 10 s PLANAR;"""
QUERIES = """CREATE REGION corner AS POLYGON ((0 0, 4 0, 4 4, 0 4), (1 1, 2 1, 2 2, 1 2));
REGISTER QUERY low AS SELECT id FROM cars INSIDE (0, 0, 20, 4);
REGISTER QUERY near AS SELECT id FROM cars INSIDE CIRCLE(3) AROUND {first};
REGISTER QUERY close AS SELECT id FROM cars NEAREST 2 TO (0, 0);
REGISTER QUERY cornered AS SELECT id FROM cars INSIDE corner;"""


def write_cars(folder: Path, count: int = 10, steps: int = 6) -> Path:
    """Cars 0 … count - 1 in a row, which climb a unit a second; the last one disappears after the third."""
    lines = ["id,x,y,at,what"]
    for step in range(steps):
        for car in range(count):
            place = f"{car},{step + car / 100}" if car < count - 1 or step < 3 else ","
            lines.append(f"{car},{place},2025-01-01T00:00:0{step}Z,w{car}")
    path = folder / "cars.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(params=["STRING", "BIGINT"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    with local_session(tmp_path, slots=2, published=True) as opened:
        run(opened, STREAM.format(type=request.param, glob=write_cars(tmp_path)))
        run(opened, QUERIES.format(first="'0'" if request.param == "STRING" else "0"))
        yield opened


def run(session: Session, text: str) -> None:
    list(session.execute(text))


def feed_of(session: Session, text: str = "MAP;") -> MapFeed:
    [feed] = session.execute(text)
    assert isinstance(feed, MapFeed)
    return feed


def look(feed: MapFeed, most: int = 1000, *, records: bool = False) -> Scene:
    scene = feed.look(most, records=records)
    assert scene is not None
    return scene


def names(scene: Scene, positions: np.ndarray) -> set[str]:
    return {str(key) for key in scene.places.keys.take(positions).to_pylist()}


def test_before_the_first_step_there_is_an_empty_map(session: Session) -> None:
    scene = look(feed_of(session), records=True)
    assert (len(scene.places), scene.places.step) == (0, 0)
    assert [drawn.query.name for drawn in scene.drawn] == ["low", "near", "close", "cornered"]
    assert scene.places.records is not None and scene.places.records.column_names[-1] == "what"


def test_a_scene_has_all_objects_with_their_slots_and_records(session: Session) -> None:
    run(session, "RUN 5 STEPS;")
    scene = look(feed_of(session), records=True)
    found = scene.places
    assert names(scene, np.arange(len(found))) == {str(car) for car in range(9)}  # the last one has gone
    assert (found.step, found.there, found.at_us) == (5, 9, scene.progress.at_us())
    cars = np.array([int(key) for key in found.keys.to_pylist()])
    assert found.x.tolist() == cars.tolist()
    assert found.y == pytest.approx(4 + cars / 100)
    assert set(found.slot.tolist()) == {0, 1}
    assert found.records is not None
    assert found.records.column("what").to_pylist() == [f"w{car}" for car in cars]


def test_answers_are_those_that_a_snapshot_gives_at_the_same_step(session: Session) -> None:
    feed = feed_of(session)
    for _ in range(5):
        run(session, "RUN 1 STEPS;")
        scene = look(feed)
        assert scene.places.step == scene.progress.step
        for drawn in scene.drawn:
            text = drawn.query.spec.text
            [answer] = session.execute(f"{text};")
            assert names(scene, drawn.members) == {str(key) for key in answer.table.column(0).to_pylist()}
            assert drawn.size == len(drawn.members)


def test_nothing_new_is_no_scene_and_a_new_query_is(session: Session) -> None:
    run(session, "RUN 2 STEPS;")
    feed = feed_of(session)
    look(feed)
    assert feed.look(1000) is None
    run(session, "REGISTER QUERY later AS SELECT id FROM cars;")
    assert [drawn.query.name for drawn in look(feed).drawn][-1] == "later"
    run(session, "RUN 1 STEPS;")
    assert look(feed).drawn[-1].size == 10


def test_only_the_queries_that_are_named_are_drawn_and_a_dropped_one_goes(session: Session) -> None:
    run(session, "RUN 1 STEPS;")
    feed = feed_of(session, "MAP close, low;")
    assert [drawn.query.name for drawn in look(feed).drawn] == ["close", "low"]
    assert look(feed_of(session, "MAP cornered;")).areas[0].name == "corner"
    run(session, "DROP QUERY low;")
    scene = look(feed)
    assert [drawn.query.name for drawn in scene.drawn] == ["close"]
    assert scene.areas == ()


def test_a_sample_keeps_the_same_objects_and_all_that_matter(tmp_path: Path) -> None:
    with local_session(tmp_path, slots=2, published=True) as session:
        run(session, STREAM.format(type="STRING", glob=write_cars(tmp_path, 400)))
        run(session, "REGISTER QUERY few AS SELECT id FROM cars INSIDE (100, 0, 104, 99); RUN 2 STEPS;")
        feed = feed_of(session)
        scene = look(feed, 40)
        assert scene.places.there == 400
        assert 15 < len(scene.places) < 100
        assert names(scene, scene.drawn[0].members) == {"100", "101", "102", "103", "104"}
        run(session, "REGISTER QUERY all_of_them AS SELECT id FROM cars;")
        run(session, "REGISTER QUERY by AS SELECT id FROM cars INSIDE RECT(2, 2) AROUND '7'; RUN 1 STEPS;")
        crowded = look(feed, 40)
        assert len(crowded.places) < 100 and crowded.drawn[1].size == 400
        assert crowded.drawn[2].focal is not None
        run(session, "DROP QUERY all_of_them; DROP QUERY by; RUN 1 STEPS;")
        again = look(feed, 40)
        assert names(again, np.arange(len(again.places))) == names(scene, np.arange(len(scene.places)))


def test_where_nothing_is_published_the_log_answers_without_slots(session: Session) -> None:
    run(session, "RUN 4 STEPS;")
    stream = session.streams()[0].spec
    direct = places(session.snapshots, stream, PlacesRequest(100, None, True), 4)
    session.snapshots.direct = False
    asked = places(session.snapshots, stream, PlacesRequest(100, None, True), 4)
    order = np.argsort(direct.keys.to_pylist())
    assert asked.keys.to_pylist() == direct.keys.take(order).to_pylist()
    assert asked.x.tolist() == direct.x[order].tolist()
    assert asked.records is not None and direct.records is not None
    assert asked.records.to_pylist() == direct.records.take(order).to_pylist()
    assert set(asked.slot.tolist()) == {-1}


def test_a_long_log_folds_as_a_short_one_does(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = session.streams()[0]
    step_by_step = QueryMembers(session.connection, stream.id)
    for _ in range(6):
        run(session, "RUN 1 STEPS;")
        step_by_step.advance(session.progress().batch)
    monkeypatch.setattr("stqsh.client.map.object_places._FOLD_AT", 3)
    at_once = QueryMembers(session.connection, stream.id)
    at_once.advance(session.progress().batch)
    for query in session.queries():
        found = [members.keys(query.id) for members in (step_by_step, at_once)]
        assert found[0] is not None and found[1] is not None
        assert sorted(found[0].to_pylist()) == sorted(found[1].to_pylist())


def test_regions_move_with_their_focal_objects(session: Session) -> None:
    run(session, "RUN 3 STEPS;")
    scene = look(feed_of(session))
    low, near, close, cornered = scene.drawn
    assert low.outline.rings[0].tolist() == [[0, 0], [20, 0], [20, 4], [0, 4], [0, 0]]
    assert near.outline.centre == (0.0, 2.0)
    assert near.focal is not None and names(scene, np.array([near.focal])) == {"0"}
    assert np.hypot(near.outline.rings[0][:, 0], near.outline.rings[0][:, 1] - 2) == pytest.approx(3)
    assert (close.outline.rings, close.outline.centre) == ((), (0.0, 0.0))
    assert [len(ring) for ring in cornered.outline.rings] == [5, 5]
    assert [area.name for area in scene.areas] == ["corner"]


def test_a_focal_object_that_is_not_there_has_no_region(session: Session) -> None:
    last = "9" if session.streams()[0].spec.columns[0].type == "BIGINT" else "'9'"
    run(session, f"REGISTER QUERY gone AS SELECT id FROM cars INSIDE RECT(2, 2) AROUND {last}; RUN 2 STEPS;")
    feed = feed_of(session, "MAP gone;")
    corners = np.array([(8, 0.09), (10, 0.09), (10, 2.09), (8, 2.09), (8, 0.09)])
    assert look(feed).drawn[0].outline.rings[0] == pytest.approx(corners)
    run(session, "RUN 3 STEPS;")
    [gone] = look(feed).drawn
    assert (gone.outline.rings, gone.focal) == ((), None)


def test_a_record_is_that_of_the_object(session: Session) -> None:
    run(session, "RUN 5 STEPS;")
    feed = feed_of(session)
    key = look(feed).places.keys[0].as_py()
    record = feed.record(key)
    assert record is not None
    assert (record["id"], record["what"]) == (key, f"w{key}")
    assert feed.record(type(key)(777)) is None


def test_a_circle_on_the_sphere_has_its_radius() -> None:
    for centre in ((10.0, 50.0), (116.4, -39.9), (0.0, 0.0)):
        ring = circle(centre, 150_000.0, planar=False)
        assert distances(*centre, ring[:, 0].copy(), ring[:, 1].copy(), False) == pytest.approx(150_000)


def test_events_have_the_cells_of_their_slots(tmp_path: Path) -> None:
    path = tmp_path / "posts.csv"
    lines = [f"{i},{i % 10},{i // 10},2025-01-01T00:00:0{i % 5}Z" for i in range(100)]
    path.write_text("\n".join(["id,x,y,at", *lines]) + "\n")
    with local_session(tmp_path, slots=2, published=True) as session:
        run(
            session,
            f"""CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, at TIMESTAMP)
          KEY id LOCATION (x, y) TIME at FROM FILE '{path}' TICK 1 s KEEP 1 hour PLANAR;
          REGISTER QUERY q AS SELECT id FROM posts; RUN;""",
        )
        scene = look(feed_of(session))
        assert scene.cells is not None
        x1, y1, x2, y2 = scene.cells.bounds
        rows, columns = scene.cells.owners.shape
        column = np.clip((scene.places.x - x1) / (x2 - x1) * columns, 0, columns - 1).astype(int)
        row = np.clip((scene.places.y - y1) / (y2 - y1) * rows, 0, rows - 1).astype(int)
        assert scene.cells.owners[row, column].tolist() == scene.places.slot.tolist()
        assert isinstance(scene.places.keys, pa.Array) and len(scene.places) == 100


def test_answers_that_have_all_become_empty_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "cars.csv"
    path.write_text("id,x,y,at\n1,0,0,2025-01-01T00:00:00Z\n2,9,9,2025-01-01T00:00:09Z\n")
    with local_session(tmp_path, published=True) as session:
        run(
            session,
            f"""CREATE MOVING STREAM cars FROM FILE '{path}' LOCATION (x, y) TIME at TICK 1 s PLANAR;
          REGISTER QUERY brief FOR 2 s AS SELECT id FROM cars INSIDE (0, 0, 1, 1); RUN 1 STEPS;""",
        )
        feed = feed_of(session)
        assert look(feed).drawn[0].size == 1
        run(session, "RUN;")
        assert look(feed).drawn == ()
        # A map that is opened only now reads the answer's whole history at once.
        assert len(look(feed_of(session)).places) == 2
