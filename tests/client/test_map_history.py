"""The past of a map: where objects were, and when they came into answers, from scenes and the update log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import shapely

from stqsh.client.api import Session
from stqsh.client.map import history
from stqsh.client.map.history import Past, SceneHistory
from stqsh.client.map.land import land_rings
from tests.client.test_map import QUERIES, STREAM, feed_of, look, run, write_cars
from tests.support.local import local_session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path, slots=2, published=True) as opened:
        run(opened, STREAM.format(type="STRING", glob=write_cars(tmp_path)))
        run(opened, QUERIES.format(first="'0'"))
        yield opened


def places_of(past: Past, key: str) -> list[tuple[int, float]]:
    """The steps and heights at which an object was seen."""
    number = past.keys.to_pylist().index(key)
    return [(int(one["step"]), float(one["y"])) for one in past.sightings if one["object"] == number]


def followed(session: Session, looks: int = 6) -> Past:
    feed = feed_of(session)
    past = SceneHistory(session.connection, feed.stream)
    for _ in range(looks):
        run(session, "RUN 1 STEPS;")
        past.take(look(feed))
    return past.past()


def test_objects_are_where_scenes_have_shown_them(session: Session) -> None:
    past = followed(session)
    climbed = [(step, step - 1 + 0.01) for step in range(1, 7)]
    assert [
        one for n, one in enumerate(places_of(past, "1")) if one not in places_of(past, "1")[:n]
    ] == climbed
    gone = places_of(past, "9")
    assert gone[-1][0] == 4 and np.isnan(gone[-1][1])
    assert (np.diff(past.sightings["step"]) >= 0).all()


def test_a_replayed_stream_has_the_past_of_its_records(session: Session) -> None:
    run(session, "RUN 5 STEPS;")
    feed = feed_of(session)
    collected = SceneHistory(session.connection, feed.stream)
    collected.take(look(feed))
    past = collected.past()
    assert [*dict.fromkeys(places_of(past, "1"))] == [(step, step - 1 + 0.01) for step in range(1, 6)]
    assert [np.isnan(y) for _, y in places_of(past, "9")][-1]


def test_answers_come_from_the_update_log_also_of_before_the_map(session: Session) -> None:
    run(session, "RUN 6 STEPS;")
    feed = feed_of(session)
    collected = SceneHistory(session.connection, feed.stream)
    collected.take(look(feed))
    past = collected.past()
    low = next(query.id for query in session.queries() if query.name == "low")
    for step in range(1, 7):
        inside: set[str] = set()
        for change in past.changes[(past.changes["query"] == low) & (past.changes["step"] <= step)]:
            key = past.keys[int(change["object"])].as_py()
            (inside.add if change["op"] > 0 else inside.discard)(key)
        height = step - 1
        assert inside == {str(car) for car in range(10) if height + car / 100 <= 4 and (car < 9 or step <= 3)}
    assert past.sightings["step"][0] == 1


def test_the_oldest_past_is_folded_into_what_it_led_to(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = followed(session)
    monkeypatch.setattr(history, "MOST_SIGHTINGS", 8)
    feed = feed_of(session)
    short = SceneHistory(session.connection, feed.stream)
    short.take(look(feed))
    past = short.past()
    assert len(past.sightings) <= 8 + 10 and len(past.keys) <= len(whole.keys)
    last = {past.keys[int(one["object"])].as_py(): float(one["y"]) for one in past.sightings}
    assert last["1"] == 5.01
    assert set(past.sightings["object"]) | set(past.changes["object"]) == set(range(len(past.keys)))


def test_of_very_many_objects_those_in_answers_are_tracked(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_TRACKED", 5)
    past = followed(session, looks=2)
    tracked = {past.keys[int(number)].as_py() for number in past.sightings["object"]}
    assert {"0", "1"} <= tracked


def test_the_land_is_where_it_is() -> None:
    rings = [shapely.Polygon(ring) for ring in land_rings()]

    def is_land(lon: float, lat: float) -> bool:
        return sum(ring.contains(shapely.Point(lon, lat)) for ring in rings) % 2 == 1

    assert all(is_land(*place) for place in [(10, 50), (-100, 40), (179, 67), (135, -25), (0, -85)])
    assert not any(is_land(*place) for place in [(-30, 30), (-170, 0), (51, 42)])  # the last is the Caspian's
    assert all((abs(ring[:, 0]) <= 180).all() and (abs(ring[:, 1]) <= 90).all() for ring in land_rings())
