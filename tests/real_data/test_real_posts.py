"""Ten thousand keyword queries over a year of a city's reports; districts over all fixes of its buses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shapely
from support import buses, reports
from support.folding import fold, told
from support.local import local_session

from stqsh.sources.region_files import read_regions
from stqsh.spec.stream import FileSourceSpec

pytestmark = [pytest.mark.data, pytest.mark.slow, pytest.mark.timeout(600)]
QUERIES, LOOKS = 10_000, 6
HOUR_US = 3600 * 1_000_000


@pytest.mark.skipif(not reports.FOLDER.is_dir(), reason=f"{reports.FOLDER} is not there")
def test_ten_thousand_keyword_queries(tmp_path: Path) -> None:
    posts = reports.load()
    asked = reports.queries(posts, QUERIES)
    with local_session(tmp_path, slots=2, max_records=20_000) as session:
        log = told(session, reports.STREAM + "".join(query.statement for query in asked) + "RUN;")
    begun, last = (int(t) // HOUR_US * HOUR_US for t in (posts["t"].min(), posts["t"].max()))
    draw, brute = np.random.default_rng(5), reports.Brute(posts)
    for at_us in [*sorted(int(t) // HOUR_US * HOUR_US for t in draw.choice(posts["t"], LOOKS)), last]:
        assert fold(log[log["at_us"] <= at_us]) == brute.answers(asked, at_us, HOUR_US, begun)


DISTRICTS = reports.DATA / "districts" / "austin.geojson"
STREAM = """
CREATE EVENT STREAM fixes (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY id LOCATION (x, y) TIME ts FROM FILE '{}' TICK 1 day;
CREATE REGIONS districts FROM FILE '{}';
"""


@pytest.mark.skipif(
    not buses.FOLDER.is_dir() or not DISTRICTS.is_file(), reason="the data sets are not there"
)
def test_every_fix_of_every_bus_is_in_its_districts(tmp_path: Path) -> None:
    fixes = buses.load()
    points = pd.DataFrame({"id": fixes.index, "x": fixes["longitude"], "y": fixes["latitude"]})
    points["ts"] = pd.to_datetime(fixes["t"], unit="us", utc=True)
    points.to_parquet(tmp_path / "fixes.parquet")
    regions = read_regions(FileSourceSpec(str(DISTRICTS)), None)
    script = STREAM.format(tmp_path / "fixes.parquet", DISTRICTS)
    for number, name in enumerate(regions.members):
        place = f"districts['{name.replace(chr(39), 2 * chr(39))}']"
        script += f"REGISTER QUERY d{number} AS SELECT id FROM fixes INSIDE {place};\n"
    with local_session(tmp_path, slots=2, max_records=50_000) as session:
        held = fold(told(session, script + "RUN;"))
    assert sum(map(len, held.values())) == 484_623
    shapes = shapely.from_wkb(regions.geometry.column("wkb").to_pylist())
    places = shapely.points(points["x"], points["y"])
    for number, shape in enumerate(shapes):
        shapely.prepare(shape)
        expected = set(np.flatnonzero(shapely.intersects(shape, places)).tolist())
        assert held.get(f"d{number}", set()) == expected, regions.members[number]
