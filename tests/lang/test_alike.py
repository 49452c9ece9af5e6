"""Statements of one shape are read as the grammar reads them, errors included."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stqsh.lang.bulk_parse import FEWEST, AlikeDrop, AlikeRegister, parse_pieces, plain
from stqsh.lang.errors import LangError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.printer.values import number
from stqsh.lang.statement_shapes import shape_of
from stqsh.lang.syntax.keywords import KEYWORDS
from stqsh.lang.syntax.parse import parse_piece
from stqsh.lang.syntax.split import split

SHAPES = [
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE ({}, {}, {}, {})",
    "register query {}\n  AS SELECT * FROM m -- note 1\n WHERE x > 5 INSIDE RECT({},{} ,{}/*1*/,{})",
    "REGISTER QUERY {} FOR 5 min AS SELECT oid, DISTANCE FROM m INSIDE CIRCLE({}, {}, 2 km)",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE CIRCLE({}, {}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE CIRCLE({}, {}, {} m)",
    "REGISTER QUERY {} AS SELECT oid FROM m WHERE x < 3 NEAREST 5 TO ({}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m KNN (3, {}, {})",
    "REGISTER QUERY {} WITH (a => 2 s) AS SELECT oid k FROM m a, t b WHERE a.i = b.i INSIDE ({}, {}, {}, {})",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE RECT(0.25, 2 km) AROUND '{}'",
    "REGISTER QUERY {} AS SELECT oid, DISTANCE FROM m WHERE x < 7 INSIDE CIRCLE({} m) AROUND {}",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE ('M', '{}', {} m, {} m)",
    "REGISTER QUERY {} AS SELECT oid FROM m INSIDE RECT({} m,{}) AROUND '{}'",
    "REGISTER QUERY {} AS SELECT oid FROM m WHERE oid <> 'a''b' NEAREST 5 TO '{}'",
    "REGISTER QUERY {} AS SELECT oid FROM m KNN ('M', 3, {})",
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
        [
            "1.",
            ".5",
            "-.5",
            "+3",
            "- 3",
            "1e3",
            "1E-3",
            "1e999",
            "9" * 19,
            "9" * 20,
            "٣",
            "1m",
            "x",
            "",
            "it''s",
            "it's",
            "a b",
            "007",
            "-- c",
            "a key of no other",
            "810002300000000018",
        ]
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
            told = [number(column[one.row]) for column in one.run.numbers]
            told += [key[one.row].replace("'", "''") for key in [one.run.keys] if key]
            words = one.run.shape.words
            printed = "".join(w + v for w, v in zip(words, told, strict=False)) + words[-1]
            assert printed == to_sql(read.select)


USUAL = (0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12, SHAPES.index("DROP QUERY {}"))


@pytest.mark.parametrize("shape", [SHAPES[row] for row in USUAL])
def test_the_usual_shapes_need_no_grammar(shape: str) -> None:
    holes = shape.count("{}") - 1
    script = ";".join(
        shape.format(f"q{row}", *(f"{row + hole}.5" for hole in range(holes))) for row in range(50)
    )
    statements = parse_pieces(split(script))
    assert all(isinstance(one, AlikeRegister | AlikeDrop) for one in statements)
    assert len({one.run for one in statements}) == 1


@pytest.mark.parametrize("place", ["CIRCLE(2 km) AROUND {}", "RECT(200 m, 0.5) AROUND '{}'"])
@pytest.mark.parametrize("key", ["{}", "a{}", "anna", "it''s {}"])
def test_what_moves_may_go_with_any_object(place: str, key: str) -> None:
    if "'" not in place and key != "{}":
        return
    texts = [place.format(key.format(row)) for row in range(30)]
    script = ";".join(
        f"REGISTER QUERY q{row} AS SELECT oid FROM m INSIDE {text}" for row, text in enumerate(texts)
    )
    run = {one.run for one in parse_pieces(split(script))}.pop()
    assert [*run.keys] == [key.format(row).replace("''", "'") for row in range(30)]


def test_a_look_that_makes_no_run_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(
        "stqsh.lang.bulk_parse.shape_of", lambda piece: tried.append(piece) or shape_of(piece)
    )
    script = ";".join(
        f"REGISTER QUERY q{row} AS SELECT oid FROM m WHERE n > {row} INSIDE (1, 2, 3, 4)" for row in range(50)
    )
    assert parse_pieces(split(script)) == [parse_piece(piece) for piece in split(script)]
    assert len(tried) == 1


def test_a_statement_of_a_run_is_a_statement_like_others() -> None:
    script = ";".join(
        f"REGISTER QUERY q{row} FOR 5 min AS SELECT oid FROM m INSIDE ({row}, 2, 3, 4)" for row in range(50)
    )
    one = parse_pieces(split(script))[7]
    read = parse_piece(one.piece)
    assert one == read and read == one and hash(one) == hash(read) and repr(one) == repr(read)
    assert (one.format, one.duration, one.select, one.line) == (None, read.duration, read.select, 1)
