"""The real sets, each from `stqsh open` to an alert, a map and an export that other tools read."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(os.environ.get("STQSH_DATA") or Path(__file__).parents[3] / "shared" / "data")
pytestmark = [pytest.mark.spark, pytest.mark.data, pytest.mark.slow]

SETS = {
    "buses": (("capmetrics_austin_bus/2016-11-2*.csv.gz",), 115_000, "objects that move", "RUN FOR 6 h"),
    "reports": (("districts/boston.geojson", "boston_311"), 121_000, "events", "RUN FOR 20 days"),
    "aircraft": (("adsb",), 139_000, "objects that move", "RUN FOR 30 min"),
    "ships": (("ais_suez_boats/boat-positions.csv",), 22_287, "objects that move", ""),
    "earthquakes": (("earthquakes_world/earthquakes-23k.csv",), 23_409, "events", ""),
    "week": (("earthquakes_world/earthquakes_week_places.json",), 1_707, "events", ""),
}
"""The files of each set, about how many records they hold, what they are, and how much is played."""


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    given = {**os.environ, "STQSH_HOME": str(tmp_path / "home")}
    yield given
    subprocess.run([sys.executable, "-m", "stqsh", "stop", "-s", "set"], env=given, check=False)


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_opened_and_some_are_watched_drawn_and_exported(
    name: str, environ: dict[str, str], tmp_path: Path
) -> None:
    files, count, kind, run = SETS[name]
    if not DATA.is_dir():
        pytest.skip("the real data sets are not here; set STQSH_DATA")

    def stqsh(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "stqsh", *words]
        done = subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    paths = [str(DATA / file) for file in files]
    script = stqsh("open", *paths).stdout
    assert f": {kind}" in script
    assert re.search(r"-- plays at \d+x, all of it in about \d+ (s|min)", script)
    said = re.search(r"(?m)^-- (about )?([\d,]+) records", script)
    assert said is not None
    assert abs(int(said[2].replace(",", "")) / count - 1) < (0.2 if said[1] else 0.01)
    if not run:
        return
    [register] = re.findall(r"(?m)^-- (REGISTER .*)$", script)
    [alert] = re.findall(r"(?m)^-- (CREATE ALERT .*)$", script)
    [stream] = re.findall(r"CREATE (?:MOVING|EVENT) STREAM (\w+)", script)
    stqsh("open", "-s", "set", *paths)
    stqsh(
        *("-s", "set", "-c"),
        f"PAUSE {stream};\n{register}\n{alert}\n{run};\nMAP {stream} middle TO 'map.html';\n"
        f"\\o out.geojson\nSELECT * FROM {stream};\n\\o out.csv\nSELECT * FROM {stream};",
    )
    [row] = json.loads(f"[{stqsh('-s', 'set', '-c', 'SHOW ALERTS FORMAT jsonl').stdout}]")
    assert row["row"]["done"] > 0, row
    assert "<html" in (tmp_path / "map.html").read_text(encoding="utf-8")
    exported = read_export(tmp_path / "out.geojson")
    assert exported > 0
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as rows:
        assert sum(1 for _ in csv.DictReader(rows)) == exported
    if importlib.util.find_spec("duckdb"):
        rows_of_csv = importlib.import_module("duckdb").sql(f"SELECT count(*) FROM '{tmp_path}/out.csv'")
        assert rows_of_csv.fetchall() == [(exported,)]


def read_export(path: Path) -> int:
    """Return how many features a GeoJSON file has, as each tool that is installed counts them."""
    counts = {len(json.loads(path.read_text(encoding="utf-8"))["features"])}
    if shutil.which("jq"):
        done = subprocess.run(
            ["jq", ".features | length", str(path)], capture_output=True, text=True, check=True
        )
        counts.add(int(done.stdout))
    if importlib.util.find_spec("geopandas"):
        counts.add(len(importlib.import_module("geopandas").read_file(path)))
    [count] = counts
    return count
