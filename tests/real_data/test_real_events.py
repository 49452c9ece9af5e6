"""Real events: a year of a city's reports, by district and by word, against a plain reading of the files."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shapely
from support.local import local_session
from support.running import parsed, run_script

from stqsh.sources.region_files import read_regions
from stqsh.spec.stream import FileSourceSpec

DATA = Path(os.environ.get("STQSH_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not here; set STQSH_DATA"),
]

WORDS = ("bicycle", "snow plow", "rodent")
DISTRICTS = DATA / "districts" / "boston.geojson"
REPORTS = DATA / "boston_311" / "*.csv.gz"


def script(members: list[str]) -> str:
    """All reports, for ever; a query a district, and a query a word."""
    create = f"""
    CREATE EVENT STREAM reports (CASE_ENQUIRY_ID BIGINT, OPEN_DT TIMESTAMP, LATITUDE DOUBLE, LONGITUDE DOUBLE,
        CASE_TITLE STRING)
      KEY CASE_ENQUIRY_ID LOCATION (LONGITUDE, LATITUDE) TIME OPEN_DT TEXT CASE_TITLE
      FROM FILE '{REPORTS}'
      FORMAT CSV (timestamp => '%m/%d/%Y %I:%M:%S %p', zone => 'America/New_York')
      TICK 1 day;
    CREATE REGIONS districts FROM FILE '{DISTRICTS}';
    """
    by_district = [
        f"REGISTER QUERY d{number} AS SELECT CASE_ENQUIRY_ID FROM reports INSIDE districts['{name}'];"
        for number, name in enumerate(name.replace("'", "''") for name in members)
    ]
    by_word = [
        f"REGISTER QUERY w{number} AS SELECT CASE_ENQUIRY_ID FROM reports"
        f" WHERE CASE_TITLE CONTAINS '{words}';"
        for number, words in enumerate(WORDS)
    ]
    return "\n".join([create, *by_district, *by_word])


@pytest.fixture(scope="module")
def reports() -> pd.DataFrame:
    """The reports, as pandas reads them."""
    columns = ["CASE_ENQUIRY_ID", "LATITUDE", "LONGITUDE", "CASE_TITLE"]
    frames = [pd.read_csv(path, usecols=columns) for path in sorted(REPORTS.parent.glob(REPORTS.name))]
    return pd.concat(frames, ignore_index=True)


def test_reports_by_district_and_by_word(tmp_path: Path, reports: pd.DataFrame) -> None:
    regions = read_regions(FileSourceSpec(str(DISTRICTS)), None)
    shapes = shapely.from_wkb(regions.geometry.column("wkb").to_pylist())
    with local_session(tmp_path, slots=2, max_records=20_000) as session:
        lines = parsed(run_script(session, script(regions.members)))
    answers: dict[str, set[int]] = defaultdict(set)
    for line in lines:
        assert line["op"] == "+" and line["key"] not in answers[line["query"]]
        answers[line["query"]].add(line["key"])
    ids, inside = reports.CASE_ENQUIRY_ID.to_numpy(), np.zeros(len(reports), np.bool_)
    points = shapely.points(reports.LONGITUDE, reports.LATITUDE)
    for number, shape in enumerate(shapes):
        shapely.prepare(shape)
        expected = shapely.intersects(shape, points)
        inside |= expected
        assert answers[f"d{number}"] == set(ids[expected].tolist()), regions.members[number]
    assert int(inside.sum()) == 121_120
    terms = [set(re.findall(r"[^\W_]+", str(title).lower())) for title in reports.CASE_TITLE]
    for number, words in enumerate(WORDS):
        wanted = set(words.split())
        expected = np.array([wanted <= found for found in terms])
        assert answers[f"w{number}"] == set(ids[expected].tolist()), words
