"""Which columns of a select list hold lengths in metres, and which name regions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Answer

CREATE = """
CREATE MOVING STREAM cars (id STRING, lon DOUBLE, lat DOUBLE, at TIMESTAMP) KEY id LOCATION (lon, lat) TIME at
  FROM FILE '{cars}' TICK 1 s;
CREATE MOVING STREAM dots (id STRING, x DOUBLE, y DOUBLE, at TIMESTAMP) KEY id LOCATION (x, y) TIME at
  FROM FILE '{dots}' TICK 1 s PLANAR;
RUN;
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("lengths")
    (folder / "cars.csv").write_text("id,lon,lat,at\na,10,50,2025-01-01T00:00:00Z\n")
    (folder / "dots.csv").write_text("id,x,y,at\na,10,50,2025-01-01T00:00:00Z\n")
    with local_session(folder, slots=1, published=True) as opened:
        list(opened.execute(CREATE.format(cars=folder / "cars.csv", dots=folder / "dots.csv")))
        yield opened


@pytest.mark.parametrize(
    ("select", "lengths"),
    [
        ("id, DISTANCE FROM cars NEAREST 1 TO (10.1, 50)", {1}),
        ("DISTANCE AS far, id FROM cars INSIDE CIRCLE(10, 50, 1000)", {0}),
        ("COUNT(*), AVG(DISTANCE), MIN(DISTANCE) FROM cars INSIDE CIRCLE(10, 50, 1000)", {1, 2}),
        ("id, ST_DISTANCE(loc, ST_POINT(10, 51)) AS far FROM cars", {1}),
        ("id, DISTANCE / 2 FROM cars NEAREST 1 TO (10.1, 50)", set()),
        ("id, DISTANCE FROM dots NEAREST 1 TO (10.1, 50)", set()),
        ("id, lon FROM cars", set()),
    ],
)
def test_lengths_in_metres_are_known(session: Session, select: str, lengths: set[int]) -> None:
    [answer] = [one for one in session.execute(f"SELECT {select};") if isinstance(one, Answer)]
    assert answer.in_metres == lengths
