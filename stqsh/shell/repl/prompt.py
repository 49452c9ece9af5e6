"""The prompt: several lines until `;`, history, completion, colours, and a toolbar on the session."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import DynamicStyle

from stqsh.shell.repl.highlighter import StqlHighlighter
from stqsh.shell.scripting.blocks import ends_vertical
from stqsh.shell.terminal.colours import STYLES, colour_depth, scheme_name

if TYPE_CHECKING:
    from stqsh.shell.repl.session_thread import SessionSummary

PROMPT = "stqsh> "
CONTINUATION = "    -> "
_SESSION, _ENGINE = 9, 1
"""What these weigh among the parts of the toolbar, as in `stqsh.shell.status.status_parts`."""
_LATEST = 2000
"""Entries of the history that are searched for a suggestion, so that no keystroke waits for the rest."""
BARE_WORDS = ("help", "quit", "exit")
"""What people type without a semicolon."""


class StatementSuggest(AutoSuggest):
    """Suggests the rest of the latest entry that begins with the whole text, over all of its lines."""

    def get_suggestion(self, buffer: Buffer, document: Document) -> Suggestion | None:
        """Return the rest of that entry; None where the text is empty, or nothing begins with it."""
        typed = document.text
        if not typed.strip():
            return None
        for entry in reversed(buffer.history.get_strings()[-_LATEST:]):
            if entry.startswith(typed) and entry != typed:
                return Suggestion(entry[len(typed) :])
        return None


def make_prompt(
    history: History,
    completer: Completer,
    glance: Callable[[], SessionSummary],
) -> PromptSession[str]:
    """The prompt of the shell; `glance` gives what the toolbar at the bottom shows."""
    return PromptSession(
        [("class:prompt", PROMPT)],
        multiline=True,
        prompt_continuation=continuation,
        lexer=StqlHighlighter(_keywords, _names),
        style=DynamicStyle(lambda: STYLES[scheme_name(glance().scheme)]),
        history=history,
        completer=completer,
        complete_in_thread=True,
        complete_while_typing=True,
        auto_suggest=StatementSuggest(),
        key_bindings=bindings(),
        bottom_toolbar=lambda: toolbar(glance()),
        color_depth=colour_depth(),
        reserve_space_for_menu=6,
    )


def continuation(width: int, line: int, wrapped: int | bool) -> StyleAndTextTuples:
    """What stands before further lines: an arrow, but nothing where a long line has only been wrapped."""
    del line
    return [("class:continuation", " " * width if wrapped else CONTINUATION)]


def bindings() -> KeyBindings:
    """Enter runs what is complete and begins a new line otherwise; Escape Enter runs it as it is."""
    keys = KeyBindings()

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if may_run(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    @keys.add("enter", filter=has_focus("DEFAULT_BUFFER") & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @keys.add("escape", "enter", filter=has_focus("DEFAULT_BUFFER"))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def may_run(text: str) -> bool:
    """Whether Enter runs this: nothing, a backslash command, a bare word, or statements up to their `;`."""
    stripped = text.strip()
    if not stripped or stripped.startswith("\\") or stripped.lower() in BARE_WORDS:
        return True
    # The language comes with the first Enter and the first word: the prompt is up before it is loaded.
    from stqsh.lang.syntax.split import is_complete

    return is_complete(text) or ends_vertical(text)


def say_above(app: Application[str], say: Callable[[], None]) -> None:
    """Let something be printed above the prompt that stands; to be called in the prompt's loop."""
    with set_app(app):
        run_in_terminal(say)


def _keywords() -> frozenset[str]:
    from stqsh.lang.syntax.keywords import KEYWORDS  # as in `may_run`

    return KEYWORDS


def _names(text: str) -> frozenset[int]:
    """Which words are names; none are known until the parser has been read, behind the prompt."""
    found = getattr(sys.modules.get("stqsh.lang.syntax.highlight"), "names_in", None)
    return found(text) if found is not None else frozenset()


def open_history(path: Path) -> History:
    """The history kept in a file that only its owner may read; in memory where that cannot be."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def toolbar(glance: SessionSummary) -> StyleAndTextTuples:
    """The line at the bottom; a dead engine stands out."""
    return [
        (
            "class:bottom-toolbar.failed" if glance.failed or glance.broken else "class:bottom-toolbar",
            toolbar_text(glance, shutil.get_terminal_size().columns),
        )
    ]


def toolbar_text(glance: SessionSummary, width: int | None = None) -> str:
    """Session, engine, step, clock, rate, lag, shedding: on a narrow terminal what matters most of it."""
    if not glance.ready or glance.progress is None or not glance.progress.step:
        return f" {glance.session}  |  {glance.engine}"
    from stqsh.shell.status import status_parts  # loaded by the session thread by then

    parts = [(_SESSION, glance.session), (_ENGINE, glance.engine), *status_parts(glance.progress)]
    while len(parts) > 1 and width is not None and len(_joined(parts)) >= width:
        parts.remove(min(parts, key=lambda part: part[0]))
    return _joined(parts)


def _joined(parts: list[tuple[int, str]]) -> str:
    """A bar behind the session and the engine, blanks between what the session does."""
    named = [text for weight, text in parts if weight in (_SESSION, _ENGINE)]
    doing = "  ".join(text for weight, text in parts if weight not in (_SESSION, _ENGINE))
    return " " + "  |  ".join(filter(None, [*named, doing]))
