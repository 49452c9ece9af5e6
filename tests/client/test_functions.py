"""Functions that a user registers: where they may stand, after restarts, and where they fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.local import LocalConnection, local_session
from support.running import parsed, run_script

from stqsh.client.api import Session
from stqsh.client.read.projection import FunctionError
from stqsh.client.results import Rows
from stqsh.errors import StqshError

POSTS = Path(__file__).parents[1] / "scripts" / "data" / "said.csv"
CREATE = f"""CREATE EVENT STREAM p (id BIGINT, x DOUBLE, y DOUBLE, t TIMESTAMP, body STRING)
  KEY id  LOCATION (x, y)  TIME t  TEXT body  FROM FILE '{POSTS}'  PLANAR  KEEP 20 s;"""
WORDS = ("rain", "jam")


def topic(bodies: pa.Array[Any]) -> list[str | None]:
    """The first of the known words that a text has; none for none."""
    texts = [body or "" for body in bodies.to_pylist()]
    return [next((word for word in WORDS if word in text.lower()), None) for text in texts]


def inverse(bodies: pa.Array[Any]) -> list[float]:
    return [1 / len(body) for body in bodies.to_pylist()]


def lengths_or_exit(bodies: pa.Array[Any]) -> list[int]:
    return [sys.exit("no text") if body is None else len(body) for body in bodies.to_pylist()]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path, slots=3) as session:
        session.register_function("topic", topic)
        yield session


def last_rows(lines: list[dict[str, Any]], query: str) -> list[Any]:
    """The answer after all updates of a query."""
    held: dict[str, Any] = {}
    for line in lines:
        if line.get("query") == query:
            if line["op"] == "+":
                held[str(line["key"])] = line["row"]
            else:
                del held[str(line["key"])]
    return [held[key] for key in sorted(held)]


def test_a_function_stands_in_groups_conditions_and_select_lists(session: Session) -> None:
    script = f"""{CREATE}
    REGISTER QUERY a AS SELECT topic(body) AS topic, COUNT(*) AS n FROM p GROUP BY topic(body);
    REGISTER QUERY b AS SELECT id, TOPIC(body) AS said FROM p WHERE Topic(body) = 'jam';
    REGISTER QUERY c AS SELECT MIN(topic(body)) AS least FROM p NEAREST 2 TO (0, 0);
    REGISTER QUERY d AS SELECT topic(body) AS topic, COUNT(*) AS n FROM p GROUP BY topic(body) SYNC 2 s;
    RUN;
    SELECT topic(body) AS topic, COUNT(*) AS n FROM p GROUP BY topic(body);"""
    lines = parsed(run_script(session, script))
    groups = [{"topic": "jam", "n": 1}, {"topic": "rain", "n": 3}, {"topic": None, "n": 2}]
    assert last_rows(lines, "a") == last_rows(lines, "d") == groups
    assert last_rows(lines, "b") == [{"id": 2, "said": "jam"}]
    assert last_rows(lines, "c") == [{"least": "jam"}]
    assert [line["row"] for line in lines if "statement" in line] == groups


def test_a_query_keeps_its_function_after_a_restart_and_under_a_new_one(session: Session) -> None:
    start = f"{CREATE} REGISTER QUERY a AS SELECT COUNT(topic(body)) AS n FROM p; RUN 3 STEPS;"
    assert [str(outcome) for outcome in session.outcomes(start)]
    connection = session.connection
    assert isinstance(connection, LocalConnection)
    assert connection.engine is not None
    session.register_function("topic", pc.utf8_upper)
    connection.engine.restart(arena=True)
    lines = parsed(run_script(session, "RUN; SELECT COUNT(topic(body)) AS n FROM p;"))
    assert last_rows(lines, "a") == [{"n": 4}]
    assert lines[-1]["row"] == {"n": 5}, "the new function has a value for each text"


def test_where_a_function_fails_is_null_and_told(session: Session) -> None:
    session.register_function("inverse", inverse, returns="double")
    run_script(session, f"{CREATE} REGISTER QUERY a AS SELECT COUNT(inverse(body)) AS n FROM p; RUN;")
    [status] = session.execute("SHOW STATUS;")
    assert isinstance(status, Rows)
    told = {row[0]: row[1] for row in status.rows}
    assert told["functions: failed calls"] == 1
    assert str(told["functions: first reason"]).startswith("INVERSE: TypeError: object of type 'NoneType'")
    with pytest.raises(FunctionError, match="INVERSE: TypeError"):
        run_script(session, "SELECT inverse(body) FROM p;")


def test_a_function_that_exits_ends_no_stream(session: Session) -> None:
    session.register_function("lengths", lengths_or_exit, returns="BIGINT")
    lines = parsed(
        run_script(session, f"{CREATE} REGISTER QUERY a AS SELECT COUNT(lengths(body)) AS n FROM p; RUN;")
    )
    assert last_rows(lines, "a") == [{"n": 5}]
    with pytest.raises(FunctionError, match="LENGTHS: SystemExit"):
        run_script(session, "SELECT lengths(body) FROM p;")


@pytest.mark.parametrize("size", [1, 400_000])
def test_what_else_is_in_a_batch_changes_no_value(tmp_path: Path, size: int) -> None:
    with local_session(tmp_path, 2, size) as session:
        session.register_function("inverse", inverse, returns="double")
        script = f"{CREATE} REGISTER QUERY a AS SELECT SUM(inverse(body)) AS sum FROM p; RUN;"
        found = last_rows(parsed(run_script(session, script)), "a")
        assert found == [{"sum": 1 / 13 + 1 / 3 + 1 / 14 + 1 / 8 + 1 / 4}]


@pytest.mark.parametrize(
    ("name", "function", "returns", "message"),
    [
        ("count", topic, None, "COUNT is a function of the language"),
        ("a b", topic, None, "is not a valid function name"),
        ("f", 3, None, "f is not a function but a int"),
        ("f", topic, "DATE", "f cannot return DATE; there are STRING, BIGINT, DOUBLE, BOOLEAN"),
        ("f", lambda bodies: ["x"], None, "f does not take whole columns: it gave 1 values for 3"),
        ("f", Lock().acquire, None, "f cannot be sent to the engine"),
        ("f", lambda bodies, big=bytes(2 << 20): bodies, None, "f takes 2,097,"),
    ],
)
def test_what_is_no_function(
    session: Session, name: str, function: Any, returns: str | None, message: str
) -> None:
    with pytest.raises(StqshError, match=message):
        session.register_function(name, function, returns=returns)


def test_types_are_said_annotated_or_found(session: Session) -> None:
    def size(bodies: Any) -> int:
        return [len(body or "") for body in bodies.to_pylist()]  # type: ignore[return-value]

    session.register_function("size", size)
    session.register_function("long", lambda bodies: pc.greater(pc.utf8_length(bodies), 5))
    lines = parsed(
        run_script(
            session,
            f"{CREATE} RUN 1 STEPS; SELECT size(body) AS s, long(body) AS l, id + size(body) AS t FROM p;",
        )
    )
    assert lines[-1]["row"] == {"s": 13, "l": True, "t": 14}
