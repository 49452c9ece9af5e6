"""HELP and `stqsh docs` at the terminal's width, with formatted documents."""

from __future__ import annotations

import shutil
import sys

from stqsh.client.statements import help
from stqsh.docs import TOPICS
from stqsh.errors import StqshError
from stqsh.shell.terminal.capabilities import encode_for_terminal, is_interactive
from stqsh.shell.terminal.pager import page_output

_MAX_COLUMNS = 110


class UnknownDocumentError(StqshError):
    """A document that does not exist."""

    exit_code = 2


def help_text(topic: str = "") -> str:
    """Return HELP's answer, see `stqsh.client.statements.help`, in colours on a terminal."""
    return help.help_text(topic, _columns(), coloured=is_interactive(sys.stdout))


def answer_text(question: str) -> str:
    """Return the manual's answer to a question in plain words."""
    from stqsh.client.statements.questions import answer_question  # reads the documents

    return answer_question(question, _columns(), coloured=is_interactive(sys.stdout))


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, _MAX_COLUMNS)


def two_columns(rows: list[tuple[str, str]]) -> str:
    """Lay out words and their meanings side by side."""
    return help.two_columns(rows, shutil.get_terminal_size().columns)


def show_documents(topic: str | None) -> int:
    """Show a document through the pager, or list all of them; return the exit code.

    Raises:
        UnknownDocumentError: there is no such document.
    """
    if topic is None:
        print(two_columns(list(TOPICS.items())))
        return 0
    name = topic.lower().removesuffix(".md")
    if name not in TOPICS:
        raise UnknownDocumentError(f"there is no document {topic}", hint=f"documents: {', '.join(TOPICS)}")
    text = help_text(name).rstrip("\n") + "\n"
    page_output(lambda width: encode_for_terminal(text), paged=sys.stdout.isatty())
    return 0
