"""The context of the cursor: the statement's words before it, and the text around it.

All functions are pure functions of the text. The grammar (`stqsh.lang.syntax.expected`) determines which
kinds of words may follow; these functions determine the rest: whose keys, columns and options are meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from stqsh.lang.types import ALIASES, TYPES

Wanted = Literal["path", "key", "member", "generator", "instant", "option"]
Columns = tuple[tuple[str, str], ...]
"""Names of columns and their types."""

_TOKEN = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'[^']*'|"[^"]*"|[^\W\d]\w*|\d[\w.]*|=>|\S""", re.DOTALL)
_WORD = re.compile(r"(?<![\w.])(?:[^\W\d][\w.]*|\d[\d.]*)\Z")
_COLUMN = re.compile(
    rf"(?!AS\b)([^\W\d]\w*)\s+({'|'.join((*TYPES, *ALIASES))})\s*(?:,|\)|AS\b)", re.IGNORECASE
)
_QUOTED = ("'M'", "'m'")


@dataclass(frozen=True, slots=True)
class CursorContext:
    """The statement that the cursor is in.

    Attributes:
        before: The text before the word that is being typed.
        words: The tokens of that text, without comments.
        typed: The word, number or open string before the cursor, without its quote.
        is_quoted: Whether the typed word is a string.
        after: The tokens after the cursor, up to the end of the statement.
    """

    before: str
    words: tuple[str, ...]
    typed: str
    is_quoted: bool
    after: tuple[str, ...]

    def last(self, place: int) -> str:
        """Return the token `place` positions before the typed word, in upper case; "" if there is none."""
        return self.words[-place].upper() if place <= len(self.words) else ""

    @property
    def first(self) -> str:
        """The statement's first word, in upper case."""
        return self.words[0].upper() if self.words else ""


def cursor_in(text: str, after: str = "") -> CursorContext:
    """Return the context of the cursor between two texts."""
    words: list[str] = []
    begin = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == ";":
            words, begin = [], match.end()
        elif token == "'":
            typed = text[match.end() :]
            return CursorContext(text[begin : match.start()], tuple(words), typed, True, _rest(after))
        elif not token.startswith(("--", "/*")):
            words.append(token)
    found = _WORD.search(text, begin)
    typed = found.group() if found else ""
    before = text[begin : len(text) - len(typed)]
    words = [token for token in _TOKEN.findall(before) if not token.startswith(("--", "/*"))]
    return CursorContext(before, tuple(words), typed, False, _rest(after))


def _rest(after: str) -> tuple[str, ...]:
    tokens = _TOKEN.findall(after)
    return tuple(tokens[: tokens.index(";")] if ";" in tokens else tokens)


def wanted_value(cursor: CursorContext) -> Wanted | None:
    """Return the kind of a string (or an unquoted key) at the cursor; None if it is unknown."""
    last = cursor.last
    after = {"MAP": "TO", "SELECT": "FROM"}
    if last(1) == "FILE" or last(1) == after.get(cursor.first):
        return "path"
    if last(1) in ("AROUND", "FOLLOW") or (last(1) == "TO" and last(3) == "NEAREST"):
        return "key"
    if last(1) == "," and (
        (last(2) in _QUOTED and last(3) == "(" and last(4) != "KNN")
        or (last(4) in _QUOTED and last(5) == "(" and last(6) == "KNN")
    ):
        return "key"
    fixed: dict[str, Wanted] = {
        "[": "member",
        "GENERATOR": "generator",
        "UNTIL": "instant",
        "=>": "option",
    }
    return fixed.get(last(1))


def compared_column(cursor: CursorContext) -> str | None:
    """Return the column compared at the cursor, after `=`, `<>` or in the list of an IN; else None."""
    before = list(cursor.words)
    while len(before) > 1 and before[-1] == "," and before[-2].startswith("'"):
        del before[-2:]
    if before[-2:-1] and before[-1] == "(" and before[-2].upper() == "IN":
        del before[-2:]
        if before[-1:] and before[-1].upper() == "NOT":
            del before[-1:]
    elif before[-2:] in (["<", ">"], ["!", "="]):
        del before[-2:]
    elif before[-1:] == ["="]:
        del before[-1:]
    else:
        return None
    return before[-1].strip('"') if before else None


