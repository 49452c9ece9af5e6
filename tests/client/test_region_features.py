"""GROUP BY REGION keeps the regions' shapes in GeoJSON, in snapshots and in updates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shell.samples import Paper
from support.local import local_session

from client.test_region_shades import CARS, EAST, HALF, STREAM, WEST, run
from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Answer, Updates

SHAPES = {"west": [json.loads(f"[{WEST}]")], "east": [json.loads(f"[{EAST}]")], None: None}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    halves = f"{HALF.format('west', WEST)},{HALF.format('east', EAST)}"
    (tmp_path / "halves.geojson").write_text(f'{{"type":"FeatureCollection","features":[{halves}]}}')
    (tmp_path / "cars.csv").write_text(CARS)
    with local_session(tmp_path, slots=2, max_records=1, published=True) as opened:
        run(opened, STREAM.format(cars=tmp_path / "cars.csv", halves=tmp_path / "halves.geojson"))
        run(opened, "RUN 2 STEPS;")
        yield opened


def features(paper: Paper) -> list[dict[str, Any]]:
    return [json.loads(line) for line in paper.text.splitlines()]


def corners(feature: dict[str, Any]) -> Any:
    """The corners of a Feature's rings, each ring from its least corner on."""
    geometry = feature["geometry"]
    return None if geometry is None else [sorted(ring[:-1]) for ring in geometry["coordinates"]]


@pytest.mark.parametrize(
    ("select", "name"),
    [
        ("REGION(halves) AS half, COUNT(*) AS n FROM cars GROUP BY REGION(halves)", "half"),
        ("COUNT(*) AS n, REGION(halves) FROM cars GROUP BY id, REGION(halves)", "region"),
        ("id, REGION(halves) AS half FROM cars", "half"),
    ],
)
def test_a_snapshot_by_region_has_the_regions_as_geometries(session: Session, select: str, name: str) -> None:
    [answer] = session.execute(f"SELECT {select};")
    assert isinstance(answer, Answer)
    paper = Paper("geojson")
    paper.writer.answer(1, answer)
    found = features(paper)
    assert {one["properties"][name] for one in found} == {"west", "east", None}
    for one in found:
        shape = SHAPES[one["properties"][name]]
        assert corners(one) == (shape and [sorted(ring[:-1]) for ring in shape])


def test_a_snapshot_with_its_location_stays_a_point(session: Session) -> None:
    [answer] = session.execute("SELECT x, y, REGION(halves) AS half FROM cars;")
    assert isinstance(answer, Answer)
    paper = Paper("geojson")
    paper.writer.answer(1, answer)
    assert {one["geometry"]["type"] for one in features(paper)} == {"Point"}


@pytest.mark.parametrize("query", ["by_half", "speeds", "finer"])
def test_updates_of_groups_by_region_have_the_regions_as_geometries(session: Session, query: str) -> None:
    [tail] = session.execute(f"TAIL {query} FROM START;")
    assert isinstance(tail, Subscription)
    paper = Paper("geojson")
    for item in tail:
        assert isinstance(item, Updates)
        paper.writer.updates(item)
    found = features(paper)
    assert len(found) > 3
    for one in found:
        shape = SHAPES[one["properties"]["key"][0]]
        assert corners(one) == (shape and [sorted(ring[:-1]) for ring in shape])
