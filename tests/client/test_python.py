"""Session.sql, tail and stream_from: what programs and notebooks work with."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import geopandas
import pandas as pd
import pyarrow as pa
import pytest
from support.local import local_session

import stqsh
from stqsh.client.api import Session
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError

ROWS = """oid,lon,lat,ts,free,speed
a,10.0,50.0,2026-01-01T00:00:00Z,true,1.5
b,10.5,50.5,2026-01-01T00:00:00Z,false,2.5
a,10.9,50.9,2026-01-01T00:00:02Z,true,3.5
b,20.0,50.5,2026-01-01T00:00:03Z,true,
"""
START = """CREATE MOVING STREAM cars FROM FILE '{}' TICK 1 s;
REGISTER QUERY inside AS SELECT oid, lon FROM cars INSIDE (10, 50, 11, 51);
REGISTER QUERY counts AS SELECT free, COUNT(*) AS n FROM cars GROUP BY free;
RUN FOR 1 s;"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path, published=True) as session:
        yield session


@pytest.fixture
def cars(session: Session, tmp_path: Path) -> Session:
    (tmp_path / "cars.csv").write_text(ROWS)
    session.sql(START.format(tmp_path / "cars.csv"))
    return session


def test_statements_are_done_when_the_call_returns(session: Session, tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text(ROWS)
    session.execute(START.format(tmp_path / "cars.csv"))
    assert [query.name for query in session.queries()] == ["inside", "counts"]
    assert session.progress().step == 1


def test_outcomes_do_a_statement_when_its_outcome_is_asked_for(cars: Session) -> None:
    outcomes = cars.outcomes("DROP QUERY inside; SHOW QUERIES; DROP QUERY counts;")
    assert len(cars.queries()) == 2
    next(outcomes)
    assert [query.name for query in cars.queries()] == ["counts"]


def test_a_result_has_rows_a_frame_a_table_and_places(cars: Session) -> None:
    found = cars.sql("SELECT oid, lon, lat, ts, speed FROM cars")
    first = {"oid": "a", "lon": 10.0, "lat": 50.0, "ts": datetime(2026, 1, 1, tzinfo=UTC), "speed": 1.5}
    assert found.rows()[0] == first and len(found) == 2
    assert found.arrow().schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert str(found.df()["ts"].dtype) == "datetime64[us, UTC]"
    assert (found.step, found.at) == (1, datetime(2026, 1, 1, tzinfo=UTC))
    places = found.geo()
    assert places.crs == 4326 and places.geometry.iloc[1].coords[0] == (10.5, 50.5)


def test_a_result_by_regions_has_their_shapes(cars: Session, tmp_path: Path) -> None:
    ring = [[10, 50], [10.2, 50], [10.2, 50.2], [10, 50.2], [10, 50]]
    zone = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "geometry": zone, "properties": {"zone": "west"}}
    zones = tmp_path / "zones.geojson"
    zones.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    cars.sql(f"CREATE REGIONS zones FROM FILE '{zones}' NAME zone")
    by_zone = "SELECT REGION(zones) AS zone, COUNT(*) AS n FROM cars GROUP BY REGION(zones)"
    found = cars.sql(by_zone).geo()
    assert found["zone"].tolist() == ["west", None] and found["n"].tolist() == [1, 1]
    assert found.geometry.iloc[0].bounds == (10, 50, 10.2, 50.2) and found.geometry.iloc[1] is None


def test_a_result_is_that_of_the_last_statement_with_rows(cars: Session) -> None:
    found = cars.sql("SELECT oid FROM cars; CREATE REGION r AS RECT(1, 2, 3, 4); RUN FOR 1 s")
    assert found.names == ("oid",)
    assert found.text == "region r created\nstep 2, at 2026-01-01T00:00:01Z"
    assert cars.sql("SHOW REGIONS").rows()[0]["name"] == "r"
    assert cars.sql("DROP REGION r").rows() == []


def test_a_result_without_places_says_what_to_select(cars: Session) -> None:
    with pytest.raises(StqshError, match="no places") as caught:
        cars.sql("SELECT oid, lon FROM cars").geo()
    assert caught.value.hint == "select both columns of the stream's location, such as lon and lat"


@pytest.mark.parametrize(
    "text", ["TAIL inside", "SUBSCRIBE SELECT oid FROM cars", "WATCH inside", "MAP cars"]
)
def test_a_statement_that_goes_on_is_refused_before_anything_is_done(cars: Session, text: str) -> None:
    with pytest.raises(StqshError, match="goes on and has no result"):
        cars.sql(f"DROP QUERY counts; {text}")
    assert len(cars.queries()) == 2


