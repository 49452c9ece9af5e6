"""Remove what streams and tables that have been dropped leave behind, once nothing can read it again.

A batch that is repeated reads the stores of its streams, and so does a slot that is built up from its log: it
names records of stores instead of copying them. So a store stays until two batches have begun with the drop
taken in, and no slot's log names it: slots write a snapshot with the batch that takes the drop in. A live
stream has its spool instead. If a stream has a dealer, the dealer's slots have files of their own. Slots have
the rows of a table in full.
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
from stqsh.storage.blobs import Blobs
from stqsh.storage.catalogue import dropped_streams, dropped_tables
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.rows import Progress, StreamRow, TableRow
from stqsh.storage.slot_files import dealer_name

log = logging.getLogger("stqsh.engine")


class DroppedStores:
    """The files of streams and tables that are dropped and have not been removed yet.

    Args:
        home: the session's home.
        control: its control log.
        tuning: the tunables of the engine.
        blobs: where workers find the session's files, None if in the home.
    """

    def __init__(
        self,
        home: SessionHome,
        control: ControlDb,
        tuning: EngineTuning = TUNING,
        blobs: Blobs | None = None,
    ) -> None:
        self._home, self._control, self._tuning = home, control, tuning
        self._blobs = None if blobs is None or blobs.at_home else blobs
        self._left: list[StreamRow | TableRow] = []
        self._before, self._last = Progress(), Progress()
        self._looked = 0.0

    def find(self) -> None:
        """Find what is there."""
        dropped: list[StreamRow | TableRow] = [*dropped_streams(self._control)]
        dropped += dropped_tables(self._control)
        self._left = [one for one in dropped if any(self._files(one))]

    def _files(self, dropped: StreamRow | TableRow) -> Iterator[Path]:
        """Yield the files and folders of a stream or table."""
        is_table = isinstance(dropped, TableRow)
        folder = self._home.table(dropped.id) if is_table else self._home.stream(dropped.id)
        if folder.exists():
            yield folder
        if isinstance(dropped, StreamRow) and dropped.spec.needs_dealer:
            for folder in (self._home.state, *self._home.arena.folders):
                yield from folder.glob(f"{dealer_name(dropped.id)}[-.]*")

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
        for dropped in [one for one in self._left if self._is_over(one) and one.id not in named]:
            if self._blobs is not None:
                kind = "tables" if isinstance(dropped, TableRow) else "streams"
                self._blobs.delete(self._blobs.names(f"{kind}/{dropped.id}/"))
            for path in [*self._files(dropped)]:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if any(self._files(dropped)):  # its thread has just written one more
                continue
            self._left.remove(dropped)
            log.info("the records of %s, which was dropped, are removed", dropped.name)

    def _is_over(self, dropped: StreamRow | TableRow) -> bool:
        """Return whether no batch that may be repeated takes records of a stream or table."""
        return dropped.dropped_seq is not None and self._before.seq >= dropped.dropped_seq
