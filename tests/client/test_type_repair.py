"""A stream on somebody's own file: a few bad records do not decide what its columns are."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Message
from stqsh.lang.errors import BindError


def export(folder: Path, places: list[str], times: list[str]) -> str:
    """A file as another program exports it, with semicolons and names of its own; its path."""
    rows = [
        f"Frisia {i % 3};{place};7;{time}" for i, (place, time) in enumerate(zip(places, times, strict=True))
    ]
    file = folder / "export.csv"
    file.write_text("\n".join(["Schiff;Breite;Laenge;Zeitpunkt", *rows]) + "\n", encoding="utf-8")
    return str(file)


def create(session: Session, file: str, options: str = "") -> str:
    text = (
        "CREATE MOVING STREAM boats KEY Schiff LOCATION (Laenge, Breite) TIME Zeitpunkt"
        f" FROM FILE '{file}' FORMAT CSV (separator => ';'{options});"
    )
    (told,) = session.execute(text)
    assert isinstance(told, Message)
    return told.text


SECONDS = [f"2024-07-03T08:00:{i:02d}" for i in range(40)]
GERMAN = [f"03.07.2024 08:00:{i:02d}" for i in range(40)]


def test_a_place_that_most_records_have_is_a_number_and_the_others_are_set_aside(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        told = create(session, export(tmp_path, ["53.7"] * 38 + ["n/a", "fern"], SECONDS))
        assert "Breite: 1 of 40 values seen are no DOUBLE, such as 'fern'" in told
        for _ in session.outcomes("RUN;"):
            pass
        assert "fern" in str([*session.execute("SHOW DEAD LETTERS;")])


@pytest.mark.parametrize("options", ["", ", timestamp => '%d.%m.%Y %H:%M:%S'"])
def test_times_of_another_form_are_recognized(tmp_path: Path, options: str) -> None:
    file = export(tmp_path, ["53.7"] * 40, [*GERMAN[:-1], "gestern"])
    with local_session(tmp_path) as session:
        told = create(session, file, options)
        assert ("times as '03.07.2024 08:00:00' are read by '%d.%m.%Y %H:%M:%S'" in told) == (not options)
        assert "Zeitpunkt TIMESTAMP" in told
        assert "'gestern'" in told


def test_a_column_that_is_no_place_at_all_is_told_with_a_value(tmp_path: Path) -> None:
    with local_session(tmp_path) as session, pytest.raises(BindError) as caught:
        create(session, export(tmp_path, ["near"] * 40, SECONDS))
    assert caught.value.message == "Breite holds 'near', and cannot be LOCATION"
    assert (caught.value.expected, caught.value.hint) == (("numbers",), None)


def test_decimal_commas_are_recognized(tmp_path: Path) -> None:
    file = export(tmp_path, [*["53,75"] * 38, "53.75", "1.053,7"], SECONDS)
    with local_session(tmp_path) as session:
        told = create(session, file)
        assert "recognized: FORMAT CSV (decimal => ',')" in told
        assert "Breite: 2 of 40 values seen are no DOUBLE" in told
        for _ in session.outcomes("RUN;"):
            pass
        assert "53.75" in str([*session.execute("SELECT Breite FROM boats;")])
        assert "1.053,7" in str([*session.execute("SHOW DEAD LETTERS;")])


def test_separator_and_decimal_cannot_be_one(tmp_path: Path) -> None:
    file = export(tmp_path, ["53.7"] * 3, SECONDS[:3])
    with (
        local_session(tmp_path) as session,
        pytest.raises(BindError, match="cannot be both separator and decimal"),
    ):
        create(session, file, ", decimal => ';'")


def test_a_usual_name_counts_though_a_record_is_bad(tmp_path: Path) -> None:
    rows = [f"bus,{52 + i / 100},13.4,{i}" for i in range(30)] + ["bus,x,13.4,31"]
    (tmp_path / "buses.csv").write_text("\n".join(["id,lat,lon,ts", *rows]) + "\n", encoding="utf-8")
    with local_session(tmp_path) as session:
        (told,) = session.execute(f"CREATE MOVING STREAM buses FROM FILE '{tmp_path}/buses.csv';")
    assert isinstance(told, Message)
    assert "guessed: KEY id  LOCATION (lon, lat)  TIME ts" in told.text
    assert "lat: 1 of 31 values seen are no DOUBLE, such as 'x'" in told.text


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    file = export(tmp_path, ["53.7"] * 40, SECONDS)
    text = Path(file).read_text(encoding="utf-8")
    Path(file).write_text("A;B;C;D" + text[text.index("\n") :], encoding="utf-8")
    with local_session(tmp_path) as session, pytest.raises(BindError) as caught:
        list(session.execute(f"CREATE MOVING STREAM b FROM FILE '{file}' FORMAT CSV (separator => ';');"))
    assert caught.value.message == "b has no column that looks like its key, location or time"
    assert caught.value.expected == ("KEY column LOCATION (x, y) TIME column",)


@pytest.mark.parametrize(
    ("day", "told"),
    [("2024-07-02", "is taken in at once"), ("2024-07-04", "is empty until then"), ("2024-07-03", "")],
)
def test_records_of_another_time_than_the_session_s_are_told_of(tmp_path: Path, day: str, told: str) -> None:
    for name, of in (("one", "2024-07-03"), ("two", day)):
        rows = [f"bus,{52 + i / 100},13.4,{of}T08:00:{i:02d}" for i in range(30)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,lat,lon,ts", *rows]) + "\n", encoding="utf-8")
    with local_session(tmp_path) as session:
        for _ in session.outcomes(f"CREATE MOVING STREAM one FROM FILE '{tmp_path}/one.csv'; RUN 1 STEPS;"):
            pass
        (message,) = session.execute(f"CREATE MOVING STREAM two FROM FILE '{tmp_path}/two.csv';")
    assert isinstance(message, Message)
    assert told in message.text
    assert ("clock is at 2024-07-03T08:00:00Z" in message.text) == bool(told)


def test_a_column_that_few_values_make_a_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    speeds = [*map(str, range(30)), "fast", "", "n/a"]
    lines = [f"o{i},1,2,2024-07-03T08:00:00,{speed},x{i}" for i, speed in enumerate(speeds)]
    file.write_text("\n".join(["id,lon,lat,ts,speed,name", *lines, ""]))
    with local_session(tmp_path) as session:
        (told,) = session.execute(f"CREATE MOVING STREAM boats FROM FILE '{file}';")
        assert isinstance(told, Message)
        assert "speed: STRING, as 1 of 32 values seen are no numbers, such as 'fast'" in told.text
        assert "name: STRING" not in told.text
