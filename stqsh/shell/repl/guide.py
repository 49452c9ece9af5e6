"""What leads a user through a shell: it speaks before the first prompt, and hears what is typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stqsh.client.api import Session


STEPS = ("back", "next", "q")
"""Words that go through lessons; like HELP they take no semicolon."""
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
    """Return whether a text is a question in plain words: none of its first words begins a statement."""
    first, _, rest = text.strip().partition(" ")
    return first.lower() in _ASKING and bool(rest.strip())


@dataclass(frozen=True, slots=True)
class GuidedShell:
    """What a guide can do in a shell.

    Attributes:
        session: waits for the session and returns it.
        execute: executes statements and commands as if they were typed.
        tell: shows a text.
    """

    session: Callable[[], Session]
    execute: Callable[[str], None]
    tell: Callable[[str], None]


class ShellGuide(Protocol):
    """Leads through a shell."""

    def open(self) -> Session:
        """Open the session of the shell; slow, for a thread behind the prompt."""

    def begin(self, shell: GuidedShell) -> None:
        """Say and do what comes before the first prompt. Raises `StqshError`, which is shown."""

    def take(self, text: str, shell: GuidedShell) -> bool:
        """Return whether what was typed is for the guide, which has dealt with it."""
