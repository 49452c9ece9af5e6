"""Records that users and programs put in: any number of processes append to the spool of one stream.

The file `end` has the place behind the last segment. It is replaced under a lock, after the segment is
written, so a segment counts as a whole or not at all, and its writer knows that it is kept.
"""

from __future__ import annotations

from pathlib import Path

from stqsh.fs import atomic_write, file_lock, force, is_durable
from stqsh.sources.live.protocol import Position, SourceState, read_problem
from stqsh.sources.live.record_spool import PART, SpoolSegment, write_segment

_END, _LOCK = "end", "lock"


class RecordAppender:
    """Appends records to the spool of a stream.

    Args:
        spool: the folder of the spool.
        durable: whether what is appended must survive the machine's death; by default as the environment of
            an engine says.
    """

    def __init__(self, spool: Path, *, durable: bool | None = None) -> None:
        self._spool, self._durable = spool, durable

    def append(self, segment: SpoolSegment) -> int:
        """Append a segment and return the place behind it; it is kept then. Several threads may call it.

        Raises:
            OSError: it cannot be written.
        """
        self._spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(self._spool / _LOCK):
            end = write_segment(self._spool, read_end(self._spool), segment, durable=self._durable)
            atomic_write(self._spool / _END, str(end).encode(), private=True, durable=self._durable)
        return end


def read_end(spool: Path) -> int:
    """Return the place behind the last segment."""
    try:
        return int((spool / _END).read_bytes())
    except FileNotFoundError:
        return 0


class InsertedSource:
    """Such a spool in the planner."""

    def __init__(self, spool: Path) -> None:
        self._spool, self._end = spool, 0

    def state(self) -> SourceState:
        """Return how many places there are."""
        end = read_end(self._spool)
        if end != self._end:
            if is_durable():  # before an offset names them
                force(self._spool)
            self._end = end
        return SourceState({PART: 0}, {PART: end}, message=read_problem(self._spool))

    def begin(self) -> Position:
        """Return the first place."""
        return {PART: 0}

    def close(self) -> None:
        """Do nothing: no file stays open."""
