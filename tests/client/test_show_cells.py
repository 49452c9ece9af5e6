"""SHOW CELLS: the counts that slots keep of their objects by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows
from stqsh.client.show import cells
from stqsh.errors import StqshError

CREATE = """CREATE MOVING STREAM cars (id BIGINT, x DOUBLE, y DOUBLE, t TIMESTAMP)
  KEY id LOCATION (x, y) TIME t FROM FILE '{0}/cars.csv' PLANAR;"""


def written(folder: Path, objects: int = 300) -> None:
    """Objects over a square of 100, half of them in its lower left hundredth, each reporting three times."""
    lines = ["id,x,y,t"]
    for tick in range(3):
        for key in range(objects):
            side = 10 if key % 2 else 100
            x, y = (key * 37 + tick) % 101 / 101 * side, (key * 53 + tick) % 103 / 103 * side
            lines.append(f"{key},{x},{y},2025-06-14T00:00:0{tick}")
    (folder / "cars.csv").write_text("\n".join(lines), encoding="utf-8")


def shown(session: Session, text: str = "SHOW CELLS cars;") -> tuple[str, list[dict[str, Any]]]:
    [rows] = session.execute(text)
    assert isinstance(rows, Rows)
    return rows.title, [dict(zip(rows.columns, row, strict=True)) for row in rows.rows]


@pytest.mark.parametrize("slots", [1, 3])
def test_no_cell_counts_fewer_objects_than_it_has(tmp_path: Path, slots: int) -> None:
    written(tmp_path)
    with local_session(tmp_path, slots, 250, published=True) as session:
        session.execute(CREATE.format(tmp_path) + "REPARTITION cars USING grid; RUN;")
        title, found = shown(session)
        [answer] = session.execute("SELECT x, y FROM cars;")
    assert isinstance(answer, Answer)
    places = answer.table.to_pylist()
    counts = [row["count"] for row in found]
    assert title == "cells of cars"
    assert counts == sorted(counts, reverse=True) and min(counts) > 0
    assert sum(counts) >= len(places) == 300
    assert {row["slot"] for row in found} <= set(range(slots))

    near = 1e-9  # corners are computed from the grid, and rounded

    def holds(row: dict[str, Any], x: float, y: float) -> bool:
        low_x, low_y, high_x, high_y = (row[name] for name in ("x1", "y1", "x2", "y2"))
        in_x = (low_x is None or low_x <= x + near) and (high_x is None or x <= high_x + near)
        return in_x and (low_y is None or low_y <= y + near) and (high_y is None or y <= high_y + near)

    assert all(any(holds(row, one["x"], one["y"]) for row in found) for one in places)
    assert all(0 <= row["records since"] <= 900 for row in found)


def test_the_fullest_cells_of_many_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    monkeypatch.setattr(cells, "MOST_CELLS", 5)
    with local_session(tmp_path, 2, published=True) as session:
        session.execute(CREATE.format(tmp_path) + "RUN;")
        title, found = shown(session, "SHOW CELLS;")
    assert len(found) == 5
    assert title.startswith("the fullest 5 of ") and title.endswith(" cells of cars")


def test_cells_are_of_a_stream(tmp_path: Path) -> None:
    written(tmp_path)
    with local_session(tmp_path, published=True) as session:
        session.execute(CREATE.format(tmp_path))
        with pytest.raises(StqshError, match="unknown stream 'cabs'"):
            session.execute("SHOW CELLS cabs;")
        [said] = session.execute("SHOW CELLS;")  # no slot has begun
    assert isinstance(said, Message)
    assert said.text.startswith("cars: ")
