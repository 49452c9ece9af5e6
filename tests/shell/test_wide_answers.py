"""Wide answers: on a terminal all columns are shown or counted, values stay below their names."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from shell.samples import START_US, Paper, query, updates
from stqsh.client.results import Answer, Rows
from stqsh.shell.writers.aligned_text import cells

MANY = Answer(
    tuple(f"column_{number:02}" for number in range(34)),
    pa.table({f"column_{number:02}": [number, 10 * number] for number in range(34)}),
    7,
    START_US,
)
TEXTS = Answer(
    ("name", "n", "said"),
    pa.table({"name": ["a" * 60, "b"], "n": [1234567, 2], "said": ["x" * 70, "日本" * 20]}),
    7,
    START_US,
)


def answered(answer: Answer, width: int | None) -> list[str]:
    paper = Paper("table", width=width)
    paper.writer.answer(1, answer)
    return paper.text.splitlines()


@pytest.mark.parametrize("width", [20, 40, 79, 80, 160])
def test_columns_without_room_are_counted(width: int) -> None:
    head, *_, remark = answered(MANY, width)
    shown = len(re.findall(r"column_\d\d", head))
    assert 1 <= shown < 34
    assert f"… {34 - shown} more" in head or width == 20
    assert remark.startswith(f"34 columns, {shown} shown; "[: width - 1])
    assert max(map(cells, answered(MANY, width))) <= width


def test_the_remark_says_how_to_see_the_rest() -> None:
    assert answered(MANY, 80)[-1] == r"34 columns, 6 shown; \G shows all, \wide scrolls with ← →"


def test_with_room_for_all_nothing_is_said() -> None:
    for width in (400, None):
        lines = answered(MANY, width)
        assert "column_33" in lines[0] and lines[-1].startswith("(2 rows, step 7")


@pytest.mark.parametrize("width", [50, 80, 120])
def test_texts_are_cut_before_columns_are_left_out_and_stay_aligned(width: int) -> None:
    head, first, second, *_ = answered(TEXTS, width)
    assert head.split() == ["name", "n", "said"]
    place = cells(head[: head.index("n", 4)])
    assert "…" in first and "1234567" in first
    assert cells(first[: first.index("1234567") + 6]) == place == cells(second[: second.index("2")])
    assert max(map(cells, (head, first, second))) <= width


def test_updates_with_more_columns_than_fit_say_so_in_their_header() -> None:
    wide = query(7, "q1", [(f"a_long_name_{number}", "lon") for number in range(12)])
    paper = Paper("table", one_query=True, width=80)
    paper.writer.updates(updates([wide], [(12, 7, "+", "368", "368", 116.4, 39.9, START_US, "free")]))
    head, row = paper.text.splitlines()
    shown = head.count("a_long_name")
    assert head.endswith(f"… {12 - shown} more") and row.count("116.4") == shown


def test_empty_columns_that_are_left_out_are_named() -> None:
    rows = Rows("x", ("name", "accuracy", "text"), (("a" * 30, None, "b" * 60), ("c", None, "d")))
    paper = Paper("table", width=80)
    paper.writer.rows(1, rows)
    assert paper.text.rstrip().endswith("(2 rows; without accuracy: empty)")


def test_lengths_in_metres_have_one_decimal_in_tables_only() -> None:
    found = Answer(
        ("oid", "far"), pa.table({"oid": ["a", "b"], "far": [23.520561039690126, None]}), 7, START_US
    )
    metres = Answer(found.names, found.table, 7, START_US, in_metres=frozenset((1,)))
    assert answered(metres, 80)[1].split() == ["a", "23.5"]
    assert answered(found, 80)[1].split() == ["a", "23.520561"]
    for name in ("jsonl", "csv"):
        paper = Paper(name)
        paper.writer.answer(1, metres)
        assert "23.520561039690126" in paper.text
