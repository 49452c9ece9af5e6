"""The prompt: multiline input until `;`, history, completion, colours, and a toolbar about the session."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.application.current import get_app, set_app
from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, completion_is_selected, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import DynamicStyle

from stqsh.settings import SECRETS
from stqsh.shell.repl.guide import STEPS, is_question
from stqsh.shell.scripting.blocks import ends_vertical
from stqsh.shell.terminal.colours import STYLES, colour_depth, scheme_name

if TYPE_CHECKING:
    from stqsh.shell.repl.session_thread import SessionSummary


PROMPT = "stqsh> "
CONTINUATION = "    -> "
_SESSION, _ENGINE, _RESTARTED = 9, 1, 3
"""The weights of parts of the toolbar, as in `stqsh.shell.status.status_parts`."""
_LATEST = 2000
"""How many history entries are searched for a suggestion, so that no key press waits for the rest."""
_HAS_SECRET = re.compile(
    rf"\bSET\s+(?:kafka\.|{'|'.join(map(re.escape, sorted(SECRETS)))})|://[^/\s'@]*:[^/\s'@]*@", re.IGNORECASE
)
"""A refused statement: it sets a secret, or has an address with a password."""
LEAVING = ("quit", "exit")
"""Words that leave the shell; like HELP and its topics, they need no semicolon."""


class StatementSuggest(AutoSuggest):
    """Suggests the rest of the latest history entry that begins with the whole typed text, over all lines."""

    def get_suggestion(self, buffer: Buffer, document: Document) -> Suggestion | None:
        """Return the rest of that entry; None if the text is empty or no entry begins with it."""
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
    summary: Callable[[], SessionSummary],
    is_cut: Callable[[], bool],
) -> PromptSession[str]:
    """Return the prompt of the shell.

    `summary` returns the summary for the toolbar, and `is_cut` whether the last answer was shown without
    some of its columns.
    """
    return PromptSession(
        [("class:prompt", PROMPT)],
        multiline=True,
        prompt_continuation=continuation,
        lexer=StqlHighlighter(_keywords, _names),
        style=DynamicStyle(lambda: STYLES[scheme_name(summary().scheme)]),
        history=history,
        completer=completer,
        complete_in_thread=True,
        complete_while_typing=True,
        auto_suggest=StatementSuggest(),
        key_bindings=bindings(is_cut),
        bottom_toolbar=lambda: toolbar(summary()),
        color_depth=colour_depth(),
        reserve_space_for_menu=6,
        enable_suspend=True,
    )


def continuation(width: int, line: int, wrapped: int | bool) -> StyleAndTextTuples:
    """Return the prefix of further lines: an arrow, or blanks if a long line is wrapped."""
    del line
    return [("class:continuation", " " * width if wrapped else CONTINUATION)]


def bindings(is_cut: Callable[[], bool]) -> KeyBindings:
    """Return the keys: Enter runs complete statements or begins a new line, Escape Enter always runs.

    On an empty line, the right arrow shows the last answer in full if it `is_cut`.
    """
    keys = KeyBindings()

    @keys.add("right", filter=has_focus("DEFAULT_BUFFER") & Condition(is_cut) & Condition(_is_empty))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.text = r"\wide"
        event.current_buffer.validate_and_handle()

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


def _is_empty() -> bool:
    return not get_app().current_buffer.text


def may_run(text: str) -> bool:
    """Return whether Enter runs a text: nothing, a command, HELP, quit, a question, complete statements."""
    words = text.lower().split()
    if not words or words[0].startswith("\\") or words[0] == "help" or " ".join(words) in (*LEAVING, *STEPS):
        return True
    if is_question(text):
        return True
    # Imported at the first Enter, so that the prompt appears before the language is loaded.
    from stqsh.lang.syntax.split import is_complete

    return is_complete(text) or ends_vertical(text)


def say_above(app: Application[str], say: Callable[[], None]) -> None:
    """Print a text above the prompt; must be called in the prompt's event loop."""
    with set_app(app):
        run_in_terminal(say)


def _keywords() -> frozenset[str]:
    from stqsh.lang.syntax import KEYWORDS  # as in `may_run`

    return KEYWORDS


