"""Savepoints: the manifest of the copy of a whole session, and the files that the engine stages for it.

A client requests a savepoint in a folder of the session's home. Between two batches the engine writes the
savepoint's files there, and reports it; the client then copies them to the destination.
"""

from __future__ import annotations

from msgspec import Struct

from stqsh.checksums import Seal

FORMAT = 1
"""The version of a savepoint's manifest and of the files that it names."""


class StagedSession(Struct, frozen=True):
    """The data that the engine has staged for a savepoint.

    Attributes:
        batch: the last batch in it; all batches are complete.
        step: its last step.
        at_us: the event time of that step; None before the first.
        slots: the number of slots.
        state: the form of the slots' state, see `stqsh.engine.config.EngineSettings.state`.
        seals: the seals of files to which other files refer, by their paths within the home.
        problem: the reason why there is no savepoint; "" if there is one.
    """

    batch: int = -1
    step: int = 0
    at_us: int | None = None
    slots: int = 0
    state: str = ""
    seals: dict[str, Seal] = {}
    problem: str = ""


class SavedFile(Struct, frozen=True, array_like=True):
    """A file of the session in a savepoint.

    Attributes:
        path: its path within the session's home.
        blob: the blob that holds it, perhaps among others.
        start: its offset in the blob.
        seal: its size and checksum.
    """

    path: str
    blob: str
    start: int
    seal: Seal


class Savepoint(Struct, frozen=True):
    """The manifest of a savepoint, which is written last: a savepoint without it is incomplete.

    Attributes:
        format: the version of the manifest.
        version: the version of stqsh that wrote it.
        session: the session's name.
        saved_us: when it was written, in µs since the epoch.
        staged: the step at which it was taken.
        layout: the version of control.db.
        files: its files.
    """

    format: int
    version: str
    session: str
    saved_us: int
    staged: StagedSession
    layout: int
    files: tuple[SavedFile, ...]

    @property
    def size(self) -> int:
        """The total size of all files in bytes."""
        return sum(file.seal.size for file in self.files)
