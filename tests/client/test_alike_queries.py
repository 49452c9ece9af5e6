"""Statements that are alike register to the byte what each registers that is read and bound on its own."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.client.results import Answer
from stqsh.client.statements import dispatch
from stqsh.errors import StqshError
from stqsh.lang.syntax.forms import alike_of
from stqsh.lang.syntax.parse import parse
from stqsh.profile import load_profile
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import open_home

CREATE = """
CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, speed DOUBLE)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE 'taxis.csv';
CREATE MOVING STREAM buses (oid INT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) TIME ts
  FROM FILE 'taxis.csv' PLANAR;
CREATE VIEW fast AS SELECT oid, speed, lon, lat FROM taxis WHERE speed > 3;
"""
COUNT = 24
FORMS: dict[str, Callable[[int], str]] = {
    "rectangle": lambda n: f"oid FROM taxis INSIDE ({n}, {n - 1}.5, {10 - n}, {n * 2})",
    "planar": lambda n: f"oid FROM buses INSIDE RECT({n}.0, {n * 1000}, {-n / 7}, 1e{n})",
    "circle": lambda n: f"oid, DISTANCE AS far FROM taxis INSIDE CIRCLE({n}, -{n}.25, {n * 50 + 1})",
    "in WHERE": lambda n: f"oid FROM taxis WHERE speed > 5 AND loc INSIDE CIRCLE({n}, 2, {n + 0.5})",
    "counted": lambda n: f"COUNT(*) AS n FROM taxis INSIDE ({n}, 0, {n + 1}, 5) GROUP BY oid",
    "nearest": lambda n: f"oid FROM taxis NEAREST 3 TO ({n}, {n}.5)",
    "nearest, first typed": lambda n: f"oid FROM taxis NEAREST 3 TO ({n}, {n}.5) WHERE speed < 2",
    "around": lambda n: f"oid FROM taxis INSIDE CIRCLE(800 m) AROUND 'it''s {n}; -- 7'",
    "around, a rectangle": lambda n: f"oid FROM taxis WHERE speed > 1 INSIDE RECT(8, 9) AROUND 'taxi-{n}'",
    "around whole numbers": lambda n: f"oid FROM buses INSIDE CIRCLE(8) AROUND {n}",
    "around numbers, of texts": lambda n: f"oid FROM taxis INSIDE CIRCLE(8) AROUND {n}",
    "around texts, of numbers": lambda n: f"oid FROM buses INSIDE CIRCLE(8) AROUND '{n}'",
    "around what is too large": lambda n: f"oid FROM buses INSIDE CIRCLE(8) AROUND {n * 1_000_000_000}",
    "around two": lambda n: (
        f"oid FROM taxis WHERE NOT loc INSIDE CIRCLE(9) AROUND 'b' INSIDE CIRCLE(8) AROUND '{n}'"
    ),
    "nearest to an object": lambda n: f"oid, DISTANCE FROM taxis NEAREST 3 TO 'taxi-{n}'",
    "view": lambda n: f"oid FROM fast INSIDE ({n}, 0, {n + 1}, 5)",
    "over the meridian": lambda n: f"oid FROM taxis INSIDE ({170 + n}, 0, {175 + n}, 5)",
    "limited": lambda n: f"oid FROM taxis INSIDE ({n}, 0, {n + 1}, 5) LIMIT {n % 2 + 1}",
    "bare words": lambda n: f'oid FROM taxis WHERE oid <> "truck" INSIDE ({n}, 0, {n + 1}, 5)',
    "beyond the pole": lambda n: f"oid FROM taxis INSIDE ({n}, 80, {n + 1}, {70 + n})",
    "no length": lambda n: f"oid FROM taxis INSIDE CIRCLE({n}, 1, {COUNT - 4 - n})",
    "unknown": lambda n: f"oid FROM tram INSIDE ({n}, 80, {n + 1}, 5)",
}


NAMES = 16
_NUMBERS = st.integers(0, NAMES - 1)
_FORMED = ("rectangle", "rectangle", "circle", "limited", "beyond the pole", "unknown", "bare words")


def run_of(form: str, first: int, count: int, pattern: str) -> list[str]:
    """Return REGISTERs, or other statements, over the names from `first` on."""
    names = [f"q{(first + n) % NAMES}" for n in range(count)]
    return [pattern.format(name=name, select=FORMS[form](n)) for n, name in enumerate(names)]


RUNS = st.builds(
    run_of,
    st.sampled_from(_FORMED),
    _NUMBERS,
    st.integers(1, 15),
    st.sampled_from(
        [
            *["REGISTER QUERY {name} AS SELECT {select}"] * 8,
            *["DROP QUERY {name}"] * 4,
            *["CREATE SINK s{name} FOR {name} TO FILE 'out' FORMAT JSONL"] * 3,
            "DROP QUERY IF EXISTS {name}",
            "PAUSE QUERY {name}",
            "RESUME QUERY {name}",
            "ALTER QUERY {name} INSIDE (1, 2, 3, 4)",
            "SELECT 1 AS {name}",
            "EXPLAIN SELECT {select}",
            "CREATE VIEW {name} AS SELECT oid, lon, lat FROM taxis",
            "DROP VIEW {name}",
            "DROP SINK s{name}",
        ]
    ),
)
"""Runs of statements that are alike, some of which fail."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], tuple[Session, ControlDb]]]:
    with sessions_in(tmp_path) as open_session:
        yield open_session