def _names(text: str) -> frozenset[int]:
    """Return the offsets of names; none are known until the session thread has loaded the parser."""
    found = getattr(sys.modules.get("stqsh.lang.syntax.highlight"), "names_in", None)
    return found(text) if found is not None else frozenset()


class DiscreetHistory(FileHistory):
    """The history in a file, without statements that have a secret; without the file, in memory."""

    def load_history_strings(self) -> Iterable[str]:
        """Return the statements of the file, the newest first; none if it cannot be read."""
        try:
            return list(super().load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Append a statement to the file unless it has a secret, or the file cannot be written."""
        if not _HAS_SECRET.search(string):
            with suppress(OSError):
                super().store_string(string)


def open_history(path: Path) -> History:
    """Return the history in a file that only its owner can read, or in memory if that is impossible."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return DiscreetHistory(str(path))


def toolbar(summary: SessionSummary) -> StyleAndTextTuples:
    """Return the line at the bottom; a dead engine is highlighted."""
    return [
        (
            "class:bottom-toolbar.failed" if summary.failed or summary.broken else "class:bottom-toolbar",
            toolbar_text(summary, shutil.get_terminal_size().columns),
        )
    ]


def toolbar_text(summary: SessionSummary, width: int | None = None) -> str:
    """Return session, engine, step, clock, rate, lag, shedding; if narrow, only the most important parts."""
    if not summary.ready or summary.progress is None or not summary.progress.step:
        return f" {summary.session}  |  {summary.engine}"
    from stqsh.shell.status import status_parts  # the session thread has loaded it by now

    engine = (_RESTARTED, summary.restarted) if summary.restarted else (_ENGINE, summary.engine)
    parts = [(_SESSION, summary.session), engine, *status_parts(summary.progress)]
    while len(parts) > 1 and width is not None and len(_joined(parts)) >= width:
        parts.remove(min(parts, key=lambda part: part[0]))
    return _joined(parts)


def _joined(parts: list[tuple[int, str]]) -> str:
    """Join the parts: bars after the session and the engine, blanks between the others."""
    apart = (_SESSION, _ENGINE, _RESTARTED)
    named = [text for weight, text in parts if weight in apart]
    doing = "  ".join(text for weight, text in parts if weight not in apart)
    return " " + "  |  ".join(filter(None, [*named, doing]))


_TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<string>'(?:[^']|'')*'?)|(?P<name>\"[^\"]*\"?)"
    r"|(?P<number>\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|(?P<word>[^\W\d]\w*)",
    re.DOTALL,
)


Names = Callable[[str], frozenset[int]]


def _no_names(text: str) -> frozenset[int]:
    del text
    return frozenset()


class StqlHighlighter(Lexer):
    """Highlights STQL.

    Args:
        keywords: Returns the language's keywords in upper case; called when first needed.
        names: Returns the offsets of words in a text that are names there, although they are keywords
            elsewhere.
    """

    def __init__(self, keywords: Callable[[], frozenset[str]], names: Names = _no_names) -> None:
        self._keywords, self._names = keywords, names

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Return a function that returns the coloured fragments of a line."""
        lines = _lines(self._fragments(document.text))
        return lambda number: lines[number] if number < len(lines) else []

    def _fragments(self, text: str) -> StyleAndTextTuples:
        if text.startswith("\\"):
            return [("class:stql.command", text)]
        fragments: StyleAndTextTuples = []
        done, names = 0, self._names(text)
        for match in _TOKENS.finditer(text):
            fragments.append(("", text[done : match.start()]))
            fragments.append((self._style(match) if match.start() not in names else "", match.group()))
            done = match.end()
        fragments.append(("", text[done:]))
        return fragments

    def _style(self, match: re.Match[str]) -> str:
        kind = match.lastgroup
        if kind == "word":
            return "class:stql.keyword" if match.group().upper() in self._keywords() else ""
        return "" if kind == "name" else f"class:stql.{kind}"


def _lines(fragments: StyleAndTextTuples) -> list[StyleAndTextTuples]:
    lines: list[StyleAndTextTuples] = [[]]
    for style, text, *_ in fragments:
        first, *rest = text.split("\n")
        lines[-1].append((style, first))
        lines.extend([(style, part)] for part in rest)
    return lines
