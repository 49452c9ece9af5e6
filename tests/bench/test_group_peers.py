"""Aggregates of each minute beside other systems: wrong answers are found, right ones are those of pandas."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from stqsh.bench.harness.workload import rectangles
from stqsh.bench.peers.groups import compare as comparing
from stqsh.bench.peers.groups import databases, processors
from stqsh.bench.peers.groups.case import GroupCase, GroupPeer, check
from stqsh.bench.peers.groups.compare import compare
from stqsh.bench.peers.groups.processors import read_rows

CASE = GroupCase(queries=40, per_tick=50, minutes=1, topics=3, side=0.2)
ROWS = pd.DataFrame({"query": [0, 0, 1], "topic": ["a", "b", "a"], "n": [2, 1, 4], "mean": [1.5, 2.0, 3.25]})
OTHERS = (databases.DUCKDB, databases.POSTGIS, processors.FLINK)


def test_a_case_has_a_file_for_each_minute_and_the_squares(tmp_path: Path) -> None:
    CASE.write(tmp_path)
    first, last = (pq.read_table(tmp_path / f"{name}.parquet") for name in CASE.names)
    assert len(first) == len(last) == 60 * CASE.per_tick
    assert first["ts"].to_pandas().max() < last["ts"].to_pandas().min()
    assert len(pq.read_table(tmp_path / "squares.parquet")) == CASE.queries


@pytest.mark.parametrize(
    "wrong",
    [
        ROWS.iloc[:2],
        ROWS.assign(n=[2, 1, 5]),
        ROWS.assign(mean=[1.5, 2.0, 3.26]),
        ROWS.assign(topic=["a", "b", "c"]),
        ROWS.assign(query=[0, 0, 2]),
    ],
)
def test_other_answers_are_found(wrong: pd.DataFrame) -> None:
    check("same", ROWS, ROWS.iloc[::-1])
    with pytest.raises(ValueError, match="peer answers otherwise"):
        check("peer", ROWS, wrong)


def test_rows_that_flink_prints_are_read_by_the_minute() -> None:
    lines = [
        "1> +I[1970-01-01T00:00, 3, topic 1, 2, 1.5]",
        "2> +I[1970-01-01T00:01, 12, topic 0, 4, 2.25]",
        "",
    ]
    seconds, last = read_rows(lines)
    assert len(seconds) == 1 and seconds[0] >= 0
    assert last.to_dict("records") == [{"query": 12, "topic": "topic 0", "n": 4, "mean": 2.25}]
    assert read_rows([])[0] == []


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.parametrize("peer", OTHERS, ids=lambda peer: peer.name)
def test_other_systems_answer_as_pandas_does(peer: GroupPeer) -> None:
    if why := peer.missing():
        pytest.skip(why)
    with tempfile.TemporaryDirectory() as own:  # pytest's folders are closed to PostgreSQL's user
        CASE.write(Path(own))
        outcome = peer.run(CASE, Path(own))
        check(peer.name, truth(Path(own)), outcome.answer)
    assert len(outcome.seconds) == CASE.minutes and min(outcome.seconds) > 0


@pytest.mark.spark
def test_stqsh_and_spark_answer_as_pandas_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, pd.DataFrame] = {}

    def noted(name: str, wanted: pd.DataFrame, answer: pd.DataFrame) -> None:
        found[name] = answer
        check(name, wanted, answer)

    monkeypatch.setattr(comparing, "check", noted)
    monkeypatch.setattr(comparing, "PEERS", (databases.DUCKDB, processors.SPARK))
    monkeypatch.setenv("DUCKDB_PYTHON", "/nowhere/python")
    told: list[str] = []
    rows = compare(CASE, tmp_path, told.append)
    assert any("DuckDB is left out" in text for text in told)
    assert [row["what"] for row in rows] == ["minutes of stqsh", "minutes of PySpark"]
    wanted = truth(tmp_path)
    assert len(wanted) > CASE.queries
    assert np.isfinite(wanted["mean"]).all()
    for answer in found.values():
        check("pandas", answer, wanted)


def truth(folder: Path) -> pd.DataFrame:
    """The answers at the end of the last minute, by pandas."""
    posts = pq.read_table(folder / f"{CASE.names[-1]}.parquet").to_pandas()
    x, y = posts["x"].to_numpy(), posts["y"].to_numpy()
    parts = []
    for query, (x1, y1, x2, y2) in enumerate(rectangles(CASE.queries, CASE.side).tolist()):
        inside = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
        mine = posts[inside].groupby("topic")["len"].agg(n="count", mean="mean").reset_index()
        parts.append(mine.assign(query=query))
    return pd.concat(parts, ignore_index=True)
