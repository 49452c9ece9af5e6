"""Quantities: what is written, what it comes to, how it is printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

import pytest

from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse
from stqsh.spec.log import RunFor
from stqsh.units import CANONICAL, UNITS, metres, metres_per_second, microseconds, parse_ago, size_in_bytes

SECOND = 1_000_000
DURATIONS = [
    ("250 ms", 250_000, "250 ms"),
    ("30 s", 30 * SECOND, "30 s"),
    ("30s", 30 * SECOND, "30 s"),
    ("1 SEC", SECOND, "1 s"),
    ("2 seconds", 2 * SECOND, "2 s"),
    ("5 min", 300 * SECOND, "5 min"),
    ("1 minute", 60 * SECOND, "1 min"),
    ("10 mins", 600 * SECOND, "10 min"),
    ("72 hours", 72 * 3600 * SECOND, "72 hours"),
    ("1 h", 3600 * SECOND, "1 hours"),
    ("1 day", 86400 * SECOND, "1 days"),
    ("0.5 days", 43200 * SECOND, "0.5 days"),
    ("1e3 ms", SECOND, "1000.0 ms"),
]
SPEEDS = [
    ("30 m/s", 30.0),
    ("60 km/h", 60 / 3.6),
    ("36km/h", 10.0),
    ("50 mph", 22.352),
    ("7.5", 7.5),
    ("7", 7.0),
]
LENGTHS = [("500 m", 500.0), ("2 km", 2000.0), ("1 mile", 1609.344), ("1.5 miles", 2414.016), ("250", 250.0)]
AGO = [("10 mins ago", 600 * SECOND), ("1 day ago", 86400 * SECOND), (" 2.5 s AGO ", 2_500_000)]
NO_AGO = ["", "ago", "10 mins", "10 km ago", "yesterday", "ten mins ago"]


@pytest.mark.parametrize(("text", "us", "printed"), DURATIONS)
def test_durations(text: str, us: int, printed: str) -> None:
    [statement] = parse(f"RUN FOR {text}")
    assert bind(statement, Catalogue()).spec == RunFor(us)
    assert parse(to_sql(statement)) == [statement]
    assert to_sql(statement).removeprefix("RUN FOR ").split()[1] == printed.split()[1]


@pytest.mark.parametrize(("text", "speed"), SPEEDS)
def test_speeds_come_to_metres_a_second(text: str, speed: float) -> None:
    [statement] = parse(
        "CREATE MOVING STREAM t (id INT, x DOUBLE, y DOUBLE, ts TIMESTAMP) FROM FILE 'f' MAX SPEED " + text
    )
    assert bind(statement, Catalogue()).spec.max_speed == pytest.approx(speed, rel=1e-15)


@pytest.mark.parametrize(("text", "length"), LENGTHS)
def test_lengths_come_to_metres(text: str, length: float, taxis: Catalogue) -> None:
    [statement] = parse(f"SUBSCRIBE SELECT * FROM taxis INSIDE RECT({text}, 1) AROUND 'a'")
    assert bind(statement, taxis).spec.region.xdist == length


@pytest.mark.parametrize(("text", "us"), AGO)
def test_ago(text: str, us: int) -> None:
    assert parse_ago(text) == us


@pytest.mark.parametrize("text", NO_AGO)
def test_no_ago(text: str) -> None:
    assert parse_ago(text) is None


@pytest.mark.parametrize("name", sorted(CANONICAL))
def test_the_grammar_knows_every_name_of_a_unit(name: str) -> None:
    if UNITS[CANONICAL[name]].dimension == "size":
        [kept] = parse(f"CREATE EVENT STREAM t FROM STDIN KEEP 3 {name}")
        quantity = kept.keep.size  # type: ignore[attr-defined]
    else:
        [statement] = parse(f"SELECT 3 {name} FROM t")
        quantity = statement.items[0].expression  # type: ignore[attr-defined]
    assert (quantity.number, quantity.unit) == (3, CANONICAL[name])
    convert: dict[str, Callable[[float, str], float]] = {
        "duration": microseconds,
        "length": metres,
        "speed": metres_per_second,
        "size": size_in_bytes,
    }
    assert convert[UNITS[quantity.unit].dimension](3, quantity.unit) > 0


def test_the_grammar_knows_no_other_unit() -> None:
    grammar = files("stqsh.lang.syntax").joinpath("grammar.lark").read_text(encoding="utf-8")
    expressions = re.findall(r"^A_\w+\.\d: /.*\\s\*(\(\?:.*\))\(\?!\\w\)/i$", grammar, re.MULTILINE)
    assert len(expressions) == 4
    words = {
        w for name in CANONICAL for w in (name, f"{name}s", name[:-1], f"{name}x", name.replace("/", ""))
    }
    for word in words - {""}:
        matches = any(re.fullmatch(e.replace("\\/", "/"), word) for e in expressions)
        assert matches == (word in CANONICAL), word
