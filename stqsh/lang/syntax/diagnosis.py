"""Explain in plain words why a text could not be parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from lark import Token

from stqsh.errors import StqshError
from stqsh.lang.ast.source import Span
from stqsh.lang.ast_builder.rules import span_of
from stqsh.lang.errors import StatementSyntaxError, near
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.expected import what_may_follow
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.units import CANONICAL, EXAMPLES

_NUMBER_AND_WORD = re.compile(r"((?:\d+\.?\d*|\.\d+))\s*([^\W\d][\w/]*)")
_BARE_SIZE = re.compile(r"SET\s+[\w.]+\s*=\s*(\d[\d.]*\s*[kmgt]?b)\b", re.IGNORECASE)
_BAD_NUMBER = re.compile(r"[\w.]*[\d.][\w.]*")
_WORDS = {
    "name": "a name",
    "stream": "a stream",
    "query": "a query",
    "table": "a table",
    "region": "a region",
    "view": "a view",
    "relation": "a stream or a table",
    "object": "a name",
    "column": "a column",
    "strategy": "a strategy",
    "option": "an option",
    "type": "a type",
    "format": "a format",
    "setting": "a setting",
    "word": "a word",
    "string": "a string in single quotes",
    "number": "a number",
    "duration": f"a duration such as {EXAMPLES['duration']}",
    "length": f"a length such as {EXAMPLES['length']}",
    "speed": f"a speed such as {EXAMPLES['speed']}",
    "size": f"a size such as {EXAMPLES['size']}",
    "pace": "a pace such as 10x",
}
_SILENT = frozenset({"function", "alias", "topic"})
_COMPARISONS = frozenset(
    {"=", "<>", "!=", "<", "<=", ">", ">=", "BETWEEN", "IN", "LIKE", "IS", "CONTAINS", "AFTER"}
)
_CALCULATIONS = frozenset({"+", "-", "*", "/", "%", "||", "DIV", "::"})
_ANY_VALUE = frozenset(
    {
        "column",
        "number",
        "string",
        "duration",
        "length",
        "speed",
        "NOW",
        "NULL",
        "TRUE",
        "FALSE",
        "NOT",
        "CASE",
        "(",
        "+",
        "-",
    }
)
_UNITS = frozenset({"duration", "length", "speed", "size"})
_NAME = "IDENT"
_AFTER_NAMES = frozenset({"FROM", "AS", "WHERE", "SELECT"})
_RIGHT_SIGNS = {"=>": ">=", "==": "=", "=<": "<=", "><": "<>"}


def diagnose(scan: ScannedText) -> StqshError:
    """Return the error for a scan that stopped at a character, at a token, or at the end of the text."""
    if (bare := _bare_size(scan)) is not None:
        return bare
    if scan.stopped_at is not None:
        return _bad_character(scan, scan.stopped_at)
    follow = what_may_follow(scan.stacks[-1])
    for reason in _REASONS:
        fault = reason(scan, follow)
        if fault is not None:
            return fault
    return _unexpected(scan, follow)


def in_words(follow: Collection[str]) -> tuple[str, ...]:
    """Describe in plain words what may follow: categories, then keywords, then signs, then the end."""
    rest = set(follow) - _SILENT
    words = [_WORDS[category] for category in _WORDS if category in rest]
    if rest >= {"relation", "string"}:
        words = [_WORDS["relation"], "a file in single quotes"]
    elif rest >= {"column", "number", "NOW"}:
        words, rest = ["a value"], rest - _ANY_VALUE
    elif "CREATE" in rest:
        return ("a statement (HELP lists them)",)
    if "=" in rest and "LIKE" in rest:
        words.append("a comparison")
        rest -= _COMPARISONS | {"NOT"}
    if rest >= _CALCULATIONS:
        rest -= _CALCULATIONS
    rest -= set(_WORDS)
    words += sorted(word for word in rest if word.isalpha())
    words += sorted(word for word in rest if not word.isalpha() and word != ";")
    return (*words, ";") if ";" in rest else tuple(words)


def _bare_size(scan: ScannedText) -> StatementSyntaxError | None:
    """Explain `SET cache.views = 64 MB`, whose size has no quotes."""
    match = _BARE_SIZE.match(scan.text, span_of(scan.tokens[0]).start) if scan.tokens else None
    if match is None:
        return None
    return StatementSyntaxError("a size stands in quotes", Span(*match.span(1)), near=f"'{match[1]}'")


def _missing_name(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError | None:
    """Explain `SELECT FROM t`, where FROM was parsed as a name."""
    for stack, word in list(zip(scan.stacks, scan.tokens, strict=False))[-3:]:
        if word.type == _NAME and word.upper() in _AFTER_NAMES & set(follow):
            said, expected = f"something is missing before {_shown(word)}", in_words(what_may_follow(stack))
            return StatementSyntaxError(said, span_of(word), expected=expected)
    return None


def _slide_alone(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError | None:
    """Explain `FROM t SLIDE 5 s`, where SLIDE may have been parsed as an alias."""
    words = [word.upper() for word in scan.tokens]
    for place in range(max(0, len(words) - 3), len(words)):
        is_right = "WINDOW" in words[max(0, place - 3) : place]
        if words[place] == "SLIDE" and "WINDOW" in follow and not is_right:
            said, right = "SLIDE stands right after WINDOW and its duration", "WINDOW 1 min SLIDE 10 s"
            return StatementSyntaxError(said, span_of(scan.tokens[place]), expected=(right,))
    return None


def _wrong_sign(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError | None:
    """Explain `a => 5` and `a == 5`."""
    before, stop = ("", "") if scan.at_end else ([Token("", ""), *scan.tokens])[-2:]
    written = stop if stop in _RIGHT_SIGNS else f"{before}{stop}"
    meant = _RIGHT_SIGNS.get(written)
    if meant is None or not (meant in follow or before in _COMPARISONS):
        return None
    return StatementSyntaxError(
        f"unexpected {_shown(Token('', written))}", span_of(scan.tokens[-1]), near=meant
    )


def _unknown_unit(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError | None:
    """Explain `TICK 5 sex`: a number and a word where a quantity is possible."""
    numbers = [token for token in scan.tokens[-2:] if token.type == "NUMBER"]
    match = _NUMBER_AND_WORD.match(scan.text, span_of(numbers[-1]).start) if numbers else None
    if match is None or match[2].upper() in KEYWORDS or near(match[2], _keywords(follow)):
        return None
    close, wanted = near(match[2], CANONICAL), _UNITS & set(follow)
    if not wanted and (close is None or numbers[-1] is scan.tokens[-1]):
        return None
    return StatementSyntaxError(
        f"unknown unit {match[2]!r}", Span(*match.span()), expected=in_words(wanted), near=close
    )


def _misspelt(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError | None:
    """Explain a word similar to a keyword, where the parser stopped or just before.

    In `SELECT a FORM t`, FORM was parsed as an alias, and only the following word reveals the mistake.
    """
    count = len(scan.tokens)
    places = [count - 1, count - 2] if not scan.at_end else [count - 1]
    for index in places:
        word = scan.tokens[index] if index >= 0 else None
        if word is None or not (word[0].isalpha() or word[0] == "_"):
            continue
        is_stop = index == count - 1 and not scan.at_end
        if not is_stop and word.type != _NAME:
            continue
        could_be = _keywords(follow) | _keywords(what_may_follow(scan.stacks[index]))
        close = near(word, could_be - {word.upper()})
        if close is not None:
            expected = in_words(follow) if is_stop else ()
            return StatementSyntaxError(
                f"unexpected {_shown(word)}", span_of(word), expected=expected, near=close
            )
    return None


def _too_early(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError | None:
    end = len(scan.text)
    early = StatementSyntaxError(
        "the statement ends too early", Span(end, end + 1), expected=in_words(follow)
    )
    return early if scan.at_end else None


_REASONS: tuple[Callable[[ScannedText, Collection[str]], StatementSyntaxError | None], ...] = (
    _missing_name,
    _slide_alone,
    _wrong_sign,
    _unknown_unit,
    _misspelt,
    _too_early,
)


def _unexpected(scan: ScannedText, follow: Collection[str]) -> StatementSyntaxError:
    stop = scan.tokens[-1]
    return StatementSyntaxError(f"unexpected {_shown(stop)}", span_of(stop), expected=in_words(follow))


def _keywords(follow: Collection[str]) -> frozenset[str]:
    return frozenset(word for word in follow if word.isalpha() and word.isupper())


def _bad_character(scan: ScannedText, position: int) -> StatementSyntaxError:
    match = _BAD_NUMBER.match(scan.text, position)
    if match is None:
        return StatementSyntaxError(
            f"unexpected character {scan.text[position]!r}", Span(position, position + 1)
        )
    span = Span(*match.span())
    with_unit = _NUMBER_AND_WORD.fullmatch(match.group())
    if with_unit:
        return StatementSyntaxError(
            f"unknown unit {with_unit[2]!r} in {match.group()}", span, near=near(with_unit[2], CANONICAL)
        )
    return StatementSyntaxError(f"bad number {match.group()!r}", span)


def _shown(token: Token) -> str:
    text = token.value if len(token) <= 40 else f"{token.value[:37]}..."
    return text if text[0] in "'\"" else f"'{text}'"
