"""Sources whose records cannot be read, and files that do not belong to a source: users are told at once."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Message
from stqsh.errors import SourceError
from stqsh.lang.errors import BindError

HEAD = "id,lon,lat,ts\n"
COLUMNS = "(id STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY id LOCATION (lon, lat) TIME ts"
START_S = 1_700_000_000


def file(folder: Path, lines: list[str], name: str = "in.csv", head: str = HEAD) -> Path:
    path = folder / name
    path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def create(session: Session, path: Path, columns: str = COLUMNS) -> str:
    (told,) = session.execute(f"CREATE MOVING STREAM cars {columns} FROM FILE '{path}';")
    assert isinstance(told, Message)
    return told.text


def run(session: Session) -> None:
    for _ in session.outcomes("RUN;"):
        pass


@pytest.mark.parametrize("columns", [COLUMNS, ""], ids=["declared", "inferred"])
@pytest.mark.parametrize(
    ("scale", "unit"),
    [(1, "seconds"), (1000, "milliseconds"), (10**6, "microseconds"), (10**9, "nanoseconds")],
)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.geojson"])
def test_the_unit_of_numbers_is_recognized_and_told(
    tmp_path: Path, name: str, scale: int, unit: str, columns: str
) -> None:
    times = [(START_S + n) * scale for n in range(20)]
    rows = {
        "in.csv": [f"o{n},1,2,{time}" for n, time in enumerate(times)],
        "in.jsonl": [f'{{"id":"o{n}","lon":1,"lat":2,"ts":{time}}}' for n, time in enumerate(times)],
        "in.geojson": [
            '{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]},'
            f'"properties":{{"id":"o{n}","ts":{time}}}}}'
            for n, time in enumerate(times)
        ],
    }[name]
    path = file(tmp_path, rows, name, HEAD if name == "in.csv" else "")
    with local_session(tmp_path) as session:
        assert f"ts: {unit} since the epoch" in create(session, path, columns)
        run(session)
        [answer] = session.execute("SELECT ts FROM cars WHERE id = 'o19';")
        assert answer.table.column(0)[0].as_py().replace(tzinfo=UTC).timestamp() == START_S + 19


def test_numbers_that_fit_no_other_unit_are_seconds(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        told = create(session, file(tmp_path, ["a,1,2,0", f"b,1,2,{START_S * 1000}"]))
        assert "ts: seconds since the epoch" in told


def test_nan_and_infinities_say_nothing_of_the_unit(tmp_path: Path) -> None:
    numbers = ["a,1,2,inf", "b,1,2,NaN", f"c,1,2,{START_S * 1000}"]
    with local_session(tmp_path) as session:
        assert "ts: milliseconds since the epoch" in create(session, file(tmp_path, numbers))
        run(session)
        [answer] = session.execute("SELECT id FROM cars;")
        assert answer.table.column(0).to_pylist() == ["c"]


def test_nan_among_dates_is_no_number(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        path = file(tmp_path, ["a,1,2,NaN", "b,1,2,2020-01-01T00:00:00"])
        assert "ts: seconds since the epoch" not in create(session, path)


def test_a_stream_whose_records_are_all_set_aside_is_told_with_the_reason(tmp_path: Path) -> None:
    lines = [f"o{n},10,200,2020-01-01T00:00:00" for n in range(30)]
    with local_session(tmp_path) as session:
        path = file(tmp_path, lines)
        reason = "lat: 200.0 is beyond 90 degrees"
        assert f"all of the first 30 records of {path} will be set aside: {reason}" in create(session, path)
        with pytest.raises(SourceError) as caught:
            run(session)
        first = f"the first for this reason: {reason}"
        assert caught.value.message == f"stream cars: all of its 30 records were set aside, {first}"
        assert "DROP STREAM cars;" in str(caught.value.hint)


def test_a_stream_without_records_is_told(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        create(session, file(tmp_path, []))
        with pytest.raises(SourceError) as caught:
            run(session)
        assert caught.value.message == "stream cars: its source holds no records"


def test_a_file_that_does_not_belong_to_the_glob_is_named(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        file(tmp_path, ["a,1,2,0"], name)
    file(tmp_path, ["Permission is hereby"], "e.txt", "MIT License\n")
    with local_session(tmp_path) as session:
        with pytest.raises(BindError) as declared:
            create(session, tmp_path / "*.*")
        assert declared.value.message == f"no column id in {tmp_path / 'e.txt'}"
        (tmp_path / "a.csv").unlink()
        (tmp_path / "b.csv").unlink()
        with pytest.raises(BindError) as inferred:
            create(session, tmp_path / "*.*", "")
        assert inferred.value.message == f"{tmp_path / 'e.txt'} lacks columns that c.csv has"
        assert "its columns are MIT License" in str(inferred.value.hint)
        assert f"'{tmp_path}/*.csv' leaves it out" in str(inferred.value.hint)


def test_paths_are_shown_without_dots(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    file(tmp_path, ["a,1,2,0"])
    with local_session(tmp_path) as session:
        create(session, tmp_path / "scripts" / ".." / "in.csv")
        assert str(tmp_path / "in.csv") in str([*session.execute("SHOW STREAMS;")])


@pytest.mark.parametrize(
    "source", ["FILE '{}.csv'", "FILE '/{}/in.csv'", "FILE '{}.csv' FORMAT CSV", "DIRECTORY '{}'"]
)
def test_a_name_that_is_too_long_names_nothing(tmp_path: Path, source: str) -> None:
    with (
        local_session(tmp_path) as session,
        pytest.raises(BindError, match=r"no file matches|there is no folder"),
    ):
        list(session.execute(f"CREATE MOVING STREAM cars {COLUMNS} FROM {source.format('a' * 300)};"))
