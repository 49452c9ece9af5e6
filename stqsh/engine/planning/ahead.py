"""Reading ahead, in the planner: the reading processes, and the choice of their pieces for a batch.

A batch of decoded messages is short, so its updates come soon. Workers read only the messages that are not
read ahead: the first messages of a stream, and those that the processes fail to read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from stqsh.sources.live.pieces import ReadOrder, ReadPiece, piece_named, ready_file
from stqsh.sources.live.protocol import Position, SourceState, advance
from stqsh.sources.live.registry import is_from_kafka
from stqsh.spec.offset import LivePosition, Offset
from stqsh.spec.stream import StreamSpec

_PATIENCE_S = 1.0
"""Workers read a stream if messages of a part wait this long and none is read ahead."""
_PATIENCE_IN_BACKLOG_S = 10.0
"""The same time while there are pieces of other parts to take."""
_AGAIN_S = 10.0
"""The minimum time before the processes are restarted."""
MOST_READERS = 4
"""The maximum number of processes that read ahead; each takes some 200 MB."""


@dataclass
class StreamAhead:
    """The pieces of one stream since the order to read it.

    Attributes:
        folder: the folder of the pieces.
        reached: how far each part has been read.
    """

    folder: Path
    reached: Position
    _pieces: dict[int, ReadPiece] = field(default_factory=dict)
    _moved: dict[str, float] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """Find new pieces."""
        known = self._pieces
        names = (piece_named(file.name) for file in self.folder.iterdir())
        new = [each for each in names if each is not None and each.number not in known]
        for piece in sorted(new):
            if piece.held.start == self.reached.get(piece.held.part):
                known[piece.number] = piece
                self.reached[piece.held.part] = piece.held.stop
                self._moved[piece.held.part] = now

    def after(self, position: Position, room: int) -> Position:
        """Return the position after the pieces that fit into a batch of `room` messages, at least one."""
        found, count = dict(position), 0
        for piece in self._pieces.values():
            part, start, stop = piece.held
            if start != found.get(part):
                continue
            count += stop - start
            if count > room and found != position:
                break
            found[part] = stop
        return found

    def goes_on(self, position: Position) -> bool:
        """Return whether its pieces, including future ones, start at a position."""
        begun = {(piece.held.part, piece.held.start) for piece in self._pieces.values()}
        return position.keys() == self.reached.keys() and all(
            self.reached[part] == at or (part, at) in begun for part, at in position.items()
        )

    def stands(self, position: Position, state: SourceState, now: float) -> bool:
        """Return whether reading a part has stalled for a while although messages are available."""
        goes_on = self.after(position, 0) != position
        patience = _PATIENCE_IN_BACKLOG_S if goes_on else _PATIENCE_S
        for part, at in self.reached.items():
            if state.ends.get(part, at) <= at:
                self._moved[part] = now
        return any(now - self._moved.setdefault(part, now) > patience for part in self.reached)

    def trim(self, position: Position) -> None:
        """Delete the pieces before a position, whose batches are committed."""
        for number, piece in list(self._pieces.items()):
            if piece.held.stop <= position.get(piece.held.part, 0):
                (self.folder / piece.file).unlink(missing_ok=True)
                del self._pieces[number]


class ReadAhead:
    """The processes that read a session's Kafka streams ahead; each reads some parts of all streams.

    Args:
        folder: the folder for their pieces; files of an earlier planner in it are deleted.
        profile: the name or path of the session's profile.
        count: the number of processes.
    """

    def __init__(self, folder: Path, profile: str, count: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._folder, self._profile = folder / uuid.uuid4().hex, profile
        self._folder.mkdir(mode=0o700, parents=True)
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = -_AGAIN_S
        self._orders = 0
        self._streams: dict[int, StreamAhead] = {}

    def after(self, stream: int, known: LivePosition, state: SourceState, room: int) -> Position | None:
        """Return the position after the next batch of a stream; None if workers are to read it."""
        ahead = self._streams.get(stream)
        if ahead is None or not self._runs():
            return None
        now = time.monotonic()
        ahead.look(now)
        if ahead.goes_on(known.next) and not ahead.stands(known.next, state, now):
            return ahead.after(known.next, room)
        self.stop(stream)
        return None

    def begin(self, stream: int, spec: StreamSpec, position: Position) -> None:
        """Start reading a stream ahead from a position, once the processes run."""
        if stream in self._streams or not self._runs():
            return
        self._orders += 1
        folder = self._folder / f"{stream}-{self._orders}"
        folder.mkdir(mode=0o700)
        self._streams[stream] = StreamAhead(folder, dict(position))
        self._send(ReadOrder(stream, folder.name, spec, position))

    def stop(self, stream: int) -> None:
        """Stop reading a stream ahead."""
        ahead = self._streams.pop(stream, None)
        if ahead is not None:
            self._send(ReadOrder(stream, ahead.folder.name))
            shutil.rmtree(ahead.folder, ignore_errors=True)

    def keep(self, streams: Mapping[int, object]) -> None:
        """Stop reading ahead all streams except these."""
        for stream in self._streams.keys() - streams.keys():
            self.stop(stream)

    def folder_of(self, stream: int, first: Position, last: Position) -> str:
        """Return the folder with the pieces between two positions; "" if any is missing."""
        ahead = self._streams.get(stream)
        if ahead is None or not ahead.goes_on(first) or not ahead.goes_on(last):
            return ""
        return str(ahead.folder)

    def trim(self, live: Mapping[int, LivePosition]) -> None:
        """Delete the pieces of batches that are committed."""
        for stream, position in live.items():
            if stream in self._streams:
                self._streams[stream].trim(position.next)

    def _runs(self) -> bool:
        """Return whether all processes are ready; if one has died, restart all."""
        if self._processes and all(process.poll() is None for process in self._processes):
            return all((self._folder / ready_file(each)).exists() for each in range(self._count))
        self._streams.clear()
        now = time.monotonic()
        if now - self._started >= _AGAIN_S:
            self._started = now
            for process in self._processes:
                process.kill()
            self._processes = [self._start(each) for each in range(self._count)]
        return False

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        (self._folder / ready_file(number)).unlink(missing_ok=True)
        command = [sys.executable, "-m", "stqsh.sources.live.read_ahead", str(self._folder), self._profile]
        return subprocess.Popen(
            [*command, str(number), str(self._count)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def _send(self, order: ReadOrder) -> None:
        for process in self._processes:
            assert process.stdin is not None, "it reads orders"
            try:
                process.stdin.write(msgspec.json.encode(order) + b"\n")
                process.stdin.flush()
            except OSError:
                self._streams.clear()  # it has died, which the next check will detect


class BatchesAhead:
    """The batches' access to streams that are read ahead. Its processes start with the first Kafka stream.

    Attributes:
        folder: the folder for messages that are read ahead; None to read none ahead.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._reader: ReadAhead | None = None

    def keep(self, streams: Mapping[int, StreamSpec], profile: str) -> None:
        """Read only these streams ahead, and start the processes if they are needed."""
        if self._reader is not None:
            self._reader.keep(streams)
        elif self.folder is not None and any(map(is_from_kafka, streams.values())):
            count = min(os.cpu_count() or 1, MOST_READERS)
            self._reader = ReadAhead(self.folder, profile, count)

    def after(self, spec: StreamSpec, known: LivePosition, state: SourceState, room: int) -> Position:
        """Return the position of a stream after a batch, which takes messages read ahead first."""
        after = advance(known.next, state, room)
        if self._reader is None or not is_from_kafka(spec):
            return after
        found = self._reader.after(spec.id, known, state, room)
        if found is not None:
            return found
        self._reader.begin(spec.id, spec, after)
        return after

    def folder_of(self, stream: int, first: Offset, last: Offset) -> str:
        """Return the folder with a stream's messages between two offsets; "" if they were not read ahead."""
        before = first.live.get(stream)
        if self._reader is None or before is None:
            return ""
        return self._reader.folder_of(stream, before.next, last.live[stream].next)

    def covers(self, first: Offset, last: Offset) -> bool:
        """Return whether all messages between two offsets were read ahead."""
        return all(
            self.folder_of(stream, first, last)
            for stream, position in last.live.items()
            if position != first.live.get(stream)
        )

    def trim(self, live: Mapping[int, LivePosition]) -> None:
        """Delete the messages read ahead for committed batches."""
        if self._reader is not None:
            self._reader.trim(live)
