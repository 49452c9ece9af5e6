"""Bulk: payloads that are in a file beside the chunks, which hold references to them.

Where driver and workers share a machine, large payloads need not go through Spark: their maker writes them
into a file, and a chunk's payload is a short reference: a mark that no payload begins with, then JSON. The
update log keeps its rows and updates in this way, too: `%012d.<operator>-<slot>.bulk` beside `%012d.arrow`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from stqsh.checksums import DamagedFileError, Seal

MARK = b"\x00bulk\x00"
"""The beginning of references. Payloads are Arrow streams, JSON, or shapes: none begins like this."""
ENDING = ".bulk"


@dataclass(frozen=True, slots=True)
class Reference:
    """Bytes `at` <= byte < `at + size` of a file in a folder that the reader knows.

    `again` is JSON from which the task code can make the same payload again, None if it cannot. `checksum` is
    that of the bytes, of payloads that stay.
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
    """Reads the payloads that references name, in the files of one folder, which stay mapped.

    What was read stays valid after the file is deleted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, pa.MemoryMappedFile] = {}  # by name

    def read(self, reference: Reference) -> Any:
        """Return the bytes that a reference names: a buffer, without a copy.

        Raises:
            DamagedFileError: the file is gone, or the bytes are not those that were written.
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
        """Return the payload in an Arrow binary scalar, or the one that it refers to, without a copy."""
        buffer = stored.as_buffer()
        reference = reference_in(memoryview(buffer))
        return buffer if reference is None else self.read(reference)
