"""The files of the update log: one of each batch, and the base into which older batches are folded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import orjson

from stqsh.errors import StqshError

BASE = "base"
"""The file that says how far the log is folded, and after which step that was."""


class LogCompactedError(StqshError):
    """Updates that a reader has not seen yet are folded into the base, or were during its read."""

    def __init__(self) -> None:
        super().__init__(
            "updates that were not read in time are no longer kept one by one",
            hint="SET updates.keep = '10 GB'; keeps more of them; TAIL begins with the answer as it stands",
        )


@dataclass(frozen=True, slots=True)
class CompactedBase:
    """How far the log is folded: the last batch (-1: not at all), and the last step with updates in it."""

    batch: int = -1
    step: int = 0


def read_base(updates: Path) -> CompactedBase:
    """Return how far the log in a folder is folded."""
    try:
        return CompactedBase(*orjson.loads((updates / BASE).read_bytes()))
    except FileNotFoundError:
        return CompactedBase()


def log_sizes(updates: Path) -> list[tuple[int, int]]:
    """Return the batches that are not folded, in order, and the bytes that each takes with all its files."""
    sizes: dict[int, int] = {}
    for entry in os.scandir(updates):
        if entry.name[:12].isdigit():
            number = int(entry.name[:12])
            sizes[number] = sizes.get(number, 0) + entry.stat().st_size
    folded = read_base(updates).batch
    return sorted((number, size) for number, size in sizes.items() if number > folded)


def base_bytes(updates: Path, base: CompactedBase) -> int:
    """Return the size of a base in bytes."""
    return sum(path.stat().st_size for path in updates.glob(f"base-{base.batch:012d}.*"))


def base_file(updates: Path, batch: int) -> Path:
    """Return the path of the base for the batches up to one."""
    return updates / f"base-{batch:012d}.arrow"


def batch_file(folder: Path, batch: int) -> Path:
    """Return the path of a batch's file."""
    return folder / f"{batch:012d}.arrow"


def is_batch(name: str) -> bool:
    """Return whether a file of this name is that of a batch."""
    return name.endswith(".arrow") and name[:12].isdigit()
