"""Write and read dead letters, the records of a source that could not be read, as one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import orjson

from stqsh.fs import settle
from stqsh.sources.formats.record_parser import DeadLetter

DEAD_LETTERS = "dead_letters.jsonl"
"""The file of a store or table with its dead letters."""


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
            self._file.write(orjson.dumps(letter._asdict(), option=orjson.OPT_APPEND_NEWLINE))
            self.count += 1

    def copy(self, path: Path) -> None:
        """Add all dead letters of another file."""
        content = path.read_bytes()
        self._file.write(content)
        self.count += content.count(b"\n")

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            self._hidden.replace(self._path)
            settle(self._path)


def read_dead_letters(directory: Path) -> Iterator[DeadLetter]:
    """Yield the dead letters of a store or table in their order; none where nothing is written yet."""
    try:
        with (directory / DEAD_LETTERS).open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last one may be half written
                    yield DeadLetter(**orjson.loads(line))
    except FileNotFoundError:
        return
