"""A session with a stream of many small batches and two queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session
from support.sinks import QUERIES, STREAM, run_text, write_records

from stqsh.client.api import Session


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_records(tmp_path)
    # Few records a batch: many batches.
    with local_session(tmp_path / "home", slots=2, max_records=200) as session:
        run_text(session, STREAM.format(folder=tmp_path) + QUERIES)
        yield session
