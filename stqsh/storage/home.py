"""Session homes: one directory a session, with everything that outlives a shell and its engine.

    <root>/<name>/
      control.db        control log, catalogue, progress (SQLite, WAL)
      updates/          update log, one Arrow IPC file a batch, the oldest ones folded
      readers/          clients' leases: how far each has read the update log
      answers/          answers to snapshots that went through the control log
      views/            what clients have built to answer snapshots of events faster
      asked             the regions of recent snapshots, by which routings may be planned
      checkpoint/       Spark's checkpoint; or checkpoint.uri, which names its place
      checkpoints/      on a cluster, checkpoints that continue another one, by their first batches
      state/            the slots' snapshots and logs
      sinks/<id>/       how far a sink has written
      streams/<id>/     replay store and dead letters of a stream
      tables/<id>/      rows and dead letters of a table
      routes/           routing tables, by their rows in the control log
      heads/            large content of the control log that the tasks of the current batch need
      arena.json        the name of the slots' folder in shared memory
      scratch.json      the name of the folder of Spark's temporary files
      engine.json       pid, heartbeat and state of the engine
      engine.log        what the engine printed

The root is the first of these that is set: the argument, `STQSH_HOME`, the profile's `session.home_root`, the
system's folder for the user's state.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stqsh.errors import HomeError, SessionNameError
from stqsh.fs import atomic_write, make_private

DEFAULT_NAME = "default"
TEMPORARY_PREFIX = "tmp-"
SHM = Path("/dev/shm")
SHM_FREE_BYTES = 1 << 30
"""Free space in shared memory that a session's arena requires."""

