"""Run Tile38 with a geofence channel for each query and a SET for each record.

`STQSH_BENCH_TILE38` names a `tile38-server`; the defaults are the PATH and the cache folder in which
`stqsh bench peers --get` builds it. The step of a record is a field, which comes back with each message of a
fence. Two connections send pipelined SETs, half of the objects each; a third one listens to all channels. The
append-only file is off. The unit square is one degree by one degree; Tile38 compares plain coordinates.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import platformdirs

from stqsh.bench.harness.drive import Say, portions
from stqsh.bench.peers.answers import NONE, Updates, updates
from stqsh.bench.peers.peer import Peer, PeerClock, PeerFailedError, PeerOutcome, last_words
from stqsh.bench.peers.peer_case import PeerCase, Reports

VARIABLE = "STQSH_BENCH_TILE38"
_KEY, _END = "objects", "end"
_CONNECTIONS = 2
_PIPELINE = 1_000
"""The number of commands that are sent before their answers are read."""

_OPS = {"enter": 1, "exit": -1}
_PATIENCE_S = 120.0


def binary() -> str | None:
    """Return the path of a tile38-server, if there is one."""
    built = platformdirs.user_cache_path("stqsh") / "peers" / "bin" / "tile38-server"
    given = os.environ.get(VARIABLE) or shutil.which("tile38-server") or str(built)
    return given if Path(given).exists() else None


def missing() -> str:
    """Return why Tile38 cannot run here, "" where it can."""
    if binary() is not None:
        return ""
    return f"there is no tile38-server: name one with {VARIABLE}, or: stqsh bench peers --get --only tile38"


def run(case: PeerCase, folder: Path, say: Say) -> PeerOutcome:
    """Set the objects and the fences, then time the SETs portion by portion, up to the last message."""
    with _server(folder) as (pid, port):
        return measure(case, port, say, pid)


PEER = Peer("tile38", "a fence channel a query, 2 connections with pipelined SETs", missing, run)


def measure(case: PeerCase, port: int, say: Say, pid: int = 0) -> PeerOutcome:
    """Drive a server that listens on a local port; measure the processor time of its pid."""
    listener = _Listener(port)
    say("tile38: setting objects and queries")
    talk = Tile38Connection(port)
    for step in range(1, case.fill + 1):
        talk.send(list(_sets(step, case.reports[step - 1])))
    talk.send([_fence(number, square) for number, square in enumerate(case.squares.tolist())])
    first = _members(talk, case)
    listener.start()
    rates, step, clock = [], case.fill + 1, PeerClock(pid)
    for number, steps in enumerate(portions(case.peer_steps)):
        shares = [_share(case, (step, step + steps), half) for half in range(_CONNECTIONS)]
        begun = time.perf_counter()
        _together(port, shares)
        talk.send([("PUBLISH", _END, str(number))])
        listener.wait_for(number)
        rates.append(steps * case.per_step / (time.perf_counter() - begun))
        step += steps
        say(f"tile38: portion {number + 1}: {rates[-1]:,.0f} records/s")
    cpu_s = clock.per_million(case.peer_records)
    return PeerOutcome(np.concatenate([first, parsed(listener.messages)]), rates, cpu_s)


class FenceFields(msgspec.Struct, frozen=True):
    """The fields of the object that a fence reports."""

    step: int = 0


class FenceMessage(msgspec.Struct, frozen=True):
    """What a fence says: an object enters or leaves."""

    detect: str = ""
    hook: str = ""
    id: str = ""
    fields: FenceFields = FenceFields()


_FENCES = msgspec.json.Decoder(FenceMessage)


def parsed(messages: Sequence[bytes]) -> Updates:
    """Read the messages of fences, whose hook is q and a number."""
    rows = []
    for message in map(_FENCES.decode, messages):
        if message.detect in _OPS:
            step, query = message.fields.step, int(message.hook[1:])
            rows.append((step, query, int(message.id), _OPS[message.detect]))
    return updates(*zip(*rows, strict=True)) if rows else NONE


Pipeline = tuple[bytes, int]
"""Encoded commands, and their number."""


class Tile38Connection:
    """A client's connection, by the protocol of Redis (RESP 2)."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        self._file: BinaryIO = self._socket.makefile("rb")

    def send(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """Send commands in pipelines and return the answers. Raises `PeerFailedError` for an error."""
        return self.send_packed(packed(commands))

    def send_packed(self, pipelines: Sequence[Pipeline]) -> list[Any]:
        """Send encoded commands and return their answers."""
        answers = []
        for data, count in pipelines:
            self._socket.sendall(data)
            answers += [self.read() for _ in range(count)]
        return answers

    def read(self) -> Any:
        """Read one value: str, int, bytes, None, or a list of them."""
        line = self._file.readline()
        kind, text = line[:1], line[1:].strip()
        if kind in (b"+", b":"):
            return int(text) if kind == b":" else text.decode()
        if kind == b"$":
            size = int(text)
            return None if size < 0 else self._file.read(size + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(text))]
        raise PeerFailedError(f"tile38: {text.decode() or 'the connection was closed'}")


