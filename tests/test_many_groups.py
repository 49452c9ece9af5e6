"""Very many groups: their memory returns when they are gone, and SHOW STATUS tells while they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.local import LocalConnection, local_session

from stqsh.client.api import Session
from stqsh.client.results import Rows
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE

GROUPS, CROWDED_S, KEEP_S = 100_000, 10, 5
SCRIPT = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, word STRING)
  KEY id LOCATION (x, y) TIME ts TEXT word FROM FILE '{}' TICK 1 s KEEP {} s;
REGISTER QUERY words AS SELECT word, COUNT(*), SUM(x), MAX(y), TOPK(word, 1) FROM posts GROUP BY word;
"""


@pytest.fixture(scope="module")
def posts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds with a post each, ten that have a hundred thousand words in all, and thirty of one."""
    calm = np.arange(3)
    crowded = 3 + np.arange(GROUPS) * CROWDED_S // GROUPS
    after = 3 + CROWDED_S + np.arange(30)
    seconds = np.concatenate([calm, crowded, after])
    words = [*["calm"] * 3, *(f"w{number}" for number in range(GROUPS)), *["calm"] * 30]
    ids = np.arange(len(seconds))
    table = pd.DataFrame({"id": ids, "x": ids % 1000 / 7, "y": ids % 80, "word": words})
    table["ts"] = pd.to_datetime(seconds, unit="s", utc=True)
    path = tmp_path_factory.mktemp("groups") / "posts.parquet"
    table.to_parquet(path)
    return path


@pytest.fixture
def session(tmp_path: Path, posts: Path) -> Iterator[Session]:
    with local_session(tmp_path, slots=2, max_records=30_000) as opened:
        run(opened, SCRIPT.format(posts, KEEP_S))
        yield opened


def run(session: Session, text: str) -> None:
    list(session.execute(text + "SHOW STATUS;"))  # which waits for a RUN


def held(session: Session, operator: str) -> int:
    """The bytes that the slots of an operator hold."""
    connection = session.connection
    assert isinstance(connection, LocalConnection) and connection.engine is not None
    return sum(state.nbytes for state in connection.engine.states(operator))


def groups(session: Session) -> int:
    return next(query.size for query in session.queries() if query.name == "words")


def said(session: Session) -> str | None:
    """What SHOW STATUS says of groups."""
    [status] = session.execute("SHOW STATUS;")
    assert isinstance(status, Rows)
    return dict(status.rows).get("groups")


@pytest.mark.parametrize("operator", [EVALUATE.name, AGGREGATE.name])
def test_memory_of_groups_that_are_gone_returns(session: Session, operator: str) -> None:
    run(session, "RUN 3 STEPS;")
    calm = held(session, operator)
    run(session, f"RUN {KEEP_S} STEPS;")
    most = held(session, operator)
    assert groups(session) > GROUPS / CROWDED_S * (KEEP_S - 1)
    run(session, "RUN;")
    assert groups(session) == 1
    assert most > 20 * calm
    assert held(session, operator) < calm + most / 20


def test_status_tells_of_a_query_with_too_many_groups_while_it_has_them(session: Session) -> None:
    run(session, "RUN 3 STEPS;")
    assert said(session) is None
    run(session, "RUN 2 STEPS;")
    assert said(session) is None  # 20 001 are not above the default
    run(session, "SET groups.above = 20001;")
    assert said(session) is None
    run(session, "SET groups.above = 20000; REGISTER QUERY ids AS SELECT id FROM posts;")
    text = said(session)
    assert text is not None
    assert text.startswith("words has 20 001 groups, more than groups.above (20 000), which all stay in")
    assert text.endswith("or DROP QUERY words")
    run(session, "REGISTER QUERY each AS SELECT COUNT(*) FROM posts GROUP BY id; RUN 1 STEPS;")
    text = said(session)
    assert text is not None and text.endswith("; 1 more query has too many")
    run(session, "RUN;")
    assert said(session) is None
