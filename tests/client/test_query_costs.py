"""What queries cost, from the update log and the slots' published state."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stqsh.client.connection import Connection
from stqsh.client.show.query_costs import RECENT_S, update_rates, work_shares
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.state.arena import Arena
from stqsh.storage.control_log import set_meta, wall_clock_us
from stqsh.storage.slot_files import slot_name
from tests.support.local import local_session

ROW = ("1", 116.4)


def test_updates_a_second_are_those_of_the_last_seconds(connection: Connection, deliver: Any) -> None:
    deliver((1, 7, 1, 0, ROW), (1, 7, 1, 0, ROW), (1, 8, 1, 0, ROW))
    deliver()  # a batch without updates
    deliver((3, 7, 1, 0, ROW))
    assert update_rates(connection) == {7: 3 / RECENT_S, 8: 1 / RECENT_S}
    old = time.time() - 2 * RECENT_S
    os.utime(connection.home.updates / f"{0:012d}.arrow", (old, old))
    assert update_rates(connection) == {7: 1 / RECENT_S}
    assert update_rates(connection, wall_clock_us() + 10**9) == {}


def test_updates_from_before_the_clock_was_set_back_are_not_new(connection: Connection, deliver: Any) -> None:
    deliver((1, 7, 1, 0, ROW))
    deliver((2, 8, 1, 0, ROW))
    later = time.time() + 3600
    os.utime(connection.home.updates / f"{0:012d}.arrow", (later, later))
    assert update_rates(connection) == {8: 1 / RECENT_S}
    os.utime(connection.home.updates / f"{1:012d}.arrow", (later, later))
    assert update_rates(connection) == {}


def publish(folder: Path, slot: int, tested: dict[int, int]) -> None:
    arena = Arena((folder,), slot_name("evaluate", slot))
    state = SlotState.fresh(slot, arena)
    with arena.held():
        arena.begin()
        for name, dtype, values in (("id", np.int64, tested), ("tested", np.int64, tested.values())):
            state.create(f"s1/range/{name}", dtype, len(tested))
            state.array(f"s1/range/{name}")[:] = list(values)
        state.header["clock"] = {"step": 1}
        arena.commit(f"{slot}/1", state.header, state.buffers)


def test_the_share_of_work_is_that_of_all_candidates(connection: Connection) -> None:
    folder = connection.home.arena.folder
    set_meta(connection.db, "slots", "2")
    publish(folder, 0, {7: 10, -1: 99, 8: 20})
    publish(folder, 1, {7: 30, 9: 40})
    assert work_shares(connection) == {7: 0.4, 8: 0.2, 9: 0.4}


def test_nothing_is_told_where_no_engine_was(connection: Connection) -> None:
    assert work_shares(connection) == {}
    assert update_rates(connection) == {}


def test_the_work_of_refreshes_counts(tmp_path: Path) -> None:
    rows = [f"o{number % 20},{number % 7},{number % 5},{number // 20}" for number in range(200)]
    (tmp_path / "cars.csv").write_text("\n".join(["id,x,y,at", *rows, ""]))
    with local_session(tmp_path, slots=2, published=True) as session:
        list(
            session.execute(
                "CREATE MOVING STREAM cars (id STRING, x DOUBLE, y DOUBLE, at TIMESTAMP) KEY id LOCATION"
                f" (x, y) TIME at FROM FILE '{tmp_path}/cars.csv' TICK 1 s PLANAR;"
                "REGISTER QUERY tallied AS SELECT COUNT(*) FROM cars INSIDE (0, 0, 4, 4) SYNC 2 s;"
                "REGISTER QUERY listed AS SELECT COUNT(*) FROM cars INSIDE RECT(4, 4) AROUND 'o1' SYNC 2 s;"
                "REGISTER QUERY near AS SELECT COUNT(*) FROM cars NEAREST 3 TO (2, 2) SYNC 2 s;"
                "RUN;"
            )
        )
        names = {query.id: query.name for query in session.queries()}
        shares = {names[query]: share for query, share in work_shares(session.connection).items()}
    assert set(shares) == {"tallied", "listed", "near"} and min(shares.values()) > 0
    assert sum(shares.values()) == pytest.approx(1)
