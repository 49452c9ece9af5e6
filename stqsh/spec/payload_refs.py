"""Bulk payloads: payloads in a separate file, to which chunks hold references.

If driver and workers share a machine, large payloads bypass Spark: their producer writes them into a file,
and a chunk's payload is a short reference: a mark with which no payload begins, then JSON. The update log
also stores its rows and updates this way: `%012d.<operator>-<slot>.bulk` beside `%012d.arrow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from stqsh.checksums import DamagedFileError, Seal

MARK = b"\x00bulk\x00"
"""The first bytes of references. Payloads are Arrow streams, JSON, or shapes: none begins with these."""
ENDING = ".bulk"


@dataclass(frozen=True, slots=True)
class Reference:
    """Bytes `at` <= byte < `at + size` of a file in a folder that the reader knows.

    `again` is JSON from which the task code can remake the same payload, None if it cannot. `checksum` is
    the checksum of the bytes, for payloads that stay.
    """

    file: str
    at: int
    size: int
    again: Any = None
    checksum: int | None = None

    def packed(self) -> bytes:
        """Return the reference as a payload."""
        return MARK + orjson.dumps([self.file, self.at, self.size, self.again, self.checksum])


def reference_in(payload: Any) -> Reference | None:
    """Return the reference that a payload (bytes or a view of them) contains; None for a real payload."""
    if payload is None or bytes(payload[: len(MARK)]) != MARK:
        return None
    return Reference(*orjson.loads(bytes(payload[len(MARK) :])))


class PayloadReader:
    """Reads the payloads of references in the files of one folder, which stay mapped.

    Payloads stay valid after their file is deleted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, pa.MemoryMappedFile] = {}  # by name

    def read(self, reference: Reference) -> Any:
        """Return the bytes of a reference: a buffer, without a copy.

        Raises:
            DamagedFileError: the file is missing, or the bytes are damaged.
            OSError: the file cannot be mapped.
        """
        name = f"{self._folder.name}/{reference.file}"
        try:
            file = self._open(reference.file)
        except FileNotFoundError:
            raise DamagedFileError(name, "is gone") from None
        if file.size() < reference.at + reference.size:
            raise DamagedFileError(name, "is cut short")
        file.seek(reference.at)
        found = file.read_buffer(reference.size)
        if reference.checksum is not None:
            Seal(reference.size, reference.checksum).check(memoryview(found), name)
        return found

    def _open(self, name: str) -> pa.MemoryMappedFile:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = pa.memory_map(str(self._folder / name))
        return file

    def payload(self, stored: Any) -> Any:
        """Return the payload in an Arrow binary scalar, or the one to which it refers, without a copy."""
        buffer = stored.as_buffer()
        reference = reference_in(memoryview(buffer))
        return buffer if reference is None else self.read(reference)
