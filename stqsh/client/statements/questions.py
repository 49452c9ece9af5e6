"""Answer questions in plain words from the manual: find the passage with the most of their words."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from stqsh.client.statements.help import page
from stqsh.docs import document
from stqsh.docs.manual import Section, heading, sections

_DOCUMENTS = ("language", "shell", "operations", "cluster", "kafka", "python")
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
_IN_TITLE, _IN_DOCUMENT, _IN_REST = 4.0, 0.6, 0.4
"""The weights of a word in a title, in a section without syntax, and in the details of a statement."""
_LONG = 40.0
_MOST_LINES = 30
_ENDINGS = (("ies", "y"), ("ering", ""), ("ered", ""), ("ing", ""), ("ed", ""), ("er", ""), ("s", ""))
_SHORT = 2
"""A stem has more than this many letters."""
_OTHERS = 3


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of the manual that may answer a question: a section, or a term of the glossary.

    Attributes:
        topic: the topic of HELP that shows it.
        text: its text, as Markdown.
        words: the weights of the words in it.
    """

    topic: str
    text: str
    words: dict[str, float]


def answer_question(question: str, width: int = 100, *, coloured: bool = False) -> str:
    """Return the passage of the manual that best answers a question, and pointers to others.

    >>> answer_question("how do I find the nearest taxis?")[:38]
    'NEAREST: Selects the k nearest objects'
    """
    from stqsh.docs.drawing import drawn  # rich, which is slow

    best = [passage for _, passage in _ranked(question)[: _OTHERS + 1]]
    if not best:
        return "The manual has nothing on that. HELP; lists the statements, HELP shell; is about the prompt."
    lines = drawn(best[0].text, width - 1, coloured=coloured, named=heading).splitlines()
    rest = [f"… HELP {best[0].topic}; goes on"] if len(lines) > _MOST_LINES else []
    topics = dict.fromkeys(passage.topic for passage in best[1:] if passage.topic != best[0].topic)
    more = [f"\nSee also: {'; '.join(f'HELP {topic}' for topic in topics)};"] if topics else []
    return "\n".join((*lines[:_MOST_LINES], *rest, *more))


def _ranked(question: str) -> list[tuple[float, Passage]]:
    """Return the passages that contain words of a question, the best first."""
    asked = dict.fromkeys(_words(question))
    passages = _passages()
    rarity = {
        word: math.log(len(passages) / count)
        for word in asked
        if (count := sum(word in passage.words for passage in passages))
    }
    found = [(_score(passage, rarity), passage) for passage in passages]
    return sorted((pair for pair in found if pair[0] > 0), key=lambda pair: -pair[0])


def _score(passage: Passage, rarity: dict[str, float]) -> float:
    """Return how well a passage matches words, weighted by rarity; passages with most of the words win."""
    # The share of the question's words, times the summed weights (as in tf-idf).
    there = [word for word in rarity if word in passage.words]
    share = sum(rarity[word] for word in there) / (sum(rarity.values()) or 1.0)
    return share * sum(rarity[word] * passage.words[word] for word in there)


@cache
def _passages() -> tuple[Passage, ...]:
    """Return the sections of the documents, those that HELP explains first, and the terms of the glossary."""
    every = [section for topic in _DOCUMENTS for section in sections(topic)]
    found = [Passage(one.name, page(one), _words_of(one)) for one in every]
    terms = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", document("glossary"))
    weighted = ({word: w * _IN_DOCUMENT for word, w in _weights(*term).items()} for term in terms)
    glossary = zip(terms, weighted, strict=True)
    return (*found, *(Passage("glossary", f"**{term}**: {text}", words) for (term, text), words in glossary))


def _words_of(section: Section) -> dict[str, float]:
    """Return the weights of a section's words; those of its meaning and its syntax count most."""
    gist = f"{section.meaning} {section.meaning} {section.syntax}"
    if not section.syntax:
        gist = f"{section.meaning} {' '.join(section.rest)}"
        return {word: w * _IN_DOCUMENT for word, w in _weights(section.name, gist).items()}
    rest = {word: w * _IN_REST for word, w in _weights("", " ".join(section.rest)).items()}
    return {**rest, **_weights(section.name, gist)}


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
