"""Views of a session's snapshots: what SHOW CACHE, EXPLAIN and SET cache.views say of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.read import view_files
from stqsh.client.results import Answer, Rows
from stqsh.core.snapshots.cache import margin_choice, time_slots
from stqsh.core.snapshots.cache.snapshot_cache import CachePolicy

QUESTION = (
    "SELECT topic, COUNT(*), AVG(likes) FROM posts WHERE ts > NOW - 1 hour AND city = 'c1'"
    " INSIDE (0, 0, 7.5, 7.5) GROUP BY topic;"
)
CREATE = (
    "CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, city STRING, topic INT,"
    " likes DOUBLE) KEY id LOCATION (x, y) TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 8, 8); RUN;"
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session with 3000 posts, whose time slots may have 64 of them."""
    file = tmp_path_factory.mktemp("files") / "posts.csv"
    rows = [
        f"{i},{i % 97 / 12},{i % 89 / 11},2020-01-01T00:{i // 60:02d}:{i % 60:02d}Z,c{i % 3},{i % 5},{i / 9}"
        for i in range(3000)
    ]
    file.write_text("\n".join(["id,x,y,ts,city,topic,likes", *rows, ""]))
    with (
        mock.patch.object(time_slots, "FINEST", 64),
        local_session(tmp_path_factory.mktemp("home"), slots=2, published=True) as opened,
    ):
        list(opened.execute(CREATE.format(file=file)))
        yield opened


def table(session: Session, text: str) -> dict[str, list[dict[str, Any]]]:
    found = [outcome for outcome in session.outcomes(text) if isinstance(outcome, Rows)]
    return {rows.title: [dict(zip(rows.columns, row, strict=True)) for row in rows.rows] for rows in found}


def ask(session: Session) -> Any:
    [answer] = session.execute(QUESTION)
    assert isinstance(answer, Answer)
    return answer.table


def test_a_question_that_comes_again_gets_a_view_which_is_shown(session: Session) -> None:
    scanned = ask(session)
    assert list(table(session, "SHOW CACHE;")) == ["cache"]
    assert dict(zip(*_items(session), strict=True))["kept"] == "nothing that helps: the events are scanned"
    session.snapshots.kept().patience = CachePolicy(least=0, scans=0, first=4, always=True)
    with (
        mock.patch.multiple("stqsh.core.snapshots.cache.covering", VIEW_COST=1.0),
        mock.patch.multiple("stqsh.core.snapshots.cache.selection", VIEW_COST=1.0),
    ):
        for _ in range(12):
            assert ask(session).equals(scanned)
        shown = table(session, "SHOW CACHE;")
        kept = dict(zip(*_items(session), strict=True))["kept"]
    assert sum(row["questions"] for row in shown["kept for snapshots"]) >= 12
    best = shown["views"][0]
    assert (best["only"], best["by"], best["of"]) in {
        ("city = 'c1'", "topic", "COUNT(*), SUM(likes)"),
        (None, "topic, city", "COUNT(*), SUM(likes)"),
    }
    assert best["hits"] > 0
    assert best["spared"] > 0
    assert best["bytes"] > 0
    assert "views with" in kept
    assert "are read" in kept


def test_without_memory_for_views_everything_is_scanned(session: Session) -> None:
    before = ask(session)
    list(session.execute("SET cache.views = 0;"))
    assert ask(session).equals(before)
    assert list(table(session, "SHOW CACHE;")) == ["cache"]
    list(session.execute("SET cache.views = '1 MB';"))
    assert ask(session).equals(before)


