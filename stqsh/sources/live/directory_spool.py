"""A growing directory: its completed files become records in the session, in order of completion.

The engine reads each file once, identified by its name, and stores its records in a spool, see
`record_spool`. The ledger gets a line for each file after its segments are written, and only listed segments
are ever read. If the engine is killed while it reads a file, the rest has no effect. After a file has been
read, it may be deleted.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from stqsh.control_characters import escape_controls, shorten
from stqsh.errors import StqshError
from stqsh.fs import readable_path, settle
from stqsh.sources.dead_letters import DeadLetter
from stqsh.sources.formats.record_parser import QUOTE_LIMIT, ParsedRecords, parse
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.inference import lacks_drops
from stqsh.sources.live.protocol import Position, SourceState, read_problem
from stqsh.sources.live.record_spool import PART, SpoolSegment, end_of_parts, segments, write_segment
from stqsh.sources.source_check import number_unit
from stqsh.sources.source_files import SourceFile, read_first_block, read_group
from stqsh.spec.stream import DirectorySourceSpec, FileSourceSpec, StreamSpec

log = logging.getLogger("stqsh.engine")

#: A file that has not changed for this many seconds is complete.
QUIET_S = 1.0
_LEDGER = "taken.jsonl"
#: Names that programs usually give to files they are still writing.
_HIDDEN, _UNFINISHED = (".", "_"), (".tmp", ".part", ".crdownload")


class TakenFile(msgspec.Struct, frozen=True):
    """A line of the ledger: a file's name, encoded by `_ledger_name`, and the place after its records."""

    name: str
    end: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of a file, and the time since which it has had that state."""

    size: int
    mtime_ns: int
    since: float


class DirectoryTaker:
    """Reads the files of a directory into a spool; only one process may do so at a time.

    Args:
        stream: the stream whose source is the directory.
        spool: the folder of the spool.
        keeps_lines: whether the spool keeps the file and the line of each record.
    """

    def __init__(self, stream: StreamSpec, spool: Path, *, keeps_lines: bool = False) -> None:
        assert isinstance(stream.source, DirectorySourceSpec), f"{stream.name} reads no directory"
        self._source, self._layout = stream.source, RecordSchema.of(stream)
        self._spool, self._ledger, self._keeps_lines = spool, spool / _LEDGER, keeps_lines
        self._seen: dict[str, _Seen] = {}
        self._apart, self._distrusted_until = time.time() - time.monotonic(), 0.0
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = _whole_lines(self._ledger)
        taken = [msgspec.json.decode(line, type=TakenFile) for line in lines]
        self._names = {file.name for file in taken}
        self._end = taken[-1].end if taken else 0
        if self._ledger.exists():
            os.truncate(self._ledger, sum(len(line) + 1 for line in lines))
        for first, path in segments(spool):
            if first >= self._end:
                path.unlink()

    def look(self) -> int:
        """Read the files that are complete by now, in the order of their names; return their number."""
        complete = self._complete(time.monotonic())
        for path in complete:
            self._take(path)
        return len(complete)

    def _complete(self, now: float) -> list[Path]:
        """Return the new files that have not changed for QUIET_S."""
        seen: dict[str, _Seen] = {}
        complete, may_be_old = [], self._trusts_times(now)
        for entry in _entries(Path(self._source.path)):
            if _ledger_name(entry.name) in self._names or not _is_candidate(entry):
                continue
            stat = entry.stat()
            before = self._seen.get(entry.name)
            if before is None or (before.size, before.mtime_ns) != (stat.st_size, stat.st_mtime_ns):
                before = _Seen(stat.st_size, stat.st_mtime_ns, now)
            seen[entry.name] = before
            if now - before.since >= QUIET_S or (may_be_old and time.time() - stat.st_mtime >= 2 * QUIET_S):
                complete.append(Path(entry.path))
        self._seen = seen
        return sorted(complete)

    def _trusts_times(self, now: float) -> bool:
        """Return whether file times can be compared with the clock; not so just after the clock was set."""
        apart, self._apart = self._apart, time.time() - now
        if abs(self._apart - apart) > QUIET_S:
            self._distrusted_until = now + 2 * QUIET_S
        return now >= self._distrusted_until

    def _take(self, path: Path) -> None:
        """Store the records of a file, then add the file to the ledger."""
        end = self._end
        origin = readable_path(path) if self._keeps_lines else None
        for part in self._parts(path):
            end = write_segment(self._spool, end, SpoolSegment.of(part, self._layout, origin))
        name = _ledger_name(path.name)
        line = msgspec.json.encode(TakenFile(name, end)) + b"\n"
        with self._ledger.open("ab") as ledger:
            ledger.write(line)
        settle(self._ledger)
        self._names.add(name)
        self._seen.pop(path.name, None)
        self._end = end

    def _parts(self, path: Path) -> Iterator[ParsedRecords]:
        """Yield a file's records, some MB at a time; a file that cannot be read becomes a dead letter."""
        source = FileSourceSpec(str(path), self._source.format, self._source.options)
        file = SourceFile(0, path, 0)
        try:
            layout = self._timed(file, source)
            yield from read_group([file], source, layout, with_lines=self._keeps_lines)
        except MemoryError:  # retry later, when more memory may be free
            raise
        except Exception as problem:  # a bad file must not block the files after it
            if not isinstance(problem, StqshError | OSError):
                log.exception("the file %s cannot be read", readable_path(path))
            letter = DeadLetter(
                readable_path(path), 0, f"the file cannot be read: {_said(path, problem)}", ""
            )
            yield replace(parse([], self._layout), dead=[letter])

    def _timed(self, file: SourceFile, source: FileSourceSpec) -> RecordSchema:
        """Return the layout with the unit of the file's times, if they are numbers."""
        layout = self._layout
        if layout.may_lack_drops and lacks_drops(file.path, source):
            layout = layout.without_drops
        first = None if "timestamp" in source.options else read_first_block(file, source, layout)
        return layout if first is None else number_unit(first, layout).layout


