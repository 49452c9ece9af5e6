"""Attachments of tasks: the planner writes large content once, and each worker process reads it once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from typing import TypeVar

import pyarrow as pa

from stqsh.checksums import Seal
from stqsh.spec.clock import Attachment
from stqsh.storage.blobs import Blobs

T = TypeVar("T")

LEAST = 64 << 10
"""Content with more bytes than this is stored in a blob."""
_FOLDER = "heads/"
_MOST_KEPT = 2
"""How many decoded attachments a process keeps."""


class AttachmentWriter:
    """Creates the attachments of a planner's tasks.

    The names of its blobs are unique to this planner, so a late planner cannot delete the blobs of another.

    Args:
        blobs: the session's blobs.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._folder, self._count = f"{_FOLDER}{uuid.uuid4().hex}/", 0
        self._made: set[str] = set()

    def put(self, content: bytes, *, least: int = LEAST) -> Attachment:
        """Return content as an attachment, which stays valid until `keep` is called without it.

        Content with more than `least` bytes is stored in a blob.
        """
        if len(content) <= least:
            return Attachment(content)
        if not self._count:
            self._blobs.delete(self._blobs.names(_FOLDER))  # left by an earlier planner
        self._count += 1
        name = f"{self._folder}{self._count}"
        seal = self._blobs.put(name, [content])
        self._made.add(name)
        return Attachment(b"", name, *seal)

    def keep(self, used: Collection[Attachment]) -> None:
        """Delete all blobs except those of the given attachments."""
        gone = self._made - {one.name for one in used}
        self._blobs.delete(gone)
        self._made -= gone


def read_attachment(blobs: Blobs, attachment: Attachment) -> pa.Buffer:
    """Return the content of an attachment.

    Raises:
        DamagedFileError: the blob is missing or differs from what was written.
    """
    if not attachment.name:
        return pa.py_buffer(attachment.content)
    return blobs.read(attachment.name, Seal(attachment.size, attachment.checksum))


_kept: dict[tuple[Blobs, str], object] = {}


def decoded_once(blobs: Blobs, attachment: Attachment, decode: Callable[[pa.Buffer], T]) -> T:
    """Return an attachment decoded; if it was in a blob, the process keeps the result for its next tasks."""
    if not attachment.name:
        return decode(read_attachment(blobs, attachment))
    found = _kept.pop((blobs, attachment.name), None)
    made: T = decode(read_attachment(blobs, attachment)) if found is None else found  # type: ignore[assignment]
    _kept[blobs, attachment.name] = made
    while len(_kept) > _MOST_KEPT:
        del _kept[next(iter(_kept))]
    return made
