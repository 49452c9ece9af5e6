"""Cutting scripts into statements, and knowing when one is complete."""

from __future__ import annotations

import pytest

from stqsh.lang.errors import LangError
from stqsh.lang.syntax.parse import parse
from stqsh.lang.syntax.split import is_complete, split

CUT = [
    ("", []),
    (" \n ", []),
    (";;", []),
    ("-- only a comment", []),
    ("/* only; a comment */;", []),
    ("RUN", ["RUN"]),
    ("RUN;", ["RUN"]),
    ("RUN; DUMP;", ["RUN", "DUMP"]),
    ("a ';' b; c", ["a ';' b", "c"]),
    ("a 'it''s;' b; c", ["a 'it''s;' b", "c"]),
    ('a ";" b; c', ['a ";" b', "c"]),
    ("a -- ; '\n b; c", ["a -- ; '\n b", "c"]),
    ("a /* ; ' \" */ b; c", ["a /* ; ' \" */ b", "c"]),
    ("-- first\n/* and */ RUN ;\n-- last\n", ["RUN"]),
    ("a '--' ; b", ["a '--'", "b"]),
]
COMPLETE = ["RUN;", "RUN ;  ", "RUN; -- done", "RUN; /* done */ \n", "a; b;", "x '';", ";"]
INCOMPLETE = [
    "",
    "  ",
    "RUN",
    "RUN; D",
    "x ';",
    "x ';'",
    'x ";',
    "x /* ;",
    "x -- ;",
    "-- ;",
    "RUN; -- done\n x",
]


@pytest.mark.parametrize(("text", "pieces"), CUT)
def test_statements_end_at_semicolons_outside_quotes_and_comments(text: str, pieces: list[str]) -> None:
    assert [piece.text for piece in split(text)] == pieces


@pytest.mark.parametrize("text", COMPLETE)
def test_complete(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", INCOMPLETE)
def test_incomplete(text: str) -> None:
    assert not is_complete(text)


def test_statements_know_their_place_and_text() -> None:
    statements = parse("RUN;\n  -- then\n  SHOW\n STATUS; DUMP;", "x.stq")
    assert [(s.line, s.column, s.text) for s in statements] == [
        (1, 1, "RUN"),
        (3, 3, "SHOW\n STATUS"),
        (4, 10, "DUMP"),
    ]


def test_an_unclosed_string_is_told_with_its_place() -> None:
    with pytest.raises(LangError, match=r"x\.stq:2:10: this string has no closing quote"):
        split("RUN;\nSELECT a 'b;\nRUN;", "x.stq")
