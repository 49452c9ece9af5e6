"""Read the elements of a JSON document as JSON lines: of an array, or of a list within an object.

The text does not change, except that each element becomes one line: commas between elements become line ends,
and line ends within elements become blanks. Readers of JSON lines can therefore read arrays of any size, in
blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.core.kernels.jit import kernel
from stqsh.sources.formats.row_blocks import (
    BLOCK_BYTES,
    BOM,
    COMPRESSIONS,
    PLAIN,
    ByteStream,
    SalvagingStream,
    TextBlock,
    open_bytes,
    text_blocks,
)

#: The number of bytes in which the list of a document has to begin.
_HEAD = 1 << 20
#: Files with these endings contain one object per line, unless they begin with an array.
_LINES = (".jsonl", ".ndjson")
#: A closed string, an unclosed string, and the characters that form a document's structure.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|"|[\[\]{}:,]')
_LF, _CR, _SPACE, _QUOTE, _ESCAPE, _COMMA = 10, 13, 32, 34, 92, 44
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = 123, 125, 91, 93
#: The replacement for a line end within a string, which JSON forbids just like line ends.
_CONTROL = 1


class Document(NamedTuple):
    """Where the elements of a JSON document begin, and how they are separated.

    Attributes:
        start: the number of bytes before the first element.
        is_list: whether commas separate the elements; otherwise line ends do, after multi-line objects.
        is_member: whether the list is a member of an object, the rest of which is ignored.
    """

    start: int
    is_list: bool
    is_member: bool


def read_json_text(path: Path, size: int | None = None) -> Iterator[TextBlock]:
    """Read a JSON file as JSON lines, in blocks of about `size` bytes; elements of a list count as lines.

    Raises:
        OSError: the file cannot be read or decompressed to its end; raised after the readable part.
    """
    with open_bytes(path) as stream:
        source = _whole_stream(stream, path)
        head = source.read(_HEAD)
        document = find_document(head, path)
        begun: ByteStream = BegunStream(head, source)
        if document is not None:
            begun = ElementStream(begun, document)
        yield from text_blocks(begun, PLAIN, size or BLOCK_BYTES)


def read_head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, decompressed. Raises `OSError`: the file cannot be read."""
    with open_bytes(path) as stream:
        return _whole_stream(stream, path).read(size)


def _whole_stream(stream: ByteStream, path: Path) -> ByteStream:
    return SalvagingStream(stream) if path.suffix.lower() in COMPRESSIONS else stream


def find_document(head: bytes, path: Path) -> Document | None:
    """Return how a document with this beginning is structured, None for JSON lines.

    >>> find_document(b'[{"a": 1}]', Path("a.json"))
    Document(start=1, is_list=True, is_member=False)
    >>> find_document(b'{"count": 2, "data": [{"a": 1}, {"a": 2}]}', Path("a.json"))
    Document(start=22, is_list=True, is_member=True)
    >>> find_document(b'{"a": 1}\\n{"a": 2}', Path("a.json"))
    """
    text = head.removeprefix(BOM).lstrip()
    start = len(head) - len(text)
    if text.startswith(b"["):
        return Document(start + 1, True, False)
    if not text.startswith(b"{") or {suffix.lower() for suffix in path.suffixes} & {*_LINES}:
        return None
    first, _, rest = map(bytes.strip, text.partition(b"\n"))
    is_one = not rest or first.endswith(b"[") or (first.endswith((b"{", b",")) and not rest.startswith(b"{"))
    if not is_one:
        return None  # the first of several lines is complete, or damaged
    at = _list_of_objects(text)
    if at is not None:
        return Document(start + at, True, True)
    return Document(start, False, False) if rest else None


def _list_of_objects(text: bytes) -> int | None:
    """Return where the elements of the first list of objects in a JSON object begin; None without one."""
    within, begun = list[bytes](), None
    for found in _TOKENS.finditer(text):
        token = found[0]
        if begun is not None and token == b"{":
            return begun
        begun = found.end() if token == b"[" and b"[" not in within else None
        if token in (b"{", b"["):
            within.append(token)
        elif token in (b"}", b"]"):
            within.pop()
        if not within or token == b'"':
            return None
    return None


class BegunStream:
    """A stream, possibly a pipe, read from its beginning although some bytes have already been consumed."""

    def __init__(self, head: bytes, stream: ByteStream) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, b"" at the end. Raises `OSError`: the stream cannot go on."""
        if not self._head:
            return self._stream.read(size)
        piece, self._head = self._head[:size], self._head[size:]
        return piece + self._stream.read(size - len(piece)) if len(piece) < size else piece


class ElementStream:
    """Reads the elements of a document as JSON lines."""

    def __init__(self, stream: ByteStream, document: Document) -> None:
        self._stream, self._document = stream, document
        self._before = document.start
        self._state = np.zeros(4, np.int64)

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, b"" at the end. Raises `OSError`: the stream cannot go on."""
        while self._before:
            skipped = self._stream.read(self._before)
            if not skipped:
                return b""
            self._before -= len(skipped)
        data = np.frombuffer(self._stream.read(size), np.uint8).copy()
        _, is_list, is_member = self._document
        _divide(data, self._state, is_list, is_member)
        return data.tobytes()


@kernel
def _divide(  # noqa: PLR0912 - one branch for each byte that matters
    data: NDArray[np.uint8], state: NDArray[np.int64], is_list: bool, is_member: bool
) -> None:
    """Turn each element into a line, in place.

    One pass over the bytes tracks the nesting depth and whether a byte is within a string; O(n).

    Args:
        data: the next bytes, uint8 (n,).
        state: depth, whether it is within a string, whether a character is escaped, and whether the list has
            ended, int64 (4,); kept from call to call.
        is_list: whether commas separate the elements.
        is_member: whether the text after the list is ignored.
    """
    depth, in_string, escaped, ended = state[0], state[1], state[2], state[3]
    for i in range(len(data)):
        byte = data[i]
        if ended and is_member:
            data[i] = _SPACE
        elif in_string:
            if byte == _LF:
                data[i] = _CONTROL
            if escaped:
                escaped = 0
            elif byte == _ESCAPE:
                escaped = 1
            elif byte == _QUOTE:
                in_string = 0
        elif byte == _QUOTE:
            in_string = 1
        elif byte in (_LF, _CR):
            data[i] = _LF if depth == 0 and not is_list else _SPACE
        elif is_list and depth == 0 and byte == _COMMA:
            data[i] = _LF
        elif is_list and depth == 0 and byte == _CLOSE_LIST:
            data[i], ended = _LF, 1
        elif is_list and depth == 0 and ended and byte == _OPEN_LIST:  # another array follows the first
            data[i], ended = _SPACE, 0
        elif byte in (_OPEN, _OPEN_LIST):
            depth += 1
        elif byte in (_CLOSE, _CLOSE_LIST) and depth > 0:
            depth -= 1
    state[0], state[1], state[2], state[3] = depth, in_string, escaped, ended
