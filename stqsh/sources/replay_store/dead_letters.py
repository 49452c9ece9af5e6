"""Write and read dead letters, the records of a source that could not be read, as one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import orjson

from stqsh.fs import atomic_write, settle
from stqsh.sources.formats.record_parser import DeadLetter

DEAD_LETTERS = "dead_letters.jsonl"
"""The file of a store or table with its dead letters."""
LIVE_LETTERS = "dead"
"""The folder of a live stream with a file for each batch that had any."""
MOST_LIVE_BYTES = 64 << 20
"""The most that a live stream keeps of them; they are counted for ever."""


def letter_line(letter: DeadLetter) -> bytes:
    """Return a dead letter as its line of a file."""
    file, line, reason, text = letter
    members = {"file": file, "line": line, "reason": reason, "text": text}
    return orjson.dumps(members, option=orjson.OPT_APPEND_NEWLINE)


def letter_lines(letters: Iterable[DeadLetter]) -> str:
    """Return dead letters as lines."""
    return b"".join(map(letter_line, letters)).decode()


class DeadLetterWriter:
    """Write dead letters to a file that appears as a whole when the `with` block succeeds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_name(f".{path.name}.new")
        self.count = 0

    def __enter__(self) -> DeadLetterWriter:
        self._file = self._hidden.open("wb")
        return self

    def write(self, dead: Iterable[DeadLetter]) -> None:
        """Add dead letters."""
        for letter in dead:
            self._file.write(letter_line(letter))
            self.count += 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            self._hidden.replace(self._path)
            settle(self._path)


def write_live_letters(directory: Path, batch: int, lines: bytes) -> None:
    """Write the dead letters of a batch of a live stream; the oldest go when there are too many."""
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


def read_dead_letters(directory: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters of a store or table in their order; none where nothing is written yet."""
    for file in (directory / DEAD_LETTERS, *sorted((directory / LIVE_LETTERS).glob("*.jsonl"))):
        try:
            with file.open("rb") as lines:
                for line in lines:
                    if line.endswith(b"\n"):  # the last one may be half written
                        yield DeadLetter(**orjson.loads(line))
        except FileNotFoundError:
            continue
