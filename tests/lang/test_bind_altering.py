"""ALTER QUERY, from text to the spec with its new region, and what is wrong with others."""

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
}


@pytest.fixture(name="catalogue")
def catalogue_with_queries(taxis: Catalogue) -> Catalogue:
    queries = {}
    for number, (name, text) in enumerate(_QUERIES.items(), start=100):
        [statement] = parse(f"REGISTER QUERY {name} FOR 3 min AS {text}")
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
        ("ALTER QUERY everywhere INSIDE CIRCLE(1, 2, 5)", "query everywhere has no region"),
        ("ALTER QUERY nearest INSIDE CIRCLE(1, 2, 5)", "query nearest looks for the nearest"),
        ("ALTER QUERY near NEAREST 3 TO (1, 2)", "query near has no NEAREST"),
        ("ALTER QUERY nothing INSIDE CIRCLE(1, 2, 5)", "unknown query 'nothing'"),
        ("ALTER QUERY near INSIDE nowhere", "unknown region 'nowhere'"),
        ("ALTER QUERY far INSIDE RECT(0, 0, 9, 9)", "DISTANCE"),
    ],
)
def test_what_has_no_such_region_is_an_error_at_its_place(
    text: str, message: str, catalogue: Catalogue
) -> None:
    [statement] = parse(text)
    with pytest.raises(BindError, match=message) as raised:
        bind(statement, catalogue)
    assert raised.value.span.start >= len("ALTER QUERY ")


@pytest.mark.parametrize("rest", ["WHERE speed > 3", "NEAREST 4 TO (1, 2)", "INSIDE RECT(170, 0, 190, 9)"])
def test_what_would_change_more_is_not_supported_yet(rest: str, catalogue: Catalogue) -> None:
    [statement] = parse(f"ALTER QUERY {'nearest' if 'NEAREST' in rest else 'near'} {rest}")
    with pytest.raises(NotSupportedError):
        bind(statement, catalogue)
