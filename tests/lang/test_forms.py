"""Statements that are alike but for a name and the numbers of a region are what the parser says they are."""

from __future__ import annotations

import pytest

from lang.test_building import in_full
from stqsh.lang.ast.source import Piece, Source
from stqsh.lang.errors import StatementSyntaxError
from stqsh.lang.syntax.forms import Alike, alike_of
from stqsh.lang.syntax.parse import parse, parse_whole

FORMS = (
    "SELECT oid FROM m INSIDE ({}, {}, {}, {})",
    "SELECT oid, speed + 3 FROM m INSIDE RECT({},{},{},{}) LIMIT 7",
    "SELECT oid FROM m WHERE speed > -4 AND loc INSIDE CIRCLE({}, {}, {}) AND oid <> 'x 1.5'",
    "SELECT oid FROM m INSIDE CIRCLE({}, {}, 300 m)",
    "SELECT oid FROM m NEAREST 3 TO ({}, {})",
)
NUMBERS = ("1", "-2.5", "0", "-0", ".5", "3.", "1e-7", "-2E+3", "123456789012345678", "7.25")


def registered(form: str, name: str, start: int) -> str:
    numbers = [NUMBERS[(start + place) % len(NUMBERS)] for place in range(form.count("{}"))]
    return f"REGISTER QUERY {name} AS {form.format(*numbers)}"


@pytest.mark.parametrize("form", FORMS)
def test_a_statement_of_a_form_is_the_one_that_is_parsed_word_by_word(form: str) -> None:
    texts = [registered(form, f"of_{start}", start) for start in range(len(NUMBERS))]
    first, *others = parse(";\n".join(texts))
    for read in (first, *others):
        whole = parse_whole(read.piece)
        assert read == whole and list(in_full(read)) == list(in_full(whole))
    assert all(alike_of(read) is not None for read in others)  # type: ignore[arg-type]


def test_a_focal_object_may_differ_by_its_key() -> None:
    keys = ("'a'", "'it''s; -- 1.5'", "''", "7", "-8", "'b'")
    texts = [
        f"REGISTER QUERY q{at} AS SELECT oid FROM m INSIDE CIRCLE(2 km) AROUND {key}"
        for at, key in enumerate(keys)
    ]
    read = parse(";\n".join(texts))
    for one in read:
        whole = parse_whole(one.piece)
        assert one == whole and list(in_full(one)) == list(in_full(whole))
    alike = [alike_of(one) for one in read]  # type: ignore[arg-type]
    assert [None if one is None else one.values for one in alike] == [
        *(None, ("it's; -- 1.5",), ("",)),
        *(None, (-8,)),  # a number is of another form than a text
        None,  # the form of whole numbers replaced that of texts
    ]


def test_a_form_has_the_numbers_of_its_region_only() -> None:
    text = "REGISTER QUERY {} AS SELECT oid FROM m WHERE speed > {} INSIDE (-1, {}, 3, 4);"
    statements = parse("".join(text.format(*given) for given in [("a", 5, 2), ("b", 5, 2.5), ("c", 6, 2)]))
    alike = [alike_of(one) for one in statements]  # type: ignore[arg-type]
    assert isinstance(alike[1], Alike) and alike[1].values == (-1, 2.5, 3, 4)
    assert alike[2] is None, "another condition is another form"
    assert alike[1].form.with_parameters() == (
        "REGISTER QUERIES AS SELECT oid FROM m WHERE speed > 5 INSIDE (:c0, :c1, :c2, :c3)"
    )


@pytest.mark.parametrize("number", ["1e999", "12345678901234567890", "1.2.3", "5x", "'5'", "- 5"])
def test_a_number_that_only_the_parser_can_judge_is_left_to_it(number: str) -> None:
    text = "REGISTER QUERY q AS SELECT oid FROM m INSIDE ({}, 0, 1, 1)"
    parse(text.format(-7))
    given = text.format(number)
    try:
        expected = parse_whole(Piece(Source(given), 0, given))
    except StatementSyntaxError as error:
        with pytest.raises(StatementSyntaxError) as found:
            parse(given)
        assert found.value.message == error.message
    else:
        assert parse(given) == [expected]


@pytest.mark.parametrize("name", ["select", "where", "IF", "x" * 256])
def test_a_word_that_is_no_name_is_none_in_a_form_either(name: str) -> None:
    for text in ("REGISTER QUERY {} AS SELECT oid FROM m INSIDE (0, 0, 1, 1)", "DROP QUERY {}"):
        parse(text.format("q"))
        given = text.format(name)
        try:
            [read] = parse(given)
        except StatementSyntaxError:
            continue
        assert list(in_full(read)) == list(in_full(parse_whole(read.piece)))


def test_a_drop_of_one_query_is_like_every_other() -> None:
    for read in parse("DROP QUERY a; DROP QUERY bcd;   DROP QUERY e, f; DROP QUERY IF EXISTS g"):
        whole = parse_whole(read.piece)
        assert read == whole and list(in_full(read)) == list(in_full(whole))
