"""Many damaged statements: each ends in a statement or in an error of ours, within a second.

`STQSH_FUZZ=1000000 pytest -m slow tests/lang/test_fuzz_statements.py` tries as many as it says.
"""

from __future__ import annotations

import os
import random
import re
import time
from importlib.resources import files
from pathlib import Path

import pytest

from lang.test_fuzz import SIGNS, VALUES, answers
from stqsh.lang.binder.bind import Catalogue
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.parse import split

MANUAL = files("stqsh.docs").joinpath("language.md").read_text(encoding="utf-8")
EXAMPLES = [
    piece.text
    for text in (
        *re.findall(r"```sql\n(.*?)```", MANUAL, re.DOTALL),
        Path(__file__).with_name("statements.stq").read_text(encoding="utf-8"),
    )
    for piece in split(text)
]
WORDS = [
    *sorted(KEYWORDS),
    *SIGNS,
    *VALUES,
    "%",
    "||",
    "'",
    '"',
    "/*",
    ":x",
    "NULLS",
    "\x1b",
    "\u202e",
    "\ud800",
]
TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)


def cut(text: str, draw: random.Random) -> str:
    start = draw.randrange(len(text) + 1)
    return text[:start] + text[start + draw.randrange(12) :]


def replace_word(text: str, draw: random.Random) -> str:
    tokens = TOKEN.findall(text) or [""]
    tokens[draw.randrange(len(tokens))] = draw.choice(WORDS)
    return "".join(tokens)


def swap(text: str, draw: random.Random) -> str:
    tokens = TOKEN.findall(text)
    draw.shuffle(tokens) if draw.random() < 0.2 else tokens.reverse()
    return "".join(tokens)


def repeat(text: str, draw: random.Random) -> str:
    start = draw.randrange(len(text) + 1)
    end = start + draw.randrange(20)
    return text[:end] + text[start:end] * draw.choice((1, 2, 50)) + text[end:]


def splice(text: str, draw: random.Random) -> str:
    other = draw.choice(EXAMPLES)
    return text[: draw.randrange(len(text) + 1)] + other[draw.randrange(len(other) + 1) :]


def scatter(text: str, draw: random.Random) -> str:
    noise = draw.randbytes(draw.randrange(1, 9)).decode(draw.choice(("latin-1", "utf-16-le")), "replace")
    place = draw.randrange(len(text) + 1)
    return text[:place] + noise + text[place:]


def soup(text: str, draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randrange(1, 30)))


DAMAGES = (cut, replace_word, replace_word, swap, repeat, splice, scatter, soup)


def try_statements(count: int, taxis: Catalogue) -> None:
    draw = random.Random(14)
    for _ in range(count):
        text = draw.choice(EXAMPLES)
        for _ in range(draw.choice((1, 1, 2, 5))):
            text = draw.choice(DAMAGES)(text, draw)
        begin = time.process_time()
        try:
            answers(text, taxis)
        except Exception as error:
            raise AssertionError(f"{text!r} ends in {type(error).__name__}") from error
        assert time.process_time() - begin < 1, text


def test_some_damaged_statements(taxis: Catalogue) -> None:
    try_statements(2_000, taxis)


@pytest.mark.slow
@pytest.mark.timeout(0 if "STQSH_FUZZ" in os.environ else 300)
def test_many_damaged_statements(taxis: Catalogue) -> None:
    try_statements(int(os.environ.get("STQSH_FUZZ", "20000")), taxis)