def _ledger_name(name: str) -> str:
    """Return a file name as the ledger stores it: escaped after a `/` if it is not UTF-8, else unchanged."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"/{readable_path(name)}"
    return name


def _said(path: Path, problem: Exception) -> str:
    """Return a file's problem as one line of bounded length, because any kind of file may be called .csv.

    The dead letter names the folder, whose name may be longer than the line.
    """
    if isinstance(problem, OSError):
        return (problem.strerror or str(problem)).lower()
    parts = [problem.message, problem.hint] if isinstance(problem, StqshError) else [f"{problem!r}"]
    text = "; ".join(filter(None, parts)).replace(str(path), path.name).replace("\n", " ")
    return escape_controls(shorten(text, QUOTE_LIMIT))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; none while the directory is missing."""
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _is_candidate(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return not name.startswith(_HIDDEN) and not name.endswith(_UNFINISHED) and entry.is_file()


def _whole_lines(ledger: Path) -> list[bytes]:
    """Return the lines of a ledger, without an incomplete one left by a killed engine."""
    try:
        return ledger.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def untaken_files(directory: Path, spool: Path) -> dict[str, int]:
    """Return the sizes of the files of a directory that are not in the ledger of a spool yet, by name."""
    taken = {msgspec.json.decode(line, type=TakenFile).name for line in _whole_lines(spool / _LEDGER)}
    found = {}
    for entry in _entries(directory):
        if _ledger_name(entry.name) in taken or not _is_candidate(entry):
            continue
        with suppress(FileNotFoundError):  # deleted a moment ago
            found[entry.name] = entry.stat().st_size
    return found


def taken_records(spool: Path) -> int:
    """Return the place after the records of all files in the ledger of a spool."""
    lines = _whole_lines(spool / _LEDGER)
    return msgspec.json.decode(lines[-1], type=TakenFile).end if lines else 0


def index_part(spool: Path, stop: int) -> tuple[str, bytes]:
    """Return the ledger, with its name, as of the segments up to `stop`, where a file may be cut short."""
    taken = [msgspec.json.decode(line, type=TakenFile) for line in _whole_lines(spool / _LEDGER)]
    end = end_of_parts(spool, stop, taken[-1].end if taken else 0)
    begins = [0, *(file.end for file in taken)]
    kept = [file for file, begin in zip(taken, begins, strict=False) if begin < end]
    lines = [msgspec.json.encode(TakenFile(file.name, min(file.end, end))) + b"\n" for file in kept]
    return _LEDGER, b"".join(lines)


class DirectoryLiveSource:
    """A directory in the planner: reports how far its files have been read."""

    def __init__(self, source: DirectorySourceSpec, spool: Path) -> None:
        self._directory, self._ledger = Path(source.path), spool / _LEDGER
        self._bytes = self._end = 0

    def state(self) -> SourceState:
        """Return how many places the spool has."""
        try:
            with self._ledger.open("rb") as ledger:
                ledger.seek(self._bytes)
                whole, mark, _ = ledger.read().rpartition(b"\n")
        except FileNotFoundError:
            whole = mark = b""
        if mark:
            self._bytes += len(whole) + 1
            self._end = msgspec.json.decode(whole.rpartition(b"\n")[2], type=TakenFile).end
        message = self._obstacle() or read_problem(self._ledger.parent)
        return SourceState({PART: 0}, {PART: self._end}, message=message)

    def _obstacle(self) -> str:
        if not self._directory.is_dir():
            return f"waiting for the directory {self._directory}"
        if not os.access(self._directory, os.R_OK | os.X_OK):
            return f"waiting for the directory {self._directory}: permission denied"
        return ""

    def begin(self) -> Position:
        """Return the first place."""
        return {PART: 0}

    def close(self) -> None:
        """Do nothing: no file stays open."""
