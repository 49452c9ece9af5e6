"""Determine what may follow a text from the parser's state, for completion and for error messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lark import UnexpectedInput

from stqsh.errors import StqshError
from stqsh.lang.syntax.grammar import driver, grammar, start_state, states
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.lang.syntax.parse_table import accepted, names_of_terminal
from stqsh.lang.syntax.split import split

_BY_RULE = {
    "new_name": "name",
    "stream_name": "stream",
    "query_name": "query",
    "query_stream_name": "query stream",
    "filled_name": "filled",
    "table_name": "table",
    "region_name": "region",
    "view_name": "view",
    "sink_name": "sink",
    "alert_name": "alert",
    "relation_name": "relation",
    "object_name": "object",
    "column_name": "column",
    "function_name": "function",
    "strategy_name": "strategy",
    "option_name": "option",
    "type": "type",
    "format": "format",
    "output": "format",
    "setting": "setting",
    "topic": "topic",
    "alias": "alias",
    "word": "word",
}
_BY_TERMINAL = {
    "STRING": "string",
    "NUMBER": "number",
    "A_DURATION": "duration",
    "A_LENGTH": "length",
    "A_SPEED": "speed",
    "A_SIZE": "size",
    "TIMES": "pace",
}
_AFTER_FROM = frozenset({
    "FORMAT", "GROUP", "HAVING", "INSIDE", "INTERSECTS", "KNN", "LIMIT", "NEAREST", "ORDER", "SYNC", "WHERE",
    "WINDOW", "WITH",
})  # fmt: skip
"""The clauses that may follow FROM."""
_PARAMETER = "PARAMETER"
"""The terminal of parameters, which can replace any value, but only in REGISTER QUERIES."""
_MOST = 10_000
"""The maximum length of a statement to complete; longer ones would make typing slow."""
CATEGORIES = frozenset(_BY_RULE.values()) | frozenset(_BY_TERMINAL.values())
"""The categories that `expected` may return in addition to keywords (in capitals), signs and ";"."""


def expected(text: str) -> frozenset[str]:
    """Return what may follow a text whose last word is complete: keywords, signs, categories, ";".

    Only the last statement of the text is considered. The set is empty if the text already has an error, or
    ends within a string or comment.
    """
    try:
        pieces = split(text)
    except StqshError:
        return frozenset()
    is_open = bool(pieces) and not text[pieces[-1].offset + len(pieces[-1].text) :].lstrip().startswith(";")
    if is_open and len(pieces[-1].text) > _MOST:
        return frozenset()
    scan = ScannedText(pieces[-1].text if is_open else "")
    try:
        driver().scan(scan)
    except UnexpectedInput as error:
        if getattr(getattr(error, "token", None), "type", None) != "$END":
            return frozenset()
    except (StqshError, RecursionError):
        # A builder's rejection at the end may be resolved by the rest of the text.
        if not scan.at_end:
            return frozenset()
    return what_may_follow(scan.stacks[-1] if scan.stacks else [start_state()])


def what_may_follow(stack: Sequence[int]) -> frozenset[str]:
    """Return what may follow, given a parser's stack of states; the result is like that of `expected`."""
    table = states()
    found: set[str] = set()
    for terminal in accepted(table, stack):
        if terminal == "IDENT":
            rules = names_of_terminal(table, stack, terminal)
            found.update(_BY_RULE[rule] for rule in rules if rule in _BY_RULE)
        elif terminal != _PARAMETER:
            found.add(_BY_TERMINAL.get(terminal) or sign_or_keyword(terminal))
    if found >= {"FROM", "GROUP"}:  # hardly any clause makes sense without FROM
        found -= _AFTER_FROM
    return frozenset(found)


def sign_or_keyword(terminal: str) -> str:
    """Return the text of a terminal that has only one: a sign, a keyword in capitals, or ";" for the end."""
    if terminal == "$END":
        return ";"
    lexer: Any = grammar().parser.lexer
    return str(lexer.texts[terminal])
