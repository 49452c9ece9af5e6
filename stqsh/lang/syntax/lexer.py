"""The lexer: one regular expression, and the parser's state to distinguish keywords from names.

Lark's own contextual lexer compiles an expression for each of the parser's 600 states when it first reaches
the state, which takes 60 ms for the first CREATE. This lexer compiles a single expression, and treats a word
as a keyword only where the parser can continue with that keyword, so hardly any word is reserved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lark import Token, UnexpectedCharacters
from lark.common import LexerConf
from lark.lexer import Lexer, LexerState, PatternStr

from stqsh.lang.ast.source import Span
from stqsh.lang.errors import TOO_DEEP, StatementSyntaxError
from stqsh.lang.syntax.parse_table import States, accepts

_IDENTIFIER = "IDENT"
_STRING = "STRING"
_QUOTED = "quoted"  # in double quotes: a name, or a text where only a text may stand
_LONG_QUOTED = "long quoted"
_SIGN = "sign"
_LONG_NAME = "long name"
_NONE = "none"  # a character that begins no token
_END = "end"
_LONGEST_NAME = 255
_DEEPEST = 500  # states; lists of any length take few, only nesting adds more


@dataclass
class ScannedText:
    """A text being parsed, and the progress of the parser, for error reports.

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


class Words(NamedTuple):
    """The words, signs and constants of a text, classified without the parser's state.

    Attributes:
        kinds: Their terminals; for a keyword, also if it is used as a name.
        texts: Their texts.
        starts: Their offsets.
    """

    kinds: tuple[str, ...]
    texts: list[str]
    starts: list[int]


def token(kind: str, text: str, start: int) -> Token:
    """Return a token, three times as fast as its constructor."""
    made = str.__new__(Token, text)
    made.type, made.value, made.start_pos = kind, text, start
    return made


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
        ignored = [t.pattern.to_regexp() for t in patterns if t.name in lexer_conf.ignore]
        signs = "|".join(re.escape(sign) for sign in sorted(self._signs, key=len, reverse=True))
        named = "|".join(
            f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in patterns if t.name not in lexer_conf.ignore
        )
        one = rf"{named}|(?P<{_SIGN}>{signs})|(?P<{_END}>\Z)|(?P<{_NONE}>[\s\S])"
        self._matches = re.compile(f"(?>{'|'.join(ignored)})?(?:{one})").finditer

    def words(self, text: str) -> Words:
        """Return the words of a text, up to the first invalid character, which is included."""
        kinds: list[str] = []
        texts: list[str] = []
        starts: list[int] = []
        for match in self._matches(text):
            kind: str = match.lastgroup  # type: ignore[assignment]
            if kind == _END:
                break
            word = match[kind]
            if kind == _IDENTIFIER and word[0] == '"':
                kind = _QUOTED if len(word) <= _LONGEST_NAME else _LONG_QUOTED
            elif kind == _IDENTIFIER:
                kind = self.keywords.get(word.upper(), kind) if len(word) <= _LONGEST_NAME else _LONG_NAME
            elif kind == _SIGN:
                kind = self._signs[word]
            kinds.append(kind)
            texts.append(word)
            starts.append(match.start(match.lastindex or 0))
            if kind == _NONE:
                break
        return Words(tuple(kinds), texts, starts)

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Token]:
        """Yield the tokens of `lexer_state.text`, a `ScannedText`.

        Raises an error at a character that begins no token.
        """
        scan: ScannedText = lexer_state.text  # type: ignore[assignment]
        states: States = parser_state.parse_conf.states
        for kind, text, start in zip(*self.words(scan.text), strict=True):
            if kind == _NONE:
                scan.stopped_at = start
                raise UnexpectedCharacters(scan.text, start, 1, start + 1)  # type: ignore[no-untyped-call]
            stack, span = parser_state.state_stack.copy(), Span(start, start + len(text))
            scan.stacks.append(stack)
            if len(stack) > _DEEPEST:
                raise StatementSyntaxError(TOO_DEEP, span)
            terminal = _in_quotes(states, stack, kind) if kind in (_QUOTED, _LONG_QUOTED) else kind
            if terminal == _LONG_NAME:
                raise StatementSyntaxError(f"a name has at most {_LONGEST_NAME} characters", span)
            is_name = text.upper() in self.keywords and not accepts(states, stack, kind)
            scan.tokens.append(token(_IDENTIFIER if is_name else terminal, text, start))
            yield scan.tokens[-1]
        scan.stacks.append(parser_state.state_stack.copy())
        scan.at_end = True


def _in_quotes(states: States, stack: Sequence[int], kind: str) -> str:
    """Return the terminal of a word in double quotes: a name, unless only a text is possible there."""
    if not accepts(states, stack, _IDENTIFIER) and accepts(states, stack, _STRING):
        return _STRING
    return _IDENTIFIER if kind == _QUOTED else _LONG_NAME
