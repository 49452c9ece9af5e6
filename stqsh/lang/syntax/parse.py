"""Parse text into statements."""

from __future__ import annotations

import re
from functools import cache

from lark import UnexpectedInput

from stqsh.errors import StqshError
from stqsh.lang.ast.expressions import Name, changed
from stqsh.lang.ast.source import Piece, Source, Span
from stqsh.lang.ast.statements import Help, Statement
from stqsh.lang.errors import StatementSyntaxError, locating
from stqsh.lang.syntax.diagnosis import diagnose
from stqsh.lang.syntax.forms import Forms
from stqsh.lang.syntax.grammar import driver
from stqsh.lang.syntax.habits import habit_hint
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.lang.syntax.split import split

__all__ = ["parse", "parse_piece", "split"]

_HELP = re.compile(r"help\s+(\S.*)", re.IGNORECASE | re.DOTALL)


def parse(text: str, file: str | None = None) -> list[Statement]:
    """Parse the statements of a text, in order; the last may lack its semicolon.

    Args:
        text: the statements.
        file: the name of the script, for errors.

    Raises:
        StatementSyntaxError: at the first part that is not valid in the language.

    >>> [type(statement).__name__ for statement in parse("RUN 10 STEPS; SHOW STATUS")]
    ['Run', 'Show']
    >>> parse("RUN UNTIL tomorrow;")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    stqsh.lang.errors.StatementSyntaxError: 1:11: ...
    """
    return [parse_piece(piece) for piece in split(text, file)]


def parse_piece(piece: Piece | str) -> Statement:
    """Parse one statement: a piece that `split` cut out, or a text without its semicolon."""
    if isinstance(piece, str):
        piece = Piece(Source(piece), 0, piece)
    alike = _forms().read(piece)
    if alike is not None:
        return alike
    statement = parse_whole(piece)
    _forms().note(statement)
    return statement


def parse_whole(piece: Piece) -> Statement:
    """Parse one statement word by word, even if it has the form of an earlier one."""
    scan = ScannedText(piece.text)
    with locating(piece):
        try:
            statement: Statement = driver().parse(scan)
        except UnexpectedInput:
            topic = _HELP.fullmatch(piece.text)
            if topic is None:
                raise _with_habit(diagnose(scan), piece.text) from None
            # Topics such as km/h and cache.factor are not names.
            text = " ".join(word.strip("\"'") for word in topic[1].upper().split())
            statement = Help(Name(text, span=Span(topic.start(1), len(piece.text))))
    return changed(statement, piece=piece, span=Span(0, len(piece.text)))


def _with_habit(error: StqshError, text: str) -> StqshError:
    """Add a hint for users of other systems to an error; it replaces the suggestion of a similar word."""
    hint = habit_hint(text) if isinstance(error, StatementSyntaxError) and error.hint is None else None
    if hint is not None and isinstance(error, StatementSyntaxError):
        error.hint, error.near = hint, None
    return error


@cache
def _forms() -> Forms:
    return Forms(driver().keywords)
