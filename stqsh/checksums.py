"""Checksums of a session's files: they detect a file whose content is not what was written.

The record that names a file also stores its `Seal`: its size and checksum when it was written. A file that no
record names stores its seal itself, in a line before its content (`write_sealed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from xxhash import xxh3_64

from stqsh.errors import StqshError
from stqsh.fs import replacing

Buffer: TypeAlias = bytes | bytearray | memoryview
AnyBuffer = TypeVar("AnyBuffer", bytes, bytearray, memoryview)

_HINT = "put the session's folder back from a backup; or DUMP what the session defines, for a new one"
_MARK = b"sealed"
_LONGEST_LINE = 64


class DamagedFileError(StqshError):
    """A file of a session whose content is not what was written.

    Attributes:
        file: The file's name within the session's folder.
    """

    def __init__(self, file: str, damage: str = "is damaged", hint: str = _HINT) -> None:
        super().__init__(f"the session's file {file} {damage}", hint=hint)
        self.file = file


class Seal(NamedTuple):
    """The size of a file in bytes, and the XXH3 checksum of its content."""

    size: int
    checksum: int

    @classmethod
    def of(cls, *parts: Buffer) -> Seal:
        """Return the seal of parts that are written in sequence."""
        sealer = Sealer()
        for part in parts:
            sealer.add(part)
        return sealer.seal

    def check(self, content: Buffer, file: str) -> None:
        """Check that content matches the seal.

        Args:
            content: The whole content of the file.
            file: The file's name within the session's folder, for the error.

        Raises:
            DamagedFileError: it is not.
        """
        found = Seal.of(content)
        if found.size < self.size:
            raise DamagedFileError(file, f"is cut short: {found.size} of its {self.size} bytes are left")
        if found != self:
            raise DamagedFileError(file)


class Sealer:
    """Computes the seal of pieces that are written in sequence."""

    def __init__(self) -> None:
        self._size, self._sum = 0, xxh3_64()

    def add(self, piece: Buffer) -> None:
        """Add the next piece to the seal."""
        self._size += memoryview(piece).nbytes
        self._sum.update(piece)

    def through(self, pieces: Iterable[AnyBuffer]) -> Iterator[AnyBuffer]:
        """Yield pieces unchanged, and add each to the seal."""
        for piece in pieces:
            self.add(piece)
            yield piece

    @property
    def seal(self) -> Seal:
        """The seal of all pieces so far."""
        return Seal(self._size, self._sum.intdigest())


def write_sealed(path: Path, *parts: Buffer) -> Seal:
    """Replace a file by a line with the seal of parts, and the parts; return the seal (see `split_seal`)."""
    seal = Seal.of(*parts)
    with replacing(path) as hidden, hidden.open("wb") as file:
        file.write(seal_line(seal))
        file.writelines(parts)
    return seal


def with_seal(content: bytes) -> bytes:
    """Return content after a line with its seal; `without_seal` reads it."""
    return seal_line(Seal.of(content)) + content


def without_seal(sealed: bytes, file: str) -> bytes:
    """Return the content that `with_seal` sealed.

    Raises:
        DamagedFileError: the content does not match its seal.
    """
    return bytes(split_seal(sealed, file)[1])


def split_seal(sealed: Buffer, file: str) -> tuple[Seal, memoryview]:
    """Split sealed content into the seal in its first line and the content.

    Raises:
        DamagedFileError: the content does not match its seal.
    """
    first = bytes(sealed[:_LONGEST_LINE])
    end = first.find(b"\n")
    try:
        mark, size, checksum = first[: max(0, end)].split(b" ")
        seal = Seal(int(size), int(checksum, 16))
    except ValueError:
        raise DamagedFileError(file, "is damaged" if sealed else "is empty") from None
    if mark != _MARK:
        raise DamagedFileError(file)
    content = memoryview(sealed)[end + 1 :]
    seal.check(content, file)
    return seal, content


def seal_line(seal: Seal) -> bytes:
    """Return the line with a seal that precedes sealed content; `split_seal` reads it."""
    return b"%b %d %016x\n" % (_MARK, *seal)
