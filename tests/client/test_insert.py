"""INSERT INTO and feed, from the statement to the answer."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.local import local_session
from support.running import parsed, run_script

import stqsh
from stqsh.client.api import Session
from stqsh.client.results import Rows
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError

CREATE = """CREATE MOVING STREAM buses (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, n INT, ok BOOLEAN)
  KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS{};
REGISTER QUERY centre AS SELECT oid, lon, n, ok FROM buses INSIDE (10, 50, 11, 51);
"""
ROWS: list[dict[str, Any]] = [
    {"oid": "1", "lon": 10.5, "lat": 50.5, "ts": "2026-01-01T00:00:00Z", "n": 1, "ok": True},
    {"oid": "2", "lon": 12.5, "lat": 50.5, "ts": "2026-01-01T00:00:00Z", "n": None, "ok": None},
    {"oid": "3", "lon": 10.25, "lat": 50.5, "ts": "2026-01-01T00:00:00.5Z", "n": -3, "ok": False},
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "home", slots=2, published=True) as session:
        yield session


def answers(session: Session, text: str) -> list[dict[str, Any]]:
    return [line["row"] for line in parsed(run_script(session, text)) if "statement" in line]


def test_inserts_become_updates(session: Session) -> None:
    script = f"""{CREATE.format("")}
    INSERT INTO buses VALUES ('1', 21 / 2, 50.5, '2026-01-01T00:00:00', 2 * 3, 1 < 2),
      ('b' || 'c', 10.5, 50.5, NOW - 1 min, NULL, NULL);
    RUN 1 STEPS;
    INSERT INTO buses (ts, oid) VALUES (NOW, '1');
    INSERT INTO buses (ok, ts, oid, lat, lon) VALUES (FALSE, NOW, 'bc', 60, 10.5);
    RUN 1 STEPS;
    """
    found = [
        (line["op"], line["key"], line["row"], line.get("why"))
        for line in parsed(run_script(session, script))
    ]
    first = {"oid": "1", "lon": 10.5, "n": 6, "ok": True}
    second = {"oid": "bc", "lon": 10.5, "n": None, "ok": None}
    assert found[:2] == [("+", "1", first, None), ("+", "bc", second, None)]
    assert [(op, key, why) for op, key, _, why in found[2:]] == [("-", "1", "gone"), ("-", "bc", "left")]


def test_all_rows_of_a_statement_or_none(session: Session) -> None:
    list(session.execute(CREATE.format("")))
    for row, why in (
        ("(NULL, 1, 2, NOW, 1, TRUE)", "oid: the key is empty"),
        ("('a', 1000, 2, NOW, 1, TRUE)", "lon: 1000.0 is beyond 180 degrees"),
        ("('a', 1, NULL, NOW, 1, TRUE)", "lat: empty, while lon is not"),
        ("('a', 1, 2, NULL, 1, TRUE)", "ts: the time is empty"),
        ("('a', 1, 2, NOW, 3000000 * 10000, TRUE)", "n is an INT, and 30000000000 does not fit"),
    ):
        text = f"INSERT INTO buses VALUES ('good', 10.5, 50.5, NOW, 1, TRUE),\n {row};"
        with pytest.raises(BindError) as caught:
            list(session.execute(text))
        assert caught.value.message == why
        assert caught.value.place is not None and caught.value.place.line == 2
    assert answers(session, "RUN 1 STEPS; SELECT COUNT(*) AS n FROM buses;") == [{"n": 0}]


def letters(session: Session) -> list[tuple[Any, ...]]:
    """Return file, line and reason of the dead letters."""
    *_, rows = session.execute("SHOW DEAD LETTERS;")
    assert isinstance(rows, Rows)
    return [row[1:4] for row in rows.rows]


def csv(header: bool = True) -> str:
    lines = [",".join("" if value is None else str(value) for value in row.values()) for row in ROWS]
    return "\n".join([*([",".join(ROWS[0])] if header else []), *lines]) + "\n"


def feature(row: dict[str, Any]) -> dict[str, Any]:
    place = {"type": "Point", "coordinates": [row["lon"], row["lat"]]}
    rest = {name: value for name, value in row.items() if name not in ("lon", "lat")}
    return {"type": "Feature", "geometry": place, "properties": rest}


def written(folder: Path, name: str) -> Path:
    """Write the rows in the format of a file's name."""
    path, lines = folder / name, b"\n".join(map(orjson.dumps, ROWS))
    if ".csv" in name:
        path.write_bytes(gzip.compress(csv().encode()) if name.endswith(".gz") else csv().encode())
    elif name.endswith(".jsonl"):
        path.write_bytes(lines)
    elif name.endswith(".geojson"):
        path.write_bytes(orjson.dumps({"type": "FeatureCollection", "features": list(map(feature, ROWS))}))
    else:
        parquet.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.geojson"])
