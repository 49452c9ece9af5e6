"""`stqsh serve`, `stqsh sessions` and `stqsh stop`: the engines of sessions, from the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stqsh.client.engine_process import stop_engine
from stqsh.client.results import Rows
from stqsh.errors import HomeError, SessionNameError
from stqsh.profile import Profile, load_profile
from stqsh.program import program
from stqsh.shell.messages import print_message
from stqsh.shell.terminal.capabilities import has_colour, table_width
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.text_columns import instant
from stqsh.shell.writers.writer import Target
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.home import DEFAULT_NAME, SessionHome, list_sessions, open_home, sessions_root


def serve(session: str | None, profile: str | None) -> int:
    """Become a session's engine, until Ctrl-C or a TERM signal.

    Raises:
        HomeError: The session has a running engine.
    """
    home = open_home(session, root=_root(load_profile(profile)))
    engine = read_engine(home)
    if engine is not None and is_alive(engine):
        raise HomeError(
            f"session {home.name} already has an engine (pid {engine.pid})",
            hint=f"{program()} stop --session {home.name} stops it",
        )
    print_message(f"serving session {home.name} in {home.path}; Ctrl-C ends it")
    os.execv(sys.executable, [sys.executable, "-m", "stqsh.engine.launch.parent", "--home", str(home.path)])


def show_sessions(profile: str | None, format_: str | None) -> int:
    """Print the sessions with the states of their engines."""
    found = list_sessions(_root(load_profile(profile)))
    lines = []
    for info in found:
        engine = read_engine(info.home)
        alive = engine is not None and is_alive(engine)
        state = engine.state if engine is not None and alive else "stopped"
        pid = engine.pid if engine is not None and alive else None
        lines.append(
            (info.home.name, state, pid, instant(int(info.changed) * 1_000_000), str(info.home.path))
        )
    terminal = sys.stdout.isatty()
    target = Target(sys.stdout.buffer, colour=has_colour(sys.stdout), width=table_width())
    rows = Rows("sessions", ("session", "engine", "pid", "changed", "home"), tuple(lines))
    if not found:
        print_message("no sessions yet")
    else:
        open_writer(format_ or ("table" if terminal else "jsonl"), target).rows(1, rows)
    return 0


def stop_session(session: str | None, profile: str | None) -> int:
    """Stop a session's engine between two batches."""
    home = session_home(session, profile)
    stopped = stop_engine(home)
    print_message(f"session {home.name}: " + ("engine stopped" if stopped else "no engine was running"))
    return 0


def session_home(session: str | None, profile: str | None) -> SessionHome:
    """Return the home of an existing session.

    Raises:
        SessionNameError: There is no such session; the hint lists those that exist.
    """
    root, name = _root(load_profile(profile)), session or DEFAULT_NAME
    names = [info.home.name for info in list_sessions(root)]
    if name not in names:
        raise SessionNameError(
            f"there is no session '{name}'", hint=f"sessions: {', '.join(names) or 'none'}"
        )
    return SessionHome(root / name)


def _root(profile: Profile) -> Path:
    return sessions_root(default=profile.text("session.home_root") or None)
