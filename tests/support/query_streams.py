"""Sessions without an engine, and what their logs tell slots about queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.engine.ingest.query_intakes import QueryIntakes
from stqsh.profile import load_profile
from stqsh.spec.log import QueryAltered, QueryBlock, QueryDropped
from stqsh.spec.query import QuerySpec, slot_query
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import open_home
from stqsh.storage.queries.query_templates import QueryTemplate, TemplateRows
from stqsh.storage.rows import LogRow


@contextmanager
def session_without_engine(folder: Path) -> Iterator[Session]:
    """A session whose home is in a folder; its clock stands still."""
    home = open_home("s", root=folder)
    db = ControlDb(home.path, clock=lambda: 7, create=True)
    connection = Connection(home, db, lambda home: EngineInfo(0, 0, 0, "ready"))
    yield Session(home, load_profile(None), autoplay=False, connection=connection)
    db.close()


@contextmanager
def intakes(session: Session) -> Iterator[None]:
    """The intakes of the session's query streams, as in its engine."""
    found = QueryIntakes(session.connection.home, session.connection.db)
    found.start()
    yield
    found.stop()


def execute(session: Session, text: str) -> list[str]:
    """What the statements say."""
    return [getattr(outcome, "text", "") for outcome in session.outcomes(text)]


def commands(rows: list[LogRow]) -> list[tuple[str, Any]]:
    """What the log tells slots about queries, query by query."""
    found: list[tuple[str, Any]] = []
    for row in rows:
        entry = row.entry
        if isinstance(entry, QueryBlock):
            assert row.payload is not None
            template = QueryTemplate.from_json(entry.template).to_json()
            block = TemplateRows.read(template, row.payload, row.seq)
            ids = range(entry.first, entry.first + entry.count)
            found += [("register", slot_query(block.spec(id_))) for id_ in ids]
        elif isinstance(entry, QuerySpec):
            found.append(("register", slot_query(entry)))
        elif isinstance(entry, QueryAltered):
            found.append(("alter", (entry.id, slot_query(entry.query), entry.before, entry.paused)))
        elif isinstance(entry, QueryDropped):
            found.append(("drop", entry.id))
    return found
