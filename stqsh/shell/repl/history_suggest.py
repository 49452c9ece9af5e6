"""Ghost suggestions: the last statement of the history that begins with what is typed, whole."""

from __future__ import annotations

from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

_LATEST = 2000
"""So many entries of the history are looked at, so that no keystroke waits for the rest."""


class StatementSuggest(AutoSuggest):
    """Suggests the rest of the latest entry that begins with the whole text, over all of its lines."""

    def get_suggestion(self, buffer: Buffer, document: Document) -> Suggestion | None:
        """The rest of that entry; None where the text is empty, or nothing begins with it."""
        typed = document.text
        if not typed.strip():
            return None
        for entry in reversed(buffer.history.get_strings()[-_LATEST:]):
            if entry.startswith(typed) and entry != typed:
                return Suggestion(entry[len(typed) :])
        return None
