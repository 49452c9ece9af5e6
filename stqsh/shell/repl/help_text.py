"""HELP as wide as the terminal, with documents drawn."""

from __future__ import annotations

import io
import shutil
import sys

from stqsh.docs import TOPICS, document
from stqsh.shell.exit_codes import draws

_MOST_COLUMNS = 110


def help_text(topic: str = "") -> str:
    """Return what HELP answers, see `stqsh.client.statements.help`; a document is drawn on a terminal."""
    from stqsh.client.statements import help

    name = topic.strip().lower()
    if name in TOPICS:
        return drawn_document(name)
    return help.help_text(topic, shutil.get_terminal_size().columns)


def drawn_document(topic: str) -> str:
    """Return a document, drawn where standard output is a terminal, else its Markdown text."""
    text = document(topic)
    if not draws(sys.stdout):
        return text
    from rich.console import Console
    from rich.markdown import Markdown

    drawn = io.StringIO()
    width = min(shutil.get_terminal_size().columns, _MOST_COLUMNS)
    Console(file=drawn, force_terminal=True, width=width).print(Markdown(text, hyperlinks=False))
    return drawn.getvalue()


def two_columns(rows: list[tuple[str, str]]) -> str:
    """Lay out words and their meanings side by side."""
    from stqsh.client.statements import help

    return help.two_columns(rows, shutil.get_terminal_size().columns)
