"""Answer questions in plain words from the manual: find the section with the most of their words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from stqsh.client.statements.help import help_text
from stqsh.docs import document
from stqsh.lang.reference import ALL

_DOCUMENTS = ("language", "shell", "operations", "cluster", "kafka", "python", "glossary")
"""The documents in which answers are searched."""
_STOP = frozenset(
    re.findall(
        r"\w+",
        """a about all an and any are as at be but by can could did do does for from get give had has have how
        i if in into is it its make me mean means my not of on one or show should so some something that the
        them there they this to use want was were what when where which while who why will with would you
        your""",
    )
)
_SAME = {
    "notify": "alert", "notified": "alert", "notification": "alert", "told": "alert", "warn": "alert",
    "closest": "nearest", "near": "nearest", "neighbour": "nearest", "neighbours": "nearest",
    "save": "output", "export": "output", "delete": "drop", "remove": "drop", "faster": "pace",
    "slower": "pace", "speed": "pace", "zone": "region", "area": "region", "polygon": "region",
    "bad": "dead", "invalid": "dead", "quit": "leave", "exit": "leave", "csv": "format", "json": "format",
    "geojson": "format", "moves": "moving", "forget": "keep", "expire": "keep",
}  # fmt: skip
"""Synonyms: users' words, and the manual's words for them."""
_IN_TITLE, _IN_DOCUMENT = 4.0, 0.6
"""The weight of a word in a title, and that of a word in a document relative to the reference."""
_LONG = 40.0
_MOST_LINES = 30
_ENDINGS = (("ies", "y"), ("ering", ""), ("ered", ""), ("ing", ""), ("ed", ""), ("er", ""), ("s", ""))
_SHORT = 2
"""A stem has more than this many letters."""
_OTHERS = 3


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the manual.

    Attributes:
        topic: the topic of HELP that shows it, or the document that contains it.
        title: its title.
        text: its text; "" for an entry of the reference, which HELP formats.
        words: the weights of the words in it.
    """

    topic: str
    title: str
    text: str
    words: dict[str, float]


def answer_question(question: str, width: int = 100) -> str:
    """Return the section of the manual that best answers a question, and pointers to others.

    >>> answer_question("how do I find the nearest taxis?").splitlines()[0]
    'Nearest neighbours'
    """
    best = [section for _, section in _ranked(question)[: _OTHERS + 1]]
    if not best:
        return "The manual has nothing on that. HELP; lists the statements, HELP shell; is about the prompt."
    topics = dict.fromkeys(section.topic for section in best[1:] if section.topic != best[0].topic)
    more = "; ".join(f"HELP {topic}" for topic in topics)
    return "\n\n".join(filter(None, [_shown(best[0], width), more and f"See also: {more};"]))


def _shown(section: Section, width: int) -> str:
    if not section.text:
        return help_text(section.topic, width)
    lines = section.text.strip().splitlines()
    rest = [f"… HELP {section.topic}; goes on"] if len(lines) > _MOST_LINES else []
    return "\n".join([section.title, "", *lines[:_MOST_LINES], *rest])


def _ranked(question: str) -> list[tuple[float, Section]]:
    """Return the sections that contain words of a question, the best first."""
    asked = dict.fromkeys(_words(question))
    sections = _sections()
    rarity = {
        word: math.log(len(sections) / count)
        for word in asked
        if (count := sum(word in section.words for section in sections))
    }
    found = [(_score(section, rarity), section) for section in sections]
    return sorted((pair for pair in found if pair[0] > 0), key=lambda pair: -pair[0])


def _score(section: Section, rarity: dict[str, float]) -> float:
    """Return how well a section matches words, weighted by rarity; sections with most of the words win."""
    # The share of the question's words, times the summed weights (as in tf-idf).
    there = [word for word in rarity if word in section.words]
    share = sum(rarity[word] for word in there) / (sum(rarity.values()) or 1.0)
    return share * sum(rarity[word] * section.words[word] for word in there)


@cache
def _sections() -> tuple[Section, ...]:
    reference = (
        Section(one.name, one.name, "", _weights(one.name, f"{one.help} {one.help} {one.more} {one.syntax}"))
        for one in ALL
    )
    return (*reference, *(section for topic in _DOCUMENTS for section in _of_document(topic)))


def _of_document(topic: str) -> Iterator[Section]:
    """Yield the sections of a document that have a heading and a text, and the terms of the glossary."""
    whole = document(topic)
    parts = re.split(r"(?m)^#{2,3} (.*)$", whole)
    terms = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", whole) if topic == "glossary" else []
    for title, text in [*zip(parts[1::2], parts[2::2], strict=True), *terms]:
        if text.strip():
            words = {word: weight * _IN_DOCUMENT for word, weight in _weights(title, text).items()}
            yield Section(topic, title, text, words)


def _weights(title: str, text: str) -> dict[str, float]:
    """Return the weight of each word; repetitions, and words of a long text, weigh less."""
    counts = Counter(_words(text))
    length = 1 + math.log1p(sum(counts.values()) / _LONG)
    weights = {word: (1 + math.log(count)) / length for word, count in counts.items()}
    for word in dict.fromkeys(_words(title)):
        weights[word] = weights.get(word, 0.0) + _IN_TITLE / (1 + math.log(len(_words(title))))
    return weights


def _words(text: str) -> list[str]:
    """Return the stems of a text's words, without stop words.

    >>> _words("How do I drop queries that were registered?")
    ['drop', 'query', 'regist']
    """
    plain = text.lower().replace("set aside", "dead letter")
    found = (word for word in re.findall(r"[a-z]+", plain) if word not in _STOP and len(word) > 1)
    return [_stem(_SAME.get(word, word)) for word in found]


def _stem(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > _SHORT:
            return word.removesuffix(ending) + instead
    return word
