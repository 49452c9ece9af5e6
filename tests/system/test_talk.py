"""What the town talks about: the script's answers of each minute against a plain reading of the messages."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import shapely
from support.local import local_session
from support.reports import terms
from support.running import parsed, run_script

SAMPLE = Path(__file__).parents[2] / "sample_data"
START = datetime.fromisoformat("2025-06-14T18:00:00Z")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    script = SAMPLE / "talk.stq"
    with local_session(tmp_path_factory.mktemp("talk"), 2) as session:
        return parsed(run_script(session, script.read_text(encoding="utf-8"), script))


@pytest.fixture(scope="module")
def messages() -> pd.DataFrame:
    """The messages that have a place, each with its quarter."""
    rows = list(map(json.loads, (SAMPLE / "chat.jsonl").read_text(encoding="utf-8").splitlines()))
    quarters = json.loads((SAMPLE / "quarters.geojson").read_text(encoding="utf-8"))["features"]
    shapes = {one["properties"]["quarter"]: shapely.geometry.shape(one["geometry"]) for one in quarters}
    found = pd.DataFrame(rows).dropna(subset=["lon", "lat"])
    assert len(found) == len(rows) - 1
    places = shapely.points(found["lon"], found["lat"])
    within = pd.DataFrame({name: shapely.intersects(shape, places) for name, shape in shapes.items()})
    assert (within.sum(axis=1) == 1).all()
    found["ts"] = pd.to_datetime(found["ts"])
    return found.assign(quarter=within.idxmax(axis=1).to_numpy())


def folded(lines: list[dict[str, Any]], query: str, until: datetime) -> dict[str, dict[str, Any]]:
    """The rows of an answer by quarter, after the steps up to a time."""
    held: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line.get("query") == query and datetime.fromisoformat(line["at"]) <= until:
            [quarter] = line["key"]
            if line["op"] == "+":
                held[quarter] = line["row"]
            else:
                assert held.pop(quarter) == line["row"]
    return held


@pytest.mark.parametrize("minute", range(1, 16))
def test_each_minute_tells_what_each_quarter_talks_about(
    lines: list[dict[str, Any]], messages: pd.DataFrame, minute: int
) -> None:
    until = START + timedelta(minutes=minute)
    times = messages["ts"]
    recent = messages[(times >= until - timedelta(minutes=3)) & (times < until)]
    expected = {}
    for quarter, group in recent.groupby("quarter"):
        counts = Counter(term for body in group["body"] for term in terms(body))
        words = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        expected[quarter] = {
            "quarter": quarter,
            "messages": len(group),
            "words": [list(one) for one in words],
        }
    assert folded(lines, "talk", until) == expected


def test_the_match_is_followed_where_most_is_said_about_it(
    lines: list[dict[str, Any]], messages: pd.DataFrame
) -> None:
    football, leaders = messages[messages["topic"] == "football"], set()
    for minute in range(1, 16):
        until = START + timedelta(minutes=minute)
        kept = football[(football["ts"] >= until - timedelta(minutes=10)) & (football["ts"] < until)]
        counts = kept.groupby("quarter").size().sort_index().sort_values(ascending=False, kind="stable")
        first = counts.head(1).to_dict()
        leaders.update(first)
        rows = folded(lines, "stadium", until)
        assert {quarter: row["messages"] for quarter, row in rows.items()} == first
    assert len(leaders) > 1
    whys = {line.get("why") for line in lines if line.get("query") == "stadium"}
    assert whys == {None, "changed", "overtaken"}


def test_rain_comes_and_goes(lines: list[dict[str, Any]]) -> None:
    whys = {line["why"] for line in lines if line.get("query") == "wet" and line["op"] == "-"}
    assert whys == {"changed", "left"}


def test_the_topics_are_asked_once(lines: list[dict[str, Any]], messages: pd.DataFrame) -> None:
    rows = [line["row"] for line in lines if "statement" in line]
    kept = messages[messages["ts"] < START + timedelta(minutes=10)]
    assert {row["topic"]: row["messages"] for row in rows} == kept.groupby("topic").size().to_dict()
    for row in rows:
        lengths = kept[kept["topic"] == row["topic"]]["body"].str.len()
        assert row["length"] == lengths.sum() / len(lengths)