def test_a_result_shows_itself_as_text_and_in_a_notebook(cars: Session) -> None:
    found = cars.sql("SELECT oid, lon, lat, speed FROM cars")
    assert repr(found).splitlines() == [
        "oid  lon   lat   speed",
        "a    10    50    1.5",
        "b    10.5  50.5  2.5",
        "(2 rows)",
    ]
    page = found._repr_html_()
    assert "<td>10.5</td>" in page and page.count("<circle") == 2 and "2 places" in page
    assert "<svg" not in cars.sql("SELECT oid FROM cars")._repr_html_()


def test_a_notebook_shows_names_and_values_as_text(session: Session) -> None:
    session.stream_from({"id": ["<b>"], "x<y": ["&"], "lon": [1.0], "lat": [2.0], "ts": ["2026-01-01"]}, "s")
    page = session.sql('RUN; SELECT id, "x<y" FROM s')._repr_html_()
    assert "<td>&lt;b&gt;</td>" in page and "<th>x&lt;y</th>" in page and "<td>&amp;</td>" in page


def test_updates_come_in_words(cars: Session) -> None:
    cars.sql("RUN")
    found = [(u.step, u.op, u.key, u.row, u.why) for u in cars.tail("inside", from_start=True)]
    assert found == [
        (1, "+", "a", {"oid": "a", "lon": 10.0}, None),
        (1, "+", "b", {"oid": "b", "lon": 10.5}, None),
        (4, "-", "b", {"oid": "b", "lon": 20.0}, "left"),
    ]


def test_the_key_of_a_group_is_a_tuple(cars: Session) -> None:
    cars.sql("RUN")
    found = [(u.op, u.key, u.row["n"], u.why) for u in cars.tail("counts", from_start=True)]
    assert found == [
        ("+", (False,), 1, None),
        ("+", (True,), 1, None),
        ("-", (False,), 1, "left"),
        ("-", (True,), 1, "changed"),
        ("+", (True,), 2, None),
    ]


def test_a_tail_begins_with_the_answer_unless_told_otherwise(cars: Session) -> None:
    found = list(cars.tail("inside"))
    assert [(u.key, u.is_snapshot) for u in found] == [("a", True), ("b", True)]
    cars.sql("RUN")
    tail = cars.tail("inside", from_start=True, only="-", where="lon > 15", limit=5)
    assert [u.key for u in tail] == ["b"] == [u.key for u in tail]


def test_a_tail_of_a_select_registers_it_while_it_is_followed(cars: Session) -> None:
    tail = cars.tail("SELECT oid FROM cars NEAREST 1 TO (10, 50)", limit=1)
    assert len(cars.queries()) == 3
    with pytest.warns(UserWarning, match="RUN or PLAY lets time go on"):
        assert list(tail) == []
    assert len(cars.queries()) == 2


def test_a_tail_of_what_is_not_there_fails_at_once(cars: Session) -> None:
    with pytest.raises(BindError, match="did you mean inside"):
        cars.tail("insde")
    with pytest.raises(StqshError, match="for registered queries"):
        cars.tail("SELECT oid FROM cars", from_start=True)


def test_a_tail_gives_tables(cars: Session) -> None:
    [table] = cars.tail("counts", from_start=True).tables()
    assert table.column_names == ["query", "step", "at", "op", "key", "why", "free", "n"]
    assert table.column("op").to_pylist() == ["+", "+"]


def test_other_tasks_go_on_while_a_tail_waits(cars: Session) -> None:
    cars.sql("RUN")

    async def reasons() -> list[str | None]:
        return [update.why async for update in cars.tail("inside", from_start=True)]

    async def both() -> tuple[list[str | None], int]:
        found, ticks = asyncio.ensure_future(reasons()), 0
        while not found.done():
            ticks += 1
            await asyncio.sleep(0)
        return await found, ticks

    found, ticks = asyncio.run(both())
    assert found == [None, None, "left"] and ticks > 1


def test_a_task_that_is_cancelled_leaves_its_tail(cars: Session) -> None:
    # A session that plays: its tail never ends by itself.
    tail = cars.tail("SELECT oid FROM cars")
    tail.subscription.until_idle = False

    async def cancelled() -> None:
        async def forever() -> None:
            async for _ in tail:
                pass

        task = asyncio.ensure_future(forever())
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancelled(), 10))
    assert len(cars.queries()) == 2


FRAME = pd.DataFrame(
    {
        "id": [1, 2, 1],
        "lon": [10.0, 10.1, 10.2],
        "lat": [50.0, 50.1, 50.2],
        "ts": pd.to_datetime(["2026-01-01 00:00:00", "2026-01-01 00:00:01", "2026-01-01 00:00:05"]),
    }
)


