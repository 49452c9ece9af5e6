"""The parser: a loop over the tables that Lark makes, and what it remembers of the texts that it has parsed.

How a text is built depends only on the kinds of its words. So the builders that were called for one text, and
what each was given, are kept by these kinds: the next text of the same form is built without the tables. In
the loop, most of an expression's reductions only hand a single child on (`?sum: product`), and come in long
chains: where a chain leads to is found once for each place at which one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from lark import Token, UnexpectedToken
from lark.parse_tree_builder import ExpandSingleChild
from lark.parsers.lalr_analysis import Shift

from stqsh.lang.syntax.building import Part, Plan, plan_of
from stqsh.lang.syntax.lexer import ScannedText
from stqsh.lang.syntax.parse_table import States

_END = "$END"
_NO_STATE = -1
_MOST_WORDS = 200
"""Maximum length in words of a text whose plan is kept."""
_MOST_PLANS = 1000


class _Action(NamedTuple):
    """What the parser does before a terminal.

    Attributes:
        top: The state that the chain of reductions of single children ends in, in place of the top one.
        after: The state to shift to, or -1 to reduce.
        size: The number of symbols to reduce.
        origin: What to reduce them to.
        build: Makes the value.
    """

    top: int
    after: int
    size: int
    origin: str
    build: Callable[[list[Any]], Any]


class Driver:
    """Runs a parse table over a text's tokens."""

    def __init__(self, frontend: Any) -> None:
        table = frontend.parser._parse_table
        self._lexer = frontend.lexer
        self._states: States = table.states
        self._callbacks: Mapping[Any, Callable[[list[Any]], Any]] = frontend.parser.parser.callbacks
        self._start, self._end = table.start_states["start"], table.end_states["start"]
        self._actions: dict[tuple[int, int, str], _Action] = {}
        self._plans: dict[tuple[str, ...], Plan] = {}

    def parse(self, scan: ScannedText) -> Any:
        """Return what the builders make of a text.

        Raises:
            UnexpectedInput: at the first character or token that does not fit; `scan` has what was read.
        """
        words = self._lexer.words(scan.text)
        plan = self._plans.get(words.kinds)
        if plan is not None:
            return plan.build(words)
        whole = self.scan(scan)
        if len(words.kinds) <= _MOST_WORDS:
            if len(self._plans) == _MOST_PLANS:
                self._plans.clear()
            self._plans[words.kinds] = plan_of(whole, scan.tokens)
        return whole.value

    def scan(self, scan: ScannedText) -> Part:
        """Parse a text by the tables, and leave in `scan` what was read.

        Raises:
            UnexpectedInput: at the first character or token that does not fit.
        """
        stack: list[int] = [self._start]
        values: list[Any] = []
        parser = SimpleNamespace(state_stack=stack, parse_conf=SimpleNamespace(states=self._states))
        for token in self._lexer.lex(SimpleNamespace(text=scan), parser):
            stack.append(self._reduce(stack, values, token))
            values.append(token)
        self._reduce(stack, values, Token(_END, ""))
        whole: Part = values[-1]
        return whole

    def _reduce(self, stack: list[int], values: list[Any], token: Token) -> int:
        """Reduce until a token can be shifted; return the state after that (the end state for `$END`)."""
        kind, states, actions = token.type, self._states, self._actions
        while True:
            place = (stack[-2] if len(stack) > 1 else _NO_STATE, stack[-1], kind)
            action = actions.get(place)
            if action is None:
                action = actions[place] = self._find_action(place, token)
            top, after, size, origin, build = action
            stack[-1] = top
            if after >= 0:
                return after
            children = []
            if size:
                children = values[-size:]
                del values[-size:], stack[-size:]
            values.append(build(children))
            goto: int = states[stack[-1]][origin][1]
            stack.append(goto)
            if goto == self._end:
                return goto

    def _find_action(self, place: tuple[int, int, str], token: Token) -> _Action:
        below, top, kind = place
        while True:
            what, argument = self._states[top].get(kind, (None, None))
            if what is None:
                raise UnexpectedToken(token, set(self._states[top]))  # type: ignore[no-untyped-call]
            if what is Shift:
                return _Action(top, argument, 0, "", list)
            build = self._callbacks[argument]
            if len(argument.expansion) != 1 or not isinstance(build, ExpandSingleChild):
                return _Action(top, _NO_STATE, len(argument.expansion), argument.origin.name, build)
            top = self._states[below][argument.origin.name][1]
