"""Standard input as a source: a thread of the client puts its lines into the stream's spool."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stqsh.errors import SourceError
from stqsh.storage.disk_space import is_full

STDIN_THREAD = "stdin"
"""The name of the thread that copies."""
_READ_BYTES = 1 << 18
_FULL_S = 1.0


def check_stdin(reads_script: bool) -> None:
    """Check that standard input is free to be a source.

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


def pump_stdin(folder: Path) -> threading.Thread:
    """Start to copy standard input into a spool; returns the thread, which ends at the end of the input."""
    from stqsh.sources.live.line_spool import SpoolWriter

    writer = SpoolWriter(folder)

    def copy() -> None:
        while data := os.read(sys.stdin.fileno(), _READ_BYTES):
            while is_full(folder):  # who writes to it waits, too
                time.sleep(_FULL_S)
            writer.write(data)
        with suppress(FileNotFoundError):  # the stream has been dropped
            writer.finish()

    thread = threading.Thread(target=copy, name=STDIN_THREAD, daemon=True)
    thread.start()
    return thread


def wait_for_stdin(tell: Callable[[str], None]) -> None:
    """Wait until the standard input that this process copies into streams has ended; `tell` says so first."""
    threads = [thread for thread in threading.enumerate() if thread.name == STDIN_THREAD]
    if threads:
        tell("standard input still feeds the session; its end or Ctrl-C ends this")
    for thread in threads:
        thread.join()
