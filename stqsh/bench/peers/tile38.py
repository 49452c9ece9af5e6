"""Tile38: a geofence channel for each query, a SET for each record; the binary is given or built.

`STQSH_BENCH_TILE38` names a `tile38-server`, else it is looked for on the PATH and in the cache folder where
`stqsh bench peers --get` builds it. The records' step travels as a field, which comes back with each message
of a fence. Two connections send pipelined SETs, each its half of the objects; a third one hears all channels.
The append only file is off. The unit square is one degree by one degree; Tile38 compares coordinates as they
are.
"""

from __future__ import annotations

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

import numpy as np
import orjson
import platformdirs

from stqsh.bench.harness.drive import Say, portions
from stqsh.bench.peers.answers import NONE, Updates, updates
from stqsh.bench.peers.peer import Peer, PeerClock, PeerFailedError, PeerOutcome, last_words
from stqsh.bench.peers.peer_case import PeerCase, Reports

VARIABLE = "STQSH_BENCH_TILE38"
_KEY, _END = "objects", "end"
_CONNECTIONS = 2
_PIPELINE = 1_000
"""Commands that are sent before their answers are read."""
_OPS = {"enter": 1, "exit": -1}
_PATIENCE_S = 120.0


def binary() -> str | None:
    """Return the path of a tile38-server, if there is one."""
    built = platformdirs.user_cache_path("stqsh") / "peers" / "bin" / "tile38-server"
    given = os.environ.get(VARIABLE) or shutil.which("tile38-server") or str(built)
    return given if Path(given).exists() else None


def missing() -> str:
    """Say why Tile38 cannot run here, "" where it can."""
    if binary() is not None:
        return ""
    return f"there is no tile38-server: name one with {VARIABLE}, or: stqsh bench peers --get --only tile38"


def run(case: PeerCase, folder: Path, say: Say) -> PeerOutcome:
    """Set the objects and the fences, then time the SETs portion by portion, up to the last message."""
    with _server(folder) as (pid, port):
        return measure(case, port, say, pid)


PEER = Peer("tile38", "a fence channel a query, 2 connections with pipelined SETs", missing, run)


def measure(case: PeerCase, port: int, say: Say, pid: int = 0) -> PeerOutcome:
    """Drive a server that listens on a port of this machine; its processor time is known by its pid."""
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


def parsed(messages: Sequence[bytes]) -> Updates:
    """Read what fences said: `{"detect", "hook", "id", "fields": {"step"}}`; the hook is q and a number."""
    rows = []
    for message in messages:
        said = orjson.loads(message)
        if said.get("detect") in _OPS:
            step = int(said["fields"]["step"])
            rows.append((step, int(said["hook"][1:]), int(said["id"]), _OPS[said["detect"]]))
    return updates(*zip(*rows, strict=True)) if rows else NONE


Pipeline = tuple[bytes, int]
"""Commands as they are sent, and how many they are."""


class Tile38Connection:
    """A client's connection; the protocol is Redis's (RESP 2)."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        self._file: BinaryIO = self._socket.makefile("rb")

    def send(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        """Send commands in pipelines and give the answers. Raises `PeerFailedError` for an error."""
        return self.send_packed(packed(commands))

    def send_packed(self, pipelines: Sequence[Pipeline]) -> list[Any]:
        """Send commands that are packed already, and return their answers."""
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
    """Write a command as RESP does: an array of strings."""
    words = [word.encode() for word in command]
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)])


def packed(commands: Sequence[Sequence[str]]) -> list[Pipeline]:
    """Put commands together to pipelines."""
    cut = (commands[first : first + _PIPELINE] for first in range(0, len(commands), _PIPELINE))
    return [(b"".join(map(encoded, some)), len(some)) for some in cut]


class _Listener:
    """Hears all channels in a thread, and keeps the messages as they came."""

    def __init__(self, port: int) -> None:
        self.messages: list[bytes] = []
        self._ended = [threading.Event() for _ in range(64)]
        self._connection = Tile38Connection(port)
        self._connection.send([("PSUBSCRIBE", "*")])

    def start(self) -> None:
        """Begin to hear."""
        threading.Thread(target=self._hear, daemon=True).start()

    def wait_for(self, number: int) -> None:
        """Wait until the end of a portion has been heard: all that was sent before it has come by then."""
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
    return (
        "SETCHAN",
        f"q{number}",
        "WITHIN",
        _KEY,
        "FENCE",
        "DETECT",
        "enter,exit",
        "BOUNDS",
        y1,
        x1,
        y2,
        x2,
    )


def _members(talk: Tile38Connection, case: PeerCase) -> Updates:
    """Ask for the answers after step `fill`: a fence says nothing of what is inside already."""
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
    """Send each share over a connection of its own, in a process of its own: one Python cannot keep up."""
    import multiprocessing

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
    """Run a server with its data below `folder`: its pid and port; stop it in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(binary()),
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-d",
        str(folder / "data"),
        "--appendonly",
        "no",
    ]
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
