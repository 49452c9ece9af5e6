"""The law where every payload goes by name, and every record of a log is made again: nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import local, memory
from support.local import local_session
from support.running import Together, run_script
from support.strategies import EVERY, sampled, script_cases

from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.ingest.record_replay import replay_records, replay_reference, shorten_for_log
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.tasks import SourceTask
from stqsh.engine.state.payload_files import PayloadFolders, load_payloads, open_writer
from stqsh.spec.chunk import Chunk
from stqsh.storage.payload_refs import reference_in

CASES = 1
SLOTS = 2


class ByName:
    """What stands in for Spark between source, operators and Deliver."""

    def __init__(self, home: Path) -> None:
        self.spool = PayloadFolders(home, home / "shared", 1)
        self.spool.prepare()
        self.named: set[str] = set()
        self.calls = 0

    def from_source(self, task: SourceTask) -> Iterator[Chunk]:
        """A task's chunks as Evaluate gets them: opened, or out of the log."""
        made = list(chunks(task))
        with open_writer(self.spool, "source") as outgoing:
            sent = [outgoing.put(chunk, replay_reference(task, chunk)) for chunk in made]
        whole = load_payloads(sent, self.spool)
        logged = [shorten_for_log(*pair) for pair in zip(sent, whole, strict=True)]
        self.named |= {chunk.kind for chunk in logged if reference_in(chunk.payload) is not None}
        back = replay_records(self.spool.home, logged)
        assert [replace(chunk, payload=bytes(chunk.payload)) for chunk in back] == made
        yield from whole

    def from_operator(self, told: Iterable[Chunk], slots: int) -> Iterator[Chunk]:
        """What a slot sends on, as the next operator gets it; what the log keeps stays a reference."""
        some = list(memory_addressed(told, slots))
        self.calls += 1  # of one operator and slot in a batch, as its file's name says
        with open_writer(self.spool, f"operator-{self.calls}") as outgoing:
            for chunk in some:
                sent = outgoing.put(chunk)
                yield sent if chunk.kind in ("rows", "updates") else load_payloads([sent], self.spool)[0]


memory_addressed = memory.address_partials


def test_the_same_bytes_come_out_when_all_payloads_go_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together.of(sampled(script_cases((1_000_000,), EVERY | {"snapshots"}), CASES, seed=5))
    file = together.write(tmp_path)
    text = file.read_text(encoding="utf-8")
    with local_session(tmp_path / "inline", SLOTS, 40) as session:
        expected = run_script(session, text, file)
    with local_session(tmp_path / "named", SLOTS, 40) as session:
        by_name = ByName(session.home.path)
        monkeypatch.setattr(local, "chunks", by_name.from_source)
        monkeypatch.setattr(memory, "address_partials", by_name.from_operator)
        engine = session.link.engine
        engine.delivery = Delivery(engine.home, engine.control, spool=by_name.spool)
        assert run_script(session, text, file) == expected
        assert list(session.home.updates.glob("*.bulk"))
    assert "records" in by_name.named
