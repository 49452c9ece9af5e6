"""Draw Markdown for a terminal, or as plain text, with rich."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.text import Text
from rich.theme import Theme

_LINK = re.compile(r"(see\s)?\[([^\]]+)\]\(([a-z]*)(?:\.md)?(?:#([\w-]+))?\)")
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "cyan", "markdown.h1": "bold underline"})
"""No background, which would be black on a light terminal, too."""
_CODE_INDENT = "  "
_LEAST_WIDTH = 20


class _Code(CodeBlock):
    """A block of code: indented lines, of which long ones are wrapped between words and indented further."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = str(self.text).rstrip()
        yield Text(filled(text, options.max_width, _CODE_INDENT), style="markdown.code_block", no_wrap=True)


class _Heading(Heading):
    """A heading at the left, with a blank line above it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
    }


def drawn(markdown: str, width: int, *, coloured: bool, named: Callable[[str], str] = str) -> str:
    r"""Return Markdown as lines of at most `width` characters.

    A link to a section or a document becomes its text, and the topic of HELP that shows it if that differs.

    Args:
        markdown: the text.
        width: characters per line.
        coloured: whether to use the terminal's colours and bold type.
        named: returns the heading that an anchor leads to.

    >>> print(drawn("See **them**: [files](language.md#sources).\n\n```text\nRUN\n```", 40, coloured=False))
    See them: files (HELP sources).
    <BLANKLINE>
      RUN
    """

    def linked(found: re.Match[str]) -> str:
        see, text, document, anchor = found.groups("")
        topic = named(anchor) if anchor else document
        if topic.lower() == text.lower():
            return f"{see}HELP {text}" if see else text
        return f"{see}{text} (HELP {topic})"

    text = _LINK.sub(linked, markdown)
    file = io.StringIO()
    console = Console(
        file=file,
        width=max(width, _LEAST_WIDTH),
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        legacy_windows=False,
        theme=_THEME,
    )
    console.print(_Page(text, hyperlinks=False))
    lines: list[str] = []
    for line in file.getvalue().splitlines():
        is_blank = not _ESCAPE.sub("", line).strip()
        if not is_blank or (lines and lines[-1]):
            lines.append("" if is_blank else line.rstrip())
    return "\n".join(lines).rstrip("\n")


def filled(text: str, width: int, indent: str = "") -> str:
    """Wrap long lines between words; continuation lines of indented text are indented further."""
    return "\n".join(
        textwrap.fill(
            line,
            max(width, _LEAST_WIDTH),
            initial_indent=indent,
            subsequent_indent=indent * 3,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.splitlines()
    )