@contextmanager
def sessions_in(tmp_path: Path) -> Iterator[Callable[[str], tuple[Session, ControlDb]]]:
    tmp_path.joinpath("taxis.csv").write_text("oid,lon,lat,x,y,ts,speed\n1,1,2,1,2,2008-02-02 15:00:00,3\n")
    sessions: list[Session] = []

    def open_session(name: str) -> tuple[Session, ControlDb]:
        home = open_home(name, root=tmp_path)
        db = ControlDb(home.path, clock=lambda: 7, create=True)
        connection = Connection(home, db, lambda home: EngineInfo(0, 0, 0, "ready"))
        sessions.append(Session(home, load_profile(None), autoplay=False, connection=connection))
        list(sessions[-1].outcomes(CREATE, file=str(tmp_path / "s.stq")))
        return sessions[-1], db

    yield open_session
    for session in sessions:
        session.close()


def said(session: Session, script: str) -> list[str]:
    """Execute a script; return its messages, and its error as users see it."""
    messages: list[str] = []
    try:
        messages += [str(outcome) for outcome in session.outcomes(script)]
    except StqshError as error:
        messages.append(f"{type(error).__name__} {error} {error.hint} {getattr(error, 'span', None)}")
    return messages


def written(db: ControlDb) -> list[tuple[object, ...]]:
    """Return all that is stored about queries."""
    logged = db.query("SELECT seq, at_us, kind, text, spec, payload FROM log ORDER BY seq")
    return logged + db.query("SELECT * FROM queries ORDER BY id")


