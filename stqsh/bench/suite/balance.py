"""Measure what SET balance does on an engine while a hot spot goes round.

Half of the events are in a spot that moves in a circle, as in `stqsh bench routing --figure orbit`, where
slots are driven without an engine. Here a session plays them in real time, once without and once with
SET balance = auto, and all updates have to be the same. Afterwards the cost model says how even each window
was under the routing that was in force then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import stqsh
from stqsh.arrays import Floats
from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.drive import Say, execute, run, temporary_folder
from stqsh.bench.harness.registration import statements
from stqsh.bench.options import option
from stqsh.bench.papers.routing.maps import ROUND, orbiting, squares_around
from stqsh.bench.papers.routing.trials import modelled_ratio
from stqsh.client.api import Session
from stqsh.routing.load import Load
from stqsh.routing.table import RoutingTable
from stqsh.storage.progress import step_taken
from stqsh.storage.stream_routes import read_table, stream_routes
from stqsh.storage.update_log.reader import UpdateLog

COLUMNS = {
    "strategy": "strategy",
    "balance": "balance",
    "windows": "windows",
    "median": "max/mean, modelled",
    "worst": "worst",
    "changes": "changes",
    "by": "by",
    "moved": "queries moved a window",
    "copies": "copies of a query",
    "updates": "updates",
}
KEY = ("strategy", "balance")
FIGURES: dict[str, Better] = {"median": LESS, "moved": LESS}

_CREATE = (
    "CREATE EVENT STREAM m (oid BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) "
    "TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s KEEP 2 s;"
)
_SIDE = 1 / 128
"""The side of a query's square."""
_PACE = 10
"""Ticks a second."""
_BEFORE = 10
"""Ticks after which the stream is routed, and the play begins."""
_LONGEST_WAIT_S = 120


@dataclass(frozen=True)
class BalanceOptions:
    """What to play; see the help of each option."""

    strategies: tuple[str, ...] = option(("grid", "quadtree"), "The routings that are adjusted.")
    queries: int = option(4_000, "Range queries.")
    slots: int = option(16, "INTO how many slots.")
    per_tick: int = option(5_000, "Records a tick, of which there are ten a second.")
    seconds: int = option(120, "How long to play.")
    round_s: int = option(240, "In how many seconds the spot goes round, which is 96 windows.")
    above: float = option(1.3, "SET balance.above.")


FULL = BalanceOptions()
QUICK = BalanceOptions(("grid",), 500, 8, 1_000, 20, 60)


def measure(options: BalanceOptions, say: Say) -> list[Row]:
    """Return a row for each routing without and with balance."""
    rng = np.random.default_rng(5)
    boxes = squares_around(rng.random((options.queries, 2)), _SIDE)
    ticks = _BEFORE + options.seconds * _PACE
    places = [orbiting(rng, options.per_tick, _window(tick, options)) for tick in range(ticks)]
    rows: list[Row] = []
    for strategy in options.strategies:
        say(f"playing {options.seconds} s without and with balance: {strategy}")
        two = [_played(options, strategy, boxes, places, is_on=is_on) for is_on in (False, True)]
        (off, updates), (on, others) = two
        if updates != others:
            raise RuntimeError(
                f"{strategy}: the updates with balance are not those without: {updates}, {others}"
            )
        rows += [off, on]
    return rows


def _window(tick: int, options: BalanceOptions) -> float:
    """Return the window of a tick; a window is the 96th part of a round."""
    return tick / _PACE / options.round_s * ROUND


def _played(
    options: BalanceOptions, strategy: str, boxes: Floats, places: list[Floats], *, is_on: bool
) -> tuple[Row, tuple[int, int]]:
    """Play the stream; return the row, and the number and the sum of the updates."""
    with _session(places) as session:
        execute(session, statements(boxes))
        run(session, _BEFORE)
        execute(session, f"REPARTITION m USING {strategy} INTO {options.slots} SLOTS;")
        if is_on:
            execute(session, f"SET balance = auto; SET balance.above = {options.above};")
        _play(session, len(places), options.seconds)
        routes, updates = _routes(session), sum_of_updates(session)
        entries = [route.entry for route in stream_routes(session.connection.db, 1)]
        followed = [entry for entry in entries if entry.is_automatic and not entry.package]
        windows = _windows(options, places)
        ratios, copies = [], []
        for first, last in windows:
            table = next(table for step, table in reversed(routes) if step <= last)
            x, y = np.concatenate(places[first:last]).T
            ratios.append(modelled_ratio(table, Load.of(table.cells, x, y, boxes)))
            copies.append(float(table.slots_touching(boxes).sum(axis=1).mean()))
    row: Row = {
        "strategy": strategy,
        "balance": "auto" if is_on else "off",
        "windows": len(windows),
        "median": float(np.median(ratios)),
        "worst": max(ratios),
        "changes": len(followed),
        "by": ", ".join(sorted({entry.why for entry in followed})),
        "moved": sum(entry.moved for entry in followed) / len(windows),
        "copies": float(np.mean(copies)),
        "updates": updates[0],
    }
    return row, updates


def _windows(options: BalanceOptions, places: list[Floats]) -> list[tuple[int, int]]:
    """Return the first tick and the one after the last of each window of the play."""
    length = max(1, round(options.round_s / ROUND * _PACE))
    return [(first, first + length) for first in range(_BEFORE, len(places) - length + 1, length)]


def _routes(session: Session) -> list[tuple[int, RoutingTable]]:
    """Return the routings that took effect, and the first step of each."""
    db = session.connection.db
    taken = ((step_taken(db, route.seq), route.seq) for route in stream_routes(db, 1))
    return [(step, read_table(db, seq)) for step, seq in taken if step is not None]


def _play(session: Session, ticks: int, seconds: int) -> None:
    execute(session, f"PLAY m AT {_PACE}x;")
    end = time.monotonic() + seconds + _LONGEST_WAIT_S
    while session.progress().step < ticks:
        if time.monotonic() > end:
            raise RuntimeError(
                f"after {seconds + _LONGEST_WAIT_S} s only {session.progress().step} steps are taken"
            )
        time.sleep(0.2)


@contextmanager
def _session(places: list[Floats]) -> Iterator[Session]:
    """Open a temporary session with a stream `m` of events, one second for each element of `places`."""
    with temporary_folder() as folder:
        x, y = np.concatenate(places).T
        seconds = np.repeat(np.arange(len(places)), [len(some) for some in places])
        times = (seconds * 1_000_000).astype("datetime64[us]")
        columns: dict[str, Any] = {"oid": np.arange(len(x)), "x": x, "y": y, "ts": times}
        pq.write_table(pa.table(columns), folder / "events.parquet", compression="none")
        with stqsh.connect(temporary=True, autoplay=False) as session:
            execute(session, _CREATE.format(file=folder / "events.parquet"))
            yield session


def sum_of_updates(session: Session) -> tuple[int, int]:
    """Return the number of all updates, and a sum over them that does not depend on their order."""
    log, count, total = UpdateLog(session.connection.db, session.connection.book.key_of), 0, 0
    for tables in log.read(-1, session.progress().batch):
        for one in tables:
            count += one.table.num_rows
            total += int(_hash(one.table).sum(dtype=np.uint64))
    return count, total % 2**64


def _hash(updates: pa.Table) -> NDArray[np.uint64]:
    """Return a number for each update, by query, step, sign and key: uint64 (n,)."""
    mixed = np.zeros(updates.num_rows, np.uint64)
    for name in ("query", "step", "op", "key"):
        values = updates.column(name).to_numpy()
        mixed = (mixed ^ values.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
