"""A session as it lives for days: objects and events come and go, and so do queries and clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import stqsh
from stqsh.bench.harness.drive import execute, temporary_folder
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import rectangles
from stqsh.client.api import Session
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Updates

TOWN = (10.0, 50.0, 10.14, 50.09)
"""The area of all objects and events: x1, y1, x2, y2."""

_BEGIN_US = 1_735_718_400_000_000
"""The first tick of the generator, 2025-01-01T08:00:00Z, and of the events."""

_STREAMS = """SET updates.keep = '32 MB';
CREATE MOVING STREAM m
  FROM GENERATOR 'network' (objects => {objects}, new_per_tick => {coming}, report_every => {report} s,
                            kinds => 'taxi:4 car:4 bus:2')
  TICK 1 s REPORT EVERY 1 min PACE 1x;
CREATE EVENT STREAM e (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, topic BIGINT)
  KEY id LOCATION (lon, lat) TIME ts FROM FILE '{folder}/events.parquet'
  TICK 1 s KEEP 1 min ARCHIVE TO '{folder}/archive' PACE 1x;
REGISTER QUERY kinds AS SELECT kind, COUNT(*) AS n, AVG(speed) AS mean FROM m GROUP BY kind;
REGISTER QUERY topics AS SELECT topic, COUNT(*) AS n FROM e GROUP BY topic;
REGISTER QUERY centre AS SELECT oid FROM m INSIDE (10.06, 50.04, 10.08, 50.05);
REGISTER QUERY close AS SELECT oid, DISTANCE FROM m NEAREST 10 TO (10.07, 50.045);
CREATE SINK files FOR centre, kinds TO FILE '{folder}/sink' FORMAT PARQUET;"""

_PASSING = """REGISTER QUERY near_{n} AS SELECT oid, DISTANCE FROM m NEAREST 5 TO ({x}, {y});
REGISTER QUERY count_{n} AS
  SELECT topic, COUNT(*) AS n FROM e INSIDE CIRCLE({x}, {y}, 1 km) GROUP BY topic;"""

_FOLLOWED = "SUBSCRIBE SELECT oid FROM m INSIDE (10.06, 50.04, 10.07, 50.05);"
_LOOKS = """SELECT COUNT(*) AS n FROM m;
SELECT kind, AVG(speed) AS mean FROM m GROUP BY kind;
SELECT topic, COUNT(*) AS n FROM e GROUP BY topic ORDER BY n DESC LIMIT 3;
SELECT oid FROM m NEAREST 10 TO (10.07, 50.045);"""


@dataclass(frozen=True)
class BusyLoad:
    """How much comes and goes.

    Attributes:
        objects: moving objects at the beginning.
        coming: objects that come in each second; as many leave.
        report: seconds between two reports of an object.
        events: events a second.
        queries: range queries that stay.
        passing: range queries that are registered in each round, and dropped three rounds later.
        seconds: how long the events last.
    """

    objects: int
    coming: int
    report: int
    events: int
    queries: int
    passing: int
    seconds: int


@dataclass
class BusySession:
    """A session that plays at the pace of the clock, and what passes in it; `round` makes some of it pass."""

    session: Session
    load: BusyLoad
    _rounds: int = 0
    _passing: deque[list[str]] = field(default_factory=deque)

    def round(self) -> None:
        """Register and drop queries, and let a client come, look, follow a query for a moment, and go."""
        self._rounds += 1
        load, number = self.load, self._rounds
        first = load.queries + number * load.passing
        boxes = in_town(rectangles(load.passing, seed=number))
        x, y = boxes[0, :2].tolist() if load.passing else TOWN[:2]
        execute(self.session, statements(boxes, first) + _PASSING.format(n=number, x=x, y=y))
        self._passing.append(
            [f"near_{number}", f"count_{number}", *(f"q{first + at}" for at in range(load.passing))]
        )
        if len(self._passing) > 3:
            execute(self.session, "".join(f"DROP QUERY {name};" for name in self._passing.popleft()))
        self._visit()

    def _visit(self) -> None:
        home = self.session.home
        with stqsh.connect(home.name, home=home.path.parent, autoplay=False) as client:
            execute(client, _LOOKS)
            for following in client.outcomes(_FOLLOWED):
                assert isinstance(following, Subscription)
                for some in following:
                    if isinstance(some, Updates):
                        break
                following.close()


@contextmanager
def busy_session(load: BusyLoad) -> Iterator[BusySession]:
    """Open a temporary session with a load, which plays."""
    with temporary_folder() as folder, stqsh.connect(temporary=True, autoplay=False) as session:
        _write_events(folder / "events.parquet", load)
        options = {"objects": load.objects, "coming": load.coming, "report": load.report}
        execute(session, _STREAMS.format(folder=folder, **options))
        execute(session, statements(in_town(rectangles(load.queries))))
        execute(session, "PLAY m AT 1x; PLAY e AT 1x;")
        yield BusySession(session, load)


def in_town(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return boxes of the unit square, float64 (n, 4), as boxes of the town."""
    x1, y1, x2, y2 = TOWN
    return boxes * [x2 - x1, y2 - y1, x2 - x1, y2 - y1] + [x1, y1, x1, y1]


def _write_events(path: Path, load: BusyLoad) -> None:
    draw, per_minute = np.random.default_rng(5), 60 * load.events
    x1, y1, x2, y2 = TOWN
    writer = None
    for first in range(0, load.events * load.seconds, per_minute):
        ids = np.arange(first, first + per_minute)
        columns: dict[str, Any] = {
            "id": ids,
            "lon": draw.uniform(x1, x2, per_minute),
            "lat": draw.uniform(y1, y2, per_minute),
            "ts": (_BEGIN_US + ids // load.events * 1_000_000).astype("datetime64[us]"),
            "topic": draw.integers(0, 50, per_minute),
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
