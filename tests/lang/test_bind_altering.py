"""ALTER QUERY, from text to the spec in its new form, and what is wrong with others."""

from __future__ import annotations

from dataclasses import replace as with_fields

import pytest
from msgspec.structs import replace

from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.syntax.parse import parse
from stqsh.spec.query import QuerySpec, with_members
from stqsh.spec.region import CircleSpec, MovingRectangleSpec, NearestSpec, RectangleSpec

_QUERIES = {
    "near": "SELECT oid FROM taxis INSIDE CIRCLE(1, 2, 300) WHERE status = 'free'",
    "within": "SELECT oid FROM taxis WHERE loc INSIDE RECT(1, 2, 3, 4) AND speed > 3",
    "far": "SELECT oid, DISTANCE AS d FROM taxis INSIDE CIRCLE(1, 2, 300)",
    "nearest": "SELECT oid FROM taxis NEAREST 3 TO (1, 2)",
    "everywhere": "SELECT oid FROM taxis WHERE speed > 3",
    "among": "SELECT oid FROM taxis WHERE loc INSIDE RECT(1, 2, 3, 4) AND speed > 3 NEAREST 3 TO (1, 2)",
    "changing": "SELECT oid, DISTANCE AS d FROM taxis INSIDE CIRCLE(1, 2, 300)",
}


@pytest.fixture(name="catalogue")
def catalogue_with_queries(taxis: Catalogue) -> Catalogue:
    queries = {}
    for number, (name, text) in enumerate(_QUERIES.items(), start=100):
        changes = "WITH (changes => true)" if name == "changing" else ""
        [statement] = parse(f"REGISTER QUERY {name} FOR 3 min {changes} AS {text}")
        queries[name] = replace(bind(statement, taxis).spec, id=number)
    return with_fields(taxis, queries=queries)


def altered(text: str, catalogue: Catalogue) -> QuerySpec:
    [statement] = parse(text)
    bound = bind(statement, catalogue)
    assert bound.kind == "alter_query"
    assert isinstance(bound.spec, QuerySpec)
    return bound.spec


@pytest.mark.parametrize(
    ("text", "region", "select"),
    [
        (
            "ALTER QUERY near INSIDE RECT(0, 0, 9, 9)",
            RectangleSpec(0, 0, 9, 9),
            "SELECT oid FROM taxis WHERE status = 'free' INSIDE RECT(0, 0, 9, 9)",
        ),
        (
            "ALTER QUERY near INSIDE RECT(5 m, 6 m) AROUND 'a'",
            MovingRectangleSpec("a", 5, 6),
            "SELECT oid FROM taxis WHERE status = 'free' INSIDE RECT(5 m, 6 m) AROUND 'a'",
        ),
        (
            "ALTER QUERY within INSIDE CIRCLE(1, 2, 5)",
            CircleSpec(1, 2, 5),
            "SELECT oid FROM taxis WHERE loc INSIDE CIRCLE(1, 2, 5) AND speed > 3",
        ),
        (
            "ALTER QUERY nearest NEAREST 3 TO 'a'",
            NearestSpec(3, focal="a"),
            "SELECT oid FROM taxis NEAREST 3 TO 'a'",
        ),
        (
            "ALTER QUERY nearest NEAREST 7 TO (1, 2)",
            NearestSpec(7, 1, 2),
            "SELECT oid FROM taxis NEAREST 7 TO (1, 2)",
        ),
        (
            "ALTER QUERY everywhere INSIDE CIRCLE(1, 2, 5)",
            CircleSpec(1, 2, 5),
            "SELECT oid FROM taxis WHERE speed > 3 INSIDE CIRCLE(1, 2, 5)",
        ),
    ],
)
def test_only_the_region_changes(text: str, region: object, select: str, catalogue: Catalogue) -> None:
    spec = altered(text, catalogue)
    before = catalogue.query(spec.name)
    assert before is not None
    assert spec == replace(with_members(before, region=region), text=select)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT COUNT(*) FROM taxis INSIDE RECT(1, 2, 3, 4)",
        "SELECT COUNT(*) FROM taxis INSIDE RECT(1, 2, 3, 4) SYNC 10 s",
        "SELECT oid FROM taxis INSIDE RECT(1, 2, 3, 4) ORDER BY oid LIMIT 3",
    ],
)
def test_what_dwells_gets_another_region(select: str, taxis: Catalogue) -> None:
    [statement] = parse(f"REGISTER QUERY q WITH (dwell => 5 s) AS {select}")
    before = replace(bind(statement, taxis).spec, id=100)
    catalogue = with_fields(taxis, queries={"q": before})
    text = select.replace("RECT(1, 2, 3, 4)", "RECT(0, 0, 9, 9)")
    after = altered("ALTER QUERY q INSIDE RECT(0, 0, 9, 9)", catalogue)
    assert after == replace(with_members(before, region=RectangleSpec(0, 0, 9, 9)), text=text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ALTER QUERY near NEAREST 3 TO (1, 2)", "query near has no NEAREST"),
        ("ALTER QUERY nothing INSIDE CIRCLE(1, 2, 5)", "unknown query 'nothing'"),
        ("ALTER QUERY near INSIDE nowhere", "unknown region 'nowhere'"),
        ("ALTER QUERY far INSIDE RECT(0, 0, 9, 9)", "DISTANCE"),
        ("ALTER QUERY near WHERE spead > 3", "has no column 'spead'"),
        ("ALTER QUERY near WHERE DISTANCE > 3", "DISTANCE"),
    ],
)
def test_what_has_no_such_region_is_an_error_at_its_place(
    text: str, message: str, catalogue: Catalogue
) -> None:
    [statement] = parse(text)
    with pytest.raises(BindError, match=message) as raised:
        bind(statement, catalogue)
    assert raised.value.span.start >= len("ALTER QUERY ")


