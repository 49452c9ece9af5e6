"""SELECT … FROM 'file': rows of files, answered once without a stream and without the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message
from stqsh.lang.errors import BindError, LangError

ROWS = [
    {"id": f"o{i % 4}", "lon": i % 5 * 1.0, "lat": i % 3 * 1.0, "ts": 1_700_000_000 + i, "n": i, "word": w}
    for i, w in enumerate(["jam", "rain", None, "jam"] * 5)
]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "plain.csv").write_text("name;size\na;1\nb;\nc;3\n")
    with local_session(tmp_path) as session:
        yield session


def rows(session: Session, tmp_path: Path, text: str) -> list[dict[str, Any]]:
    [answer] = session.execute(text.replace("@", str(tmp_path)))
    assert isinstance(answer, Answer)
    return answer.table.to_pylist()


def test_all_rows_come_in_their_order(session: Session, tmp_path: Path) -> None:
    session.connection.start = lambda home: pytest.fail("a file needs no engine")
    found = rows(session, tmp_path, "SELECT * FROM '@/rows.jsonl';")
    assert [row["n"] for row in found] == list(range(20))
    assert list(found[0]) == ["id", "lon", "lat", "ts", "n", "word"]
    assert found[0]["ts"].year == 2023


def test_clauses_of_a_select_hold_for_a_file(session: Session, tmp_path: Path) -> None:
    ask = lambda text: rows(session, tmp_path, text)  # noqa: E731
    assert ask("SELECT n FROM '@/rows.jsonl' WHERE n > 15 AND word = 'jam';") == [{"n": 16}, {"n": 19}]
    assert ask("SELECT r.n FROM '@/rows.jsonl' r WHERE r.word IS NULL ORDER BY n DESC LIMIT 2;") == [
        {"n": 18},
        {"n": 14},
    ]
    inside = [row["n"] for row in ROWS if row["lon"] <= 1 and row["lat"] <= 1]
    found = ask("SELECT n FROM '@/rows.jsonl' INSIDE (0, 0, 1, 1);")
    assert [row["n"] for row in found] == inside
    assert ask("SELECT COUNT(*) FROM '@/rows.jsonl' INSIDE (0, 0, 1, 1);") == [{"count": len(inside)}]
    assert ask("SELECT n FROM '@/rows.jsonl' WHERE n > 5 NEAREST 1 TO (0, 0);") == [{"n": 15}]
    assert ask("SELECT word, COUNT(*) FROM '@/rows.jsonl' GROUP BY word;") == [
        {"word": "jam", "count": 10},
        {"word": "rain", "count": 5},
        {"word": None, "count": 5},
    ]
    assert ask("SELECT COUNT(*) FROM '@/rows.jsonl' WHERE time >= '2023-11-14T22:13:30';") == [{"count": 10}]


def test_a_set_of_regions_groups_rows(session: Session, tmp_path: Path) -> None:
    box = [[[-1, -1], [1.5, -1], [1.5, 3], [-1, 3], [-1, -1]]]
    place = {"type": "Polygon", "coordinates": box}
    zone = {"type": "Feature", "properties": {"name": "west"}, "geometry": place}
    (tmp_path / "z.geojson").write_text(json.dumps(zone))
    list(session.execute(f"CREATE REGIONS zones FROM FILE '{tmp_path}/z.geojson';"))
    text = "SELECT REGION(zones) z, COUNT(*) c FROM '@/rows.jsonl' GROUP BY REGION(zones);"
    found = rows(session, tmp_path, text)
    assert found == [{"z": "west", "c": 8}, {"z": None, "c": 12}]


def test_a_file_needs_neither_place_nor_key(session: Session, tmp_path: Path) -> None:
    text = "SELECT name, size FROM '@/plain.csv' (separator => ';') WHERE size > 0;"
    assert rows(session, tmp_path, text) == [{"name": "a", "size": 1}, {"name": "c", "size": 3}]
    options = "separator => ';', x => 'size', y => 'size', planar => true"
    text = f"SELECT name FROM '@/plain.csv' ({options}) INSIDE (0, 0, 2, 2);"
    assert rows(session, tmp_path, text) == [{"name": "a"}]


def test_rows_that_cannot_be_read_are_counted(session: Session, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n" + "1,2\n" * 80_000 + "x,2\n")
    message, answer = session.execute(f"SELECT SUM(a) s FROM '{tmp_path}/bad.csv';")
    assert isinstance(message, Message) and isinstance(answer, Answer)
    assert message.text.startswith("1 record was set aside, the first at ")
    assert message.text.endswith("bad.csv:80002: a: 'x' is not a valid BIGINT")
    assert answer.table.to_pylist() == [{"s": 80_000}]


WRONG = {
    "SELECT * FROM '@/none.csv'": "no file matches '@/none.csv'",
    "SELECT * FROM '@/plain.csv' (seperator => ';')": "FORMAT CSV has no option seperator",
    "SELECT * FROM '@/plain.csv' (format => 'xls')": "unknown format 'xls'",
    "SELECT sise FROM '@/plain.csv' (separator => ';')": "has no column 'sise'",
    "SELECT * FROM '@/plain.csv' INSIDE (0, 0, 1, 1)": "look like its location",
    "SELECT ST_X(loc) FROM '@/plain.csv'": "look like its location",
    "SELECT * FROM '@/plain.csv' (x => 'nix')": "there is no column 'nix'",
    "SELECT * FROM '@/rows.jsonl' (x => 'word')": "word is a STRING, and cannot be LOCATION",
    "SELECT COUNT(*) FROM '@/rows.jsonl' SYNC 1 s": "SYNC is for streams: a file is read once",
    "SELECT * FROM '@/rows.jsonl', taxis": "a file cannot be joined",
    "SELECT * FROM '@/rows.jsonl' NEAREST 2 TO 'o1'": "has no focal objects",
    "REGISTER QUERY q AS SELECT * FROM '@/rows.jsonl'": "a file is read once",
    "SELECT time FROM '@/plain.csv' (separator => ';')": "has no column 'time'",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_told_at_its_place(session: Session, tmp_path: Path, text: str) -> None:
    with pytest.raises(LangError) as error:
        list(session.execute(text.replace("@", str(tmp_path)) + ";"))
    assert WRONG[text].replace("@", str(tmp_path)) in error.value.message
    assert error.value.piece is not None


def test_blocks_of_a_file_add_up(session: Session, tmp_path: Path) -> None:
    from stqsh.sources import source_files

    lines = [f"k{i % 7},{i},{(i * 7919) % 1000}" for i in range(5000)]
    (tmp_path / "many.csv").write_text("\n".join(["k,i,v", *lines, ""]))
    asked = (
        "SELECT k, COUNT(*) c, SUM(v) s, MIN(v) m FROM '@/many.csv' GROUP BY k HAVING COUNT(*) > 1;",
        "SELECT i, v FROM '@/many.csv' ORDER BY v, i DESC LIMIT 7;",
    )
    whole = [rows(session, tmp_path, text) for text in asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_files, "GROUP_BYTES", 1)
        patch.setattr("stqsh.sources.formats.row_blocks.BLOCK_BYTES", 900)
        assert [rows(session, tmp_path, text) for text in asked] == whole
    assert whole[0][0]["c"] == 715
    with pytest.raises(BindError):
        rows(session, tmp_path, "SELECT x FROM '@/many.csv';")


def test_rows_of_a_file_are_of_no_step(session: Session, tmp_path: Path) -> None:
    [answer] = session.execute(f"SELECT n FROM '{tmp_path}/rows.jsonl' LIMIT 1;")
    assert isinstance(answer, Answer)
    assert answer.is_timeless
