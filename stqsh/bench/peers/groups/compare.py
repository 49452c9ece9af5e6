"""Compare stqsh with other systems: aggregates by topic over squares, each minute.

All of them get the same posts, by the minute where they are asked by the minute, and the same squares, and
their answers are compared before speeds are. A minute of posts counts together with the answers at its end.
The first minute is not measured: Java and the kernels warm up in it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import stqsh
from stqsh.bench.figures import Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.drive import Say, execute, run
from stqsh.bench.harness.topics import CREATE
from stqsh.bench.harness.workload import rectangles
from stqsh.bench.peers.groups import databases, processors
from stqsh.bench.peers.groups.case import MINUTE, GroupCase, GroupOutcome, GroupPeer, check
from stqsh.client.api import Session
from stqsh.client.read.projection import project
from stqsh.client.read.subscription import UpdateReader
from stqsh.spec.query import with_members
from stqsh.spec.region import RectangleSpec

SELECT = (
    "SELECT topic, COUNT(*) AS n, AVG(len) AS mean FROM m INSIDE (0, 0, 1, 1) GROUP BY topic SYNC 1 minute"
)
PEERS: tuple[GroupPeer, ...] = (databases.DUCKDB, databases.POSTGIS, processors.SPARK, processors.FLINK)


def compare(case: GroupCase, folder: Path, say: Say) -> list[Row]:
    """Run all systems that are there; return what a minute of posts with its answers costs each of them.

    Raises:
        ValueError: answers differ.
    """
    case.write(folder)
    found = {"stqsh": _ours(case, folder, say)}
    for peer in PEERS:
        if why := peer.missing():
            say(f"{peer.name} is left out: {why}")
            continue
        say(f"{peer.name}: {case.minutes} minutes of {MINUTE * case.per_tick:,} posts")
        found[peer.name] = peer.run(case, folder)
    for name, outcome in found.items():
        check(name, found["stqsh"].answer, outcome.answer)
    posts = MINUTE * case.per_tick
    return [
        {
            "what": f"minutes of {name}",
            "queries": case.queries,
            "records_per_s": [posts / seconds for seconds in outcome.seconds],
        }
        for name, outcome in found.items()
    ]


def _ours(case: GroupCase, folder: Path, say: Say) -> GroupOutcome:
    with (
        stqsh.connect(temporary=True, autoplay=False) as session,
        UpdateReader(session.connection, -1) as reader,
    ):
        execute(session, CREATE.format(file=folder / "posts.parquet", keep=MINUTE))
        bound = registration.bind(session, SELECT)
        boxes = rectangles(case.queries, case.side).tolist()
        registration.log(session, [with_members(bound, region=RectangleSpec(*box)) for box in boxes])
        say(f"stqsh: {case.minutes} minutes of {MINUTE * case.per_tick:,} posts")
        run(session, MINUTE)
        seconds = []
        for number in range(case.minutes):
            begun = time.perf_counter()
            run(session, MINUTE + (number == case.minutes - 1))  # the refresh at the end is a step later
            seconds.append(time.perf_counter() - begun)
        return GroupOutcome(seconds, _answer(session, reader))


def _answer(session: Session, reader: UpdateReader) -> pd.DataFrame:
    """Return the rows of all queries after the last step."""
    names = session.connection.book.names
    parts = []
    for sent in reader.poll(session.progress().batch):
        select = next(iter(sent.queries.values())).spec.result.select  # all of them have the same
        columns: dict[str, Any] = {name: sent.table[name] for name in ("query", "op")}
        columns |= {one.name: found for one, found in zip(select, project(sent, select), strict=True)}
        parts.append(pa.table(columns).to_pandas())
    rows = pd.concat(parts, ignore_index=True).drop_duplicates(["query", "topic"], keep="last")
    rows = rows[rows["op"] > 0].drop(columns="op")
    numbers = {id_: int(name[1:]) for id_, name in names.items() if name != registration.PROBE}
    return rows.assign(query=rows["query"].map(numbers))
