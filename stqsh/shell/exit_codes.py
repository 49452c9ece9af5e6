"""The exit codes of the program, and the guard that turns every error into a message and a code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from stqsh.errors import StqshError
from stqsh.shell.messages import format_error, format_internal_error, full_disk_text, print_message
from stqsh.shell.user_files import write_traceback

FAILED, INTERRUPTED = 1, 130


def run_guarded(action: Callable[[], int]) -> int:
    """Run `action` and return its exit code, or the code of the error that it raised.

    Prints errors on standard error. Only `SystemExit` passes through.
    """
    code = _guarded(action)
    try:
        sys.stdout.flush()
    except OSError:  # already reported; Python would flush again at exit, and change the exit code
        silence_stdout()
    return code


def _guarded(action: Callable[[], int]) -> int:
    try:
        return _flushed(action)
    except StqshError as error:
        print_message(format_error(error, sys.stderr))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return 0
    except Exception as error:
        message = full_disk_text(error)
        print_message(message or format_internal_error(error, write_traceback()))
        return FAILED


def _flushed(action: Callable[[], int]) -> int:
    """Run `action` and flush standard output; like any output, flushing fails on a full disk."""
    try:
        code = action()
    except SystemExit:
        _flush_stdout()
        raise
    _flush_stdout()
    return code


def _flush_stdout() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe; keep the action's exit code
        silence_stdout()


def silence_stdout() -> None:
    """Discard output buffered for a closed pipe or a full disk, so that Python does not fail at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())


def exit_on_signals() -> None:
    """Make TERM and HUP exit the program normally, so that temporary sessions are cleaned up."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
