"""Limits of what is typed: long statements and names, and control characters in errors."""

from __future__ import annotations

import time

import pytest

from stqsh.errors import SourceError
from stqsh.lang.errors import StatementSyntaxError
from stqsh.lang.syntax.expected import expected
from stqsh.lang.syntax.parse import parse
from stqsh.lang.syntax.split import MOST_CHARACTERS, is_complete
from stqsh.shell.scripting.scripts import read_scripts

MEGABYTE = 1_000_000
LONG = {
    "condition": "SELECT * FROM t WHERE a=1" + " OR a=1" * (MEGABYTE // 7),
    "sum": "SELECT * FROM t WHERE a=1" + "+1" * (MEGABYTE // 2),
    "list": "SELECT " + "a," * (MEGABYTE // 2) + "a FROM t",
    "parentheses": "SELECT * FROM t WHERE " + "(" * MEGABYTE + "a=1" + ")" * MEGABYTE,
    "polygon": "CREATE REGION r AS POLYGON ((" + "1 2," * (MEGABYTE // 4) + "1 2))",
    "name": "SELECT " + "a" * 10 * MEGABYTE + " FROM t",
    "string": "SELECT '" + "a" * 10 * MEGABYTE + "' FROM t",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_statement_that_is_too_long_is_told_at_once(text: str) -> None:
    begin = time.process_time()
    with pytest.raises(StatementSyntaxError) as caught:
        parse(f"RUN; {text};")
    assert time.process_time() - begin < 1
    assert caught.value.message == f"a statement has at most 100,000 characters, and this one {len(text):,}"
    assert len(str(caught.value)) < 400
    assert expected(f"RUN; {text}") == frozenset()


@pytest.mark.parametrize("around", ["({})", "NOT {}", "- {}", "f({})"])
def test_deep_nesting_is_told(around: str) -> None:
    depth = MOST_CHARACTERS // 20
    opening, closing = around.split("{}")
    with pytest.raises(StatementSyntaxError, match="nested too deeply"):
        parse(f"SELECT {opening * depth}a{closing * depth} FROM t;")


def test_a_long_name_is_told_without_being_repeated() -> None:
    parse(f"DROP STREAM {'a' * 255};")
    with pytest.raises(StatementSyntaxError, match="a name has at most 255 characters") as caught:
        parse(f"DROP STREAM {'a' * 50_000};")
    assert len(str(caught.value)) < 400


def test_a_message_that_quotes_much_is_cut() -> None:
    assert len(str(SourceError(f"no file matches {'a' * MEGABYTE}", hint="b" * MEGABYTE))) < 2100


def test_errors_show_control_characters_and_point_at_the_right_place() -> None:
    with pytest.raises(StatementSyntaxError) as caught:
        parse("SELECT '\x1b]0;title\x07\u202e' FORM t;", "s\x1b.stq")
    _, line, caret, *_ = str(caught.value).split("\n")
    assert not any(character in str(caught.value) for character in "\x1b\x07\u202e")
    assert line == r"  SELECT '\x1b]0;title\x07\u202e' FORM t;"
    assert line[caret.index("^") :].startswith("FORM") or line[caret.index("^") :].startswith("t")


@pytest.mark.timeout(10)
@pytest.mark.parametrize("blanks", [" " * 200, "\n" * 200, " -- x\n" * 200, "/* x */ " * 200])
def test_blanks_before_an_unfinished_statement_take_no_time(blanks: str) -> None:
    assert not is_complete(f"RUN;{blanks}RUN")
    assert is_complete(f"RUN;{blanks}")
    steps = read_scripts(
        [(f"RUN;{blanks}\n\\timing on\nREGISTER{blanks}QUERY q AS SELECT a FROM t;{blanks}", "a")], {}
    )
    assert len(steps) == 3
