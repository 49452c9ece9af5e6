"""`stqsh serve`, `sessions`, `stop` and `rm`: sessions and their engines, from the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stqsh.client.engine_process import stop_engine
from stqsh.client.results import Rows
from stqsh.errors import HomeError, SessionNameError, StqshError
from stqsh.lang.ast.statements import PLURALS
from stqsh.profile import Profile, load_profile
from stqsh.program import program
from stqsh.shell.messages import print_message
from stqsh.shell.terminal.capabilities import has_colour, table_width
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.text_columns import instant
from stqsh.shell.writers.writer import Target
from stqsh.storage.catalogue import count_queries, live_areas, live_streams, live_tables
from stqsh.storage.control_log import ControlDb, get_meta, session_uuid
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.home import DEFAULT_NAME, SessionHome, list_sessions, open_home, remove_home, sessions_root
from stqsh.storage.sinks.sink_catalogue import live_alerts, written_sinks
from stqsh.units import format_size


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


def remove_sessions(names: list[str], profile: str | None, *, force: bool) -> int:
    """Remove sessions with all that they hold, and say what that was.

    Raises:
        SessionNameError: There is no such session; none is removed.
        HomeError: One is in use, and `force` does not say that its engine is to be stopped.
    """
    homes = [session_home(name, profile) for name in dict.fromkeys(names)]
    for home in homes:
        engine = read_engine(home)
        if engine is not None and is_alive(engine) and not force:
            raise HomeError(
                f"session {home.name} is in use: its engine runs (pid {engine.pid})",
                hint=f"{program()} rm --force {home.name} stops and removes it",
            )
    for home in homes:
        held = _held(home)
        stop_engine(home)
        _forget_storage(home)
        remove_home(home)
        print_message(f"session {home.name} removed: {held}")
    return 0


def _forget_storage(home: SessionHome) -> None:
    """Delete what a session has in a storage that is not its home.

    Raises:
        StorageError: the storage does not answer.
    """
    try:
        db = ControlDb(home.path)
    except StqshError:  # what cannot be read names no storage
        return
    storage = get_meta(db, "storage")
    if storage:
        from stqsh.sources.session_rebuild import forget_name  # pyarrow
        from stqsh.storage.blobs import open_blobs

        forget_name(open_blobs(storage), home.name, session_uuid(db))
    db.close()


def _held(home: SessionHome) -> str:
    """Return what a session holds, in words."""
    size = format_size(sum(path.lstat().st_size for path in home.path.rglob("*") if path.is_file()))
    place = f"{size} in {home.path}"
    try:
        db = ControlDb(home.path)
    except StqshError:  # what cannot be read can be removed
        return place
    counts = {
        "stream": len(live_streams(db)),
        "table": len(live_tables(db)),
        "region": len(live_areas(db)),
        "query": count_queries(db),
        "sink": len(written_sinks(db)),
        "alert": len(live_alerts(db)),
    }
    db.close()
    plurals = {word.lower(): plural.lower() for word, plural in PLURALS.items()}
    said = [f"{count:,} {word if count == 1 else plurals[word]}" for word, count in counts.items() if count]
    return ", ".join([*said, place])


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
