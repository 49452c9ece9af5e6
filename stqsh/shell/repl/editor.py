r"""`\e`: edit the last statement, or a file, in the user's editor; the saved text is put at the prompt."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from stqsh.errors import StqshError
from stqsh.shell.terminal.interrupts import ignore_interrupts
from stqsh.shell.user_files import script_text

_USUAL = ("nano", "vim", "vi", "emacs")


def edited(text: str, file: str = "") -> str:
    """Let the user edit a text, or a file if one is named; return the result.

    Raises:
        StqshError: There is no editor, it fails, or the file cannot be read.
    """
    if file:
        path = Path(file).expanduser()
        _edit(path)
        return script_text(str(path)).strip()
    with tempfile.TemporaryDirectory(prefix="stqsh-") as folder:
        path = Path(folder) / "statement.stq"
        path.write_text(text.rstrip() + "\n" if text.strip() else "", encoding="utf-8")
        _edit(path)
        return script_text(str(path)).strip()


def editor() -> str:
    """Return the command of the user's editor: `$VISUAL`, `$EDITOR`, or a common one. Raises `StqshError`."""
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    found = said or next((name for name in _USUAL if shutil.which(name)), None)
    if found is None:
        raise StqshError("no editor is set", hint="set one: export EDITOR=…")
    return found


def _edit(path: Path) -> None:
    command = editor()
    with ignore_interrupts():
        code = subprocess.call(f"{command} {shlex.quote(str(path))}", shell=True)
    if code:
        raise StqshError(f"the editor {command} ended with code {code}; the statement is unchanged")
