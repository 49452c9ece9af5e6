"""Completion: the words that the grammar allows next, with the names in the session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from stqsh.shell.repl.completion.context import CursorContext, cursor_in, wanted_value
from stqsh.shell.scripting.backslash_commands import COMMANDS

if TYPE_CHECKING:
    from stqsh.shell.repl.completion.candidates import LiveKeys, Word
    from stqsh.shell.repl.session_thread import SessionSummary


class StqlCompleter(Completer):
    """Completes statements and backslash commands, in a thread of the prompt.

    Args:
        summary: Returns the summary of the session.
        keys: Returns the column values of present objects.
    """

    def __init__(self, summary: Callable[[], SessionSummary], keys: LiveKeys | None = None) -> None:
        self._summary = summary
        self._keys = keys
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions of the word before the cursor."""
        text = document.text_before_cursor
        if text.startswith("\\"):
            yield from self._commands(text, complete_event)
            return
        # Importing the grammar and the client takes 70 ms, which the first completion spends in its thread.
        from stqsh.shell.repl.completion import candidates

        cursor, words = (
            cursor_in(text, document.text_after_cursor),
            candidates.Candidates(self._summary(), self._keys),
        )
        if cursor.is_quoted:
            yield from self._strings(
                cursor, candidates.fitting(words.values(cursor), cursor.typed), complete_event
            )
        elif cursor.first == "HELP":
            for name, meaning, typed in candidates.topics_at(cursor, words):
                yield Completion(name, start_position=-typed, display_meta=meaning)
        elif cursor.typed or complete_event.completion_requested or _is_open(cursor):
            for name, meaning in candidates.candidates_at(cursor, words):
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
        self, cursor: CursorContext, values: list[Word], event: CompleteEvent
    ) -> Iterator[Completion]:
        if wanted_value(cursor) == "path":
            yield from self._paths.get_completions(Document(cursor.typed), event)
            return
        for value, meaning in values:
            yield Completion(
                value.replace("'", "''") + "'",
                start_position=-len(cursor.typed),
                display=value,
                display_meta=meaning,
            )


def _is_open(cursor: CursorContext) -> bool:
    """Return whether completion starts before a character is typed: at a key or a setting's value."""
    return wanted_value(cursor) == "key" or (cursor.first == "SET" and cursor.last(1) == "=")
