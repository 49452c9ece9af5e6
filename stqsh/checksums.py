"""Checksums of a session's files: what was written is what is read, or one error says which file is wrong.

What names a file also keeps its `Seal`: the size and the checksum that it was written with. A file that
nothing else names carries its seal itself, in a line before its content (`write_sealed`).
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
    """A file of a session that is not what was written.

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
        """Return the seal of parts that are written one after the other."""
        sealer = Sealer()
        for part in parts:
            sealer.add(part)
        return sealer.seal

    def check(self, content: Buffer, file: str) -> None:
        """Check that content is what was sealed.

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
    """Adds up the seal of pieces that are written one after the other."""

    def __init__(self) -> None:
        self._size, self._sum = 0, xxh3_64()

    def add(self, piece: Buffer) -> None:
        """Take in the next piece."""
        self._size += memoryview(piece).nbytes
        self._sum.update(piece)

    def through(self, pieces: Iterable[AnyBuffer]) -> Iterator[AnyBuffer]:
        """Yield pieces as they are, and take them in."""
        for piece in pieces:
            self.add(piece)
            yield piece

    @property
    def seal(self) -> Seal:
        """The seal of all pieces so far."""
        return Seal(self._size, self._sum.intdigest())


def write_sealed(path: Path, *parts: Buffer) -> Seal:
    """Replace a file by parts behind a line with their seal, as `split_seal` reads it; return the seal."""
    seal = Seal.of(*parts)
    with replacing(path) as hidden, hidden.open("wb") as file:
        file.write(seal_line(seal))
        file.writelines(parts)
    return seal


def with_seal(content: bytes) -> bytes:
    """Return content behind a line with its seal, as `without_seal` reads it."""
    return seal_line(Seal.of(content)) + content


def without_seal(sealed: bytes, file: str) -> bytes:
    """Return the content that `with_seal` sealed.

    Raises:
        DamagedFileError: it is not what was sealed.
    """
    return bytes(split_seal(sealed, file)[1])


def split_seal(sealed: Buffer, file: str) -> tuple[Seal, memoryview]:
    """Return the seal that stands before some content, and the content.

    Raises:
        DamagedFileError: the content is not what was sealed.
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
    """Return the line with the seal of the content that is written behind it, as `split_seal` reads it."""
    return b"%b %d %016x\n" % (_MARK, *seal)
