"""Standard input as a source: a thread of the client copies its lines into the stream's spool."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.errors import SourceError

if TYPE_CHECKING:
    from stqsh.sources.live.line_spool import SpoolWriter

STDIN_THREAD = "stdin"
"""The name of the copying thread."""
_READ_BYTES = 1 << 18
_FULL_S = 1.0


def check_stdin(reads_script: bool) -> None:
    """Check that standard input can be a source.

    Raises:
        SourceError: it is a terminal, or the script comes from it, or there is none.
    """
    hint = "for instance: tail -f positions.jsonl | stqsh run live.stq"
    if reads_script:
        raise SourceError("standard input holds the script, and cannot be a source", hint=hint)
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("there is no standard input", hint=hint)
    if sys.stdin.isatty():
        raise SourceError("standard input is the keyboard, and cannot be a source", hint=hint)


class _Pump:
    """Copies standard input into the spool of the latest stream that requested it.

    All streams share one thread, because two readers of the same input would each get only a part of it.

    Attributes:
        folder: The folder of that stream's spool; None before the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._writer: SpoolWriter | None = None
        self.folder: Path | None = None

    def begin(self, folder: Path) -> threading.Thread:
        """Copy input from now on into a spool; return the copying thread."""
        from stqsh.sources.live.line_spool import SpoolWriter

        with self._lock:
            if self._writer is not None:
                self._writer.keep()  # write what fits on the disk; its stream has been dropped
            self._writer, self.folder = SpoolWriter(folder), folder
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._copy, name=STDIN_THREAD, daemon=True)
                self._thread.start()
            return self._thread

    def _copy(self) -> None:
        while data := _read(sys.stdin.fileno()):
            with self._lock:
                if self._writer is not None:
                    self._writer.add(data)
            self._keep()
        self._keep(is_last=True)

    def _keep(self, *, is_last: bool = False) -> None:
        """Write the input read so far once the disk has room; until then, the input's writer waits, too."""
        while True:
            with self._lock:
                if self._writer is None or self._writer.keep(is_last=is_last):
                    if is_last:
                        self._thread = self._writer = None
                    return
            time.sleep(_FULL_S)


_pump = _Pump()


def pump_stdin(folder: Path) -> threading.Thread:
    """Copy standard input into a spool from now on; return the thread, which ends with the input."""
    return _pump.begin(folder)


def pumped_folder() -> Path | None:
    """Return the spool into which this process copies its standard input, or did so until the input ended."""
    return _pump.folder


def _read(descriptor: int) -> bytes:
    """Return the next bytes, b"" at the end; wait for them even if the input is non-blocking."""
    while True:
        try:
            return os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            waiting = select.poll()  # select() refuses descriptors from 1024 on
            waiting.register(descriptor, select.POLLIN)
            waiting.poll()


def wait_for_stdin(tell: Callable[[str], None]) -> None:
    """Wait until the standard input that this process copies has ended; `tell` reports the wait first."""
    threads = [thread for thread in threading.enumerate() if thread.name == STDIN_THREAD]
    if threads:
        tell("standard input still feeds the session; its end or Ctrl-C ends this")
    for thread in threads:
        thread.join()
