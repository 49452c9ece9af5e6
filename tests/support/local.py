"""A session whose engine runs in this process, without Spark: planner, store, slots and Deliver as they are.

It advances whenever somebody looks at its progress, so nothing waits and nothing runs in the background.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.ingest.stream_preparer import StreamPreparer
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.planner import Planner
from stqsh.engine.state.arena import Arena
from stqsh.profile import load_profile
from stqsh.spec.chunk import to_table
from stqsh.spec.offset import Offset
from stqsh.storage.control_log import ControlDb, set_meta, wall_clock_us
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import SessionHome, open_home
from stqsh.storage.rows import Progress
from stqsh.storage.slot_files import slot_name
from support.memory import Slots


class LocalEngine:
    """Takes batches of a home until there is nothing to do; `max_records` cuts them.

    Each batch in `mishaps` is delivered and then lost before it is committed: it is done a second time, by a
    planner and by slots that know nothing of the first.
    """

    def __init__(self, home: SessionHome, slots: int, max_records: int, mishaps: Container[int] = ()) -> None:
        self.home, self.slot_count, self.max_records, self.mishaps = home, slots, max_records, mishaps
        self.control = control = ControlDb(home.path)
        self.preparer = StreamPreparer(home, control)
        self.delivery = Delivery(home, control)
        self.slots = Slots(slots)
        self.planner = Planner(home.path, slots, max_records)
        self.arenas: list[Arena] = []
        self.offset = Offset()
        self.number = 0

    def advance(self) -> None:
        """Run batches until the planner has none."""
        self.preparer.prepare_new()
        while (end := self.planner.latest(self.offset, wall_clock_us())) != self.offset:
            if self.number in self.mishaps:
                before = self.slots.copy()
                self._batch(end)
                self.slots, self.planner = before, Planner(self.home.path, self.slot_count, self.max_records)
            self._batch(end)
            self.offset, self.number = end, self.number + 1

    def publish(self) -> None:
        """From now on, lay the slots' state down where snapshots are read from, after each batch."""
        set_meta(self.control, "slots", str(self.slot_count))
        folders = (self.home.arena(),)
        self.arenas = [Arena(folders, slot_name("evaluate", slot)) for slot in range(self.slot_count)]

    def _lay_down(self) -> None:
        for arena, state in zip(self.arenas, self.slots.states["evaluate"], strict=False):
            with arena.held():
                arena.begin()
                arena.commit(uuid.uuid4().hex, state.header, state.buffers)

    def _batch(self, end: Offset) -> None:
        tasks = self.planner.plan(self.offset, end)
        sent = self.slots.apply(chunk for task in tasks for chunk in chunks(task))
        self._lay_down()
        self.delivery.deliver(to_table(sent), self.number)


@dataclass
class LocalLink(Connection):
    """A client's hold on a session that advances by being looked at."""

    engine: LocalEngine | None = None

    def progress(self) -> Progress:
        if self.engine is not None:
            self.engine.advance()
        return super().progress()

    def restart(self) -> EngineInfo:
        return EngineInfo(0, 0, wall_clock_us(), "ready")

    def _look(self) -> None:
        self.check_streams()


@contextmanager
def local_session(
    folder: Path,
    slots: int = 1,
    max_records: int = 400_000,
    mishaps: Container[int] = (),
    *,
    published: bool = False,
) -> Iterator[Session]:
    """A session in a new home below `folder`; `published`: snapshots may be read from the slots' state."""
    home = open_home("local", root=folder)
    link = LocalLink(home, ControlDb(home.path))
    link.engine = LocalEngine(home, slots, max_records, mishaps)
    if published:
        link.engine.publish()
    try:
        with Session(home, load_profile(None, {}), autoplay=False, link=link) as session:
            yield session
    finally:
        if published:
            shutil.rmtree(home.arena(), ignore_errors=True)
