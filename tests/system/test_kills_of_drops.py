"""`kill -9` while streams, tables, queries and sinks are dropped: a drop is whole, and harms nothing else."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from support.killing import KILLS, Disturber, disturb_at_rest, kill_all
from support.local import local_session
from support.running import log_so_far

from stqsh.client.api import Session, connect
from stqsh.client.run import RunHandle
from stqsh.storage.control_log import last_seq
from stqsh.storage.engine_info import has_parent, is_alive, read_engine
from stqsh.storage.slot_files import read_head, slot_name

pytestmark = KILLS
CREATE = """
CREATE MOVING STREAM {name} (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/{name}.csv' TICK 1 s PLANAR;
CREATE TABLE kinds_{name} (kind BIGINT, label STRING) KEY kind FROM FILE '{folder}/kinds.csv';
REGISTER QUERY of_{name} AS SELECT oid, x FROM {name} INSIDE (0, 0, 5, 5);
"""
DROP = "DROP SINK to_{name}; DROP QUERY of_{name}; DROP TABLE kinds_{name}; DROP STREAM {name};"
KILLED = ("engine", "worker", "all")
"""What is killed as a stream is dropped, one stream after the other: before the drop is taken in, ..."""
LATER = ("parent", "jvm", "daemon")
"""... and with the step that takes it in."""
STAYS = "stays"
STEPS = 60


def write(folder: Path) -> list[str]:
    names = [f"goes_{number}" for number in range(len(KILLED))]
    for offset, name in enumerate((STAYS, *names)):
        rows = [
            f"{name}{key},{(second + key + offset) % 9},1,{1_600_000_000 + second}"
            for second in range(STEPS)
            for key in range(20)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["oid,x,y,ts", *rows]))
    (folder / "kinds.csv").write_text("kind,label\n1,one\n2,two\n")
    return names


def run(session: Session, text: str) -> RunHandle:
    """Execute statements and wait for the RUN at the end."""
    *_, last = session.execute(text)
    assert isinstance(last, RunHandle)
    last.wait()
    return last


def updates_of(session: Session, name: str, last: RunHandle) -> list[bytes]:
    """The lines of a query's updates, as they are printed."""
    lines = log_so_far(session, last).splitlines()
    return [line for line in lines if json.loads(line)["query"] == f"of_{name}"]


def disturb(disturber: Disturber, name: str) -> None:
    if name == "all":
        kill_all(disturber.session)
        disturber.session.start_engine()
    else:
        disturb_at_rest(disturber, [name])
    restart_orphan(disturber.session)


def restart_orphan(session: Session) -> None:
    """Start an engine again that has lost its parent, once it has ended: a RUN before that would be told."""
    info = read_engine(session.home)
    if info is None or has_parent(info):
        return
    deadline = time.monotonic() + 60
    while is_alive(info) and (info := read_engine(session.home)) is not None:
        assert time.monotonic() < deadline, "an engine without a parent ends by itself"
        time.sleep(0.1)
    session.start_engine()


def left_of(session: Session, ids: set[int]) -> list[str]:
    """What there is of streams, tables and sinks: folders, and arrays in shared memory."""
    home = session.home
    folders = [home.stream(id_) for id_ in ids] + [home.table(id_) for id_ in ids]
    found = [str(path) for path in folders if path.exists()]
    found += [str(path) for path in (home.path / "sinks").glob("[0-9]*")]
    for slot in range(2):
        for operator in ("evaluate", "aggregate"):
            head = read_head(home.arena.folders[0], slot_name(operator, slot))
            arrays = [] if head is None else [*head.arrays]
            found += [one for one in arrays if any(one.startswith(f"s{id_}/") for id_ in ids)]
    return found


def test_what_is_dropped_is_gone_whatever_was_killed(tmp_path: Path) -> None:
    goes = write(tmp_path)
    create = "".join(CREATE.format(name=name, folder=tmp_path) for name in (STAYS, *goes))
    with local_session(tmp_path / "usual") as usual:
        last = run(usual, CREATE.format(name=STAYS, folder=tmp_path) + "RUN;")
        expected = updates_of(usual, STAYS, last)
    assert len(expected) > STEPS
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        run(session, create + "RUN 5 STEPS;")
        for name in goes:
            list(
                session.execute(
                    f"CREATE SINK to_{name} FOR of_{name} TO FILE '{tmp_path}/{name}' FORMAT JSONL;"
                )
            )
        ids = {stream.id for stream in session.streams() if stream.name != STAYS}
        tables = "SELECT id FROM tables WHERE name <> 'kinds_stays'"
        ids |= {id_ for (id_,) in session.connection.db.query(tables)}
        disturber = Disturber(session, random.Random(7), tmp_path)
        for name, first, later in zip(goes, KILLED, LATER, strict=True):
            list(session.execute(DROP.format(name=name)))
            disturb(disturber, first)
            assert name not in {stream.name for stream in session.streams()}
            seq = last_seq(session.connection.db)
            run(session, "RUN 1 STEPS;")
            assert session.progress().seq >= seq
            disturb(disturber, later)
            run(session, "RUN 2 STEPS;")
        last = run(session, "RUN;")
        assert updates_of(session, STAYS, last) == expected
        for name in goes:
            lines = [json.loads(line) for line in updates_of(session, name, last)]
            standing = {line["row"]["oid"]: line["op"] for line in lines}
            assert set(standing.values()) == {"-"}, "nobody is left holding a stale answer"
        deadline = time.monotonic() + 120
        while left_of(session, ids) and time.monotonic() < deadline:
            run(session, "RUN 1 STEPS;")  # a batch, so that the one of the drop cannot be repeated
            time.sleep(1)
        assert left_of(session, ids) == []
