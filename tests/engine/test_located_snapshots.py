"""Snapshots on a cluster, without Spark: the tasks of the slots' executors run in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.local import local_session
from system.test_snapshots import CREATE, ask, write_files
from system.test_snapshots_spark import ASKED, tables

from stqsh.client.api import Session, connect
from stqsh.client.read import live_keys
from stqsh.client.read.live_keys import LiveKeys
from stqsh.client.read.snapshots import PATIENCE_S
from stqsh.engine.config import TUNING
from stqsh.engine.operators import located_snapshots
from stqsh.engine.operators.located_snapshots import AnswerSlots, LocatedSnapshots, SlotShares
from stqsh.engine.state.arena import Arena
from stqsh.errors import NotPublishedError
from stqsh.lang.syntax.parse import parse
from stqsh.sources.recent_input import question
from stqsh.spec.query import AskSpec
from stqsh.spec.stats import TaskTiming
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import entries_after
from stqsh.storage.engine_info import EngineInfo, write_engine

SLOTS = 3


class Executors:
    """Runs tasks as two executors do: the first has the first slot, the second one the others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here, self.jobs, self.busy = "", 0, set[str]()
        monkeypatch.setattr(located_snapshots, "executor_location", lambda: self.here)

    def run(self, task: AnswerSlots, parts: Sequence[tuple[tuple[int, ...], str]]) -> list[SlotShares]:
        self.jobs += 1
        found = []
        for part in parts:
            self.here = "executor_h_9" if part[1] in self.busy else part[1]
            found.append(task(part))
        return found


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> Executors:
    return Executors(monkeypatch)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_files(tmp_path)
    with local_session(tmp_path, slots=SLOTS, published=True) as session:
        list(session.execute(CREATE.format(folder=tmp_path) + "RUN FOR 50 s;"))
        yield session


@pytest.fixture
def located(session: Session, executors: Executors) -> Iterator[LocatedSnapshots]:
    """The engine's part; the client is told that the slots are in executors."""
    located = LocatedSnapshots(session.home, SLOTS, executors.run)
    located.delivered(
        TaskTiming("evaluate", slot, executor=f"executor_h_{min(slot, 1)}") for slot in range(SLOTS)
    )
    on_cluster(session)
    located.start()
    yield located
    located.stop()


def on_cluster(session: Session) -> None:
    write_engine(session.home, replace(EngineInfo.now(os.getpid(), "ready"), cluster=True))
    session.connection._engine = (0.0, None)


def asked_by_log(session: Session) -> int:
    return len(entries_after(session.connection.db, 0, ["ask"]))


def test_every_question_is_answered_where_the_slots_are_and_without_a_batch(
    session: Session, executors: Executors, tmp_path: Path
) -> None:
    expected = tables([ask(session, text, direct=True) for text in ASKED])
    assert all(expected) and not asked_by_log(session)
    located = LocatedSnapshots(session.home, SLOTS, executors.run)
    located.delivered(TaskTiming("evaluate", slot, executor=f"executor_h_{slot}") for slot in range(SLOTS))
    on_cluster(session)
    located.start()
    answers = [ask(session, text, direct=True) for text in ASKED]
    plan = session.execute("EXPLAIN SELECT oid FROM taxis INSIDE (0, 0, 1, 1);")
    located.stop()
    assert plan and tables(answers) == expected
    assert {answer.step for answer in answers} == {50}
    assert executors.jobs > len(ASKED) and not asked_by_log(session)


def test_completion_finds_keys_and_values_there(
    session: Session, executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_keys, "LOCATED_S", 60.0)  # this machine may be busy
    keys = LiveKeys(session.connection)
    expected = keys.starting("taxis", "oid", "o1"), keys.starting("taxis", "status", "")
    assert all(expected)
    located = LocatedSnapshots(session.home, SLOTS, executors.run)
    located.delivered(TaskTiming("evaluate", slot, executor="executor_h_0") for slot in range(SLOTS))
    on_cluster(session)
    located.start()
    keys = LiveKeys(session.connection)
    assert (keys.starting("taxis", "oid", "o1"), keys.starting("taxis", "status", "")) == expected
    assert executors.jobs >= 2
    located.stop()


