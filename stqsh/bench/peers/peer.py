"""What a peer is: a name, how it was set up, whether it is there, and a run of the case."""

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
    """What a system sent, with the answers after step `fill`, and records a second, portion by portion.

    cpu_s: processor seconds of all its processes a million records; None where it is not known.
    """

    updates: Updates = field(repr=False)
    rates: list[float]
    cpu_s: float | None = None


@dataclass(frozen=True)
class Peer:
    """A system that answers the same questions.

    setting: how, in a few words. missing: why it cannot run here and what to do about it, "" where it can.
    run: takes the case, an empty folder, and whom to tell; it takes the first `peer_steps` measured steps.
    """

    name: str
    setting: str
    missing: Callable[[], str]
    run: Callable[[PeerCase, Path, Say], PeerOutcome]


class PeerClock:
    """The processor time that a process and its descendants take from now on."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._before = spent(root)

    def per_million(self, records: int) -> float | None:
        """Return processor seconds so far per million records, of `records`; None: unknown."""
        before, now = self._before, spent(self._root)
        if before is None or now is None:
            return None
        return (now.java + now.python - before.java - before.python) * 1e6 / records


def last_words(log: str) -> str:
    """Find what a program died of: the last line of its log that names an error, else the end of it."""
    named = [
        line.strip() for line in log.splitlines() if re.match(r"\s*(\w+\.)*\w*(Error|Exception)\b", line)
    ]
    return (named or [log.strip()])[-1][-500:]


def write_csv(table: pa.Table, file: Path) -> None:
    """Write a table without a header; floats keep all their digits."""
    pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=False))


class PeerFailedError(StqshError):
    """A peer's program ended with an error; the text holds its last words."""
