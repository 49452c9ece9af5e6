r"""Variables of scripts: `\set name value`, `-v name=value`, and `:name`, `:'name'`, `:"name"` in statements.

`:name` is replaced by the value itself, `:'name'` by a string and `:"name"` by a quoted name that hold it.
Strings, quoted names and comments stay unchanged, and replaced text is not searched again. Line numbers stay
the same, so that errors name the right line. In REGISTER QUERIES, `:name` without such a variable stays: it
refers to a column of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stqsh.errors import CommandLineError, StqshError
from stqsh.lang.ast.source import Piece, Source, Span
from stqsh.lang.errors import StatementSyntaxError, near

_NAME = re.compile(r"[^\W\d]\w*")
_USE = re.compile(
    r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/"""
    r"""|(?P<template>(?<!\w)REGISTER(?:\s++|--[^\n]*+|/\*.*?\*/)++QUERIES(?!\w))|(?P<end>;|\\[gG]\b)"""
    r"""|:'(?P<string>[^\W\d]\w*)'|:"(?P<quoted>[^\W\d]\w*)"|(?<![\w:]):(?P<plain>[^\W\d]\w*)""",
    re.DOTALL | re.IGNORECASE,
)


def assign(variables: dict[str, str], words: str) -> None:
    """Assign a variable. Raises `StqshError`.

    Args:
        variables: All variables.
        words: A name, then its value, plain or in single quotes.
    """
    name, *rest = words.split(None, 1) or [""]
    if not _NAME.fullmatch(name):
        raise StqshError(f"'{name}' cannot be a variable's name", hint="letters, digits and _")
    variables[name] = unquoted("".join(rest).strip())


def unquoted(text: str) -> str:
    """Return the content of a string in single quotes, and any other text unchanged.

    >>> unquoted("'it''s'"), unquoted("plain")
    ("it's", 'plain')
    """
    return text[1:-1].replace("''", "'") if len(text) > 1 and text[0] == text[-1] == "'" else text


def forget(variables: dict[str, str], name: str) -> None:
    """Remove a variable. Raises `StqshError` if there is no such variable."""
    if variables.pop(name, None) is None:
        raise StqshError(f"there is no variable {name}" if name else r"\unset takes a variable's name")


def given_variables(words: Sequence[str]) -> dict[str, str]:
    """Return the variables of `-v name=value`. Raises `CommandLineError` for another form."""
    variables: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or "\n" in value:
            raise CommandLineError(f"-v takes name=value, not '{word}'", hint="-v region=campus")
        variables[name] = value
    return variables


def replaced(text: str, variables: Mapping[str, str], file: str | None = None) -> str:
    """Return the text with its variables replaced. Raises `StatementSyntaxError` for one without a value."""
    if ":" not in text:
        return text

    is_template = False

    def value(match: re.Match[str]) -> str:
        nonlocal is_template
        kind = match.lastgroup
        if kind is None or kind in ("template", "end"):
            is_template = kind == "template" or (is_template and kind is None)
            return match.group()
        name = match.group(kind)
        if name not in variables and is_template and kind != "string":
            return match.group()
        if name not in variables:
            raise _unknown(text, match, name, variables, file)
        found = variables[name]
        quote = {"string": "'", "quoted": '"'}.get(kind)
        return found if quote is None else quote + found.replace(quote, quote * 2) + quote

    return _USE.sub(value, text)


def _unknown(
    text: str, match: re.Match[str], name: str, variables: Mapping[str, str], file: str | None
) -> StqshError:
    piece = Piece(Source(text, file), match.start(), match.group())
    return StatementSyntaxError(
        f"there is no variable {name}",
        Span(0, len(match.group())),
        near=near(name, variables),
        hint=rf"\set {name} VALUE gives it one, and so does -v {name}=VALUE",
        piece=piece,
    )
