"""What CREATE and DESCRIBE say of a stream's files: how many records, when, where, and what is set aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Message, Rows
from stqsh.client.show.unread import much_unread
from stqsh.errors import SourceError
from stqsh.sources import measuring
from stqsh.sources.measuring import measure_files
from stqsh.spec.source_facts import facts_lines
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

START_S = 1_700_000_000


def written(path: Path, rows: int, bad: int = 0) -> Path:
    """Write a CSV file in which the latitude of the first rows is none."""
    lines = [f"o{i % 20},{i % 100 / 10},{95 if i < bad else 5},{START_S + i}" for i in range(rows)]
    path.write_text("\n".join(["id,lon,lat,ts", *lines, ""]), encoding="utf-8")
    return path


def spec(path: Path) -> StreamSpec:
    columns = (("id", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))
    return StreamSpec(
        name="cars",
        columns=tuple(ColumnSpec(name, kind) for name, kind in columns),
        key="id",
        x="lon",
        y="lat",
        time="ts",
        source=FileSourceSpec(str(path)),
    )


def told(session: Session, text: str) -> str:
    [message] = session.execute(text)
    assert isinstance(message, Message)
    return message.text


def described(session: Session) -> dict[str, str]:
    _, items = session.execute("DESCRIBE cars;")
    assert isinstance(items, Rows)
    return dict(items.rows)


def test_create_says_how_many_records_there_are_when_and_where(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", 100)
    with local_session(tmp_path) as session:
        lines = told(session, f"CREATE MOVING STREAM cars FROM FILE '{file}';").splitlines()
    assert lines[-2:] == [
        "100 records of 20 objects, 1 a second, from 2023-11-14T22:13:20Z to 2023-11-14T22:14:59Z (99 s)",
        "longitude 0 to 9.9, latitude 5 to 5",
    ]


def test_describe_says_the_same_before_and_after_the_records_are_read(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", 100, bad=3)
    with local_session(tmp_path) as session:
        told(session, f"CREATE MOVING STREAM cars FROM FILE '{file}';")
        before = described(session)
        for _ in session.execute("RUN;"):
            pass
        after = described(session)
    same = ("records", "time span", "extent", "density", "set aside")
    assert {name: before[name] for name in same} == {name: after[name] for name in same}
    assert after["records"] == "97 records of 20 objects"
    assert after["set aside"] == "3 of 100 records are set aside: lat: 95.0 is beyond 90 degrees"


@pytest.mark.parametrize(("bad", "says_where"), [(10, False), (11, True)])
def test_create_says_where_to_look_if_more_than_a_tenth_is_set_aside(
    tmp_path: Path, bad: int, says_where: bool
) -> None:
    file = written(tmp_path / "a.csv", 100, bad)
    with local_session(tmp_path) as session:
        text = told(session, f"CREATE MOVING STREAM cars FROM FILE '{file}';")
    assert f"{bad} of 100 records are set aside: lat: 95.0 is beyond 90 degrees" in text
    assert ("SHOW DEAD LETTERS lists them" in text) == says_where


@pytest.mark.parametrize("runs_first", [False, True])
def test_a_select_on_a_stream_whose_records_are_all_set_aside_fails(tmp_path: Path, runs_first: bool) -> None:
    file = written(tmp_path / "a.csv", 30, bad=30)
    with local_session(tmp_path) as session:
        told(session, f"CREATE MOVING STREAM cars FROM FILE '{file}';")
        if runs_first:
            with pytest.raises(SourceError):
                list(session.execute("RUN;"))
        with pytest.raises(SourceError, match=r"set aside.*lat: 95.0 is beyond 90 degrees"):
            list(session.execute("SELECT COUNT(*) FROM cars;"))


@pytest.mark.parametrize(
    ("bad", "said"), [(10, ""), (11, "11 records of 100 of cars could not be read, such as")]
)
def test_a_run_says_if_more_than_a_tenth_could_not_be_read(tmp_path: Path, bad: int, said: str) -> None:
    file = written(tmp_path / "a.csv", 100, bad)
    with local_session(tmp_path) as session:
        told(session, f"CREATE MOVING STREAM cars FROM FILE '{file}';")
        for _ in session.outcomes("RUN;"):
            pass
        text = much_unread(session.connection)
    assert text.startswith(said)
    assert text.endswith("lat: 95.0 is beyond 90 degrees") == bool(said)


def test_a_large_file_is_measured_by_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "a.csv", 20_000)
    monkeypatch.setattr(measuring, "READ_WHOLE", 1000)
    monkeypatch.setattr(measuring, "SAMPLED", 40_000)
    facts = measure_files(spec(file))
    assert facts is not None
    assert not facts.is_exact
    assert facts.records == pytest.approx(20_000, rel=0.1)
    assert (facts.first_us, facts.last_us) == (START_S * 1_000_000, (START_S + 19_999) * 1_000_000)
    assert facts_lines(facts)[0].startswith("about 20,000 records, 1 a second")


def test_a_few_places_far_away_do_not_stretch_the_extent(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", 1000)
    text = file.read_text(encoding="utf-8")
    file.write_text(text + f"o1,-170,-80,{START_S}\n", encoding="utf-8")
    facts = measure_files(spec(file))
    assert facts is not None
    assert facts.leaves_out
    assert "latitude 5 to 5; a few are far outside" in facts_lines(facts)[1]


def test_a_large_array_is_measured_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "READ_WHOLE", 1000)
    rows = [{"id": f"o{i}", "lon": 1.5, "lat": 2.5, "ts": START_S + i} for i in range(100)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    facts = measure_files(spec(tmp_path / "a.json"))
    assert facts is not None
    assert facts.records == 100
