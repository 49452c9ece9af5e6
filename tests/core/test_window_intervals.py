"""The MT-index answers as the records of a window do, joins complete neighbours, and forgets what changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from stqsh.spec.chunk import unpack

from .slots import TICK, UNIT, Slot, of_kind

WINDOW, STEPS = 8, 40
Row = tuple[int, str, float, float, float]


def register(id_: int = 1, window: int = WINDOW, region: Any = UNIT) -> dict[str, Any]:
    aggregates = {
        "measures": [["count", None], ["max", ["col", "n"], "BIGINT"]],
        "select": [["c", ["col", "m0"], "BIGINT"], ["m", ["col", "m1"], "BIGINT"]],
        "groups": [[["col", "status"], "STRING"]],
        "sync_us": TICK,
        "window_us": window * TICK,
    }
    query = {"id": id_, "kind": "aggregate", "region": region, "condition": None, "aggregates": aggregates}
    return {"op": "register", "query": query}


def rows(late: int = 0) -> list[Row]:
    """Two posts a second; some come as many steps late."""
    draw = np.random.default_rng(1)
    found = []
    for second in range(1, STEPS + 1):
        for each in range(2):
            step = second + (late if late and draw.random() < 0.3 else 0)
            place = draw.random(2).tolist()
            found.append(
                (step, f"p{second}.{each}", *place, second, "abc"[second % 3], int(draw.integers(9)))
            )
    return sorted(found)


def answers(slot: Slot, posts: list[Any], commands: dict[int, list[Any]], batch: int = 1) -> list[Any]:
    """What the groups of queries hold after each batch, by the differences that are sent."""
    held: Counter[Any] = Counter()
    told = []
    for first in range(1, STEPS + 1, batch):
        last = first + batch - 1
        out = slot.batch(
            first, last, [row for row in posts if first <= row[0] <= last], commands.get(first, [])
        )
        for chunk in of_kind(out, "partial/aggregate"):
            for one in unpack(chunk.payload).to_pylist():
                what = "n" if "value" not in one else ("value", one["value"])
                if one["step"] <= last:
                    held[one["query"], one["key"], what] += one["n"]
        told.append({key: count for key, count in held.items() if count and key[2] == "n"})
    return told


def slot_with(windows: str, keep_s: int | None = None) -> Slot:
    slot = Slot(kind="event", keep_us=None if keep_s is None else keep_s * TICK)
    slot.indexes = {"windows": windows}
    return slot


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("keep_s", [None, 20, WINDOW, 5])
def test_intervals_answer_as_records_do(batch: int, late: int, keep_s: int | None) -> None:
    small = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 0.5, "y2": 0.7}
    commands = {1: [register()], 11: [register(2, 5, small)], 16: [register(3, WINDOW, small)]}
    commands |= {
        26: [{"op": "drop", "id": 1}],
        31: [{"op": "pause", "id": 2}],
        36: [{"op": "resume", "id": 2}],
    }
    found = [answers(slot_with(one, keep_s), rows(late), commands, batch) for one in ("records", "mtindex")]
    assert found[0] == found[1]
    assert sum(map(len, found[0])) > 50


def _numbers(slot: Slot) -> list[tuple[int, int]]:
    names = slot.state.names("s1/aggregate/windows/")
    return sorted((int(n.split("/")[-3]), int(n.split("/")[-2])) for n in names if n.endswith("/states"))


def test_complete_neighbours_are_joined_and_old_intervals_forgotten() -> None:
    slot = slot_with("mtindex")
    answers(slot, rows(), {1: [register()]})
    end = STEPS
    numbers = _numbers(slot)
    assert [number for layer, number in numbers if layer == 0] == [*range(end - WINDOW, end)]
    assert {layer for layer, _ in numbers} == {0, 1, 2, 3}
    assert all(number << layer >= end - WINDOW for layer, number in numbers)


def test_a_record_that_comes_late_removes_its_intervals() -> None:
    slot = slot_with("mtindex")
    answers(slot, rows(), {1: [register()]})
    before = _numbers(slot)
    second = STEPS - 4
    slot.batch(STEPS + 1, STEPS + 1, [(STEPS + 1, "late", 0.5, 0.5, second, "a", 1)])
    gone = {*before} - {*_numbers(slot)}
    assert (0, second) in gone
    assert all(number == second >> layer or number << layer < STEPS + 1 - WINDOW for layer, number in gone)


def test_intervals_are_released_with_the_last_query_and_with_the_choice() -> None:
    for end in ("drop", "choice"):
        slot = slot_with("mtindex")
        answers(slot, rows(), {1: [register()]})
        assert _numbers(slot)
        if end == "choice":
            slot.indexes = {}
        slot.batch(STEPS + 1, STEPS + 1, (), [{"op": "drop", "id": 1}] if end == "drop" else ())
        assert not slot.state.names("s1/aggregate/windows/")
