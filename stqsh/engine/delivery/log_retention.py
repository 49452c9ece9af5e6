"""Retention of the update log: a separate process folds the log's older updates.

`python -m stqsh.engine.delivery.log_retention --home DIR --up-to N` runs that process. Batches never wait for
it, and its memory is freed when it exits. Folding (`stqsh.storage.update_log.compaction`) takes a fraction of
a microsecond for each update, and as much again for each one still in force. Therefore it folds a lot at
once: when the log has grown to `updates.keep`, and past twice the base, all but its newer half is folded.
Then it deletes the rows of control.db that only the folded updates needed
(`stqsh.storage.queries.forgotten`).
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.errors import StqshError
from stqsh.storage.catalogue import NameBook
from stqsh.storage.control_log import ControlDb
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.queries.forgotten import forget_queries
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.files import logged_files, read_base
from stqsh.storage.update_log.leases import all_read, read_by_all

log = logging.getLogger("stqsh.engine")


class LogRetention:
    """Starts the folding of a session's update log as it grows.

    `keep` returns `updates.keep` in bytes. If the disk is full, half of the log is folded.
    """

    def __init__(
        self, home: SessionHome, control: ControlDb, keep: Callable[[], int], tuning: EngineTuning = TUNING
    ) -> None:
        self._home, self._control, self._keep, self._tuning = home, control, keep, tuning
        self._sizes = deque((file.batch, file.total) for file in logged_files(control))
        self._bytes = sum(size for _, size in self._sizes)
        self._folding: subprocess.Popen[bytes] | None = None
        self._begun = 0.0
        self._lock, self._stopped = threading.Lock(), threading.Event()

    def start(self) -> None:
        """Start watching the log."""
        threading.Thread(target=self._run, name="retention", daemon=True).start()

    def stop(self) -> None:
        """Stop watching, and end a running fold; the log remains valid."""
        self._stopped.set()
        if self._folding is not None:
            self._folding.terminate()
            self._folding.wait()

    def delivered(self, batch: int, size: int) -> None:
        """Record how many bytes a batch added to the log."""
        with self._lock:
            if not self._sizes or self._sizes[-1][0] < batch:
                self._sizes.append((batch, size))
                self._bytes += size

    def look(self) -> None:
        """Start a fold if one is due and none is running."""
        if self._folding is not None and (self._folding.poll() is None or self._has_just_failed()):
            return
        base = read_base(self._control)
        keep = max(self._keep(), 2 * base.file.total if base.file else 0)
        if is_full(self._home.path):
            keep = min(keep, self._bytes - 1)
        with self._lock:
            while self._sizes and self._sizes[0][0] <= base.batch:
                self._bytes -= self._sizes.popleft()[1]
            if self._bytes <= keep and len(self._sizes) <= self._tuning.log_batches:
                return
            last = self._older_half(keep)
        if (up_to := read_by_all(self._home, last)) > base.batch:
            self._folding, self._begun = _start(self._home, up_to), time.monotonic()

    def _run(self) -> None:
        while not self._stopped.wait(self._tuning.log_look_s):
            try:
                self.look()
            except Exception:  # a full disk, a busy database: the next check may succeed
                log.exception("the update log is not folded")

    def _has_just_failed(self) -> bool:
        """Return whether the last process failed, as on a damaged file, too recently to start another."""
        failed = self._folding is not None and self._folding.returncode > 0  # negative: it was killed
        return failed and time.monotonic() - self._begun < self._tuning.log_retry_s

    def _older_half(self, keep: int) -> int:
        """Return the last batch to fold: half of the bytes, and half of the batches, are after it."""
        left, count = self._bytes, len(self._sizes)
        for batch, size in self._sizes:
            left, count = left - size, count - 1
            if left <= keep // 2 and count <= self._tuning.log_batches // 2:
                return batch
        return -1


def _start(home: SessionHome, up_to: int) -> subprocess.Popen[bytes]:
    """Start the process that folds; its output goes to the engine's log."""
    command = [sys.executable, "-m", "stqsh.engine.delivery.log_retention", "--home", str(home.path)]
    return subprocess.Popen([*command, "--up-to", str(up_to)], stdin=subprocess.DEVNULL)


def main(arguments: list[str] | None = None) -> None:
    """Fold a session's update log up to a batch."""
    parser = argparse.ArgumentParser(
        prog="stqsh.engine.delivery.log_retention", description="Fold an update log."
    )
    parser.add_argument("--home", type=Path, required=True, help="the session's directory")
    parser.add_argument("--up-to", type=int, required=True, help="the last batch that is folded")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    os.nice(TUNING.log_nice)
    home, begun = SessionHome(given.home), time.monotonic()
    control = ControlDb(home.path)
    book, before = NameBook(control), read_base(control)
    guard = partial(all_read, home, wait_s=TUNING.log_wait_s)
    try:
        base = fold_log(control, given.up_to, book.key_of, guard, forgets=book.keeps_none)
    except StqshError as error:
        log.error("the update log is not folded, and grows: %s", error.message)
        sys.exit(error.exit_code)
    log.debug("the update log is folded up to batch %d, in %.1f s", base.batch, time.monotonic() - begun)
    # A reader may still be reading the files folded now, but not those folded before.
    if before.batch <= read_progress(control).batch - 2 and (count := forget_queries(control, before.step)):
        log.debug("%d queries that were dropped up to step %d are forgotten", count, before.step)
        if size := control.give_back():
            log.debug("control.db is %d bytes smaller", size)


if __name__ == "__main__":
    main()
