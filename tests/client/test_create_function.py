"""CREATE FUNCTION: a function of a Python file that queries, restarts and DUMP keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import LocalConnection, local_session
from support.running import parsed, run_script

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows, Script
from stqsh.errors import StqshError
from stqsh.profile import load_profile

POSTS = Path(__file__).parents[1] / "scripts" / "data" / "said.csv"
CREATE = f"""CREATE EVENT STREAM p (id BIGINT, x DOUBLE, y DOUBLE, t TIMESTAMP, body STRING)
  KEY id  LOCATION (x, y)  TIME t  TEXT body  FROM FILE '{POSTS}'  PLANAR  KEEP 20 s;"""
CODE = '''
import re
WORDS = re.compile("rain|jam")
def found(body):
    return WORDS.search((body or "").lower())
def topic(bodies):
    """The word's own quotes: ' and "."""
    return [hit and hit[0] for hit in map(found, bodies.to_pylist())]
def inverse(numbers) -> float:
    return [1 / n for n in numbers.to_pylist()]
'''


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "topic.py").write_text(CODE, encoding="utf-8")
    with local_session(tmp_path, slots=3) as session:
        yield allowed(session)


def allowed(session: Session) -> Session:
    """The same session for a client with --allow-run."""
    return Session(
        session.home, load_profile(None, {}), autoplay=False, allow_run=True, connection=session.connection
    )


def create(session: Session, tmp_path: Path, rest: str = "RETURNS STRING") -> str:
    [said] = session.execute(f"CREATE FUNCTION Topic (body STRING) {rest} FROM '{tmp_path}/topic.py';")
    assert isinstance(said, Message)
    return said.text


def answer(session: Session, text: str) -> list[dict[str, Any]]:
    found = session.execute(text)[-1]
    assert isinstance(found, Answer)
    rows: list[dict[str, Any]] = found.table.to_pylist()
    return rows


ASK = "SELECT topic(body) AS topic, COUNT(*) AS n FROM p GROUP BY TOPIC(body) ORDER BY n DESC, topic;"


def test_a_function_of_a_file_is_called_where_expressions_stand(session: Session, tmp_path: Path) -> None:
    assert create(session, tmp_path) == "function TOPIC(body) created: it returns STRING"
    session.execute(f"{CREATE} RUN;")
    rows = answer(session, ASK)
    bodies = [row["body"] for row in answer(session, "SELECT body FROM p;")]
    wanted: dict[str | None, int] = {}
    for body in bodies:
        text = str(body or "").lower()
        places = {word: text.find(word) for word in ("rain", "jam") if word in text}
        word = min(places, key=lambda one: places[one]) if places else None
        wanted[word] = wanted.get(word, 0) + 1
    assert {row["topic"]: row["n"] for row in rows} == wanted
    assert len(wanted) == 3


def test_a_query_keeps_its_function_while_the_name_changes_and_the_engine_restarts(
    session: Session, tmp_path: Path
) -> None:
    create(session, tmp_path)
    session.execute(f"{CREATE} REGISTER QUERY q AS SELECT id, topic(body) AS t FROM p; RUN 3 STEPS;")
    (tmp_path / "topic.py").write_text(
        "def topic(bodies):\n  return ['new'] * len(bodies)\n", encoding="utf-8"
    )
    assert {row["topic"] for row in answer(session, ASK)} <= {"rain", "jam", None}
    session.execute("DROP FUNCTION TOPIC;")
    create(session, tmp_path)
    assert isinstance(session.connection, LocalConnection)
    session.connection.engine.restart(arena=True)
    session.execute("RUN;")
    assert {row["topic"] for row in answer(session, ASK)} == {"new"}
    found = [row["t"] for row in answer(session, "SELECT t FROM q;")]
    assert set(found) <= {"rain", "jam", None}
    of_rain = answer(session, "SELECT t FROM q WHERE t = 'rain';")
    assert [row["t"] for row in of_rain] == ["rain"] * found.count("rain")


def test_dump_is_a_script_that_makes_the_same_function(session: Session, tmp_path: Path) -> None:
    create(session, tmp_path)
    session.execute(CREATE)
    [dumped] = session.execute("DUMP;")
    assert isinstance(dumped, Script)
    assert dumped.text.startswith("CREATE FUNCTION topic (body STRING) RETURNS STRING AS '")
    (tmp_path / "other").mkdir()
    (tmp_path / "topic.py").unlink()
    session.execute("RUN;")
    with local_session(tmp_path / "other", slots=1) as made:
        other = allowed(made)
        other.execute(f"{dumped.text} RUN;")
        assert answer(other, ASK) == answer(session, ASK)
        [shown] = other.execute("SHOW FUNCTIONS;")
        assert isinstance(shown, Rows)
        assert ("TOPIC", "body STRING", "STRING", "CREATE FUNCTION") in shown.rows
        other.execute("DROP FUNCTIONS LIKE 'TOP%'; DROP FUNCTION IF EXISTS topic;")
        with pytest.raises(StqshError, match="there is no function TOPIC"):
            other.execute(ASK)


def test_a_function_that_fails_gives_null_and_is_told_of(session: Session, tmp_path: Path) -> None:
    session.execute(f"CREATE FUNCTION inverse (n) FROM '{tmp_path}/topic.py'; {CREATE}")
    text = "REGISTER QUERY q AS SELECT id FROM p WHERE inverse(id - 1) IS NULL;"
    lines = parsed(run_script(session, text, tmp_path / "s.stq"))
    assert [line["key"] for line in lines if line["op"] == "+"] == [1]
    [status] = session.execute("SHOW STATUS;")
    assert isinstance(status, Rows)
    assert "ZeroDivisionError" in str(dict(status.rows)["functions: first reason"])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE FUNCTION topic (a, b) FROM '{0}'",
            r"the function is topic\(bodies\), .* gives it 2 columns",
        ),
        ("CREATE FUNCTION topics (a) FROM '{0}'", "topic.py has no function topics"),
        ("CREATE FUNCTION topic (a) RETURNS TIMESTAMP FROM '{0}'", "a function cannot return a TIMESTAMP"),
        ("CREATE FUNCTION hour (a) FROM '{0}'", "HOUR is a function of the language"),
        ("CREATE FUNCTION f (a, a) FROM '{0}'", "two parameters are called a"),
        ("CREATE FUNCTION f (a) FROM 'no.py'", "no.py"),
        ("CREATE FUNCTION f (a) AS 'def f(a)'", "the code is no Python: line 1"),
        ("CREATE FUNCTION f (a) AS '1 / 0'", "the code fails: line 1: ZeroDivisionError"),
        ("CREATE FUNCTION f (a) AS 'exit(3)'", "the code fails: line 1"),
        ("CREATE FUNCTION f (a) AS 'def f(a): return [1]'", "f does not take whole columns|F does not"),
        ("DROP FUNCTION topic", "unknown function 'TOPIC'"),
    ],
)
def test_what_is_no_function_is_told_at_its_place(
    session: Session, tmp_path: Path, statement: str, message: str
) -> None:
    with pytest.raises(StqshError, match=message):
        session.execute(statement.replace("{0}", f"{tmp_path}/topic.py") + ";")
    assert session.connection.db.query("SELECT count(*) FROM log WHERE kind = 'register'")[0][0] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("topic(body, body)", "TOPIC takes 1 argument, and got 2"),
        ("topic(id)", "body of TOPIC is a STRING, but id is a BIGINT"),
    ],
)
def test_a_call_must_fit_the_parameters(session: Session, tmp_path: Path, call: str, message: str) -> None:
    create(session, tmp_path, rest="")
    session.execute(CREATE)
    with pytest.raises(StqshError, match=message):
        session.execute(f"SELECT {call} FROM p;")


def test_a_name_is_taken_once(session: Session, tmp_path: Path) -> None:
    create(session, tmp_path)
    with pytest.raises(StqshError, match="there is a function TOPIC already"):
        create(session, tmp_path)
    again = f"CREATE FUNCTION IF NOT EXISTS topic (body) FROM '{tmp_path}/topic.py';"
    [said] = session.execute(again)
    assert isinstance(said, Message)
    assert said.text == "function topic exists already"


def test_a_script_needs_leave_to_run_code(tmp_path: Path) -> None:
    (tmp_path / "topic.py").write_text(CODE, encoding="utf-8")
    text = "CREATE FUNCTION topic (body) FROM 'topic.py';"
    with local_session(tmp_path) as session:
        with pytest.raises(StqshError, match="only with --allow-run"):
            session.execute(text, file=str(tmp_path / "s.stq"))
        allowed(session).execute(text, file=str(tmp_path / "s.stq"))