@pytest.mark.parametrize(
    ("text", "select"),
    [
        (
            "near WHERE speed > 3 AND lon < 2",
            "SELECT oid FROM taxis WHERE speed > 3 AND lon < 2 INSIDE CIRCLE(1, 2, 300)",
        ),
        (
            "near INSIDE RECT(0, 0, 9, 9) WHERE speed > 3 OR lon < 2",
            "SELECT oid FROM taxis WHERE speed > 3 OR lon < 2 INSIDE RECT(0, 0, 9, 9)",
        ),
        (
            "near WHERE loc INSIDE RECT(0, 0, 9, 9)",
            "SELECT oid FROM taxis WHERE loc INSIDE RECT(0, 0, 9, 9) INSIDE CIRCLE(1, 2, 300)",
        ),
        (
            "near INSIDE RECT(170, 0, 190, 9)",
            "SELECT oid FROM taxis WHERE status = 'free' INSIDE RECT(170, 0, 190, 9)",
        ),
        (
            "within WHERE speed > 9 OR lon < 2",
            "SELECT oid FROM taxis WHERE loc INSIDE RECT(1, 2, 3, 4) AND (speed > 9 OR lon < 2)",
        ),
        (
            "within WHERE loc INSIDE RECT(0, 0, 9, 9) AND speed > 9",
            "SELECT oid FROM taxis WHERE loc INSIDE RECT(0, 0, 9, 9) AND speed > 9",
        ),
        (
            "within INSIDE RECT(0, 0, 9, 9) WHERE speed > 9",
            "SELECT oid FROM taxis WHERE speed > 9 INSIDE RECT(0, 0, 9, 9)",
        ),
        (
            "nearest NEAREST 4 TO (1, 2) WHERE speed > 9",
            "SELECT oid FROM taxis WHERE speed > 9 NEAREST 4 TO (1, 2)",
        ),
        (
            "nearest INSIDE RECT(0, 0, 9, 9)",
            "SELECT oid FROM taxis INSIDE RECT(0, 0, 9, 9) NEAREST 3 TO (1, 2)",
        ),
        ("among WHERE speed > 9", "SELECT oid FROM taxis WHERE speed > 9 NEAREST 3 TO (1, 2)"),
        (
            "among INSIDE RECT(0, 0, 9, 9)",
            "SELECT oid FROM taxis WHERE loc INSIDE RECT(0, 0, 9, 9) AND speed > 3 NEAREST 3 TO (1, 2)",
        ),
        ("everywhere WHERE ts > NOW - 5 s", "SELECT oid FROM taxis WHERE ts > NOW - 5 s"),
        (
            "everywhere WHERE loc INSIDE CIRCLE(1, 2, 5)",
            "SELECT oid FROM taxis WHERE loc INSIDE CIRCLE(1, 2, 5)",
        ),
        (
            'changing WHERE status = "free"',
            "SELECT oid, DISTANCE AS d FROM taxis WHERE status = 'free' INSIDE CIRCLE(1, 2, 300)",
        ),
    ],
)
def test_the_query_is_what_its_new_select_says(text: str, select: str, catalogue: Catalogue) -> None:
    name = text.partition(" ")[0]
    before = catalogue.query(name)
    assert before is not None
    [statement] = parse(f"REGISTER QUERY other AS {select}")
    wanted = bind(statement, catalogue).spec
    assert isinstance(wanted, QuerySpec)
    assert altered(f"ALTER QUERY {text}", catalogue) == replace(
        with_members(before, region=wanted.region, condition=wanted.condition), text=select
    )


@pytest.mark.parametrize(
    "text",
    [
        "ALTER QUERY changing INSIDE CIRCLE(1, 2, 5)",
        "ALTER QUERY changing WHERE loc INSIDE CIRCLE(5 m) AROUND 'a'",
        "ALTER QUERY strays INSIDE CIRCLE(5 m) AROUND 'a'",
    ],
)
def test_what_would_change_more_is_not_supported_at_its_place(text: str, catalogue: Catalogue) -> None:
    [statement] = parse(
        "REGISTER QUERY strays AS SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(1, 2, 3) LIMIT 3"
    )
    queries = {**catalogue.queries, "strays": replace(bind(statement, catalogue).spec, id=99)}
    [statement] = parse(text)
    with pytest.raises(NotSupportedError) as raised:
        bind(statement, with_fields(catalogue, queries=queries))
    assert raised.value.span.start >= len("ALTER QUERY strays ")