def relations(cursor: CursorContext) -> dict[str, str]:
    """Return the relations in the statement's FROM by alias, or by name without one."""
    tokens = [*cursor.words, *cursor.after]
    upper = [token.upper() for token in tokens]
    if "FROM" not in upper or "SELECT" not in upper:
        return {}
    found: dict[str, str] = {}
    for one in _until_clause(tokens[upper.index("FROM") + 1 :]):
        names = [name for name in one if name.upper() != "AS"]
        if names:
            found[names[-1].strip('"')] = names[0].strip('"')
    return found


def followed_in(cursor: CursorContext) -> str:
    """Return the stream that a FOLLOW names after the cursor; "" without one."""
    upper = [token.upper() for token in cursor.after]
    return cursor.after[upper.index("IN") + 1].strip('"') if "IN" in upper[:-1] else ""


_CLAUSES = frozenset(
    {
        *("WHERE", "INSIDE", "INTERSECTS", "KNN", "NEAREST", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW"),
        *("SYNC", "FORMAT"),
    }
)
"""The words that end a FROM."""


def _until_clause(tokens: list[str]) -> Iterator[list[str]]:
    one: list[str] = []
    for token in tokens:
        if token.upper() in _CLAUSES:
            break
        if token == ",":
            yield one
            one = []
        else:
            one.append(token)
    yield one


def declared(cursor: CursorContext) -> Columns:
    """Return the columns that a CREATE lists before the cursor, in a list that may not have ended."""
    if cursor.first != "CREATE" or "(" not in cursor.before:
        return ()
    text = cursor.before[cursor.before.index("(") :]
    depths = accumulate((letter == "(") - (letter == ")") for letter in text)
    end = next((place for place, depth in enumerate(depths, start=1) if not depth), len(text))
    return tuple((name, kind.upper()) for name, kind in _COLUMN.findall(text[:end]))


def named_file(cursor: CursorContext) -> tuple[str, str | None, dict[str, object]] | None:
    """Return the file that a CREATE reads, its FORMAT, and the options that affect column types."""
    tokens = [*cursor.words, *cursor.after]
    upper = [token.upper() for token in tokens]
    if cursor.first != "CREATE" or "FILE" not in upper[:-1]:
        return None
    path = _unquoted(tokens[upper.index("FILE") + 1])
    format_ = upper[upper.index("FORMAT") + 1].lower() if "FORMAT" in upper[:-1] else None
    given = zip(upper, upper[1:], tokens[2:], strict=False)
    options = {name.lower(): value for name, sign, value in given if sign == "=>" and name in _DIALECT}
    return path, format_, {name: _DIALECT[name.upper()](value) for name, value in options.items()}


def _unquoted(token: str) -> str:
    return token[1:-1].replace("''", "'") if token.startswith("'") else token


_DIALECT: dict[str, Callable[[str], object]] = {
    "SEPARATOR": _unquoted,
    "QUOTE": _unquoted,
    "HEADER": lambda token: token.upper() != "FALSE",
}
"""Parsers of the options of FORMAT CSV that affect column types."""

_NUMBERS = ("DOUBLE", "FLOAT", "BIGINT", "INT")


def column_types(cursor: CursorContext) -> tuple[str, ...]:
    """Return the column types that are valid at the cursor; () if any type is."""
    last = cursor.last
    if last(1) in ("*", "/") and last(2) != "SELECT":
        return _NUMBERS
    if last(2) == "LOCATION" or last(4) == "LOCATION":
        return _NUMBERS
    if cursor.first == "CREATE" and last(1) == "TIME":
        return ("TIMESTAMP", *_NUMBERS)
    if cursor.first == "CREATE" and last(1) == "TEXT":
        return ("STRING",)
    if last(1) == "(" and last(2) in ("DATE", "HOUR", "MINUTE"):
        return ("TIMESTAMP",)
    return ()


def options_of(cursor: CursorContext) -> str:
    """Return the owner of the option list that the cursor is in.

    It is WITH for a continuous query, SELECT for a snapshot, GENERATOR, a format's name, or "".
    """
    depth = 0
    for place in range(1, len(cursor.words) + 1):
        token = cursor.last(place)
        depth += (token == ")") - (token == "(")
        if depth < 0:
            owner = "GENERATOR" if cursor.last(place + 2) == "GENERATOR" else cursor.last(place + 1)
            return "SELECT" if owner == "WITH" and cursor.first in ("SELECT", "EXPLAIN") else owner
    return ""
