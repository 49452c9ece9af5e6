"""What may come next, for completion."""

from __future__ import annotations

import pytest

from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.expected import CATEGORIES, expected

WANTED = [
    ("", {"CREATE", "SELECT", "RUN", "SHOW", "HELP"}),
    ("RUN; ", {"CREATE", "SELECT"}),
    ("-- a comment\n", {"CREATE"}),
    ("RUN ", {"UNTIL", "FOR", "number", ";"}),
    ("CREATE ", {"MOVING", "EVENT", "TABLE"}),
    ("CREATE MOVING STREAM ", {"IF", "name"}),
    ("CREATE MOVING STREAM t (a ", {"type"}),
    ("CREATE MOVING STREAM t (a INT) KEY ", {"column"}),
    ("CREATE MOVING STREAM t FROM FILE 'f' ", {"TICK", "KEY", "REPORT", "FORMAT", ";"}),
    ("CREATE MOVING STREAM t FROM FILE 'f' FORMAT ", {"format"}),
    ("CREATE MOVING STREAM t FROM FILE 'f' TICK ", {"duration"}),
    ("CREATE EVENT STREAM t FROM FILE 'f' KEEP ", {"duration", "size", "NONE"}),
    ("CREATE MOVING STREAM t FROM FILE 'f' MAX SPEED ", {"speed"}),
    ("DROP STREAM ", {"stream", "IF"}),
    ("DROP QUERY IF EXISTS ", {"query"}),
    ("SELECT ", {"column", "function", "*", "DISTINCT", "NOW"}),
    ("SELECT a, ", {"column", "function"}),
    ("SELECT a ", {"FROM", "AS", ","}),
    ("SELECT * FROM ", {"relation"}),
    ("SELECT * FROM t ", {"WHERE", "INSIDE", "GROUP", ";"}),
    ("SELECT * FROM t WHERE ", {"column", "NOT"}),
    ("SELECT * FROM t WHERE a ", {"BETWEEN", "IS", "INSIDE", "AND", "="}),
    ("SELECT * FROM t INSIDE ", {"RECT", "CIRCLE", "POLYGON", "region", "("}),
    ("SELECT * FROM t INSIDE RECT(1, 2) ", {"AROUND"}),
    ("REGISTER QUERY ", {"name"}),
    ("REGISTER QUERY q ", {"AS", "FOR", "WITH", "SINCE"}),
    ("EXPLAIN ", {"SELECT", "ANALYZE", "QUERY", "query"}),
    ("EXPLAIN ANALYZE ", {"SELECT", "QUERY", "query"}),
    ("DROP TABLE ", {"table", "IF"}),
    ("DROP REGIONS ", {"region", "IF"}),
    ("SHOW QUERY ", {"query"}),
    ("TAIL ", {"query"}),
    ("TAIL q ", {"FROM", "ONLY", "WHERE", "LIMIT", "FORMAT"}),
    ("TAIL q WHERE ", {"column"}),
    ("PLAY ", {"stream"}),
    ("PLAY s AT ", {"MAX", "pace"}),
    ("PAUSE ", {"stream", "QUERY"}),
    ("SHOW ", {"STATUS", "DEAD", "QUERY"}),
    ("DESCRIBE ", {"object"}),
    ("SET ", {"setting"}),
    ("REPARTITION ", {"stream", "USING"}),
    ("REPARTITION USING ", {"strategy"}),
    ("HELP ", {"topic", ";"}),
    ("MAP t ", {"query", "TO", ",", ";"}),
]
NOTHING = ["SELECT * FROM t WHERE WHERE x ", "foo ", "SELECT 'open", "SELECT a /* open", "RUN RUN "]


@pytest.mark.parametrize(("text", "wanted"), WANTED)
def test_what_may_come_next(text: str, wanted: set[str]) -> None:
    found = expected(text)
    assert wanted <= found
    assert found <= CATEGORIES | KEYWORDS | frozenset("()[],.;*+-/%=<>") | {
        "<=",
        ">=",
        "<>",
        "!=",
        "=>",
        "||",
        "::",
    }


@pytest.mark.parametrize("text", NOTHING)
def test_nothing_may_follow_a_mistake(text: str) -> None:
    assert expected(text) == frozenset()


def test_only_what_fits_is_offered() -> None:
    assert expected("DROP STREAM IF EXISTS ") == {"stream"}
    assert expected("CREATE MOVING STREAM t FROM FILE ") == {"string"}
    assert expected("SELECT * FROM t WINDOW ") == {"duration"}
