"""`stqsh docs`: the documents that come with the package, drawn on a terminal and plain in a pipe."""

from __future__ import annotations

import shutil
import sys

from stqsh.client.statements.help import two_columns
from stqsh.docs import TOPICS
from stqsh.errors import StqshError
from stqsh.shell.repl.help_text import drawn_document
from stqsh.shell.terminal.capabilities import encode_for_terminal
from stqsh.shell.terminal.pager import page_output


class UnknownDocumentError(StqshError):
    """A document that does not exist."""

    exit_code = 2


def show_documents(topic: str | None) -> int:
    """Show a document through the pager, or list all of them; return the exit code.

    Raises:
        UnknownDocumentError: there is no such document.
    """
    if topic is None:
        print(two_columns(list(TOPICS.items()), shutil.get_terminal_size().columns))
        return 0
    name = topic.lower().removesuffix(".md")
    if name not in TOPICS:
        raise UnknownDocumentError(f"there is no document {topic}", hint=f"documents: {', '.join(TOPICS)}")
    text = drawn_document(name).rstrip("\n") + "\n"
    page_output(lambda width: encode_for_terminal(text), paged=sys.stdout.isatty())
    return 0