def is_bound_by_form(script: str) -> bool:
    return all(alike_of(one) is not None for one in parse(script)[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_is_stored_and_said_is_that_of_single_statements(
    form: Callable[[int], str], opened: Callable[[str], tuple[Session, ControlDb]]
) -> None:
    (alike, alike_db), (alone, alone_db) = opened("alike"), opened("alone")
    script = ";\n".join(f"REGISTER QUERY q{n} AS SELECT {form(n)}" for n in range(COUNT))
    assert is_bound_by_form(script) or "LIMIT" in script
    # In small letters, a statement has no form.
    apart = script.replace("REGISTER QUERY", "register query")
    errors = [one.replace("register query", "REGISTER QUERY") for one in said(alone, apart)]
    assert said(alike, script) == errors
    assert written(alike_db) == written(alone_db)
    drops = ";".join(f"DROP QUERY q{n}" for n in range(COUNT))
    errors = [one.replace("drop", "DROP") for one in said(alone, drops.replace("DROP", "drop"))]
    assert [one.replace("drop", "DROP") for one in said(alike, drops)] == errors
    assert written(alike_db) == written(alone_db)


@share(2, 40)
@given(runs=st.lists(RUNS, min_size=3, max_size=12))
def test_scripts_do_what_their_statements_do_one_by_one(runs: list[list[str]]) -> None:
    for form in set(_FORMED):  # so that each is bound by its form from the first on
        parse("; ".join(run_of(form, 0, 12, "REGISTER QUERY {name} AS SELECT {select}")))
    rest = [statement for run in runs for statement in run]
    with tempfile.TemporaryDirectory() as name, sessions_in(Path(name)) as open_session:
        (script, script_db), (typed, typed_db) = open_session("script"), open_session("typed")
        while rest:  # a script ends with the first error; what follows it is another script
            outcomes, error = tried(script, rest)
            alone: list[str] = []
            for done, statement in enumerate(rest, 1):  # noqa: B007
                # In small letters, a statement has no form, and by itself it is in no group.
                found, failure = tried(typed, [re.sub("^(REGISTER|DROP)", small, statement)])
                alone += found
                if failure is not None:
                    break
            assert outcomes == alone
            assert error == failure
            assert written(script_db) == written(typed_db)
            rest = rest[done:]


def small(found: re.Match[str]) -> str:
    return found[0].lower()


def tried(session: Session, script: list[str]) -> tuple[list[str], tuple[object, ...] | None]:
    """Execute statements; return what they print and the first error, with its statement and place there."""
    shown: list[str] = []
    try:
        for outcome in session.outcomes(";\n".join(script)):
            shown.append(str(outcome.table.to_pylist() if isinstance(outcome, Answer) else outcome))
    except StqshError as error:
        piece, span = getattr(error, "piece", None), getattr(error, "span", None)
        return shown, (type(error), error.message.lower(), error.hint, piece and piece.text.lower(), span)
    return shown, None


def test_a_name_in_use_is_refused_as_ever(opened: Callable[[str], tuple[Session, ControlDb]]) -> None:
    session, db = opened("s")
    text = "REGISTER QUERY {} AS SELECT oid FROM taxis INSIDE (0, 0, 1, {});"
    said(session, "".join(text.format(f"q{n}", n + 1) for n in range(COUNT)))
    for name, kind in (("q3", "query"), ("taxis", "stream"), ("fast", "view")):
        [error] = said(session, text.format(name, 5))
        assert f"the name '{name}' is in use by a {kind}" in error
    assert len(db.query("SELECT 1 FROM queries")) == COUNT


def test_a_form_is_bound_anew_once_its_stream_is_another(
    opened: Callable[[str], tuple[Session, ControlDb]], tmp_path: Path
) -> None:
    session, db = opened("s")
    text = "REGISTER QUERY {} AS SELECT oid FROM taxis INSIDE (0, 0, 1, {});"
    said(session, "".join(text.format(f"q{n}", n + 1) for n in range(COUNT)))
    drops = "".join(f"DROP QUERY q{n};" for n in range(COUNT))
    create = CREATE.split(";", maxsplit=1)[0].replace(", speed DOUBLE", "")
    rest = f"DROP VIEW fast; {drops} DROP STREAM taxis; {create}; {text.format('again', 4)}"
    list(session.outcomes(rest, file=str(tmp_path / "s.stq")))
    [(stream, made)] = db.query(
        "SELECT streams.id, stream_id FROM streams, queries"
        " WHERE dropped_seq IS NULL AND streams.name = 'taxis' AND queries.name = 'again'"
    )
    assert stream == made


@pytest.mark.parametrize(
    "form",
    [
        *("rectangle", "planar", "circle", "in WHERE", "counted", "nearest", "view", "around"),
        *("around, a rectangle", "around whole numbers", "nearest to an object"),
    ],
)
def test_a_statement_of_a_known_form_is_not_bound_again(
    form: str, opened: Callable[[str], tuple[Session, ControlDb]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = opened("alike")
    script = ";\n".join(f"REGISTER QUERY q{n} AS SELECT {FORMS[form](n + 1)}" for n in range(COUNT))
    bound = mock.Mock(wraps=dispatch.bind)
    monkeypatch.setattr(dispatch, "bind", bound)
    assert len(said(session, script)) == COUNT
    assert bound.call_count < COUNT / 2