_ELSEWHERE = "give another place with STQSH_HOME or session.home_root in the profile"
_ARENA = re.compile(r"stqsh-[0-9]+-[0-9a-f]{32}")
_SCRATCH = re.compile(r"stqsh-[0-9]+-\w{8}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class SessionHome:
    """The directory of a session and the paths in it; creates nothing unless a method says so.

    A `temporary` home is deleted when its session closes.
    """

    path: Path
    temporary: bool = False

    @property
    def name(self) -> str:
        """The session's name: the last part of its path."""
        return self.path.name

    @property
    def control_db(self) -> Path:
        """The SQLite file of control log, catalogue and progress."""
        return self.path / "control.db"

    @property
    def updates(self) -> Path:
        """The folder of the update log."""
        return self.path / "updates"

    @property
    def readers(self) -> Path:
        """The folder of the leases of clients that read the update log."""
        return self.path / "readers"

    @property
    def answers(self) -> Path:
        """The folder of answers to snapshots that went through the log."""
        return self.path / "answers"

    @property
    def asked(self) -> Path:
        """The file of the regions of recent snapshots."""
        return self.path / "asked"

    @property
    def views(self) -> Path:
        """The folder of what clients have built to answer snapshots of events faster."""
        return self.path / "views"

    @property
    def checkpoint(self) -> Path:
        """The folder in which Spark keeps its offsets and state."""
        return self.path / "checkpoint"

    @property
    def state(self) -> Path:
        """The folder in which slots keep their state if the session's storage is its home."""
        return self.path / "state"

    @property
    def engine_json(self) -> Path:
        """The file with the engine's pid, heartbeat and state."""
        return self.path / "engine.json"

    @property
    def engine_log(self) -> Path:
        """The file that receives the engine's output."""
        return self.path / "engine.log"

    @property
    def scratch(self) -> Path:
        """The folder of Spark's temporary files, which an engine creates when it starts.

        Its path is short, because Unix sockets require that. A copy of a home does not share the original's
        folder. While no engine has created one, the path is within the home.
        """
        try:
            path, home = json.loads((self.path / "scratch.json").read_bytes())
        except (OSError, ValueError):
            return self.path / "scratch"
        is_own = home == str(self.path.resolve()) and _SCRATCH.fullmatch(Path(path).name)
        return Path(path) if is_own else self.path / "scratch"

    def make_scratch(self) -> Path:
        """Create the folder of Spark's temporary files under an unpredictable name (mode 0700).

        A folder left by a killed engine is removed.

        Raises:
            OSError: the system's folder for temporary files cannot be written.
        """
        self.remove_scratch()
        made = tempfile.mkdtemp(prefix=f"stqsh-{os.getuid()}-")
        content = json.dumps([made, str(self.path.resolve())]).encode()
        atomic_write(self.path / "scratch.json", content, private=True)
        return Path(made)

    def remove_scratch(self) -> None:
        """Delete Spark's temporary files, including those left by a killed engine."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        (self.path / "scratch.json").unlink(missing_ok=True)

    def stream(self, stream_id: int) -> Path:
        """Return the folder of one stream's replay store and dead letters."""
        return self.path / "streams" / str(stream_id)

    def table(self, table_id: int) -> Path:
        """Return the folder of one table's rows and dead letters."""
        return self.path / "tables" / str(table_id)

    @property
    def arena(self) -> SessionArena:
        """The slots' warm state."""
        return SessionArena(self.path)


@dataclass(frozen=True, slots=True)
class SessionArena:
    """The arena of the session whose home is `home`, in shared memory if that had enough space.

    The engine creates it, see `stqsh.storage.arena_cleanup`. A copy of a home does not share the original's
    arena.
    """

    home: Path

    @property
    def name_file(self) -> Path:
        """The file with the name of the folder in shared memory; it exists if there is such a folder."""
        return self.home / "arena.json"

    @property
    def folder(self) -> Path:
        """The folder of the arena: in shared memory, or else in the home."""
        try:
            name, path = json.loads(self.name_file.read_bytes())
        except (OSError, ValueError):
            return self.home / "arena"
        is_own = path == str(self.home.resolve()) and _ARENA.fullmatch(name)
        return SHM / name if is_own else self.home / "arena"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders for slot state: the arena, and a folder on disk that is used when the arena is full."""
        return self.folder, self.home / "arena-on-disk"

    @property
    def on_hosts(self) -> tuple[Path, ...]:
        """The arena by name only, for the hosts of a cluster; see `host_folders`."""
        return (Path(self.folder.name),)

    def choose_name(self) -> Path:
        """Choose an unpredictable name for the folder in shared memory, and return the folder's path."""
        name = f"stqsh-{os.getuid()}-{secrets.token_hex(16)}"
        atomic_write(self.name_file, json.dumps([name, str(self.home.resolve())]).encode())
        return self.folder


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One row of `stqsh sessions`: a home found under the root; `changed` in seconds since the epoch."""

    home: SessionHome
    changed: float


def sessions_root(home: str | os.PathLike[str] | None = None, *, default: str | None = None) -> Path:
    """Return the folder that holds the session homes.

    The first of these that is set: `home`, `STQSH_HOME`, `default` (the profile's `session.home_root`), the
    system's folder for a user's state.
    """
    chosen = home or os.environ.get("STQSH_HOME") or default
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_state_dir("stqsh", appauthor=False)) / "sessions"


def open_home(name: str | None = None, *, root: Path | None = None, temporary: bool = False) -> SessionHome:
    """Return the home of a session; create it if it does not exist (mode 0700).

    Raises:
        SessionNameError: the name is not a valid file name.
        HomeError: the folder cannot be created, read or written.
    """
    root = root or sessions_root()
    named = named_home(DEFAULT_NAME if name is None else name, root)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if temporary and name is None:
            path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=root))
        else:
            path = named.path
            path.mkdir(mode=0o700, exist_ok=True)
        home = SessionHome(path, temporary)
        _check_access(home)
        for folder in (home.updates, home.path / "streams"):
            folder.mkdir(mode=0o700, exist_ok=True)
        make_private(home.control_db)  # SQLite copies this file's mode to the files that it creates beside it
    except OSError as error:
        raise _unusable(error, root) from error
    return home


def named_home(name: str, root: Path) -> SessionHome:
    """Return the place of a session's home, whether it exists or not.

    Raises:
        SessionNameError: the name is not a valid file name.
    """
    if not _NAME.fullmatch(name):
        raise SessionNameError(
            f"'{name}' cannot be a session's name",
            hint="use letters, digits, '_', '-' and '.', at most 64 of them",
        )
    return SessionHome(root / name)


def made_root(root: Path) -> Path:
    """Return the folder that holds the session homes; create it if needed (mode 0700).

    Raises:
        HomeError: it cannot be created or used.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(error, root) from error
    return root


def list_sessions(root: Path | None = None) -> list[SessionInfo]:
    """Return all session homes under the root, by name; an empty list if the root does not exist.

    Raises:
        HomeError: the root cannot be read.
    """
    root = root or sessions_root()
    try:
        found = [_session(path) for path in sorted(root.iterdir())]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HomeError(f"cannot list the sessions in {root}: {_reason(error)}", hint=_ELSEWHERE) from error
    return [info for info in found if info is not None]


def _session(path: Path) -> SessionInfo | None:
    """Return the session whose home is at a path; None if there is none, or if it was just removed."""
    home = SessionHome(path, path.name.startswith(TEMPORARY_PREFIX))
    try:
        return SessionInfo(home, _changed(home)) if home.control_db.is_file() else None
    except FileNotFoundError:
        return None


def _changed(home: SessionHome) -> float:
    """Return when the control database was last written; recent changes are in the WAL file beside it."""
    changed = home.control_db.stat().st_mtime
    try:
        return max(changed, home.control_db.with_name(f"{home.control_db.name}-wal").stat().st_mtime)
    except FileNotFoundError:
        return changed


def kept_log(home: SessionHome) -> Path:
    """Return a path at which the engine's log can still be read later.

    The log of a temporary home is copied to another folder if there is space.
    """
    if not home.temporary or not home.engine_log.exists():
        return home.engine_log
    name = f"{home.name}.engine.log"
    for kept in (home.path.with_name(name), Path(tempfile.gettempdir()) / f"stqsh-{name}"):
        try:
            make_private(kept)
            shutil.copyfile(home.engine_log, kept)
        except OSError:
            continue  # the engine may have ended because the disk is full
        return kept
    return home.engine_log


def remove_home(home: SessionHome) -> None:
    """Delete a session's home, its arena and its scratch; missing files are no error."""
    shutil.rmtree(home.arena.folder, ignore_errors=True)
    shutil.rmtree(home.scratch, ignore_errors=True)
    shutil.rmtree(home.path, ignore_errors=True)


def has_room(folder: Path) -> bool:
    """Return whether a folder in shared memory has enough space for an arena."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    return shutil.disk_usage(folder).free >= SHM_FREE_BYTES


def _check_access(home: SessionHome) -> None:
    if not os.access(home.path, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(home.path))
    if home.control_db.exists() and not os.access(home.control_db, os.R_OK | os.W_OK):
        raise PermissionError(13, "Permission denied", str(home.control_db))


def _unusable(error: OSError, root: Path) -> HomeError:
    return HomeError(
        f"cannot use the session home {error.filename or root}: {_reason(error)}", hint=_ELSEWHERE
    )


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
