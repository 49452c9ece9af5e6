"""The lexer: one regular expression, and the parser's state to distinguish keywords from names.

Lark's own contextual lexer compiles an expression for each of the parser's 600 states as it reaches them,
which takes 60 ms for the first CREATE. This one compiles a single expression, and takes a word for a keyword
only where the parser can continue with that keyword, so that hardly any word is reserved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lark.common import LexerConf
from lark.exceptions import UnexpectedCharacters
from lark.lexer import Lexer, LexerState, PatternStr, Token

from stqsh.lang.ast.source import Span
from stqsh.lang.errors import TOO_DEEP, StatementSyntaxError
from stqsh.lang.syntax.parse_table import States, accepts

_IDENTIFIER = "IDENT"
_LONGEST_NAME = 255
_DEEPEST = 500  # states; lists of any length take few, only nesting adds more


@dataclass
class ScannedText:
    """A text being parsed, and how far the parser has come, for error reports.

    Attributes:
        text: The text.
        stacks: The parser's stack of states before each of the `tokens`, and after the last.
        tokens: The tokens read.
        stopped_at: The offset at which no token begins.
        at_end: Whether the whole text has been passed to the parser.
    """

    text: str
    stacks: list[Sequence[int]] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    stopped_at: int | None = None
    at_end: bool = False


class StqlLexer(Lexer):
    """A lexer of `ScannedText`; Lark creates it from the grammar's terminals."""

    __future_interface__ = 2

    def __init__(self, lexer_conf: LexerConf) -> None:
        fixed = {t.pattern.value: t.name for t in lexer_conf.terminals if isinstance(t.pattern, PatternStr)}
        patterns = [t for t in lexer_conf.terminals if not isinstance(t.pattern, PatternStr)]
        patterns.sort(key=lambda t: (-t.priority, t.name))
        self.texts = {name: value.upper() for value, name in fixed.items()}
        self.keywords = {value.upper(): name for value, name in fixed.items() if value.isalpha()}
        self._signs = {value: name for value, name in fixed.items() if not value.isalpha()}
        self._ignored = frozenset(lexer_conf.ignore)
        signs = "|".join(re.escape(sign) for sign in sorted(self._signs, key=len, reverse=True))
        named = "|".join(f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in patterns)
        self._match = re.compile(f"{named}|(?P<SIGN>{signs})").match

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        """Yield the tokens of `lexer_state.text`, a `ScannedText`.

        Raises at a character that begins no token.
        """
        scan: ScannedText = lexer_state.text  # type: ignore[assignment]
        states: States = parser_state.parse_conf.states
        position, end = 0, len(scan.text)
        while position < end:
            match = self._match(scan.text, position)
            if match is None:
                scan.stopped_at = position
                raise UnexpectedCharacters(scan.text, position, 1, position + 1)  # type: ignore[no-untyped-call]
            start, position = position, match.end()
            kind: str = match.lastgroup  # type: ignore[assignment]
            if kind in self._ignored:
                continue
            value, stack = match.group(), parser_state.state_stack.copy()
            scan.stacks.append(stack)
            if len(stack) > _DEEPEST:
                raise StatementSyntaxError(TOO_DEEP, Span(start, position))
            if kind == _IDENTIFIER:
                if len(value) > _LONGEST_NAME:
                    raise StatementSyntaxError(
                        f"a name has at most {_LONGEST_NAME} characters", Span(start, position)
                    )
                kind = self._word(value, states, stack)
            elif kind == "SIGN":
                kind = self._signs[value]
            token = Token(kind, value, start, end_pos=position)
            scan.tokens.append(token)
            yield token
        scan.stacks.append(parser_state.state_stack.copy())
        scan.at_end = True

    def _word(self, value: str, states: States, stack: Sequence[int]) -> str:
        keyword = self.keywords.get(value.upper())
        return keyword if keyword is not None and accepts(states, stack, keyword) else _IDENTIFIER
