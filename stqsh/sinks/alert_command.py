"""The command of an alert: it reads the update on its standard input, and never in its text."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress

from stqsh.errors import StqshError

COMMAND_S = 30.0
"""How long a command may take."""
_READ_BYTES = 4096


class AlertFailedError(StqshError):
    """An action that did not succeed."""


def run_command(command: str, folder: str, record: bytes, patience_s: float = COMMAND_S) -> None:
    """Run a command of the shell with a record on its standard input.

    Raises:
        AlertFailedError: it ends with another code than 0, or is ended since it takes too long.
    """
    # Files instead of pipes: a command need not read its input, and what it leaves running may keep them.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(record)
        given.seek(0)
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AlertFailedError(f"the command cannot be run in {folder}: {reason}") from error
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AlertFailedError(f"the command was ended after {patience_s:g} s") from None
        if code != 0:
            said.seek(0)
            lines = said.read(_READ_BYTES).decode(errors="replace").strip().splitlines()
            raise AlertFailedError(f"exit code {code}" + (f": {lines[-1]}" if lines else ""))
