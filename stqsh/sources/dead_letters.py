"""Write and read dead letters: source records that could not be read, as one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import msgspec
import orjson

from stqsh.fs import atomic_write, settle

DEAD_LETTERS = "dead_letters.jsonl"
"""The file of a store or table that contains its dead letters."""
LIVE_LETTERS = "dead"
"""The folder of a live stream's dead letters, with one file for each batch that had any."""
MOST_LIVE_BYTES = 64 << 20
"""The most dead letters kept for a live stream; the count includes deleted ones."""
_ENCODER = msgspec.json.Encoder()


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """A record that could not be read. `line` counts physical lines (or rows) from 1; 0 is the whole file."""

    file: str
    line: int
    reason: str
    text: str


def letter_lines(letters: Iterable[DeadLetter]) -> bytes:
    """Return dead letters as the lines of a file.

    >>> letter_lines([DeadLetter("m/0", 7, "not JSON", "{")])
    b'{"file":"m/0","line":7,"reason":"not JSON","text":"{"}\\n'
    """
    return _ENCODER.encode_lines(letters)


class DeadLetterWriter:
    """Writes dead letters to a file that appears atomically when the `with` block succeeds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_name(f".{path.name}.new")
        self.count = 0

    def __enter__(self) -> DeadLetterWriter:
        self._file = self._hidden.open("wb")
        return self

    def write(self, dead: Iterable[DeadLetter]) -> None:
        """Add dead letters."""
        letters = list(dead)
        self._file.write(letter_lines(letters))
        self.count += len(letters)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            self._hidden.replace(self._path)
            settle(self._path)


def write_live_letters(directory: Path, batch: int, lines: bytes) -> None:
    """Write the dead letters of a live stream's batch; delete the oldest ones if there are too many."""
    if not lines:
        return
    folder = directory / LIVE_LETTERS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic_write(folder / f"{batch:012d}.jsonl", lines)
    files = sorted(folder.glob("*.jsonl"))
    excess = sum(file.stat().st_size for file in files) - MOST_LIVE_BYTES
    for file in files[:-1]:
        if excess <= 0:
            break
        excess -= file.stat().st_size
        file.unlink()


def remove_live_letters(directory: Path, batch: int) -> None:
    """Remove the dead letters of a batch, if there are any."""
    (directory / LIVE_LETTERS / f"{batch:012d}.jsonl").unlink(missing_ok=True)


def read_dead_letters(directory: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters of a store or table in order; none if nothing has been written yet."""
    for file in (directory / DEAD_LETTERS, *sorted((directory / LIVE_LETTERS).glob("*.jsonl"))):
        try:
            with file.open("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):  # the last line may be incomplete
                        yield DeadLetter(**orjson.loads(line))
        except FileNotFoundError:
            continue
