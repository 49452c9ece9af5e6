"""The law where every payload goes by name, and every record of a log is made again: nothing changes."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import pytest
from support.local import local_session
from support.running import Together, run_script
from support.strategies import EVERY, sampled, script_cases

from stqsh.engine.ingest.record_replay import replay_records, shorten_for_log
from stqsh.engine.operators import slot_task
from stqsh.spec.chunk import Chunk, unpack
from stqsh.spec.payload_refs import reference_in
from stqsh.storage.blobs import home_blobs

CASES = 1
SLOTS = 2


class Logged:
    """What logs hold of chunks that came by name: it is made again as soon as it is written."""

    def __init__(self, home: Path) -> None:
        self.home, self.kinds = home, set()

    def shorten(self, chunk: Chunk, content: Chunk) -> Chunk:
        logged = shorten_for_log(chunk, content)
        if reference_in(logged.payload) is not None:
            self.kinds.add(chunk.kind)
            [again] = replay_records(home_blobs(self.home), [logged])
            assert replace(again, payload=b"") == replace(content, payload=b"")
            # A part of a batch has other bytes where the batch is cut, and the same records.
            assert unpack(again.payload).equals(unpack(content.payload))
        return logged


@pytest.mark.parametrize("mishaps", [(), range(1, 1000, 3)], ids=["smooth", "with batches done twice"])
def test_the_same_bytes_come_out_when_all_payloads_go_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mishaps: Container[int]
) -> None:
    together = Together.of(
        sampled(script_cases((1_000_000,), EVERY | {"snapshots"}), CASES, seed=1)
    )  # a case with updates
    file = together.write(tmp_path)
    text = file.read_text(encoding="utf-8")
    with local_session(tmp_path / "inline", SLOTS, 40) as session:
        expected = run_script(session, text, file)
    with local_session(tmp_path / "named", SLOTS, 40, mishaps, published=True, spool_bytes=1) as session:
        logged = Logged(session.home.path)
        monkeypatch.setattr(slot_task, "shorten_for_log", logged.shorten)
        assert run_script(session, text, file) == expected
        assert list(session.home.updates.glob("*.bulk"))
    assert "records" in logged.kinds
