"""Errors in statements: where the error is, what it is, what was expected, and a similar name.

The text of these errors is assembled here:

    demo.stq:3:15: unknown column 'speeed'
      WHERE speeed > 5
            ^^^^^^
    did you mean speed?
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import ClassVar

from stqsh.control_characters import escape_controls
from stqsh.errors import StqshError, for_people
from stqsh.lang.ast.source import NOWHERE, Piece, Place, Span

__all__ = [
    "BindError",
    "LangError",
    "NotSupportedError",
    "StatementSyntaxError",
    "locating",
    "near",
    "or_list",
]

TOO_DEEP = "this statement is nested too deeply"
_MOST_EXPECTED = 16
_TELLING = 3
_WIDEST = 120
_INDENT = "  "


class LangError(StqshError):
    """An error in a statement.

    `expected` describes in plain words what is allowed there; `near` is the most similar existing name.
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self,
        message: str,
        span: Span = NOWHERE,
        *,
        expected: tuple[str, ...] = (),
        near: str | None = None,
        hint: str | None = None,
        piece: Piece | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.span = span
        self.expected = expected
        self.near = near
        self.piece = piece

    @property
    def place(self) -> Place | None:
        """The line and column in the file or text; None if the error has no position."""
        if self.piece is None:
            return None
        return self.piece.source.place(self.piece.offset + max(self.span.start, 0))

    def text(self, width: int | None = None) -> str:
        """Return the whole text: position and message, the line, a caret, what was expected, a similar name.

        A line wider than `width`, the terminal's, is cut around the caret.
        """
        lines = [self._head(), *self._excerpt(min(_WIDEST, (width or _WIDEST) - len(_INDENT) - 1))]
        if self.expected:
            lines.append(f"expected {for_people(or_list(self.expected))}")
        if self.near:
            lines.append(f"did you mean {for_people(self.near)}?")
        if self.hint:
            lines.append(f"hint: {for_people(self.hint)}")
        return "\n".join(lines)

    def _head(self) -> str:
        if self.place is None or self.piece is None:
            return for_people(self.message)
        file = "" if self.piece.source.file is None else f"{escape_controls(self.piece.source.file)}:"
        return f"{file}{self.place.line}:{self.place.column}: {for_people(self.message)}"

    def _excerpt(self, widest: int) -> list[str]:
        if self.place is None or self.piece is None:
            return []
        line = self.piece.source.line(self.place.line)
        before = line[: self.place.column - 1]
        if len(line) > widest:
            cut = max(len(before) - widest // 2, 0)
            line, before = line[cut : cut + widest], before[cut:]
        width = min(self.span.end - self.span.start, len(line) - len(before))
        width = len(escape_controls(line[len(before) : len(before) + width]))
        line, before = escape_controls(line), escape_controls(before)
        # Tabs stay tabs, so that the caret is below its character whatever the tab width.
        indent = "".join("\t" if character == "\t" else " " for character in before)
        return [_INDENT + line, f"{_INDENT}{indent}{'^' * max(width, 1)}"]


class StatementSyntaxError(LangError):
    """A text that is not a statement."""


class BindError(LangError):
    """A statement that does not match the catalogue, or makes no sense."""


class NotSupportedError(LangError):
    """A part of the language that is not implemented; the message is `not supported yet: {what}`."""

    def __init__(self, what: str, span: Span = NOWHERE) -> None:
        super().__init__(f"not supported yet: {what}", span)
        self.what = what


@contextmanager
def locating(piece: Piece) -> Iterator[None]:
    """Add the piece of source to errors raised within the context.

    Nesting that exceeds Python's stack becomes such an error, too.
    """
    try:
        yield
    except RecursionError:
        raise StatementSyntaxError(TOO_DEEP, piece=piece) from None
    except LangError as error:
        if error.piece is None:
            error.piece = piece
        raise


def near(given: str, names: Iterable[str]) -> str | None:
    """Return the name most similar to the given one, ignoring case; None if none is similar."""
    by_fold = {name.casefold(): name for name in sorted(names)}
    begun = [fold for fold in by_fold if fold.startswith(given.casefold()) and len(given) >= _TELLING]
    if len(begun) == 1:
        return by_fold[begun[0]]
    matches = get_close_matches(given.casefold(), by_fold, n=1, cutoff=0.65)
    return by_fold[matches[0]] if matches else None


def or_list(words: tuple[str, ...]) -> str:
    """Return `a`, `a or b` or `a, b or c`; a very long list is shortened."""
    if len(words) > _MOST_EXPECTED:
        return ", ".join(words[:_MOST_EXPECTED]) + ", …"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
