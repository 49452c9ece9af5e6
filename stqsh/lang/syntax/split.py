"""Split a text into statements at the semicolons outside quotes and comments."""

from __future__ import annotations

import re

from stqsh.lang.ast.source import Piece, Source, Span
from stqsh.lang.errors import StatementSyntaxError

# Complete strings, identifiers and comments match first; any opening character left over is unclosed.
# Doubled quotes need no special treatment: 'it''s' is read as two adjacent strings.
_BREAK = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|;|['"]|/\*""", re.DOTALL)
# Possessive repetition finds the end of the non-blank text in linear time.
_BLANK = re.compile(r"(?:\s++|--[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
MOST_CHARACTERS = 100_000
"""The maximum length of a statement; parsing one of this length takes up to a second."""
_UNCLOSED = {
    "'": ("this string has no closing quote", "put a ' at its end; a ' inside a string is written ''"),
    '"': ("this quoted name has no closing quote", 'put a " at its end'),
    "/*": ("this comment has no end", "put */ at its end"),
}


def split(text: str, file: str | None = None) -> list[Piece]:
    """Split a text into its statements; the last may lack its semicolon, and empty ones are skipped.

    Raises:
        StatementSyntaxError: a string, a quoted name or a comment is unclosed, or a statement is too long.

    >>> [piece.text for piece in split("RUN; SHOW QUERIES; -- the end")]
    ['RUN', 'SHOW QUERIES']
    """
    source = Source(text, file)
    pieces: list[Piece] = []
    start = 0
    for match in _BREAK.finditer(text):
        found = match.group()
        if found == ";":
            _add(pieces, source, start, match.start())
            start = match.end()
        elif found in _UNCLOSED:
            raise _unclosed(source, match.start(), found)
    _add(pieces, source, start, len(text))
    return pieces


def is_complete(text: str) -> bool:
    """Return whether a text ends with a semicolon outside quotes and comments.

    >>> is_complete("RUN;"), is_complete("SELECT ';"), is_complete("RUN -- now;")
    (True, False, False)
    """
    complete = False
    start = 0
    for match in _BREAK.finditer(text):
        found = match.group()
        if found in _UNCLOSED:
            return False
        if not found.startswith(("--", "/*")):
            complete = found == ";"
            start = match.end()
    return complete and _BLANK.fullmatch(text, start) is not None


def _add(pieces: list[Piece], source: Source, start: int, end: int) -> None:
    blank = _BLANK.match(source.text, start, end)
    offset = blank.end() if blank else start
    if offset == end:
        return
    piece = Piece(source, offset, source.text[offset:end].rstrip())
    if len(piece.text) > MOST_CHARACTERS:
        raise StatementSyntaxError(
            f"a statement has at most {MOST_CHARACTERS:,} characters, and this one {len(piece.text):,}",
            Span(0, 1),
            hint="put long lists into files: CREATE TABLE, CREATE REGIONS, REGISTER QUERIES",
            piece=piece,
        )
    pieces.append(piece)


def _unclosed(source: Source, offset: int, opener: str) -> StatementSyntaxError:
    message, hint = _UNCLOSED[opener]
    return StatementSyntaxError(
        message, Span(0, len(opener)), hint=hint, piece=Piece(source, offset, source.text[offset:])
    )
