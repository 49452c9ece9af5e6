"""HELP: the statements and their parts, from the sections of the manual, single words, and the documents."""

from __future__ import annotations

import re
import textwrap

from stqsh.client.statements.help_words import WordEntry, words
from stqsh.docs import TOPICS, document
from stqsh.docs.manual import Section, heading, other_sections, parts, sections, statements
from stqsh.lang.ast.source import NOWHERE, Span
from stqsh.lang.errors import BindError, near

_TOPICS_OF_HELP = """HELP RUN; explains a statement, HELP ORDER BY; a clause, HELP ROUND; a function, HELP km;
a unit, HELP dwell; an option, HELP glossary; shows a document. A statement ends with ;"""


def help_text(topic: str = "", width: int = 100, *, coloured: bool = False, span: Span = NOWHERE) -> str:
    """Return the help on a topic, or on all topics without one.

    A document is Markdown, unless it is drawn in colours.

    Args:
        topic: the name of a document or a section, words of a statement or a part of one, or any word.
        width: characters per line.
        coloured: whether to use the terminal's colours and bold type.
        span: where the topic is written.

    Raises:
        BindError: there is no such topic.

    >>> help_text("PAUSE QUERY").splitlines()[0]
    'PAUSE QUERY: Stops the updates of a query without dropping it.'
    """
    wanted = " ".join(topic.upper().split())
    if not wanted:
        return _list(width)
    if wanted.lower() in TOPICS:
        text = document(wanted.lower())
        return _drawn(text, width, coloured) if coloured else text
    exact = [one for one in sections("language") if one.name.upper() == wanted]
    named = [] if exact else [word for word in words() if word.name.upper() == wanted]
    if named:
        return "\n\n".join([*(_word_page(word, width) for word in named), *_see_also(wanted, width)])
    found = exact or _found(wanted, span)
    pages = [page(one, is_whole=len(found) == 1) for one in found]
    return "\n\n".join(_drawn(one, width, coloured) for one in pages)


def page(section: Section, *, is_whole: bool = True) -> str:
    """Return the help on a section as Markdown: meaning, syntax, example and cost, and then the rest."""
    blocks = [f"**{section.name}**: {section.meaning}" if section.meaning else f"**{section.name}**"]
    if section.syntax:
        blocks.append(f"```text\n{section.syntax}\n```")
    if section.example:
        blocks += ["for example", f"```sql\n{section.example}\n```"]
    if section.cost:
        blocks.append(f"cost: {section.cost}")
    return "\n\n".join((*blocks, *(section.rest if is_whole else ())))


def _list(width: int) -> str:
    return "\n\n".join(
        (
            two_columns([(one.name, one.summary) for one in statements()], width),
            "Parts of statements, and what they have in common",
            two_columns([(one.name, one.summary) for one in parts()], width),
            "Documents",
            two_columns(list(TOPICS.items()), width),
            textwrap.fill(_TOPICS_OF_HELP, width - 1),
        )
    )


def _drawn(markdown: str, width: int, coloured: bool) -> str:
    from stqsh.docs.drawing import drawn  # rich, which is slow

    return drawn(markdown, width - 1, coloured=coloured, named=heading)


def _found(wanted: str, span: Span) -> list[Section]:
    """Return the sections whose names contain the words, or else their syntax, or else other documents."""
    every = (*statements(), *parts())
    found = (
        [one for one in every if one.name.startswith(wanted) or wanted in one.name.split()]
        or [one for one in parts() if _is_written(wanted, one)]
        or [one for one in every if _is_written(wanted, one)]
        or [one for one in other_sections() if one.name.upper() == wanted]
        or [one for one in parts() if wanted in one.name.upper().split()]
    )
    if not found:
        known = (*(one.name.upper() for one in every), *(topic.upper() for topic in TOPICS))
        close = near(wanted, [*known, *(word.name.upper() for word in words())])
        raise BindError(
            f"there is no statement, clause, option, unit or function {wanted}",
            span,
            near=close,
            hint="HELP; lists the statements",
        )
    return found


def _is_written(words: str, section: Section) -> bool:
    """Return whether the syntax of a section contains these keywords in sequence."""
    return f" {words} " in f" {' '.join(re.findall('[A-Z]{2,}', section.syntax))} "


def _word_page(word: WordEntry, width: int) -> str:
    from stqsh.docs.drawing import filled

    meaning = filled(f"{word.name}, {_article(word.kind)} {word.kind}: {word.meaning}.", width - 1)
    return f"{meaning}\n\n{filled(word.syntax, width - 1, '  ')}"


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeio" else "a"


def _see_also(wanted: str, width: int) -> list[str]:
    """Return a line with the statements and parts that contain these words, if there are any."""
    from stqsh.docs.drawing import filled

    every = (*statements(), *parts())
    found = [one.name for one in every if wanted in one.name.split() or _is_written(wanted, one)]
    return [filled("see HELP " + ", HELP ".join(found), width - 1)] if found else []


def two_columns(rows: list[tuple[str, str]], width: int) -> str:
    """Lay out words and their meanings side by side, `width` characters per line."""
    left = max(len(word) for word, _ in rows) + 4
    right = max(20, width - 1 - left)
    blocks = []
    for word, meaning in rows:
        first, *rest = textwrap.wrap(meaning, right) or [""]
        blocks += [f"  {word}".ljust(left) + first, *(" " * left + line for line in rest)]
    return "\n".join(blocks)
