"""Statements survive parse, print and parse: those of statements.stq and of the manual, and unusual names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.docs.manual import sections
from stqsh.lang.ast import statements
from stqsh.lang.ast.source import Piece
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax import KEYWORDS
from stqsh.lang.syntax.parse import parse, parse_piece, split

PIECES = split(Path(__file__).with_name("statements.stq").read_text(encoding="utf-8"), "statements.stq")
EXAMPLES = [piece for section in sections("language") for piece in split(section.example)]
NAME_PLACES = [
    "SELECT {} FROM t",
    "SELECT a AS {}, t.{} FROM t WHERE {} > 5 AND x < {}",
    "SELECT a FROM {} ORDER BY {}, {} DESC",
    "SELECT a FROM t {} INSIDE {}",
    "CREATE MOVING STREAM {} ({} INT, b INT) KEY {} FROM FILE 'x'",
    "REGISTER QUERY {} AS SELECT a FROM t {}",
    "DROP STREAM {}",
    "DROP QUERY IF EXISTS {}",
    "PAUSE {}",
    "PLAY {} AT MAX",
    "TAIL {} WHERE {} IS NULL",
    "DESCRIBE {}",
    "EXPLAIN {}",
    "EXPLAIN ANALYZE {}",
    "WATCH {}, {}",
    "MAP {} {}, {}",
    "REPARTITION {} USING grid",
    "REBALANCE {}",
    "SET {} = {}",
    "CREATE REGION {} AS {}",
]


def test_there_are_many() -> None:
    assert len(PIECES) >= 150


@pytest.mark.parametrize(
    "piece", [*PIECES, *EXAMPLES], ids=[piece.text[:60] for piece in (*PIECES, *EXAMPLES)]
)
def test_a_statement_survives(piece: Piece) -> None:
    statement = parse_piece(piece)
    printed = to_sql(statement)
    assert parse(printed) == [statement]
    assert to_sql(parse(printed)[0]) == printed


def test_every_statement_of_the_tree_is_among_them() -> None:
    kinds = {
        cls
        for cls in vars(statements).values()
        if isinstance(cls, type) and issubclass(cls, statements.Statement)
    }
    assert {type(parse_piece(piece)) for piece in (*PIECES, *EXAMPLES)} == kinds - {statements.Statement}


def test_keywords_are_read_in_any_case() -> None:
    text = "select OID from taxis where not x is null inside rect(1, 2, 3, 4) order by x desc"
    upper = text.upper().replace("OID", "OID").replace("TAXIS", "taxis").replace(" X ", " x ")
    assert parse(text) == parse(upper)


@pytest.mark.parametrize("place", NAME_PLACES)
def test_a_quoted_keyword_is_a_name_everywhere(place: str) -> None:
    for keyword in sorted(KEYWORDS):
        [statement] = parse(place.replace("{}", f'"{keyword.lower()}"'))
        assert parse(to_sql(statement)) == [statement]


@pytest.mark.parametrize(
    "word", ["time", "status", "key", "format", "text", "name", "speed", "max", "from_x", "load", "stream"]
)
def test_usual_names_of_columns_take_no_quotes(word: str) -> None:
    [statement] = parse(f"SELECT {word}, t.{word} FROM t WHERE {word} = 5 AND {word} IS NULL")
    assert '"' not in to_sql(statement)


@given(st.text(min_size=1, max_size=12))
def test_any_text_can_be_a_quoted_name_and_a_string(text: str) -> None:
    quoted = text.replace('"', '""')
    string = text.replace("'", "''")
    [statement] = parse(f"SELECT \"{quoted}\" FROM t WHERE a = '{string}'")
    assert isinstance(statement, statements.Select)
    assert statement.items[0].expression.name == text  # type: ignore[attr-defined]
    assert statement.where.right.value == text  # type: ignore[union-attr]
    assert parse(to_sql(statement)) == [statement]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63) + 1, 2**63 - 1))
def test_numbers_survive(decimal: float, whole: int) -> None:
    [statement] = parse(
        f"SELECT * FROM t WHERE a IN ({decimal!r}, {whole}) INSIDE (1, 2, {decimal!r}, {whole})"
    )
    assert statement.region.x2 == decimal  # type: ignore[attr-defined]
    assert parse(to_sql(statement)) == [statement]
