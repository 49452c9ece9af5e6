"""What a peer is: a name, how it was set up, whether it is there, and a run of the case."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from stqsh.bench.drive import Say
from stqsh.bench.peers.answers import Updates
from stqsh.bench.peers.case import Case


@dataclass(frozen=True)
class Outcome:
    """What a system sent, with the answers after step `fill`, and records a second, portion by portion."""

    updates: Updates = field(repr=False)
    rates: list[float]


@dataclass(frozen=True)
class Peer:
    """A system that answers the same questions.

    setting: how, in a few words. missing: why it cannot run here and what to do about it, "" where it can.
    run: takes the case, an empty folder, and whom to tell; it takes the first `peer_steps` measured steps.
    """

    name: str
    setting: str
    missing: Callable[[], str]
    run: Callable[[Case, Path, Say], Outcome]


def last_words(log: str) -> str:
    """Find what a program died of: the last line of its log that names an error, else the end of it."""
    named = [
        line.strip() for line in log.splitlines() if re.match(r"\s*(\w+\.)*\w*(Error|Exception)\b", line)
    ]
    return (named or [log.strip()])[-1][-500:]


def write_csv(table: pa.Table, file: Path) -> None:
    """Write a table without a header; floats keep all their digits."""
    pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=False))


class PeerFailedError(Exception):
    """A peer's program ended with an error; the text holds its last words."""
