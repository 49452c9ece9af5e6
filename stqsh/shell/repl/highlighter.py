"""Colours for what is typed: keywords, strings, numbers with units, comments, backslash commands."""

from __future__ import annotations

import re
from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

_TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<string>'(?:[^']|'')*'?)|(?P<name>\"[^\"]*\"?)"
    r"|(?P<number>\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|(?P<word>[^\W\d]\w*)",
    re.DOTALL,
)


Names = Callable[[str], frozenset[int]]


def _no_names(text: str) -> frozenset[int]:
    del text
    return frozenset()


class StqlHighlighter(Lexer):
    """Highlights STQL.

    Args:
        keywords: Returns the language's keywords in capitals; called when first needed.
        names: Returns the offsets of words in a text that are names there, though keywords elsewhere.
    """

    def __init__(self, keywords: Callable[[], frozenset[str]], names: Names = _no_names) -> None:
        self._keywords, self._names = keywords, names

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return a function that returns the coloured fragments of a line."""
        lines = _lines(self._fragments(document.text))
        return lambda number: lines[number] if number < len(lines) else []

    def _fragments(self, text: str) -> StyleAndTextTuples:
        if text.startswith("\\"):
            return [("class:stql.command", text)]
        fragments: StyleAndTextTuples = []
        done, names = 0, self._names(text)
        for match in _TOKENS.finditer(text):
            fragments.append(("", text[done : match.start()]))
            fragments.append((self._style(match) if match.start() not in names else "", match.group()))
            done = match.end()
        fragments.append(("", text[done:]))
        return fragments

    def _style(self, match: re.Match[str]) -> str:
        kind = match.lastgroup
        if kind == "word":
            return "class:stql.keyword" if match.group().upper() in self._keywords() else ""
        return "" if kind == "name" else f"class:stql.{kind}"


def _lines(fragments: StyleAndTextTuples) -> list[StyleAndTextTuples]:
    lines: list[StyleAndTextTuples] = [[]]
    for style, text, *_ in fragments:
        first, *rest = text.split("\n")
        lines[-1].append((style, first))
        lines.extend([(style, part)] for part in rest)
    return lines
