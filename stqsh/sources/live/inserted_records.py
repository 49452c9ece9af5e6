"""Records inserted by users and programs: any number of processes append to the spool of a stream.

The file `end` contains the place after the last segment. It is replaced under a lock after the segment is
written, so a segment counts completely or not at all, and its writer knows when it is safe.
"""

from __future__ import annotations

from pathlib import Path

from stqsh.fs import atomic_write, file_lock, force, is_durable
from stqsh.sources.live.protocol import Position, SourceState, read_problem
from stqsh.sources.live.record_spool import PART, SpoolSegment, end_of_parts, write_segment

_END, _LOCK = "end", "lock"


class RecordAppender:
    """Appends records to the spool of a stream.

    Args:
        spool: the folder of the spool.
        durable: whether appended segments must survive a crash of the machine; by default according to the
            engine's environment.
    """

    def __init__(self, spool: Path, *, durable: bool | None = None) -> None:
        self._spool, self._durable = spool, durable

    def append(self, segment: SpoolSegment) -> int:
        """Append a segment and return the place after it; the segment is safe then. Thread-safe.

        Raises:
            OSError: it cannot be written.
        """
        self._spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(self._spool / _LOCK):
            end = write_segment(self._spool, read_end(self._spool), segment, durable=self._durable)
            atomic_write(self._spool / _END, str(end).encode(), private=True, durable=self._durable)
        return end


def read_end(spool: Path) -> int:
    """Return the place after the last segment."""
    try:
        return int((spool / _END).read_bytes())
    except FileNotFoundError:
        return 0


def index_part(spool: Path, stop: int) -> tuple[str, bytes]:
    """Return the file, with its name, that says how far a spool is filled by its segments up to `stop`."""
    return _END, str(end_of_parts(spool, stop, read_end(spool))).encode()


class InsertedSource:
    """A spool of inserted records in the planner."""

    def __init__(self, spool: Path) -> None:
        self._spool, self._end = spool, 0

    def state(self) -> SourceState:
        """Return how many places there are."""
        end = read_end(self._spool)
        if end != self._end:
            if is_durable():  # sync before an offset refers to them
                force(self._spool)
            self._end = end
        return SourceState({PART: 0}, {PART: end}, message=read_problem(self._spool))

    def begin(self) -> Position:
        """Return the first place."""
        return {PART: 0}

    def close(self) -> None:
        """Do nothing: no file stays open."""
