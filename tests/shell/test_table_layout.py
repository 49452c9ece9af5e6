"""Rows as tables: on any width all of what they say is there, and numbers stay in their columns."""

import io

import pytest

from stqsh.client.results import Rows
from stqsh.shell.writers.update_table import drawn
from stqsh.shell.writers.writer import Target

TEXT = "SELECT id, speed FROM boats WHERE status = 'free' INSIDE RECT(4 km, 4 km) AROUND 'boat3'"
QUERIES = Rows(
    "queries",
    ("name", "kind", "state", "age", "answer", "updates/s", "share of work", "text", "accuracy"),
    (
        ("near", "range", "active", "8 s", 0, 0.0, None, TEXT, None),
        ("three", "nearest", "active", "2 h 3 min", 1200, 12.5, "45 %", "SELECT id FROM boats", None),
    ),
)


def lines(rows: Rows, width: int | None) -> list[str]:
    return drawn(rows, Target(io.BytesIO(), width=width)).splitlines()


@pytest.mark.parametrize("width", [40, 60, 70, 80, 100, 120, 200, None])
def test_a_table_fits_and_loses_nothing(width: int | None) -> None:
    shown = lines(QUERIES, width)
    assert width is None or max(map(len, shown)) <= width
    words = " ".join(shown).split()
    assert [word for word in TEXT.split() if word not in words] == []
    assert shown[0].split()[:4] == ["name", "kind", "state", "age"]


def test_a_long_text_stands_below_its_row_where_there_is_no_room_beside_it() -> None:
    shown = lines(QUERIES, 80)
    assert shown[2].split() == ["near", "range", "active", "8", "s", "0", "0"]
    assert shown[3].startswith("    text: SELECT id, speed")
    assert shown[-2].split()[:2] == ["three", "nearest"] and shown[-1] == "    text: SELECT id FROM boats"
    assert "text" not in shown[0]


def test_columns_without_a_value_go_only_where_there_is_no_room() -> None:
    assert "accuracy" in lines(QUERIES, 200)[0] and "accuracy" not in lines(QUERIES, 80)[0]


def test_a_column_below_says_its_name() -> None:
    costs = "object 1.00, agrid 1.95, grid 1.96, qttree 1.97, quadtree 1.99"
    rows = Rows("x", ("stream", "strategy", "cost by strategy"), (("taxis", "object", costs),))
    assert lines(rows, 40)[3].startswith("    cost by strategy: object 1.00")


def test_columns_below_say_their_names() -> None:
    rows = Rows("x", ("name", "from_here", "to"), (("a" * 15, "x" * 45, "y" * 46),))
    assert lines(rows, 61)[2:] == ["a" * 15, "    from_here: " + "x" * 45, "    to: " + "y" * 46]


@pytest.mark.parametrize("width", [40, 60])
def test_numbers_are_never_folded(width: int) -> None:
    names = ("slot", "records", "stale", "updates", "objects", "queries", "bytes", "decode ms", "state ms")
    shown = lines(Rows("slots", names, (tuple(range(11_111, 11_120)),)), width)
    assert max(map(len, shown)) <= width
    assert {str(number) for number in range(11_111, 11_120)} <= set(" ".join(shown).split())
    assert shown[-1] == "    state ms: 11119"


def test_no_rows_are_a_heading() -> None:
    assert lines(Rows("x", ("name", "age"), ()), 80)[0].split() == ["name", "age"]