def encoded(command: Sequence[str]) -> bytes:
    """Encode a command as RESP does, as an array of strings."""
    words = [word.encode() for word in command]
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)])


def packed(commands: Sequence[Sequence[str]]) -> list[Pipeline]:
    """Divide commands into encoded pipelines."""
    cut = (commands[first : first + _PIPELINE] for first in range(0, len(commands), _PIPELINE))
    return [(b"".join(map(encoded, some)), len(some)) for some in cut]


class _Listener:
    """Listen to all channels in a thread, and keep the messages."""

    def __init__(self, port: int) -> None:
        self.messages: list[bytes] = []
        self._ended = [threading.Event() for _ in range(64)]
        self._connection = Tile38Connection(port)
        self._connection.send([("PSUBSCRIBE", "*")])

    def start(self) -> None:
        """Start to listen."""
        threading.Thread(target=self._hear, daemon=True).start()

    def wait_for(self, number: int) -> None:
        """Wait for the end of a portion; all earlier messages have come by then."""
        if not self._ended[number].wait(_PATIENCE_S):
            raise PeerFailedError(f"tile38: the fences' messages have not ended after {_PATIENCE_S:.0f} s")

    def _hear(self) -> None:
        with suppress(OSError, PeerFailedError):  # the server has gone; `wait_for` says so
            while True:
                *_, channel, message = self._connection.read()
                if channel == _END.encode():
                    self._ended[int(message)].set()
                else:
                    self.messages.append(message)


def _sets(step: int, reports: Reports) -> Iterator[tuple[str, ...]]:
    for oid, (x, y) in zip(reports[0].tolist(), reports[1].tolist(), strict=True):
        yield ("SET", _KEY, str(oid), "FIELD", "step", str(step), "POINT", repr(y), repr(x))


def _share(case: PeerCase, steps: tuple[int, int], half: int) -> list[Pipeline]:
    found = list[tuple[str, ...]]()
    for step in range(*steps):
        who, at = case.reports[step - 1]
        mine = who % _CONNECTIONS == half
        found += _sets(step, (who[mine], at[mine]))
    return packed(found)


def _fence(number: int, square: Sequence[float]) -> tuple[str, ...]:
    x1, y1, x2, y2 = map(repr, square)
    fence = f"SETCHAN q{number} WITHIN {_KEY} FENCE DETECT enter,exit BOUNDS {y1} {x1} {y2} {x2}"
    return tuple(fence.split())


def _members(talk: Tile38Connection, case: PeerCase) -> Updates:
    """Ask for the answers after step `fill`, as a fence does not report what is inside already."""
    asked = [
        ("WITHIN", _KEY, "LIMIT", str(case.objects), "IDS", "BOUNDS", repr(y1), repr(x1), repr(y2), repr(x2))
        for x1, y1, x2, y2 in case.squares.tolist()
    ]
    found = [
        updates(case.fill, number, np.array([int(name) for name in ids], np.int64), 1)
        for number, (_, ids) in enumerate(talk.send(asked))
        if ids
    ]
    return np.concatenate([NONE, *found])


def _together(port: int, shares: Sequence[Sequence[Pipeline]]) -> None:
    """Send each share in a process of its own, as one Python process cannot keep up."""

    context = multiprocessing.get_context("fork")
    senders = [context.Process(target=_send, args=(port, share)) for share in shares]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if any(sender.exitcode for sender in senders):
        raise PeerFailedError("tile38: a sender failed; see the lines above")


def _send(port: int, share: Sequence[Pipeline]) -> None:
    Tile38Connection(port).send_packed(share)


@contextmanager
def _server(folder: Path) -> Iterator[tuple[int, int]]:
    """Run a server with its data below `folder`; yield its pid and port, and stop it in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-h 127.0.0.1 -p {port} --appendonly no -d".split()
    command = [str(binary()), *options, str(folder / "data")]
    with (folder / "log").open("w+") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_up(server, port, folder / "log")
            yield server.pid, port
        finally:
            server.terminate()
            server.wait()


def _wait_until_up(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.1)
    raise PeerFailedError(f"tile38-server does not start: {last_words(log.read_text())}")
