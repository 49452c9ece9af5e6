"""Queries on the parse table: what may come next, and what a name would mean there.

A stack of states is the complete state of an LALR parser. These functions push a terminal onto a copy of it,
with all reductions that follow, which gives exact answers. The table alone would allow too much, because its
look-aheads are merged over many contexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lark  # noqa: F401  # whole before its parts, as another thread may be importing it
from lark.parsers.lalr_analysis import Shift

States = Mapping[int, Mapping[str, tuple[Any, Any]]]
"""Maps a state to its actions: from a terminal to (Shift, next state) or (Reduce, rule)."""


def accepts(states: States, stack: Sequence[int], terminal: str) -> bool:
    """Return whether a parser with this stack can continue with a terminal (for `$END`: may stop)."""
    return shifted(states, stack, terminal) is not None


def accepted(states: States, stack: Sequence[int]) -> frozenset[str]:
    """Return all terminals with which a parser with this stack can continue, including `$END`."""
    candidates = [name for name in states[stack[-1]] if name == "$END" or name.isupper()]
    return frozenset(name for name in candidates if accepts(states, stack, name))


def shifted(states: States, stack: Sequence[int], terminal: str) -> list[int] | None:
    """Return the stack after a terminal; None if the parser cannot continue with it."""
    after = list(stack)
    while (action := states[after[-1]].get(terminal)) is not None:
        kind, argument = action
        if kind is Shift:
            after.append(argument)
            return after
        if _is_finished(states, after, argument):
            return after
        _reduce(states, after, argument)
    return None


def names_of_terminal(states: States, stack: Sequence[int], terminal: str) -> frozenset[str]:
    """Return the rules for which a terminal may be used: {"column_name", "function_name"} for a name."""
    after = shifted(states, stack, terminal)
    if after is None:
        return frozenset()
    found: set[str] = set()
    for following in states[after[-1]]:
        found.update(_unit_reductions(states, after, following))
    return frozenset(found)


def _unit_reductions(states: States, stack: Sequence[int], terminal: str) -> Iterator[str]:
    """Yield the single-symbol rules that reduce the top of the stack when `terminal` follows."""
    current = list(stack)
    while (action := states[current[-1]].get(terminal)) is not None:
        kind, rule = action
        if kind is Shift or len(rule.expansion) != 1 or _is_finished(states, current, rule):
            return
        yield str(rule.origin.name)
        _reduce(states, current, rule)


def _reduce(states: States, stack: list[int], rule: Any) -> None:
    if rule.expansion:
        del stack[-len(rule.expansion) :]
    stack.append(states[stack[-1]][rule.origin.name][1])


def _is_finished(states: States, stack: Sequence[int], rule: Any) -> bool:
    """Return whether this is a reduction of the start rule, which has no next state."""
    return str(rule.origin.name) == "start" or len(rule.expansion) >= len(stack)