def test_files_are_fed_by_their_names(session: Session, tmp_path: Path, name: str) -> None:
    list(session.execute(CREATE.format("")))
    assert stqsh.feed(session, "buses", written(tmp_path, name)) == (3, 0)
    assert answers(session, "RUN 1 STEPS; SELECT oid, lon, n, ok FROM buses;") == [
        {name: row[name] for name in ("oid", "lon", "n", "ok")} for row in ROWS
    ]


def test_tables_are_fed(session: Session) -> None:
    list(session.execute(CREATE.format("")))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    columns: dict[str, list[Any]] = {
        "n": [1, 2], "oid": ["a", ""], "lon": [1, 2], "lat": [3.5, 4], "ts": [at, at], "ok": [True, None],
    }  # fmt: skip
    assert stqsh.feed(session, "buses", columns) == (1, 1)
    assert stqsh.feed(session, "buses", pd.DataFrame(columns).assign(oid=["b", "c"])) == (2, 0)
    found = answers(session, "RUN 1 STEPS; SELECT oid, n FROM buses;")
    assert found == [{"oid": "a", "n": 1}, {"oid": "b", "n": 1}, {"oid": "c", "n": 2}]
    assert letters(session) == [("table", 2, "oid: the key is empty")]


def test_bad_records_become_letters_and_the_formats_options_count(session: Session, tmp_path: Path) -> None:
    list(session.execute(CREATE.format(" FORMAT CSV (header => false)")))
    path = tmp_path / "day.txt"
    path.write_text(csv(header=False) + "4,east,50.5,2026-01-01,1,true\n")
    assert stqsh.feed(session, "buses", path) == (3, 1)
    assert answers(session, "RUN 1 STEPS; SELECT COUNT(*) AS n FROM buses;") == [{"n": 3}]
    assert letters(session) == [(str(path), 4, "lon: 'east' is not a valid DOUBLE")]


def test_what_cannot_be_fed_is_said(session: Session, tmp_path: Path) -> None:
    list(session.execute(CREATE.format("")))
    with pytest.raises(StqshError, match="there is no stream busses") as caught:
        stqsh.feed(session, "busses", tmp_path)
    assert isinstance(caught.value, BindError)
    assert caught.value.near == "buses"
    (tmp_path / "a.csv").write_text("oid,lon,ts\n1,2,3\n")
    with pytest.raises(StqshError, match="no column lat in"):
        stqsh.feed(session, "buses", tmp_path / "a.csv")
    with pytest.raises(StqshError, match="no column n in table"):
        stqsh.feed(session, "buses", {"oid": ["a"], "lon": [1], "lat": [2], "ts": [3]})


def test_a_select_sees_what_its_client_has_put_into_a_stream_that_plays(session: Session) -> None:
    list(session.execute(CREATE.format("") + "PLAY buses;"))
    for number, lon in enumerate((10.25, 10.5, 10.75)):
        values = f"('1', {lon}, 50.5, NOW, {number}, TRUE)"
        assert answers(
            session, f"INSERT INTO buses VALUES {values}; SELECT lon, n FROM buses WHERE oid = '1';"
        ) == [{"lon": lon, "n": number}]
        row = {"oid": "2", "lon": lon, "lat": 50.5, "ts": datetime.now(UTC), "n": number, "ok": True}
        stqsh.feed(session, "buses", [row])
        assert answers(session, "SELECT n FROM buses WHERE oid = '2';") == [{"n": number}]
    assert not session.connection.inserted


def test_a_select_does_not_wait_for_a_stream_that_stands_still(session: Session) -> None:
    list(session.execute(CREATE.format("") + "PLAY buses; PAUSE buses; RUN 1 STEPS;"))
    insert = "INSERT INTO buses VALUES ('1', 10.5, 50.5, NOW, 1, TRUE);"
    assert answers(session, f"{insert} SELECT COUNT(*) AS n FROM buses;") == [{"n": 0}]
