"""Read the manual: the sections of the documents, and what HELP and completion take from them.

A section begins with a heading. Its first paragraph says what it is about. The first `text` block is the
syntax, the first `sql` block an example, and a paragraph that begins with "Cost:" says what the statement
costs. A section of language.md whose heading is in capitals and begins its own syntax describes the statement
of that name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stqsh.docs import TOPICS, document

_FENCE = "```"
_HEADING = re.compile(r"#{1,6} ")
_COST = "Cost: "
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a document.

    Attributes:
        name: Its heading.
        topic: The topic of its document.
        meaning: Its first paragraph, as Markdown; "" if it begins with something else.
        syntax: The first block of syntax, "" for none.
        example: The statements of the first example, "" for none.
        cost: What it says about cost, "" for nothing.
        rest: The other blocks, as Markdown, in their order.
    """

    name: str
    topic: str
    meaning: str
    syntax: str
    example: str
    cost: str
    rest: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The first sentence of its meaning, in plain text."""
        return re.sub(":$", ".", plain_text(_SENTENCE.split(self.meaning, maxsplit=1)[0]))

    @property
    def is_statement(self) -> bool:
        """Whether it describes the statement of its name; the syntax of a part begins with `…`."""
        return self.topic == "language" and self.name.isupper() and self.syntax.startswith(self.name)


@cache
def sections(topic: str) -> tuple[Section, ...]:
    """Return the sections of a document that have a text, in order; its title is none of them.

    >>> [one.name for one in sections("language") if "PAUSE" in one.name]
    ['PAUSE', 'PAUSE QUERY']
    """
    found: list[Section] = []
    name, blocks = "", list[str]()
    for block in (*_blocks(document(topic)), "## "):
        if _HEADING.match(block):
            if blocks and name:
                found.append(_section(name, topic, blocks))
            name = "" if block.startswith("# ") else block.lstrip("#").strip()
            blocks = []
        else:
            blocks.append(block)
    return tuple(found)


@cache
def statements() -> tuple[Section, ...]:
    """Return the sections of statements, in the order of the manual."""
    return tuple(one for one in sections("language") if one.is_statement)


@cache
def parts() -> tuple[Section, ...]:
    """Return the sections of language.md about parts of statements, or about what several have in common."""
    return tuple(one for one in sections("language") if not one.is_statement)


@cache
def other_sections() -> tuple[Section, ...]:
    """Return the sections of the other documents, except those of the changelog."""
    topics = (topic for topic in TOPICS if topic not in ("language", "changelog"))
    return tuple(section for topic in topics for section in sections(topic))


def heading(anchor: str) -> str:
    """Return the heading that an anchor leads to, or the anchor itself.

    >>> heading("objects-with-an-extent")
    'Objects with an extent'
    """
    return _headings().get(anchor, anchor)


@cache
def _headings() -> dict[str, str]:
    names = [one.name for one in (*sections("language"), *other_sections())]
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-"): name for name in reversed(names)}


def section_named(name: str) -> Section:
    """Return the section of language.md with this name.

    Raises:
        KeyError: there is none.
    """
    for section in sections("language"):
        if section.name == name:
            return section
    raise KeyError(name)


def table(section: Section, first: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a section's table whose first column has this title, cell by cell.

    Raises:
        KeyError: there is no such table.

    >>> table(section_named("Words"), "word")[0][0]
    '`AFTER`'
    """
    for block in section.rest:
        title, *rows = block.splitlines()
        if title.startswith(f"| {first} |"):
            return tuple(_cells(row) for row in rows[1:])
    raise KeyError(f"{section.name}: {first}")


@cache
def options() -> dict[str, dict[str, str]]:
    """Return the name and meaning of each option, by owner: WITH, SELECT, a format, or GENERATOR.

    >>> sorted(options()["JSON"])
    ['crs', 'geometry', 'timestamp', 'zone']
    """
    of_queries, of_generators = _pairs("WITH"), _pairs("Generator")
    found = {"SELECT": {"error": of_queries["error"]}, "WITH": of_queries, "GENERATOR": of_generators}
    formats = [
        name
        for row in table(section_named("Sources"), "format")
        for name in re.findall(r"`([A-Z]+)`", row[0])
    ]
    for name, owners, meaning in table(section_named("Sources"), "option"):
        for owner in re.findall(r"`([A-Z]+)`", owners) or formats:
            found.setdefault(owner, {})[plain_text(name)] = plain_text(meaning)
    return found


def _pairs(section: str) -> dict[str, str]:
    """Return the options of a section's table, with their meanings."""
    return {
        plain_text(name): plain_text(meaning) for name, meaning in table(section_named(section), "option")
    }


def plain_text(text: str) -> str:
    """Return the text of a paragraph without marks, on one line.

    >>> plain_text("A **moving** region, see [regions](#inside), of\\n`CIRCLE`.")
    'A moving region, see regions, of CIRCLE.'
    """
    without = _LINK.sub(r"\1", text).replace("`", "")
    without = re.sub(r"\*(\*?)(\w[^*]*)\*\1", r"\2", without)
    return " ".join(without.replace("\\|", "|").split())


def _cells(row: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|")))


def _blocks(text: str) -> list[str]:
    """Return the blocks of a text that blank lines separate; a fenced block is one, whatever is in it."""
    blocks: list[str] = []
    lines: list[str] = []
    is_fenced = False
    for line in (*text.splitlines(), ""):
        is_edge = line.startswith(_FENCE)
        if not is_fenced and (not line.strip() or is_edge or _HEADING.match(line)) and lines:
            blocks.append("\n".join(lines))
            lines = []
        if line.strip() or is_fenced:
            lines.append(line)
        if is_edge:
            is_fenced = not is_fenced
        if lines and not is_fenced and (is_edge or _HEADING.match(line)):
            blocks.append("\n".join(lines))
            lines = []
    return blocks


def _section(name: str, topic: str, blocks: list[str]) -> Section:
    rest = list(blocks)
    paragraph = rest.pop(0) if not rest[0].startswith((_FENCE, "|", "- ")) else ""
    syntax, example = _taken(rest, "text"), _taken(rest, "sql")
    cost = next((one for one in rest if one.startswith(_COST)), "")
    rest = [one for one in rest if one != cost]
    return Section(name, topic, paragraph, syntax, example, cost.removeprefix(_COST), tuple(rest))


def _taken(blocks: list[str], language: str) -> str:
    """Remove the first fenced block of a language from blocks, and return its content; "" for none."""
    for position, block in enumerate(blocks):
        first, *lines = block.splitlines()
        if first.split()[:1] == [f"{_FENCE}{language}"]:
            del blocks[position]
            return "\n".join(lines[:-1])
    return ""
