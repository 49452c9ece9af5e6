"""Divide text into blocks of whole rows, and find the physical line of a row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stqsh.core.kernels.jit import kernel
from stqsh.sources.formats.pyarrow_typing import input_stream, os_file
from stqsh.sources.formats.record_parser import TEXT_LIMIT, RowLocation
from stqsh.sources.formats.text_encodings import Utf8Stream

#: The number of bytes that are parsed together.
BLOCK_BYTES = 8 << 20
BOM = b"\xef\xbb\xbf"
"""The byte-order mark of UTF-8."""
_LF, _CR = 10, 13
#: A quoted field has at most this many lines; a quote that is open for longer is considered a mistake.
MOST_LINES = 32
_LEAST_PIECE, _MOST_PIECE = 1 << 10, 1 << 18
#: The extensions of compressed files.
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


LONGEST_ROW = 64 << 20
"""The most bytes of a row, which has to fit into memory; anything longer is hardly a row."""


class LongRowError(OSError):
    """A row is longer than `LONGEST_ROW`; `line` is where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line} is longer than {LONGEST_ROW >> 20} MB")


class ByteStream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, b"" at the end."""


@dataclass(frozen=True, slots=True)
class Quoting:
    """The bytes used as separator and quote; -1 without quotes."""

    separator: int
    quote: int = -1

    def may_quote(self, text: bytes) -> bool:
        """Return whether a text contains any quotes."""
        return self.quote >= 0 and bytes([self.quote]) in text


#: The quoting of rows that are simply lines.
PLAIN = Quoting(separator=-1)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Whole rows of a file: `text`, its first physical line (from 1), its number among the blocks."""

    text: bytes
    first_line: int
    number: int

    def row_starts(self, quoting: Quoting) -> NDArray[np.int64]:
        """Return the beginning of each non-empty row, (n,), as the parser splits rows."""
        return find_rows(self.text, quoting)

    def locate(self, ordinals: NDArray[np.int64], quoting: Quoting) -> list[RowLocation]:
        """Return the physical line and the text of some rows, by their ordinals (k,) in the block."""
        data = np.frombuffer(self.text, dtype=np.uint8)
        starts = self.row_starts(quoting)
        stops = np.append(starts[1:], len(data))
        lines = self.first_line + np.searchsorted(line_ends(data), starts[ordinals], side="left")
        return [
            RowLocation(int(line), shown(self.text[starts[ordinal] : stops[ordinal]]))
            for line, ordinal in zip(lines, ordinals, strict=True)
        ]


def is_utf8(text: bytes) -> bool:
    """Return whether a text is valid UTF-8."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def shown(text: bytes) -> str:
    """Return the beginning of a row for its dead letter."""
    return text[: TEXT_LIMIT * 4].decode(errors="replace").strip("\r\n")[:TEXT_LIMIT]


def open_bytes(path: Path) -> Any:
    """Open a file for reading, decompressing it according to its extension."""
    compression = COMPRESSIONS.get(path.suffix.lower())
    if compression is None:
        return path.open("rb")
    return input_stream(os_file(os.fsencode(path)), compression=compression)


def read_text_blocks(
    path: Path, quoting: Quoting, size: int | None = None, encoding: str = ""
) -> Iterator[TextBlock]:
    """Read a file as blocks of whole rows of about `size` bytes, in UTF-8 without a byte-order mark.

    `encoding` is the encoding of a file without a byte-order mark; "" is UTF-8.

    Raises:
        OSError: the file cannot be read or decompressed to its end; raised after the readable part.
    """
    with open_bytes(path) as stream:
        source = SalvagingStream(stream) if path.suffix.lower() in COMPRESSIONS else stream
        yield from text_blocks(Utf8Stream(source, encoding), quoting, size or BLOCK_BYTES)


class SalvagingStream:
    """Reads a truncated or damaged compressed stream up to the damage.

    A failing read loses all that it has decompressed, so the stream is read in pieces. They are small at
    first: at most a sixteenth of a truncated stream is lost, and less of a large one.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._done = 0
        self._problem: OSError | None = None

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, b"" at the end.

        Raises:
            OSError: the stream cannot be read further.
        """
        parts, missing = list[bytes](), size
        while missing > 0 and self._problem is None:
            piece = min(max(self._done >> 4, _LEAST_PIECE), _MOST_PIECE, missing)
            try:
                data = self._stream.read(piece)
            except OSError as problem:
                self._problem = problem
                break
            if not data:
                break
            parts.append(data)
            missing -= len(data)
            self._done += len(data)
        if self._problem is not None and not parts:
            raise self._problem
        return b"".join(parts)


def text_blocks(stream: ByteStream, quoting: Quoting, size: int = BLOCK_BYTES) -> Iterator[TextBlock]:
    """Divide the bytes of a stream into blocks of whole rows; each read of up to `size` ends a block.

    Raises:
        LongRowError: a row is longer than `LONGEST_ROW`; raised after the rows before it.
    """
    rest, line, number = b"", 1, 0
    while data := stream.read(max(size, len(rest))):
        text = rest + data
        if number == 0 and line == 1 and text.startswith(BOM):
            text = text[len(BOM) :]
        cut = end_of_rows(text, quoting)
        rest = text[cut:]
        if cut:
            yield TextBlock(text[:cut], line, number)
            line, number = line + count_lines(text[:cut]), number + 1
        if len(rest) > LONGEST_ROW:
            raise LongRowError(line)
    if rest:
        yield TextBlock(rest, line, number)


def end_of_rows(text: bytes, quoting: Quoting) -> int:
    """Return the beginning of the last row, which may be incomplete: a safe place to split the text."""
    if quoting.may_quote(text):
        starts = find_rows(text, quoting, is_whole=False)
        return int(starts[-1]) if len(starts) else 0
    return (text.rfind(b"\n") + 1) or (text.rfind(b"\r", 0, len(text) - 1) + 1)


def count_lines(text: bytes) -> int:
    """Count the ends of physical lines in a text: LF, CR LF or CR."""
    return text.count(b"\n") + (text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0)


def line_ends(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the ends of physical lines, (m,); `data` is uint8 (n,)."""
    ends = data == _LF
    returns = data == _CR
    returns[:-1] &= data[1:] != _LF
    return np.flatnonzero(ends | returns)