@pytest.mark.parametrize(
    "data",
    [
        FRAME,
        FRAME.set_index("ts"),
        FRAME.assign(ts=FRAME["ts"].astype(str)),
        FRAME.to_dict("list"),
        FRAME.to_dict("records"),
        pa.Table.from_pandas(FRAME),
        geopandas.GeoDataFrame(
            FRAME[["id", "ts"]], geometry=geopandas.points_from_xy(FRAME.lon, FRAME.lat), crs=4326
        ).to_crs(3857),
    ],
    ids=["frame", "index", "texts", "columns", "records", "arrow", "places"],
)
def test_a_table_in_memory_becomes_a_stream(session: Session, data: Any) -> None:
    made = session.stream_from(data)
    assert made.name == "stream" and "guessed: KEY id  LOCATION (lon, lat)  TIME ts" in made.text
    session.sql("RUN FOR 2 s")
    rows = session.sql("SELECT id, lon, lat FROM stream").rows()
    assert [(row["id"], round(row["lon"], 9), round(row["lat"], 9)) for row in rows] == [
        (1, 10.0, 50.0),
        (2, 10.1, 50.1),
    ]
    assert made.wait() is None


def test_roles_and_options_of_a_stream_are_given(session: Session) -> None:
    data = FRAME.rename(columns={"id": "ship", "lon": "a", "lat": "b", "ts": "when it was"})
    made = session.stream_from(
        data,
        "ships",
        kind="event",
        key="ship",
        location=("a", "b"),
        time="when it was",
        options="KEEP 1 hour",
    )
    spec = session.streams()[0].spec
    assert (made.name, spec.key, spec.x, spec.time, spec.is_event) == (
        "ships",
        "ship",
        "a",
        "when it was",
        True,
    )


def test_files_become_a_stream_with_their_name(session: Session, tmp_path: Path) -> None:
    (tmp_path / "my-cars 2.csv").write_text(ROWS)
    assert session.stream_from(tmp_path / "my-cars 2.csv").name == "my_cars_2"
    assert session.stream_from(str(tmp_path / "*.csv")).name == "stream"
    with pytest.raises(BindError, match="no file matches"):
        session.stream_from("nowhere.csv")


def test_what_makes_no_stream_is_an_error(session: Session) -> None:
    with pytest.raises(StqshError, match="a int is not a table"):
        session.stream_from(7)
    with pytest.raises(StqshError, match="no column that looks like its time"):
        session.stream_from({"id": [1], "lon": [1.0], "lat": [1.0]})
    with pytest.raises(StqshError, match="the iterator yields nothing"):
        session.stream_from(iter(()))


def test_an_iterator_becomes_a_live_stream(session: Session) -> None:
    def records() -> Iterator[dict[str, Any]]:
        for number in range(3000):
            yield {
                "id": f"b{number % 3}",
                "lon": 10 + number // 2999,
                "lat": 50,
                "ts": "2026-01-01T00:00:00Z",
            }

    made = session.stream_from(records(), "buses")
    assert made.wait(30) == (3000, 0)
    spec = session.streams()[0].spec
    assert spec.is_live and {column.name: column.type for column in spec.columns}["lon"] == "DOUBLE"
    found = session.sql("RUN 2 STEPS; SELECT id, lon FROM buses").rows()
    assert [(row["id"], row["lon"]) for row in found] == [("b0", 10.0), ("b1", 10.0), ("b2", 11.0)]


def test_an_iterator_of_frames_becomes_a_live_stream(session: Session) -> None:
    made = session.stream_from(iter([FRAME, FRAME]), "ships", kind="event")
    assert made.wait(30) == (6, 0)


def test_what_an_iterator_raises_comes_out_of_wait(session: Session) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield {"id": 1, "lon": 1.0, "lat": 2.0, "ts": "2026-01-01"}
        raise ValueError("the sensor is gone")

    with pytest.raises(ValueError, match="the sensor is gone"):
        session.stream_from(broken()).wait(30)


def test_importing_stqsh_loads_nothing_and_names_everything() -> None:
    code = "import stqsh, sys; print('pyarrow' in sys.modules, sorted(dir(stqsh)) == sorted(stqsh.__all__))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]
    for name in stqsh.__all__:
        assert getattr(stqsh, name) is not None
    assert Path(stqsh.__file__).with_name("py.typed").exists()


def test_the_examples_of_the_manual_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stqsh.docs import document

    monkeypatch.chdir(Path(__file__).parents[2])
    opened: list[Any] = []

    def connect(**_: Any) -> Session:
        opened.append(local_session(tmp_path / str(len(opened)), published=True))
        session: Session = opened[-1].__enter__()
        return session

    monkeypatch.setattr(stqsh, "connect", connect, raising=False)
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", document("python"), re.MULTILINE | re.DOTALL):
        exec(compile(code, "python.md", "exec"), names)
    assert names["stream"].wait() == (100, 0)
    for one in opened:
        one.__exit__(None, None, None)
