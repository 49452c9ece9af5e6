"""HELP at the terminal's width, with documents drawn."""

from __future__ import annotations

import io
import shutil
import sys

from stqsh.client.statements import help
from stqsh.docs import TOPICS, document
from stqsh.shell.terminal.capabilities import is_interactive

_MAX_COLUMNS = 110


def help_text(topic: str = "") -> str:
    """Return what HELP answers, see `stqsh.client.statements.help`; a document is drawn on a terminal."""
    name = topic.strip().lower()
    if name in TOPICS:
        return drawn_document(name)
    return help.help_text(topic, shutil.get_terminal_size().columns)


def drawn_document(topic: str) -> str:
    """Return a document, drawn where standard output is a terminal, else its Markdown text."""
    text = document(topic)
    if not is_interactive(sys.stdout):
        return text
    from rich import console, markdown  # slow, and only documents need them

    drawn = io.StringIO()
    width = min(shutil.get_terminal_size().columns, _MAX_COLUMNS)
    terminal = console.Console(file=drawn, force_terminal=True, width=width)
    terminal.print(markdown.Markdown(text, hyperlinks=False, code_theme="ansi_dark"))
    return drawn.getvalue()


def two_columns(rows: list[tuple[str, str]]) -> str:
    """Lay out words and their meanings side by side."""
    return help.two_columns(rows, shutil.get_terminal_size().columns)
