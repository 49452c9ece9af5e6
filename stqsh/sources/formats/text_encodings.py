"""Read text of any encoding as UTF-8, which the parsers expect."""

from __future__ import annotations

import codecs
from typing import Protocol

from stqsh.errors import OptionError

UTF8_OR_CP1252 = "utf-8, cp1252"
"""The encoding of text that is UTF-8, or else Windows-1252, a superset of Latin-1."""
_FALLBACK = "stqsh-cp1252"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_EXAMPLES = "for instance encoding => 'latin-1', 'cp1252' or 'utf-16'"


class _Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...


def checked_encoding(name: object) -> str:
    """Return the name of an encoding, "" for UTF-8.

    Raises:
        OptionError: the encoding is unknown.
    """
    if name in ("", UTF8_OR_CP1252):
        return str(name)
    try:
        found = codecs.lookup(str(name))
    except LookupError:
        found = None
    if found is None or not found._is_text_encoding:
        raise OptionError(f"there is no encoding {name!r}", "encoding", hint=_EXAMPLES)
    return "" if found.name in ("utf-8", "ascii", "utf-8-sig") else found.name


def _as_cp1252(problem: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows-1252, or as Latin-1 where that has no character."""
    assert isinstance(problem, UnicodeDecodeError), "it handles errors of decoding"
    bad = problem.object[problem.start : problem.end]
    return "".join(_cp1252(byte) for byte in bad), problem.end


def _cp1252(byte: int) -> str:
    text = bytes([byte]).decode("cp1252", errors="replace")
    return chr(byte) if text == "\ufffd" else text


codecs.register_error(_FALLBACK, _as_cp1252)


class Utf8Stream:
    """Reads a stream as UTF-8; a UTF-16 byte-order mark takes precedence over `encoding`."""

    def __init__(self, stream: _Bytes, encoding: str = "") -> None:
        self._stream, self._encoding = stream, encoding
        self._decoder: codecs.IncrementalDecoder | None = None
        self._has_begun = False

    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes, b"" at the end. Raises `OSError`: the stream cannot be read further."""
        data = self._stream.read(size)
        if not self._has_begun:
            self._begin(data)
        if self._decoder is None:
            return data
        while not (text := self._decoder.decode(data, final=not data)) and data:
            data = self._stream.read(size)
        return text.encode()

    def _begin(self, data: bytes) -> None:
        self._has_begun = True
        encoding = _MARKS.get(data[:2], self._encoding)
        if encoding == UTF8_OR_CP1252:
            self._decoder = codecs.getincrementaldecoder("utf-8")(_FALLBACK)
        elif encoding:
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")


def find_encoding(text: bytes) -> str:
    """Return the encoding of the beginning of a text; "" for UTF-8, and for UTF-16 with a byte-order mark.

    >>> find_encoding("Zürich".encode()), find_encoding("Zürich".encode("latin-1"))
    ('', 'utf-8, cp1252')
    >>> find_encoding("id,lon".encode("utf-16-be"))
    'utf-16-be'
    """
    if text[:2] in _MARKS:
        return ""
    high, low = text[::2], text[1::2]
    if 2 * high.count(0) > len(high):
        return "utf-16-be"
    if 2 * low.count(0) > len(low):
        return "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return UTF8_OR_CP1252
    return ""
