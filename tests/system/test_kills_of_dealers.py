"""`kill -9` while live streams are repartitioned: no record is lost, counted twice, or on two slots.

Steps go by the wall clock, so that no two runs are alike. What is the same in all is what stands in the end,
which the test finds out by itself, and that each update fits the answer before it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from support.killing import KILLS, Disturber, disturb_at_rest, run_disturbed
from support.repartition import rows, run
from support.running import log_so_far

from stqsh.client.api import Session, connect
from stqsh.client.run import RunHandle

pytestmark = KILLS
CREATE = """
CREATE MOVING STREAM taxis (oid BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM INSERTS TICK 1 s PLANAR;
CREATE EVENT STREAM posts (oid BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM INSERTS PLANAR;
REGISTER QUERY taxi_corner AS SELECT oid, x FROM taxis INSIDE (0, 0, 4, 4);
REGISTER QUERY taxi_halted AS SELECT oid, x FROM taxis INSIDE (2, 2, 9, 9);
REGISTER QUERY post_corner AS SELECT oid, x FROM posts INSIDE (0, 0, 4, 4);
REGISTER QUERY post_middle AS SELECT oid, x FROM posts INSIDE (2, 2, 9, 9);
"""
BOXES = {"corner": (0, 4), "halted": (2, 9), "middle": (2, 9)}
CHANGES = [
    "REPARTITION taxis USING grid INTO 3 SLOTS; REPARTITION posts USING grid INTO 3 SLOTS;",
    "PAUSE QUERY taxi_halted; REPARTITION taxis USING agrid; REPARTITION posts USING qttree INTO 5 SLOTS;",
    "RESUME QUERY taxi_halted; REPARTITION taxis USING object INTO 1 SLOTS; REBALANCE posts;",
    "REPARTITION taxis USING quadtree INTO 4 SLOTS; REPARTITION posts USING object INTO 2 SLOTS;",
]
AT_ONCE = ("engine", "jvm", "arena", "worker")
"""What is killed as soon as a change is logged: the slots send what they have, the dealer begins, ..."""
WITHIN = (("worker",), (), ("engine",), ())
"""... and what within the steps in which it takes effect."""
Place = tuple[float, float]


class Inserted:
    """What has been inserted, and what stands by that."""

    def __init__(self) -> None:
        self._draw, self._second = random.Random(5), 0
        self._newest: dict[int, int] = {}
        self.taxis: dict[int, Place] = {}
        self.posts: dict[int, Place] = {}

    def more(self) -> str:
        """The statements with a round of records; some taxis report late, and some posts come again."""
        found: dict[str, list[str]] = {"taxis": [], "posts": []}
        for _ in range(150):
            self._second += 10
            for stream, some in found.items():
                key, late = self._draw.randrange(60), self._draw.choice((0, 0, 0, 3_003))
                ts, place = self._second - late, (self._coordinate(), self._coordinate())
                if stream == "posts":
                    key += 20 * (self._second // 500)
                    self.posts.setdefault(key, place)
                elif ts > self._newest.get(key, -late - 1):
                    self._newest[key], self.taxis[key] = ts, place
                when = f"2024-06-14T{6 + ts // 3600:02}:{ts // 60 % 60:02}:{ts % 60:02}Z"
                some.append(f"({key}, {place[0]}, {place[1]}, '{when}')")
        return " ".join(f"INSERT INTO {name} VALUES {', '.join(some)};" for name, some in found.items())

    def _coordinate(self) -> float:
        return round(self._draw.uniform(0, 10), 3)


def standing(session: Session, last: RunHandle) -> dict[str, set[int]]:
    """The members of each query by its updates, of which each fits what was there before."""
    found: dict[str, set[int]] = {}
    for line in map(json.loads, log_so_far(session, last).splitlines()):
        members = found.setdefault(line["query"], set())
        assert (line["key"] in members) == (line["op"] == "-"), line
        members ^= {line["key"]}
    return found


def inside(places: dict[int, Place], box: str) -> set[int]:
    low, high = BOXES[box]
    return {key for key, place in places.items() if all(low <= at <= high for at in place)}


def everything(session: Session, stream: str) -> list[dict[str, Any]]:
    return sorted(rows(session, f"SELECT oid, x, y FROM {stream};"), key=lambda row: row["oid"])


def test_nothing_is_lost_or_counted_twice_whatever_is_killed(tmp_path: Path) -> None:
    inserted = Inserted()
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        run(session, CREATE + inserted.more() + "RUN 2 STEPS;")
        disturber = Disturber(session, random.Random(3), tmp_path)
        for change, at_once, within in zip(CHANGES, AT_ONCE, WITHIN, strict=True):
            run(session, inserted.more() + change)
            running = next(one for one in session.outcomes("RUN 4 STEPS;") if isinstance(one, RunHandle))
            disturb_at_rest(disturber, [at_once])
            run(session, inserted.more())
            disturb_at_rest(disturber, run_disturbed(disturber, running, within))
            run(session, inserted.more() + "RUN 2 STEPS;")
        *_, last = session.execute("RUN 1 STEPS;")
        assert isinstance(last, RunHandle)
        last.wait()
        for stream, places in (("taxis", inserted.taxis), ("posts", inserted.posts)):
            expected = [{"oid": key, "x": x, "y": y} for key, (x, y) in sorted(places.items())]
            assert everything(session, stream) == expected
        members = standing(session, last)
        assert members["taxi_corner"] == inside(inserted.taxis, "corner")
        assert members["taxi_halted"] == inside(inserted.taxis, "halted")
        assert members["post_corner"] == inside(inserted.posts, "corner")
        assert members["post_middle"] == inside(inserted.posts, "middle")
    assert len(disturber.done) == 6
