"""Run stqsh on the case, from the replay store through Spark into the update log."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import stqsh
from stqsh.bench.harness import registration
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import Say, execute, paced, run
from stqsh.bench.peers.answers import NONE, Updates, updates
from stqsh.bench.peers.peer import PeerOutcome
from stqsh.bench.peers.peer_case import PeerCase
from stqsh.client.api import Session
from stqsh.client.read.subscription import UpdateReader
from stqsh.spec.query import with_members
from stqsh.spec.region import RectangleSpec

_CREATE = (
    "CREATE MOVING STREAM m (oid BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) "
    "TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s;"
)


def measure(case: PeerCase, folder: Path, say: Say) -> PeerOutcome:
    """Take in objects and queries, measure, and read all updates from the log."""
    file = folder / "reports.parquet"
    case.write(file)
    with (
        stqsh.connect(temporary=True, autoplay=False) as session,
        UpdateReader(session.connection, -1) as reader,
    ):
        execute(session, _CREATE.format(file=file))
        say(f"stqsh: taking {case.objects:,} objects and {case.queries:,} queries in")
        run(session, case.fill - 1)
        _register(session, case)
        run(session, 1)
        say(f"stqsh: {case.steps * case.per_step:,} records")
        meter = ProcessorMeter(session)
        _, rates = paced(session, case.steps, case.per_step)
        found = meter.per_million(case.steps * case.per_step).values()
        parts = [seconds for seconds in found if seconds is not None]
        return PeerOutcome(_sent(session, reader), rates, sum(parts) if parts else None)


def _register(session: Session, case: PeerCase) -> None:
    bound = registration.bind(session, "SELECT oid FROM m INSIDE (0, 0, 1, 1)")
    squares = case.squares.tolist()
    registration.log(session, [with_members(bound, region=RectangleSpec(*square)) for square in squares])


def _number(name: str) -> int:
    return -1 if name == registration.PROBE else int(name[1:])


def _sent(session: Session, reader: UpdateReader) -> Updates:
    """Return all updates of the session, with the queries' numbers instead of their ids."""
    found = [NONE]
    for sent in reader.poll(session.progress().batch):
        names = session.connection.book.names
        numbers = np.zeros(max(names) + 1, np.int64)
        numbers[list(names)] = [_number(name) for name in names.values()]
        step, query, key, op = (sent.table[name].to_numpy() for name in ("step", "query", "key", "op"))
        found.append(updates(step, numbers[query], key, op))
    return np.concatenate(found)