def test_margins_of_cells_are_kept_within_their_setting_and_shown(session: Session) -> None:
    list(session.execute("SET cache.views = 0; SET cache.objects = '1 MB';"))
    scanned = ask(session)
    session.snapshots.kept().patience = CachePolicy(least=0, scans=0, first=4, always=True)
    with mock.patch.object(margin_choice, "LEAST", 1):
        for _ in range(12):
            assert ask(session).equals(scanned)
    shown = table(session, "SHOW CACHE;")
    assert "views" not in shown
    best = max(shown["margins of cells"], key=lambda row: row["spared"])
    assert best["spared"] >= best["hits"] > 0
    assert 0 < best["bytes"] <= 1 << 20
    assert re.fullmatch(r"[a-z ]+ (side|corner): \([^()]+\)", best["most spared by"])
    assert "margins of cells spare the test of" in dict(zip(*_items(session), strict=True))["kept"]
    list(session.execute("SET cache.objects = 0;"))
    assert ask(session).equals(scanned)
    assert list(table(session, "SHOW CACHE;")) == ["cache"]


def test_word_lists_answer_for_rows_and_aggregates_and_are_shown(session: Session) -> None:
    asked = "SELECT id, likes FROM posts WHERE city CONTAINS 'c2' INSIDE (1, 1, 6, 6) ORDER BY likes LIMIT 5;"
    list(session.execute("SET cache.views = 0;"))
    [scanned] = session.execute(asked)
    list(session.execute("SET cache.views = '1 MB';"))
    session.snapshots.kept().patience = CachePolicy(least=0, scans=0, first=100, always=True)
    for _ in range(12):
        [found] = session.execute(asked)
        assert isinstance(found, Answer)
        assert isinstance(scanned, Answer)
        assert found.table.equals(scanned.table)
    shown = table(session, "SHOW CACHE;")["word lists"]
    assert {row["column"] for row in shown} == {"city"}
    assert all(row["words"] == 3 * row["time slots"] for row in shown)
    assert sum(row["events"] for row in shown) > 2500
    assert all(row["hits"] > 0 and row["spared"] > 0 for row in shown)
    kept = dict(zip(*_items(session, asked), strict=True))["kept"]
    assert re.fullmatch(r"word lists stand for [0-9]+ texts, [0-9]+ events are read", kept)


def _items(session: Session, question: str = QUESTION) -> tuple[list[str], list[Any]]:
    rows = table(session, f"EXPLAIN {question}")["explain"]
    return [row["item"] for row in rows], [row["value"] for row in rows]


def test_what_a_client_has_built_is_found_by_the_next_one(session: Session) -> None:
    list(session.execute("SET cache.views = 0; SET cache.objects = 0;"))
    scanned = ask(session)
    list(session.execute("SET cache.views = '1 MB';"))
    folder, eager = session.home.views, CachePolicy(least=0, scans=0, first=4, always=True)
    shutil.rmtree(folder, ignore_errors=True)
    session.snapshots.kept().patience = eager
    with (
        mock.patch.multiple("stqsh.core.snapshots.cache.covering", VIEW_COST=1.0),
        mock.patch.multiple("stqsh.core.snapshots.cache.selection", VIEW_COST=1.0),
    ):
        for _ in range(12):
            assert ask(session).equals(scanned)
        session.snapshots.save()
        written = sorted(path.name for path in folder.iterdir())
        assert [path.split("-")[0] for path in written] == ["0", "0", "1", "1"]

        def has_views() -> bool:
            """Whether views answer the question of a client that has asked nothing."""
            session.snapshots._kept = None
            session.snapshots.kept().patience = eager
            is_shown = "views" in table(session, "SHOW CACHE;")
            kept = str(dict(zip(*_items(session), strict=True)).get("kept"))
            assert is_shown == bool(re.match("[1-9][0-9]* views with", kept))
            assert ask(session).equals(scanned)
            return is_shown

        assert has_views()
        session.snapshots.save()
        assert sorted(path.name for path in folder.iterdir()) == written  # only the history is new
        with mock.patch.object(view_files, "FORMAT", 0):
            assert not has_views()
        for path in folder.glob("*.arrays"):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        assert not has_views()
        for _ in range(12):
            assert ask(session).equals(scanned)
        session.snapshots.save()
        assert has_views()
        for path in folder.glob("*.index"):
            path.write_bytes(path.read_bytes()[:40])
        assert not has_views()
