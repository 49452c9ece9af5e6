"""HELP: the statements and their parts, from the language's reference, and the documents."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from stqsh.docs import TOPICS, document
from stqsh.lang.ast.source import NOWHERE, Span
from stqsh.lang.errors import BindError, near
from stqsh.lang.reference import ALL, PARTS, STATEMENTS
from stqsh.lang.reference.words import WordEntry, words

if TYPE_CHECKING:
    from stqsh.lang.reference import ReferenceEntry


def help_text(topic: str = "", width: int = 100, *, span: Span = NOWHERE) -> str:
    """Return the help on a topic, or on all topics without one.

    Args:
        topic: the name of a document, or words of a statement or a part of one.
        width: characters per line.
        span: where the topic is written.

    Raises:
        BindError: there is no such topic.

    >>> help_text("PAUSE QUERY").splitlines()[0]
    "PAUSE QUERY: Stop a query's updates without dropping it."
    """
    wanted = " ".join(topic.upper().split())
    if wanted.lower() in TOPICS:
        return document(wanted.lower())
    if wanted and all(entry.name != wanted for entry in ALL):
        named = [word for word in words() if word.name.upper() == wanted]
        if named:
            return "\n\n".join([*(_word_page(word, width) for word in named), *_see_also(wanted, width)])
    if wanted:
        return "\n\n".join(_page(entry, width) for entry in _found(wanted, span))
    sections = (
        two_columns([(one.name, one.help) for one in STATEMENTS], width),
        "Parts of statements",
        two_columns([(one.name, one.help) for one in PARTS], width),
        "Documents",
        two_columns(list(TOPICS.items()), width),
        "HELP RUN; explains a statement, HELP ORDER BY; a clause, HELP ROUND; a function, HELP km; a unit,"
        " HELP dwell; an option, HELP glossary; shows a document. A statement ends with ;",
    )
    return "\n\n".join(sections)


def _found(wanted: str, span: Span) -> list[ReferenceEntry]:
    """Return the entries with that name, or else those whose name contains it, or else whose syntax does."""
    found = (
        [one for one in ALL if one.name == wanted]
        or [one for one in ALL if one.name.startswith(wanted) or wanted in one.name.split()]
        or [one for one in PARTS if _is_written(wanted, one)]
        or [one for one in ALL if _is_written(wanted, one)]
    )
    if not found:
        known = (*(one.name for one in ALL), *(topic.upper() for topic in TOPICS))
        close = near(wanted, [*known, *(word.name.upper() for word in words())])
        raise BindError(
            f"there is no statement, clause, option, unit or function {wanted}",
            span,
            near=close,
            hint="HELP; lists the statements",
        )
    return found


def _is_written(words: str, entry: ReferenceEntry) -> bool:
    """Return whether the syntax of an entry contains these keywords in sequence."""
    return f" {words} " in f" {' '.join(re.findall('[A-Z]{2,}', entry.syntax))} "


def _word_page(word: WordEntry, width: int) -> str:
    meaning = _filled(f"{word.name}, {_article(word.kind)} {word.kind}: {word.help}.", width)
    return f"{meaning}\n\n{_filled(word.syntax, width, '  ')}"


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeio" else "a"


def _see_also(wanted: str, width: int) -> list[str]:
    """Return a line with the statements and parts that contain these words, if there are any."""
    found = [one for one in ALL if wanted in one.name.split() or _is_written(wanted, one)]
    return [_filled("see HELP " + ", HELP ".join(one.name for one in found), width)] if found else []


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
    """Return whether the statement of an entry is implemented."""
    from stqsh.client.statements.dispatch import HANDLERS
    from stqsh.lang.syntax.parse import parse

    [statement] = parse(entry.example)
    return type(statement) in HANDLERS


def two_columns(rows: list[tuple[str, str]], width: int) -> str:
    """Lay out words and their meanings side by side, `width` characters per line."""

    left = max(len(word) for word, _ in rows) + 4
    right = max(20, width - 1 - left)
    blocks = []
    for word, meaning in rows:
        first, *rest = textwrap.wrap(meaning, right)
        blocks += [f"  {word}".ljust(left) + first, *(" " * left + line for line in rest)]
    return "\n".join(blocks)


def _filled(text: str, width: int, indent: str = "") -> str:
    """Wrap long lines between words; continuation lines of indented text are indented further."""

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
