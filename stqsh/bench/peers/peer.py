"""Describe a peer: its name, its setting, whether it is installed, and how it runs the case."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from stqsh.bench.harness.cpu import spent
from stqsh.bench.harness.drive import Say
from stqsh.bench.peers.answers import Updates
from stqsh.bench.peers.peer_case import PeerCase
from stqsh.errors import StqshError


@dataclass(frozen=True)
class PeerOutcome:
    """The updates of a system, with the answers after step `fill`, and its speed.

    Attributes:
        rates: records a second of each portion.
        cpu_s: processor seconds of all its processes a million records; None where unknown.
    """

    updates: Updates = field(repr=False)
    rates: list[float]
    cpu_s: float | None = None


@dataclass(frozen=True)
class Peer:
    """A system that answers the same questions.

    Attributes:
        setting: how it does so, in a few words.
        missing: returns why it cannot run here and what to do about it, "" where it can.
        run: runs the first `peer_steps` measured steps of the case in an empty folder.
    """

    name: str
    setting: str
    missing: Callable[[], str]
    run: Callable[[PeerCase, Path, Say], PeerOutcome]


class PeerClock:
    """Measure the processor time of a process and its descendants from now on."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._before = spent(root)

    def per_million(self, records: int) -> float | None:
        """Return processor seconds so far per million of these records; None where unknown."""
        before, now = self._before, spent(self._root)
        if before is None or now is None:
            return None
        return (now.java + now.python - before.java - before.python) * 1e6 / records


def last_words(log: str) -> str:
    """Return the last line of a log that names an error, or the end of the log."""
    named = [
        line.strip() for line in log.splitlines() if re.match(r"\s*(\w+\.)*\w*(Error|Exception)\b", line)
    ]
    return (named or [log.strip()])[-1][-500:]


def write_csv(table: pa.Table, file: Path) -> None:
    """Write a table without a header, and floats with all their digits."""
    pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=False))


class PeerFailedError(StqshError):
    """A peer's program ended with an error; the message has the end of its log."""
