"""Record the builder calls for a text, and replay them for another text of the same form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lark import Token

from stqsh.lang.ast_builder.rules import Builder
from stqsh.lang.syntax.lexer import Words, token


@dataclass(slots=True)
class Part:
    """The result of a builder for a part of a text, and its arguments: tokens, parts, None if omitted."""

    build: Builder
    given: list[Any]
    value: Any


@dataclass(frozen=True, slots=True)
class Plan:
    """The builder calls that produce the tree of a text of one form.

    Attributes:
        words: The index and the terminal of each word that is passed to a builder.
        calls: Each builder with the numbers of its arguments, which count None as 0, then the `words`, then
            the results of the calls.
    """

    words: tuple[tuple[int, str], ...]
    calls: tuple[tuple[Builder, tuple[int, ...]], ...]

    def build(self, words: Words) -> Any:
        """Return the tree for the words of a text of this form."""
        _, texts, starts = words
        values: list[Any] = [None]
        values += [token(kind, texts[place], starts[place]) for place, kind in self.words]
        for build, given in self.calls:
            values.append(build([values[number] for number in given]))
        return values[-1]


def recording(build: Builder) -> Callable[[list[Any]], Part]:
    """Wrap a builder so that its results remember their arguments."""

    def call(given: list[Any]) -> Part:
        return Part(build, given, build([one.value if isinstance(one, Part) else one for one in given]))

    return call


def plan_of(whole: Part, tokens: Sequence[Token]) -> Plan:
    """Return the plan by which a text was built, given its tokens."""
    calls = list(_in_order(whole))
    used = [word for part in calls for word in part.given if isinstance(word, Token)]
    numbers = {id(value): number for number, value in enumerate((None, *used, *calls))}
    places = {id(word): place for place, word in enumerate(tokens)}
    return Plan(
        tuple((places[id(word)], word.type) for word in used),
        tuple((part.build, tuple(numbers[id(value)] for value in part.given)) for part in calls),
    )


def _in_order(part: Part) -> Iterator[Part]:
    """Yield the parts of a part, then the part itself, which is the order in which they were built."""
    for one in part.given:
        if isinstance(one, Part):
            yield from _in_order(one)
    yield part
