"""The files that the shell reads and writes: scripts, the init file, history and error log."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from stqsh.errors import CommandLineError, ProfileError, StqshError
from stqsh.shell.messages import file_error_hint, file_error_reason
from stqsh.storage.home import made_root, sessions_root

if TYPE_CHECKING:
    from stqsh.client.api import Session


def state_folder() -> Path:
    """Return the folder for history and error reports; create it if it is missing.

    Raises:
        HomeError: The folder cannot be created.
    """
    return made_root(sessions_root())


def init_file() -> Path:
    """Return the script that the shell reads first: `$STQSH_INIT`, else `init.stq` in the configuration."""
    path = os.environ.get("STQSH_INIT")
    if path:
        return Path(path).expanduser()
    return Path(platformdirs.user_config_dir("stqsh", appauthor=False)) / "init.stq"


def script_text(file: str) -> str:
    """Return the text of a script file, or of standard input for `-`, without a byte order mark.

    Raises:
        CommandLineError: It cannot be read, or is not UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        reason = file_error_reason(error)
        raise CommandLineError(f"cannot read {file}: {reason}", hint=file_error_hint(error, file)) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        name = "stdin" if file == "-" else file
        raise CommandLineError(f"{name}:{line}: not valid UTF-8", hint="save it as UTF-8") from error


def write_traceback() -> Path | str:
    """Append the current exception's traceback to `errors.log`; return its path, or why that failed."""
    text = traceback.format_exc()
    try:
        path = state_folder() / "errors.log"
        with path.open("a", encoding="utf-8") as file:
            file.write(f"pid {os.getpid()}\n{text}\n")
    except (OSError, StqshError) as error:
        return f"no file ({error})"
    return path


def profile_script(profile: str | None) -> Path | None:
    """Return the script that the profile runs in a new session; None if it names none.

    Return None for an unreadable profile, too, because opening the session reports its error.
    """
    if profile is None and not {"STQSH_PROFILE", "STQSH_SESSION_SCRIPT"} & set(os.environ):
        return None  # the default profile names none
    # Reading YAML would delay a prompt without a profile.
    from stqsh.profile import load_profile

    try:
        return load_profile(profile).script
    except ProfileError:
        return None


def is_new_session(session: Session) -> bool:
    """Return whether no statement, not even SHOW or SELECT, was ever executed in the session."""
    from stqsh.storage.session_settings import is_touched  # imported here to save the prompt 30 ms

    return not is_touched(session.connection.db)
