"""Remove what streams that have been dropped leave behind, once nothing can read it again.

A batch that is repeated reads the stores of its streams, and so does a slot that is built up from its log: it
names records of stores instead of copying them. So a store stays until two batches have begun with the drop
taken in, and no slot's log names it. Small sessions keep their stores for that reason, because their logs
stay. A live stream has no store; if it was repartitioned, its dealer's slots have files of their own.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state.file_store import first_logged_rows
from stqsh.storage.catalogue import dropped_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.rows import Progress, StreamRow
from stqsh.storage.slot_files import dealer_name

log = logging.getLogger("stqsh.engine")


class DroppedStores:
    """The stores and dealers of streams that are dropped and have not been removed yet."""

    def __init__(self, home: SessionHome, control: ControlDb, tuning: EngineTuning = TUNING) -> None:
        self._home, self._control, self._tuning = home, control, tuning
        self._left: list[StreamRow] = []
        self._before, self._last = Progress(), Progress()
        self._looked = 0.0

    def find(self) -> None:
        """Find the stores and dealers that are there."""
        self._left = [stream for stream in dropped_streams(self._control) if any(self._files(stream))]

    def _files(self, stream: StreamRow) -> Iterator[Path]:
        """Yield the files and folders of a stream that nothing needs any more.

        The folder of a live stream stays, as it is read until its end is taken in.
        """
        if not stream.spec.is_live:
            yield from [folder for folder in [self._home.stream(stream.id)] if folder.exists()]
            return
        for folder in (self._home.state, *self._home.arena.folders):
            yield from folder.glob(f"{dealer_name(stream.id)}[-.]*")

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
            for path in [*self._files(stream)]:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            self._left.remove(stream)
            log.info("the records of stream %s, which was dropped, are removed", stream.name)

    def _is_over(self, stream: StreamRow) -> bool:
        """Return whether no batch that may be repeated takes records of the stream."""
        return stream.dropped_seq is not None and self._before.seq >= stream.dropped_seq
