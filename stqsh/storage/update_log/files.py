"""The files of the update log, and their list in control.db.

Most batches have no file, so a missing file leaves no visible gap. The list contains the batches that have
one, with each file's seal. A row is written in the transaction that records the batch's progress, and removed
in the transaction that publishes a new base.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stqsh.checksums import DamagedFileError, Seal
from stqsh.errors import StqshError
from stqsh.storage.control_log import ControlDb

_HINT = (
    "SELECT and new updates are not affected; put the file back from a backup, "
    "or DUMP what the session defines, for a new one"
)


class LogCompactedError(StqshError):
    """Updates that a reader has not read yet were folded into the base, possibly during its read."""

    def __init__(self) -> None:
        super().__init__(
            "updates that were not read in time are no longer kept one by one",
            hint="SET updates.keep = '10 GB'; keeps more of them; TAIL begins with the answer as it stands",
        )


def damaged(error: DamagedFileError) -> DamagedFileError:
    """Return an error for a damaged file of the update log, with a hint on possible remedies."""
    error.hint = _HINT
    return error


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file of chunks of the update log, as it was written.

    Attributes:
        batch: the last batch in it.
        size: its size in bytes.
        checksum: its checksum; None if a version without checksums wrote it.
        total: the size in bytes of all files of the batch or base, including payloads.
    """

    batch: int
    size: int
    checksum: int | None
    total: int

    @staticmethod
    def sealed(batch: int, seal: Seal, beside: int) -> LoggedFile:
        """Return a file with its seal, whose payloads in other files have `beside` bytes."""
        return LoggedFile(batch, seal.size, seal.checksum, seal.size + beside)

    def check(self, content: memoryview, path: Path) -> None:
        """Raise `DamagedFileError` unless `content` is what was written to this file."""
        checksum = self.checksum
        if checksum is None:
            checksum = Seal.of(content).checksum
        Seal(self.size, checksum).check(content, f"{path.parent.name}/{path.name}")


@dataclass(frozen=True, slots=True)
class CompactedBase:
    """How far the log is folded: the last batch (-1 if not at all), and the last step with updates in it."""

    batch: int = -1
    step: int = 0
    file: LoggedFile | None = None


def read_base(control: ControlDb) -> CompactedBase:
    """Return how far the update log is folded."""
    rows = control.query("SELECT step, batch, size, checksum, total FROM update_base")
    if not rows:
        return CompactedBase()
    step, *columns = rows[0]
    file = _file(*columns)
    return CompactedBase(file.batch, step, file)


def logged_files(control: ControlDb, after: int = -1, up_to: int = 1 << 62) -> list[LoggedFile]:
    """Return the files of the batches in `(after, up_to]` that have updates, in order, excluding the base."""
    rows = control.query(
        "SELECT batch, size, checksum, total FROM update_files WHERE batch > ? AND batch <= ? ORDER BY batch",
        after,
        up_to,
    )
    return [_file(*columns) for columns in rows]


def list_file(control: ControlDb, file: LoggedFile) -> None:
    """Add a batch's file to the list; joins an open transaction."""
    with control.transaction() as connection:
        connection.execute("INSERT OR REPLACE INTO update_files VALUES (?, ?, ?, ?)", _columns(file))


def list_base(control: ControlDb, base: CompactedBase) -> None:
    """Publish a new base, and remove the batches up to it from the list."""
    assert base.file is not None
    with control.transaction() as connection:
        connection.execute("DELETE FROM update_files WHERE batch <= ?", (base.batch,))
        connection.execute(
            "INSERT OR REPLACE INTO update_base (one, step, batch, size, checksum, total)"
            " VALUES (1, ?, ?, ?, ?, ?)",
            (base.step, *_columns(base.file)),
        )


def base_path(updates: Path, batch: int) -> Path:
    """Return the path of the base that replaces the batches up to `batch`."""
    return updates / f"base-{batch:012d}.arrow"


def batch_path(updates: Path, batch: int) -> Path:
    """Return the path of a batch's file."""
    return updates / f"{batch:012d}.arrow"


def _columns(file: LoggedFile) -> tuple[int, int, str | None, int]:
    checksum = None if file.checksum is None else f"{file.checksum:016x}"  # too large for SQLite's integers
    return file.batch, file.size, checksum, file.total


def _file(batch: int, size: int, checksum: str | None, total: int) -> LoggedFile:
    return LoggedFile(batch, size, None if checksum is None else int(checksum, 16), total)
