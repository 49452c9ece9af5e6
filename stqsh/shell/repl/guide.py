"""The interface of a guide through the shell: it acts before the first prompt, and sees the typed text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stqsh.client.api import Session


STEPS = ("back", "next", "q")
"""Words that move through lessons; like HELP, they need no semicolon."""
_ASKING = frozenset(
    (
        "how",
        "what",
        "why",
        "where",
        "which",
        "who",
        "when",
        "can",
        "could",
        "is",
        "are",
        "does",
        "do",
        "should",
    )
)


def is_question(text: str) -> bool:
    """Return whether a text is a question in plain words: a word of `_ASKING`, and more words."""
    first, _, rest = text.strip().partition(" ")
    return first.lower() in _ASKING and bool(rest.strip())


@dataclass(frozen=True, slots=True)
class GuidedShell:
    """The actions of a guide in a shell.

    Attributes:
        session: waits for the session, and returns it.
        execute: executes statements and commands as if they were typed.
        tell: shows a text.
    """

    session: Callable[[], Session]
    execute: Callable[[str], None]
    tell: Callable[[str], None]


class ShellGuide(Protocol):
    """Guides the user through a shell."""

    def open(self) -> Session:
        """Open the session of the shell; slow, so called in a background thread."""

    def begin(self, shell: GuidedShell) -> None:
        """Act before the first prompt. Raises `StqshError`, which is shown."""

    def take(self, text: str, shell: GuidedShell) -> bool:
        """Handle typed text that is meant for the guide; return whether it was."""
