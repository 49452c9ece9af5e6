"""What a user is told of a mistake, to the letter: mistakes.txt has what is typed (`> `) and what is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.lang.errors import LangError
from stqsh.lang.syntax.parse import parse

TRANSCRIPT = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
CASES = [block.split("\n", 1) for block in ("\n" + TRANSCRIPT).split("\n> ")[1:]]


def test_there_are_many() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize(("typed", "seen"), CASES, ids=[typed for typed, _ in CASES])
def test_a_mistake_is_explained(typed: str, seen: str) -> None:
    with pytest.raises(LangError) as caught:
        parse(typed)
    assert str(caught.value) == seen.rstrip("\n")
    assert caught.value.exit_code == 2


def test_file_line_and_column_are_those_of_the_file() -> None:
    script = "RUN;\n\nSELECT oid,\n\tlon\n\tFORM taxis;\n"
    with pytest.raises(LangError) as caught:
        parse(script, "demo.stq")
    assert str(caught.value).splitlines()[:3] == [
        "demo.stq:5:2: unexpected 'FORM'",
        "  \tFORM taxis;",
        "  \t^^^^",
    ]


def test_a_very_long_line_is_cut_around_its_fault() -> None:
    with pytest.raises(LangError) as caught:
        parse(f"SELECT {'oid, ' * 500} oid FORM taxis WHERE {'a = 1 AND ' * 500} b = 2")
    _, line, caret, *_ = str(caught.value).splitlines()
    assert len(line) < 130
    assert line[caret.index("^") :].startswith("FORM taxis")
