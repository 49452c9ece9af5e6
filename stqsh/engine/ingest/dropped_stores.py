"""Remove the replay stores of streams that have been dropped, once nothing can read them again.

A batch that is repeated reads the stores of its streams, and so does a slot that is built up from its log: it
names records of stores instead of copying them. So a store stays until two batches have begun with the drop
taken in, and no slot's log names it. Small sessions keep their stores for that reason, because their logs
stay.
"""

from __future__ import annotations

import logging
import shutil
import time

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state.file_store import first_logged_rows
from stqsh.storage.catalogue import dropped_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.rows import Progress, StreamRow

log = logging.getLogger("stqsh.engine")


class DroppedStores:
    """The stores of replayed streams that are dropped and have not been removed yet."""

    def __init__(self, home: SessionHome, control: ControlDb, tuning: EngineTuning = TUNING) -> None:
        self._home, self._control, self._tuning = home, control, tuning
        self._left: list[StreamRow] = []
        self._before, self._last = Progress(), Progress()
        self._looked = 0.0

    def find(self) -> None:
        """Find the stores that are there; live streams have none, and read until their end is taken in."""
        self._left = [
            stream
            for stream in dropped_streams(self._control)
            if not stream.spec.is_live and self._home.stream(stream.id).exists()
        ]

    def remove(self) -> None:
        """Remove those that nothing reads any more, now and then."""
        if not self._left or time.monotonic() - self._looked < self._tuning.dropped_look_s:
            return
        self._looked = time.monotonic()
        progress = read_progress(self._control)
        if progress.batch != self._last.batch:
            self._before, self._last = self._last, progress
        try:
            named = first_logged_rows(self._home.state)
        except DamagedFileError:
            return  # the slot itself will complain
        for stream in [stream for stream in self._left if self._is_over(stream) and stream.id not in named]:
            shutil.rmtree(self._home.stream(stream.id), ignore_errors=True)
            self._left.remove(stream)
            log.info("the records of stream %s, which was dropped, are removed", stream.name)

    def _is_over(self, stream: StreamRow) -> bool:
        """Return whether no batch that may be repeated takes records of the stream."""
        return stream.dropped_seq is not None and self._before.seq >= stream.dropped_seq