def find_rows(text: bytes, quoting: Quoting, *, is_whole: bool = True) -> NDArray[np.int64]:
    """Return the beginning of each non-empty row, (n,).

    Args:
        is_whole: whether the text is complete, so that a quote open at its end will never be closed.
    """
    data = np.frombuffer(text, dtype=np.uint8)
    if quoting.may_quote(text):
        return _quoted_rows(data, quoting.separator, quoting.quote, is_whole)[0]
    ends = np.flatnonzero((data == _LF) | (data == _CR))
    starts = np.concatenate([[0], ends + 1])
    stops = np.append(ends, len(data))
    return np.asarray(starts[starts < stops], dtype=np.int64)


def find_unclosed(text: bytes, quoting: Quoting) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the beginning of each complete row, (n,), and which rows have an unclosed quote, (n,).

    A row with an unclosed quote ends with its line, so that the rows after it can be read.
    """
    return _quoted_rows(np.frombuffer(text, dtype=np.uint8), quoting.separator, quoting.quote, True)


@kernel
def _quoted_rows(
    data: NDArray[np.uint8], separator: int, quote: int, is_whole: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find rows whose line ends may be within quotes, and those with an unclosed quote.

    As in Arrow's parser, a quote opens only at the beginning of a field, and a doubled quote stays inside. A
    quote that is not closed within `MOST_LINES` lines, or before the end of complete text, encloses only the
    rest of its line. One pass over the bytes, O(n).

    Args:
        data: uint8 (n,).
        is_whole: whether the text is complete, so that a quote open at its end will never be closed.

    Returns:
        int64 (rows,) and bool (rows,).
    """
    starts = np.empty(len(data), dtype=np.int64)
    unclosed = np.zeros(len(data), dtype=np.bool_)
    count = 0
    in_row, at_field, in_quotes = False, True, False
    lines, line_end = 0, -1  # both since the quote opened
    i = 0
    while i < len(data):
        byte = data[i]
        if in_quotes:
            if byte == quote:
                if i + 1 < len(data) and data[i + 1] == quote:
                    i += 1
                else:
                    in_quotes = False
            elif byte == _LF or (byte == _CR and (i + 1 == len(data) or data[i + 1] != _LF)):
                lines += 1
                line_end = i if lines == 1 else line_end
        elif byte in (_LF, _CR):
            in_row, at_field = False, True
        else:
            if not in_row:
                starts[count] = i
                count += 1
                in_row = True
            if at_field and byte == quote:
                in_quotes, lines, line_end = True, 0, -1
            at_field = byte == separator
        i += 1
        if in_quotes and (lines == MOST_LINES or (is_whole and i == len(data))):
            unclosed[count - 1] = True
            in_quotes = False
            if lines > 0:
                i, in_row, at_field = line_end + 1, False, True
    return starts[:count].copy(), unclosed[:count].copy()
