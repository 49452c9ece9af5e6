"""Which words of a text are keywords where they stand: `status` is one after SHOW, and a column elsewhere."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from lark.exceptions import UnexpectedInput

from stqsh.errors import StqshError
from stqsh.lang.ast.source import Piece
from stqsh.lang.syntax.grammar import grammar
from stqsh.lang.syntax.keywords import KEYWORDS
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.lang.syntax.split import split

_MOST = 4000
"""Longer texts are pasted scripts, which are not parsed with each key."""
_KEPT = 256
"""So many statements are not parsed again while others are typed."""


def names_in(text: str) -> frozenset[int]:
    """Return the offsets of names that look like keywords, as far as the text can be parsed.

    The text may be unfinished. Behind a place where it cannot go on nothing is said.
    """
    if len(text) > _MOST:
        return frozenset()
    return frozenset(piece.offset + place for piece in _pieces(text) for place in _names_of(piece.text))


def _pieces(text: str) -> list[Piece]:
    """Return the statements, up to a string, name or comment that has no end yet."""
    try:
        return split(text)
    except StqshError as error:
        piece: Piece | None = getattr(error, "piece", None)
        return split(text[: piece.offset]) if piece is not None else []


@lru_cache(_KEPT)
def _names_of(statement: str) -> tuple[int, ...]:
    scan = ScannedText(statement)
    engine: Any = grammar().parser
    with suppress(UnexpectedInput, StqshError, RecursionError):  # what was read until there is in the scan
        engine.parse(scan)
    words = (token for token in scan.tokens if token.type == "IDENT")
    return tuple(token.start_pos or 0 for token in words if token.upper() in KEYWORDS)
