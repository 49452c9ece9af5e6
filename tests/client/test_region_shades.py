"""What a map shades: the value of each region in the answer of an aggregate query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from stqsh.client.api import Session
from stqsh.client.map.region_shades import RegionShades, scale
from stqsh.client.map.scene import DrawnQuery, MapFeed, Scene
from stqsh.storage.update_log.compaction import fold_log
from tests.support.local import local_session

STREAM = """CREATE MOVING STREAM cars (id STRING, x DOUBLE, y DOUBLE, at TIMESTAMP, v DOUBLE)
  KEY id LOCATION (x, y) TIME at FROM FILE '{cars}' TICK 1 s REPORT EVERY 1 hour PLANAR;
CREATE REGIONS halves FROM FILE '{halves}' NAME half;
CREATE REGION away AS RECT(50, 50, 51, 51);
REGISTER QUERY by_half AS SELECT REGION(halves), COUNT(*) AS n FROM cars GROUP BY REGION(halves);
REGISTER QUERY speeds AS SELECT MAX(id), AVG(v) - 5 AS v, COUNT(*) FROM cars GROUP BY REGION(halves);
REGISTER QUERY names AS SELECT REGION(halves), MAX(id) FROM cars GROUP BY REGION(halves);
REGISTER QUERY finer AS SELECT COUNT(*) FROM cars GROUP BY REGION(halves), id;
REGISTER QUERY whole AS SELECT COUNT(*) FROM cars;
REGISTER QUERY each AS SELECT id FROM cars INSIDE (0, 0, 1, 1);
"""
CARS = """id,x,y,at,v
a,1,1,2025-01-01T00:00:00Z,1
b,2,1,2025-01-01T00:00:00Z,2
c,7,1,2025-01-01T00:00:00Z,4
d,90,1,2025-01-01T00:00:00Z,8
b,8,1,2025-01-01T00:00:01Z,2
a,90,1,2025-01-01T00:00:02Z,1
"""
HALF = (
    '{{"type":"Feature","properties":{{"half":"{}"}},"geometry":{{"type":"Polygon","coordinates":[[{}]]}}}}'
)
WEST, EAST = "[0,0],[5,0],[5,9],[0,9],[0,0]", "[5,0],[9,0],[9,9],[5,9],[5,0]"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    halves = f"{HALF.format('west', WEST)},{HALF.format('east', EAST)}"
    (tmp_path / "halves.geojson").write_text(f'{{"type":"FeatureCollection","features":[{halves}]}}')
    (tmp_path / "cars.csv").write_text(CARS)
    with local_session(tmp_path, slots=2, max_records=1, published=True) as opened:
        run(opened, STREAM.format(cars=tmp_path / "cars.csv", halves=tmp_path / "halves.geojson"))
        yield opened


def run(session: Session, text: str) -> None:
    list(session.execute(text))


def look(session: Session, text: str) -> Scene:
    [feed] = session.execute(text)
    assert isinstance(feed, MapFeed)
    scene = feed.look(100)
    assert scene is not None
    return scene


def drawn(scene: Scene) -> dict[str, DrawnQuery]:
    return {one.query.name: one for one in scene.drawn}


def values(shades: RegionShades | None) -> dict[str, tuple[float, float]]:
    assert shades is not None
    return {one.outline.name: (one.value, one.share) for one in shades.regions}


def test_regions_have_the_values_of_their_groups_and_the_group_of_no_region_is_left_out(
    session: Session,
) -> None:
    run(session, "RUN 1 STEPS;")
    found = drawn(look(session, "MAP cars;"))
    assert values(found["by_half"].shades) == {"west": (2, 1.0), "east": (1, 0.5)}
    assert found["by_half"].size == 3
    shades = found["by_half"].shades
    assert shades is not None and (shades.column, shades.least, shades.most) == ("n", 0, 2)
    outlines = {one.outline.name: one.outline.rings for one in shades.regions}
    assert {name: np.max(ring, axis=0).tolist() for name, [ring] in outlines.items()} == {
        "west": [5, 9],
        "east": [9, 9],
    }


def test_the_value_is_the_first_number_that_is_made_of_aggregates(session: Session) -> None:
    run(session, "RUN 1 STEPS;")
    shades = drawn(look(session, "MAP cars;"))["speeds"].shades
    assert values(shades) == {"west": (-3.5, 0.0), "east": (-1.0, 1.0)}
    assert shades is not None and shades.column == "v"


def test_only_queries_by_a_set_of_regions_alone_shade(session: Session) -> None:
    run(session, "RUN 1 STEPS;")
    found = drawn(look(session, "MAP cars;"))
    assert [name for name, one in found.items() if one.shades is None] == ["names", "finer", "whole", "each"]
    assert [found[name].size for name in ("finer", "names", "whole")] == [4, 3, 1]


@pytest.mark.parametrize("folding", [False, True])
def test_shades_follow_the_answer_also_over_a_folded_log(session: Session, folding: bool) -> None:
    [feed] = session.execute("MAP cars by_half;")
    assert isinstance(feed, MapFeed)
    expected = [{"west": 2, "east": 1}, {"west": 1, "east": 2}, {"east": 2}]
    for wanted in expected:
        run(session, "RUN 1 STEPS;")
        if folding:
            connection = session.connection
            fold_log(
                connection.db,
                connection.progress().batch,
                connection.book.key_of,
                lambda _: nullcontext(True),
            )
        scene = feed.look(100)
        assert scene is not None
        [one] = scene.drawn
        assert {name: value for name, (value, _) in values(one.shades).items()} == wanted


def test_a_map_begins_without_values(session: Session) -> None:
    assert values(drawn(look(session, "MAP cars by_half;"))["by_half"].shades) == {}


def test_shaded_regions_are_not_drawn_a_second_time(session: Session) -> None:
    run(session, "RUN 1 STEPS;")
    assert [area.name for area in look(session, "MAP cars;").areas] == ["away"]
    run(session, "DROP QUERY by_half; DROP QUERY speeds;")
    names = {area.name for area in look(session, "MAP cars;").areas}
    assert names == {"away", "halves", "halves[west]", "halves[east]"}


@pytest.mark.parametrize(
    ("found", "ends"),
    [
        ([], (0, 0)),
        ([0], (0, 0)),
        ([7], (0, 7)),
        ([3, 9], (0, 9)),
        ([50.1, 50.4], (50.1, 50.4)),
        ([-2, 9], (-2, 9)),
        ([-7], (-7, -7)),
    ],
)
def test_a_scale_begins_at_0_unless_values_are_negative_or_far_from_it(
    found: list[float], ends: tuple[float, float]
) -> None:
    assert scale(found) == ends
