"""Find the keywords of a text: `status` is a keyword after SHOW, and a column elsewhere."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache

from lark import UnexpectedInput

from stqsh.errors import StqshError
from stqsh.lang.ast.source import Piece
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.grammar import driver
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.lang.syntax.split import split

_MOST = 4000
"""The maximum length of a text to parse at each keystroke; longer texts are pasted scripts."""
_KEPT = 256
"""The number of statements whose keywords are cached while other statements are typed."""


def names_in(text: str) -> frozenset[int]:
    """Return the offsets of names that look like keywords, as far as the text can be parsed.

    The text may be incomplete. The result contains nothing after the first error.
    """
    if len(text) > _MOST:
        return frozenset()
    return frozenset(piece.offset + place for piece in _pieces(text) for place in _names_of(piece.text))


def _pieces(text: str) -> list[Piece]:
    """Return the statements, up to an unclosed string, name or comment."""
    try:
        return split(text)
    except StqshError as error:
        piece: Piece | None = getattr(error, "piece", None)
        return split(text[: piece.offset]) if piece is not None else []


@lru_cache(_KEPT)
def _names_of(statement: str) -> tuple[int, ...]:
    scan = ScannedText(statement)
    with suppress(UnexpectedInput, StqshError, RecursionError):  # the scan contains what was read
        driver().scan(scan)
    words = (token for token in scan.tokens if token.type == "IDENT")
    return tuple(token.start_pos or 0 for token in words if token.upper() in KEYWORDS)