def test_where_an_executor_is_gone_the_question_goes_through_the_log(
    session: Session, executors: Executors, located: LocatedSnapshots
) -> None:
    expected = tables([ask(session, text, direct=False) for text in ASKED])
    before = asked_by_log(session)
    executors.busy = {"executor_h_1"}
    assert tables([ask(session, ASKED[0], direct=True)]) == expected[:1]
    assert executors.jobs == TUNING.located_attempts
    assert asked_by_log(session) == before + 1
    executors.busy = set()
    assert tables([ask(session, text, direct=True) for text in ASKED]) == expected
    assert asked_by_log(session) == before + 1


def test_the_engine_itself_asks_for_the_places_of_objects(
    session: Session, executors: Executors, located: LocatedSnapshots
) -> None:
    taxis = next(one.spec for one in live_streams(session.connection.db) if one.name == "taxis")
    found = located.table(question(taxis, [taxis.x, taxis.y], most=100))
    expected = ask(session, f"SELECT {taxis.x}, {taxis.y} FROM taxis;", direct=True)
    assert [sorted(map(str, rows)) for rows in tables([expected])] == [sorted(map(str, found.to_pylist()))]
    assert found.num_rows > 3
    executors.busy = {"executor_h_1"}
    with pytest.raises(NotPublishedError, match="executor_h_1 is gone"):
        located.table(question(taxis, [taxis.x], most=100))


def test_slots_at_different_steps_are_no_answer(
    session: Session, executors: Executors, located: LocatedSnapshots
) -> None:
    arena = Arena(session.home.arena.folders, "evaluate-0")
    head = arena.read_head()
    assert head is not None

    def put(step: int) -> None:
        header = {**head.header, "clock": {**head.header["clock"], "step": step}}
        with arena.held():
            arena.commit("another", header, arena.load(head))

    question = AskSpec(ask=0, spec=session.snapshots.bound(*parse(ASKED[1]), session._context.view)[0])
    put(51)
    assert located._asked(question, 50).missed == "the slots are at different steps"
    put(50)
    assert located._asked(question, 50).clock.step == 50
    assert located._asked(question, 51).missed == "the slots are at different steps"


def test_where_the_engine_has_not_said_where_slots_are_nothing_waits_for_arrays_that_cannot_appear(
    session: Session, executors: Executors
) -> None:
    expected = tables([ask(session, ASKED[0], direct=False)])
    for head in session.home.arena.folder.glob("*.head"):
        head.unlink()
    located = LocatedSnapshots(session.home, SLOTS, executors.run)
    on_cluster(session)
    located.start()
    begun = time.monotonic()
    assert tables([ask(session, ASKED[0], direct=True)]) == expected
    assert session.snapshots.read(len, 50) is None
    assert time.monotonic() - begun < PATIENCE_S / 2
    located.stop()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_cluster_gives_the_answers_of_one_machine_without_a_batch(
    tmp_path: Path,
) -> None:
    write_files(tmp_path)
    script = CREATE.format(folder=tmp_path) + "RUN FOR 50 s;"
    with local_session(tmp_path / "local", published=True) as session:
        list(session.execute(script))
        expected = tables([ask(session, text, direct=True) for text in ASKED])
    profile = tmp_path / "two.yaml"
    profile.write_text(
        "spark: {master: 'local-cluster[2,1,1024]', executor.memory: 512m}\nengine: {slots: 2, memory: 1g}\n"
    )
    with connect(home=tmp_path / "home", temporary=True, autoplay=False, profile=str(profile)) as session:
        list(session.execute(script))
        batch = session.progress().batch
        assert tables([ask(session, text, direct=True) for text in ASKED]) == expected
        assert (session.progress().batch, asked_by_log(session)) == (batch, 0)
