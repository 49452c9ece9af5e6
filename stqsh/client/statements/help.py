"""HELP: the statements and their parts, from the language's own manual."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stqsh.errors import StqshError

if TYPE_CHECKING:
    from stqsh.lang.reference import ReferenceEntry


def help_text(topic: str = "", width: int = 100) -> str:
    """All statements in a line each, or what there is to say of one. Raises `StqshError` for none.

    `width`: characters a line.
    """
    from stqsh.lang.reference import PARTS, STATEMENTS

    wanted = " ".join(topic.upper().split())
    if not wanted:
        listed = two_columns([(one.name, one.help) for one in STATEMENTS], width)
        parts = two_columns([(one.name, one.help) for one in PARTS], width)
        return f"{listed}\n\nParts of them\n\n{parts}\n\nHELP statement; tells more. A statement ends with ;"
    return "\n\n".join(_page(entry, width) for entry in _found(wanted))


def _found(wanted: str) -> list[ReferenceEntry]:
    """The entries of that name, else that begin with it or have it as a word, else in whose syntax it is."""
    from stqsh.lang.reference import ALL, PARTS

    found = (
        [one for one in ALL if one.name == wanted]
        or [one for one in ALL if one.name.startswith(wanted) or wanted in one.name.split()]
        or [one for one in PARTS if _is_written(wanted, one)]
        or [one for one in ALL if _is_written(wanted, one)]
    )
    if not found:
        from stqsh.lang.errors import near

        close = near(wanted, [one.name for one in ALL])
        raise StqshError(
            f"there is no statement {wanted}", hint=f"maybe you meant {close}" if close else "HELP;"
        )
    return found


def _is_written(words: str, entry: ReferenceEntry) -> bool:
    """Whether an entry's syntax has these keywords, one after the other."""
    return f" {words} " in f" {' '.join(re.findall('[A-Z]{2,}', entry.syntax))} "


def _page(entry: ReferenceEntry, width: int) -> str:
    blocks = [
        _filled(f"{entry.name}: {entry.help}", width),
        _filled(entry.syntax, width, "  "),
        *([_filled(" ".join(entry.more.split()), width)] if entry.more else []),
        "for example",
        _filled(f"{entry.example};", width, "  "),
        _filled(f"cost: {entry.cost}", width),
    ]
    if not is_built(entry):
        blocks.insert(1, "not supported yet")
    return "\n\n".join(blocks)


def is_built(entry: ReferenceEntry) -> bool:
    """Whether something carries the statement out."""
    from stqsh.client.statements.dispatch import HANDLERS
    from stqsh.lang.syntax.parse import parse

    [statement] = parse(entry.example)
    return type(statement) in HANDLERS


def two_columns(rows: list[tuple[str, str]], width: int) -> str:
    """Words and their meanings side by side, in so many characters."""
    import textwrap

    left = max(len(word) for word, _ in rows) + 4
    right = max(20, width - 1 - left)
    blocks = []
    for word, meaning in rows:
        first, *rest = textwrap.wrap(meaning, right)
        blocks += [f"  {word}".ljust(left) + first, *(" " * left + line for line in rest)]
    return "\n".join(blocks)


def _filled(text: str, width: int, indent: str = "") -> str:
    """Each line folded between words where it is too long; what goes on is indented further if it was."""
    import textwrap

    further = indent * 3
    return "\n".join(
        textwrap.fill(
            line,
            max(20, width - 1),
            initial_indent=indent,
            subsequent_indent=further,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
        for line in text.splitlines()
    )
