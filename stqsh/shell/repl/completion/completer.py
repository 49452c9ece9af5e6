"""Completion: what may come next according to the grammar, with what the session holds by now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from stqsh.shell.repl.completion.candidates import Candidates, LiveKeys, Word, setting_values
from stqsh.shell.repl.completion.context import CursorContext, cursor_in, wanted_value
from stqsh.shell.scripting.backslash_commands import COMMANDS

if TYPE_CHECKING:
    from stqsh.shell.repl.session_thread import SessionSummary

_MOST = 60
_FIRST = ("column", "stream", "table", "region", "relation", "query", "object", "setting", "option")


class StqlCompleter(Completer):
    """Completes statements and backslash commands.

    `glance` tells what the session holds by now, `keys` which objects live. Runs in a thread of the prompt's,
    so that no keystroke waits for it.
    """

    def __init__(self, glance: Callable[[], SessionSummary], keys: LiveKeys | None = None) -> None:
        self._glance = glance
        self._keys = keys
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The completions of the word that the cursor stands behind."""
        text = document.text_before_cursor
        if text.startswith("\\"):
            yield from self._commands(text, complete_event)
            return
        cursor, words = cursor_in(text, document.text_after_cursor), Candidates(self._glance(), self._keys)
        if cursor.is_quoted:
            yield from self._strings(cursor, words, complete_event)
        elif cursor.first == "HELP":
            yield from _topics(cursor, words)
        elif cursor.typed or complete_event.completion_requested or _is_open(cursor):
            for name, meaning in _candidates(cursor, words):
                yield Completion(name, start_position=-len(cursor.typed), display_meta=meaning)

    def _commands(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        word, space, argument = text[1:].partition(" ")
        if space:
            command = next((one for one in COMMANDS if word in one.names), None)
            if command is not None and command.takes_file:
                yield from self._paths.get_completions(Document(argument), event)
            elif command is not None and " " not in argument:
                fitting = (choice for choice in command.choices if choice.startswith(argument))
                yield from (Completion(choice, start_position=-len(argument)) for choice in fitting)
            return
        for command in COMMANDS:
            for name in command.names:
                if name.startswith(word):
                    yield Completion(name, start_position=-len(word), display_meta=command.help)

    def _strings(
        self, cursor: CursorContext, words: Candidates, event: CompleteEvent
    ) -> Iterator[Completion]:
        if wanted_value(cursor) == "path":
            yield from self._paths.get_completions(Document(cursor.typed), event)
            return
        for value, meaning in _fitting(words.values(cursor), cursor.typed):
            yield Completion(
                value.replace("'", "''") + "'",
                start_position=-len(cursor.typed),
                display=value,
                display_meta=meaning,
            )


def _is_open(cursor: CursorContext) -> bool:
    """Whether completion is of use before anything is typed: where a key or a setting's value is wanted."""
    return wanted_value(cursor) == "key" or (cursor.first == "SET" and cursor.last(1) == "=")


def _candidates(cursor: CursorContext, words: Candidates) -> list[Word]:
    """What may stand at the cursor and begins with what is typed: values, then names, then keywords."""
    if cursor.first == "SET" and cursor.last(1) == "=":
        return _fitting(setting_values(cursor), cursor.typed)
    from stqsh.lang.syntax.expected import expected

    categories = expected(cursor.before)
    found: list[Word] = []
    if categories & {"string", "number"}:
        plain = words.is_number_key(cursor)
        found += [
            (value if plain else "'" + value.replace("'", "''") + "'", meaning)
            for value, meaning in words.values(cursor)
            if value.startswith(cursor.typed)
        ]
    for category in sorted(categories, key=lambda one: (_FIRST.index(one) if one in _FIRST else 99, one)):
        found += _fitting(words.named(category, cursor), cursor.typed)
    return list(dict.fromkeys(found))[:_MOST]


def _fitting(words: list[Word], typed: str) -> list[Word]:
    """The words that begin with what is typed; a name may be typed without the quotes that it needs."""
    start = typed.casefold()
    plain = ((word, word[0].casefold().removeprefix('"')) for word in words)
    return [word for word, text in plain if text.startswith(start) and text != start][:_MOST]


def _topics(cursor: CursorContext, words: Candidates) -> Iterator[Completion]:
    """The statements that HELP knows, by all the words typed so far."""
    typed = " ".join((*cursor.words[1:], cursor.typed)).upper().strip()
    shown = len(cursor.before.partition(cursor.words[0])[2].lstrip()) + len(cursor.typed)
    for name, meaning in words.named("topic", cursor):
        if name.startswith(typed) and name != typed:
            yield Completion(name, start_position=-shown, display_meta=meaning)
