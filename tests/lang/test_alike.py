"""Statements of one shape are read as the grammar reads them, errors included."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stqsh.lang.alike import FEWEST, AlikeDrop, AlikeRegister, parse_pieces, plain
from stqsh.lang.errors import LangError
from stqsh.lang.keywords import KEYWORDS
from stqsh.lang.parse import parse_piece
from stqsh.lang.printer import to_sql
from stqsh.lang.printing.values import number
from stqsh.lang.splitting import split

SHAPES = [
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE ({}, {}, {}, {})",
    "register query {}\n  AS SELECT * FROM m -- note 1\n WHERE x > 5 INSIDE RECT({},{} ,{}/*1*/,{})",
    "REGISTER QUERY {} FOR 5 min AS SELECT oid, DISTANCE FROM m INSIDE CIRCLE({}, {}, 2 km)",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE CIRCLE({}, {}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE CIRCLE({}, {}, {} m)",
    "REGISTER QUERY {} AS SELECT oid FROM m WHERE x < 3 NEAREST 5 TO ({}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m KNN (3, {}, {})",
    "REGISTER QUERY {} WITH (a => 2 s) AS SELECT oid k FROM m a, t b WHERE a.i = b.i INSIDE ({}, {}, {}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE ('M', 7, {}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE zones['{}']",
    "REGISTER QUERY {} AS SELECT oid FROM m WHERE x INSIDE ({}, {}, {}, {}) AND y > {}",
    "DROP QUERY {}",
    "DROP QUERY IF EXISTS {}",
    "DROP STREAM {}",
]
NUMBERS = st.one_of(
    st.floats(-1e3, 1e3).map(repr),
    st.integers(-200, 200).map(str),
    st.sampled_from(
        ["1.", ".5", "-.5", "+3", "- 3", "1e3", "1E-3", "1e999", "9" * 19, "9" * 20, "٣", "1m", "x", ""]
    ),
)
NAMES = st.one_of(
    st.from_regex(r"[a-zé_]\w{0,5}", fullmatch=True),
    st.sampled_from([*sorted(KEYWORDS), '"a name"', "1a", "", "a b", "-- c"]),
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Runs of statements of one shape, most of them sound, and here and there another number or name."""
    texts = []
    for shape in draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2)):
        holes = shape.count("{}") - 1
        odd = draw(st.integers(0, FEWEST + 8))
        for row in range(FEWEST + draw(st.integers(0, 6))):
            if row == odd:
                texts.append(shape.format(draw(NAMES), *[draw(NUMBERS) for _ in range(holes)]))
            else:
                texts.append(shape.format(f"q{row}", *[f"{row + hole}.{hole}" for hole in range(holes)]))
    return ";\n".join(texts)


def outcome(pieces: list, read: object) -> object:
    """What a way of reading gives: statements, or the text of its error."""
    try:
        return [plain(statement) for statement in read(pieces)]
    except LangError as error:
        return error.text()


@given(scripts())
@example("REGISTER QUERY q AS SELECT oid FROM m INSIDE (1, 2, 3, 4);" * (FEWEST + 2))
def test_statements_of_one_shape_are_what_the_grammar_makes_of_them(script: str) -> None:
    try:
        pieces = split(script, "many.stq")
    except LangError:
        return
    quick = outcome(pieces, parse_pieces)
    assert quick == outcome(pieces, lambda some: [parse_piece(piece) for piece in some])
    if isinstance(quick, str):
        return
    for one in parse_pieces(pieces):
        if not isinstance(one, AlikeRegister | AlikeDrop):
            continue
        read = plain(one)
        assert one.name == read.name and one.name.span == read.name.span and one.text == read.text
        if isinstance(one, AlikeRegister):
            told = [column[one.row] for column in one.run.numbers]
            words = one.run.words
            printed = "".join(w + number(v) for w, v in zip(words, told, strict=False)) + words[-1]
            assert printed == to_sql(read.select)


@pytest.mark.parametrize("shape", [0, 1, 2, 4, 5, 6, 7, 11, 12])
def test_the_usual_shapes_need_no_grammar(shape: int) -> None:
    holes = SHAPES[shape].count("{}") - 1
    script = ";".join(
        SHAPES[shape].format(f"q{row}", *map(float, range(row, row + holes))) for row in range(50)
    )
    statements = parse_pieces(split(script))
    assert all(isinstance(one, AlikeRegister | AlikeDrop) for one in statements)
    assert len({one.run for one in statements}) == 1


def test_a_statement_of_a_run_is_a_statement_like_others() -> None:
    script = ";".join(
        f"REGISTER QUERY q{row} FOR 5 min AS SELECT oid FROM m INSIDE ({row}, 2, 3, 4)" for row in range(50)
    )
    one = parse_pieces(split(script))[7]
    read = parse_piece(one.piece)
    assert one == read and read == one and hash(one) == hash(read) and repr(one) == repr(read)
    assert (one.format, one.duration, one.select, one.line) == (None, read.duration, read.select, 1)
