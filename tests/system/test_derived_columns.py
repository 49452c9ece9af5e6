"""Derived columns of streams: a column that is computed is like one that the source has."""

from __future__ import annotations

import csv
import math
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from support.local import LocalConnection, local_session
from support.running import parsed, run_script

from stqsh.client.api import Session
from stqsh.client.feed import feed
from stqsh.client.results import Answer, Rows, Script
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError
from stqsh.profile import load_profile
from stqsh.sources.live.decoding import MessageDecoder, Messages
from stqsh.spec.stream import KafkaSourceSpec, StreamSpec
from stqsh.storage.catalogue import live_streams

BEGIN = 1_700_000_000
CODE = """def sort(said):
    return [one.split()[0] if one is not None else "none" for one in said.to_pylist()]
"""
FUNCTION = f"CREATE FUNCTION sort (said STRING) RETURNS STRING AS '{CODE}';\n"
COLUMNS = "id BIGINT, x DOUBLE, y DOUBLE, t TIMESTAMP, n BIGINT, said STRING"
DERIVED = """twice BIGINT AS n * 2, topic STRING AS sort(said), second BIGINT AS EXTRACT(SECOND FROM t),
  far BOOLEAN AS loc INSIDE CIRCLE(3, 3, 2) AND level > 1, level DOUBLE AS twice / 3, share FLOAT AS x / n,
  minute TIMESTAMP AS DATE_TRUNC('minute', t)"""
#: The same columns, of the file.
STORED = """twice BIGINT, topic STRING, second BIGINT, far BOOLEAN, level DOUBLE, share FLOAT,
  minute TIMESTAMP"""
SELECTS = [
    "SELECT id, topic, twice, second, far, level, share, minute FROM s INSIDE (1, 1, 5, 5) WHERE far",
    "SELECT topic, COUNT(*) AS n, MAX(level) AS most, SUM(share) AS part FROM s GROUP BY topic",
    "SELECT id, minute FROM s WHERE topic = 'rain' ORDER BY level DESC, id LIMIT 3",
    "SELECT id, level FROM s NEAREST 2 TO (3, 3) WHERE second > 4",
    "SELECT id, label FROM s, labels WHERE s.topic = labels.topic AND twice > 2",
]
OF_EVENTS = [
    *SELECTS,
    "SELECT id, twice FROM s WHERE topic CONTAINS 'rain'",
    "SELECT minute, COUNT(*) AS n FROM s WINDOW 10 s GROUP BY minute",
]


def rows(seed: int) -> Iterator[dict[str, Any]]:
    """Records with the values of all columns, computed here; some are NULL."""
    chance = random.Random(seed)
    for second in range(70):
        for id_ in range(chance.randint(0, 4)):
            n = chance.choice([None, 0, 1, 2, 5])
            said = chance.choice([None, "rain today", "jam again", "fog"])
            x, y = chance.randint(0, 24) / 4, chance.randint(0, 24) / 4
            level = None if n is None else 2 * n / 3
            high = None if level is None else level > 1
            near = math.dist((x, y), (3, 3)) <= 2
            yield {
                "id": id_ + (10 * second if seed % 2 else 0),
                "x": x,
                "y": y,
                "t": BEGIN + second,
                "n": n,
                "said": said,
                "twice": None if n is None else 2 * n,
                "topic": "none" if said is None else said.split()[0],
                "second": datetime.fromtimestamp(BEGIN + second, UTC).second,
                "far": None if near and high is None else near and bool(high),
                "level": level,
                "share": None if not n else float(np.float32(x / n)),
                "minute": (BEGIN + second) // 60 * 60,
            }


def write(folder: Path, seed: int) -> None:
    with (folder / "s.csv").open("w") as out:
        table = csv.DictWriter(out, next(rows(seed)).keys())
        table.writeheader()
        table.writerows(rows(seed))
    (folder / "labels.csv").write_text("topic,label\nrain,wet\nfog,grey\n")


@cache
def printed(seed: int, columns: str, slots: int, records: int, mishaps: tuple[int, ...] = ()) -> bytes:
    """What queries over a stream send, and what SELECTs answer: of events if the seed is odd."""
    is_event = bool(seed % 2)
    selects = OF_EVENTS if is_event else SELECTS
    with (
        TemporaryDirectory() as name,
        local_session(Path(name) / "home", slots, records, mishaps) as session,
    ):
        write(Path(name), seed)
        clauses = "TEXT topic KEEP 20 s" if is_event else "REPORT EVERY 10 s"
        kind = "EVENT" if is_event else "MOVING"
        text = FUNCTION + f"CREATE TABLE labels FROM FILE '{name}/labels.csv' KEY topic;\n"
        text += f"CREATE {kind} STREAM s {columns} KEY id LOCATION (x, y) TIME t FROM FILE '{name}/s.csv'"
        text += f" PLANAR {clauses};\n"
        text += "".join(f"REGISTER QUERY q{i} AS {select};\n" for i, select in enumerate(selects))
        asked = "".join(f"{select};\n" for select in selects if "WINDOW" not in select)
        text += f"RUN 7 STEPS;\n{asked}" * 10
        return run_script(allowed(session), text)


def allowed(session: Session) -> Session:
    """The same session for a client with --allow-run."""
    return Session(
        session.home, load_profile(None, {}), autoplay=False, allow_run=True, connection=session.connection
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("columns", [f"({DERIVED})", f"({COLUMNS}, {DERIVED})"])
def test_a_derived_column_is_like_one_of_the_file(seed: int, columns: str) -> None:
    if "id BIGINT" not in columns:
        # The file has columns of these names, too.
        with pytest.raises(StqshError, match="two columns are called 'twice'"):
            printed(seed, columns, 2, 400_000)
        return
    found = printed(seed, columns, 2, 400_000)
    assert found == printed(seed, f"({COLUMNS}, {STORED})", 2, 400_000)
    assert len({line["query"] for line in parsed(found) if "query" in line}) == len(SELECTS) + 2 * (seed % 2)


@pytest.mark.parametrize(("slots", "records", "mishaps"), [(1, 400_000, ()), (3, 7, ()), (5, 40, (1, 3))])
@pytest.mark.parametrize("seed", [1, 2])
def test_neither_slots_nor_cuts_nor_mishaps_change_a_byte(
    seed: int, slots: int, records: int, mishaps: tuple[int, ...]
) -> None:
    columns = f"({COLUMNS}, {DERIVED})"
    assert printed(seed, columns, slots, records, mishaps) == printed(seed, columns, 2, 400_000)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "home", slots=2, published=True) as session:
        yield allowed(session)


def answer(session: Session, text: str) -> list[dict[str, Any]]:
    found = list(session.execute(text))[-1]
    assert isinstance(found, Answer)
    listed: list[dict[str, Any]] = found.table.to_pylist()
    return listed


def dead_letters(session: Session) -> list[tuple[Any, ...]]:
    _, letters = session.execute("SHOW DEAD LETTERS;")
    assert isinstance(letters, Rows)
    return list(letters.rows)


def spec(session: Session) -> StreamSpec:
    assert isinstance(session.connection, LocalConnection)
    [stream] = live_streams(session.connection.db)
    return stream.spec


CARS = "id,lon,lat,ts,speed,said\na,10,50,2026-01-01T07:00:00Z,10,rain now\nb,11,51,2026-01-01T08:30:01Z,,\n"


def cars(session: Session, tmp_path: Path, columns: str, text: str = CARS, rest: str = "") -> None:
    (tmp_path / "cars.csv").write_text(text)
    file = tmp_path / "cars.csv"
    run_script(session, f"CREATE MOVING STREAM cars {columns} FROM FILE '{file}' {rest};")


def test_columns_of_the_source_are_found_beside_derived_ones(session: Session, tmp_path: Path) -> None:
    cars(session, tmp_path, "(hour BIGINT AS HOUR(ts), kmh DOUBLE AS speed * 3.6)")
    names = ["id", "lon", "lat", "ts", "speed", "said", "hour", "kmh"]
    assert [column.name for column in spec(session).columns] == names
    assert [column.name for column in spec(session).given] == names[:6]
    columns, _ = session.execute("DESCRIBE cars;")
    assert isinstance(columns, Rows)
    assert columns.rows[-2:] == (("hour", "BIGINT", "AS HOUR(ts)"), ("kmh", "DOUBLE", "AS speed * 3.6"))
    run_script(session, "RUN 6000 STEPS;")
    asked = answer(session, "SELECT id, hour, kmh FROM cars ORDER BY id;")
    assert asked == [{"id": "a", "hour": 7, "kmh": 36.0}, {"id": "b", "hour": 8, "kmh": None}]


def test_roles_may_be_derived(session: Session, tmp_path: Path) -> None:
    text = "name,a,b,at\nx,100000000,500000000,1767250800\nx,110000000,510000000,1767250801\n"
    derived = """(code STRING AS name || '-1', lon DOUBLE AS a / 1e7, lat DOUBLE AS b / 1e7,
      ts TIMESTAMP AS TO_TIMESTAMP(at))"""
    cars(session, tmp_path, derived, text, "KEY code LOCATION (lon, lat) TIME ts")
    columns, _ = session.execute("DESCRIBE cars;")
    assert isinstance(columns, Rows)
    assert ("lon", "DOUBLE", "x, AS a / 10000000.0") in columns.rows
    run_script(session, "RUN 2 STEPS;")
    assert answer(session, "SELECT * FROM cars;")[0]["code"] == "x-1"
    assert answer(session, "SELECT lon, lat FROM cars INSIDE CIRCLE(11, 51, 10);") == [
        {"lon": 11.0, "lat": 51.0}
    ]


def test_a_session_is_made_again_of_its_dump(session: Session, tmp_path: Path) -> None:
    run_script(session, FUNCTION)
    cars(session, tmp_path, '(topic STRING AS sort(said), "so far" BOOLEAN AS NOT (speed > 5 OR lon < 3))')
    [script] = session.execute("DUMP;")
    assert isinstance(script, Script)
    assert '(topic STRING AS SORT(said), "so far" BOOLEAN AS NOT (speed > 5 OR lon < 3))' in script.text
    with local_session(tmp_path / "other", slots=2) as other:
        run_script(allowed(other), script.text)
        assert isinstance(other.connection, LocalConnection)
        assert live_streams(other.connection.db)[0].spec == spec(session)


def test_a_stream_keeps_the_function_with_which_it_was_made(session: Session, tmp_path: Path) -> None:
    run_script(session, FUNCTION)
    cars(session, tmp_path, "(topic STRING AS sort(said))")
    run_script(session, "DROP FUNCTION sort; RUN 6000 STEPS;")
    asked = answer(session, "SELECT id, topic FROM cars ORDER BY id;")
    assert [one["topic"] for one in asked] == ["rain", "none"]


def test_a_record_that_a_function_fails_for_is_set_aside(session: Session, tmp_path: Path) -> None:
    code = "def first(said):\n    return [one.split()[0] for one in said.to_pylist()]"
    run_script(session, f"CREATE FUNCTION first (said STRING) RETURNS STRING AS '{code}';")
    cars(session, tmp_path, "(topic STRING AS first(said))")
    run_script(session, "RUN 6000 STEPS;")
    assert answer(session, "SELECT id, topic FROM cars;") == [{"id": "a", "topic": "rain"}]
    [letter] = dead_letters(session)
    assert "topic: FIRST: AttributeError: 'NoneType' object has no attribute 'split'" in letter
    run_script(session, "DROP STREAM cars;")
    cars(session, tmp_path, "(topic STRING AS COALESCE(first(said), 'none'))")
    run_script(session, "RUN 6000 STEPS;")
    asked = answer(session, "SELECT id, topic FROM cars ORDER BY id;")
    assert asked == [{"id": "a", "topic": "rain"}, {"id": "b", "topic": "none"}]


def test_a_value_that_does_not_fit_its_column_is_set_aside(session: Session, tmp_path: Path) -> None:
    cars(session, tmp_path, "(n INT AS speed * 300000000, double BIGINT AS n + 1)")
    run_script(session, "RUN 6000 STEPS;")
    [letter] = dead_letters(session)
    assert "n: '3000000000' is not a valid INT" in letter


def test_inserted_records_get_derived_columns(session: Session) -> None:
    create = f"""{FUNCTION} CREATE EVENT STREAM posts (id BIGINT, topic STRING AS sort(said), lon DOUBLE,
      lat DOUBLE, ts TIMESTAMP, said STRING) KEY id LOCATION (lon, lat) TIME ts TEXT topic FROM INSERTS;
    INSERT INTO posts VALUES (1, 10, 50, NOW, 'rain again'), (2, 10, 50, NOW, NULL);
    INSERT INTO posts (said, ts, lat, lon, id) VALUES ('fog', NOW, 50, 10, 3); RUN 1 STEPS;"""
    run_script(session, create)
    asked = answer(session, "SELECT id, topic FROM posts ORDER BY id;")
    assert [one["topic"] for one in asked] == ["rain", "none", "fog"]
    assert answer(session, "SELECT id FROM posts WHERE topic CONTAINS 'fog';") == [{"id": 3}]
    with pytest.raises(BindError, match="topic is computed from other columns, and cannot be inserted"):
        session.execute("INSERT INTO posts (id, topic, ts) VALUES (1, 'a', NOW);")
    table = {"id": [4], "lon": [10.0], "lat": [50.0], "ts": ["2030-01-01T00:00:00Z"], "said": ["jam too"]}
    feed(session, "posts", table)
    run_script(session, "RUN 1 STEPS;")
    assert answer(session, "SELECT topic FROM posts WHERE id = 4;") == [{"topic": "jam"}]


def test_a_generator_makes_derived_columns(session: Session) -> None:
    text = """CREATE MOVING STREAM t (kmh DOUBLE AS speed * 3.6, fast BOOLEAN AS kmh > 30)
      FROM GENERATOR 'network' (objects => 50, duration => 20 s);
    RUN 5 STEPS;"""
    run_script(session, text)
    asked = answer(session, "SELECT speed, kmh, fast FROM t;")
    assert len(asked) == 50
    assert all(one["kmh"] == one["speed"] * 3.6 for one in asked)
    assert all(one["fast"] == (one["kmh"] > 30) for one in asked)


def test_messages_of_kafka_get_derived_columns(session: Session) -> None:
    text = (
        FUNCTION
        + """CREATE MOVING STREAM s (_key STRING, code STRING AS _key || '!', x DOUBLE, y DOUBLE,
      t TIMESTAMP, said STRING, topic STRING AS sort(said)) KEY _key LOCATION (x, y) TIME t
      FROM KAFKA 'localhost:1' TOPIC 's';"""
    )
    run_script(session, text)
    stream = spec(session)
    assert isinstance(stream.source, KafkaSourceSpec)
    values: list[bytes | None] = [
        orjson.dumps({"x": 1, "y": 2, "t": "2026-01-01T00:00:00Z", "said": "rain now"}),
        None,
        orjson.dumps({"x": 1, "y": 2, "t": "2026-01-01T00:00:00Z", "said": ""}),
    ]
    times = np.full(3, 1_767_225_600_000)
    messages = Messages("s/0", np.arange(3), values, [b"a", b"b", b"c"], times, np.zeros(3, np.int64))
    records, dead, _ = MessageDecoder.of(stream).decode(messages)
    found = [(one["_key"], one["code"], one["topic"]) for one in records.to_pylist()]
    # Of an object that leaves nothing is computed.
    assert found == [("a", "a!", "rain"), ("b", None, None)]
    assert [(letter.line, letter.reason) for letter in dead] == [
        (2, "topic: SORT: IndexError: list index out of range")
    ]


@pytest.mark.parametrize(
    ("columns", "message", "at"),
    [
        ("a BIGINT AS b + 1, b BIGINT AS a", "a is computed from itself: a -> b -> a", "b + 1"),
        ("a BIGINT AS a + 1", "a is computed from itself: a -> a", "a + 1"),
        ("a BIGINT AS sped + 1", "stream cars has no column 'sped'", "sped"),
        ("a BIGINT AS said", "a is a BIGINT, but said is a STRING", "said"),
        ("a BIGINT AS speed * 0.5", "a is a BIGINT, but speed * 0.5 is a DOUBLE", "speed * 0.5"),
        ("a STRING AS NULL", "a is a STRING, but NULL is NULL", "NULL"),
        ("speed DOUBLE AS lon", "two columns are called 'speed'", "speed"),
        ("a DOUBLE AS lon, a DOUBLE AS lat", "two columns are called 'a'", "a DOUBLE AS lat"),
        ("a STRING AS sorted(said)", "there is no function SORTED", "sorted(said)"),
        ("a BIGINT AS COUNT(*)", "an aggregate stands in a select list", "COUNT(*)"),
        (
            "a BOOLEAN AS ts > NOW - 1 min",
            "a is computed once, when a record is read",
            "ts >",
        ),
        ("a BOOLEAN AS loc INSIDE spot", "where named regions are not known", "loc INSIDE"),
        ("a DOUBLE AS DISTANCE", "DISTANCE is for CIRCLE and NEAREST", "DISTANCE"),
        ("_step BIGINT AS 1", "no column can be called _step", "cars"),
    ],
)
def test_errors_name_their_place(
    session: Session, tmp_path: Path, columns: str, message: str, at: str
) -> None:
    run_script(session, "CREATE REGION spot AS CIRCLE(10, 50, 5);")
    (tmp_path / "cars.csv").write_text(CARS)
    text = f"CREATE MOVING STREAM cars ({columns}) FROM FILE '{tmp_path}/cars.csv';"
    with pytest.raises(StqshError) as caught:
        session.execute(text)
    assert message in caught.value.message
    assert isinstance(caught.value, BindError)
    assert text[caught.value.span.start :].startswith(at)


def test_the_number_of_a_row_is_not_known_when_it_is_read(session: Session, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("lon,lat,ts\n10,50,2026-01-01T07:00:00Z\n")
    with pytest.raises(BindError, match="stream e has no column 'row'"):
        session.execute(f"CREATE EVENT STREAM e (a BIGINT AS row + 1) FROM FILE '{tmp_path}/e.csv';")
    run_script(
        session, f"CREATE EVENT STREAM e (a BIGINT AS HOUR(ts)) FROM FILE '{tmp_path}/e.csv'; RUN 1 STEPS;"
    )
    assert answer(session, "SELECT row, a FROM e;") == [{"row": 1, "a": 7}]


def test_a_table_has_derived_columns(session: Session, tmp_path: Path) -> None:
    """Its key and a condition of a join are derived; a value that does not fit is a dead letter."""
    text = "id,lon,lat,ts\n" + "".join(f"{n}-1,1{n},50,2026-01-01T07:00:00Z\n" for n in range(3))
    cars(session, tmp_path, "", text)
    (tmp_path / "owners.csv").write_text("n,name\n0,Ann\n1,Bo\n2,\n1,Cy\n3,Di\n")
    making = f"""CREATE TABLE owners (scaled INT AS twice * 500000000, id STRING AS n || '-1',
      big BOOLEAN AS n > 0, twice BIGINT AS n * 2) FROM FILE '{tmp_path}/owners.csv' KEY id;"""
    run_script(session, f"{making} RUN 2 STEPS;")
    asked = "SELECT s.id, name, twice FROM cars s, owners WHERE s.id = owners.id"
    assert answer(session, f"{asked};") == [
        {"id": "0-1", "name": "Ann", "twice": 0},
        {"id": "1-1", "name": "Bo", "twice": 2},
        {"id": "2-1", "name": None, "twice": 4},
    ]
    assert [one["id"] for one in answer(session, f"{asked} AND big;")] == ["1-1", "2-1"]
    reasons = sorted(str(letter) for letter in dead_letters(session))
    assert len(reasons) == 2, "a key that repeats, and a value that is too large"
    assert any("scaled" in reason and "3000000000" in reason for reason in reasons)
    described, _ = session.execute("DESCRIBE owners;")
    assert isinstance(described, Rows)
    assert ("n", "BIGINT", None) in described.rows
    assert ("id", "STRING", "key, AS n || '-1'") in described.rows
    [script] = session.execute("DUMP;")
    assert isinstance(script, Script)
    assert "scaled INT AS twice * 500000000, id STRING AS n || '-1'" in script.text


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("far BOOLEAN AS loc INSIDE CIRCLE(3, 3, 2)", "the rows of t have no location"),
        ("old BOOLEAN AS NOW > TO_TIMESTAMP(n)", "computed once"),
        ("a INT AS a + 1", "computed from itself"),
        ("n INT AS 1", "two columns"),
        ("now_on INT AS time", "no column 'time'"),
    ],
)
def test_a_column_of_a_table_cannot_be_computed_from_what_its_rows_lack(
    session: Session, tmp_path: Path, column: str, reason: str
) -> None:
    (tmp_path / "t.csv").write_text("id,n\na,1\n")
    with pytest.raises(BindError, match=reason):
        session.execute(f"CREATE TABLE t ({column}) FROM FILE '{tmp_path}/t.csv';")


def test_topics_are_those_of_the_model_of_the_manual(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    root = Path(__file__).parents[2]
    page = (root / "stqsh" / "docs" / "extending.md").read_text(encoding="utf-8")
    code, after = page.partition("# topics.py\n")[2].split("```", 1)
    statements = after.partition("```text\n")[2].split("```")[0]
    (tmp_path / "topics.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(root)
    *making, asking = statements.replace("topics.py", f"{tmp_path}/topics.py").strip().splitlines()
    run_script(session, "".join([*making, "RUN 900 STEPS;"]))
    counts = answer(session, asking)
    names: dict[str, Any] = {}
    exec(code, names)
    bodies = pa.array(names["sample"])
    one_by_one = [names["topic"](bodies.slice(place, 1))[0] for place in range(len(bodies))]
    assert names["topic"](bodies) == one_by_one
    topics = dict(zip(names["sample"], one_by_one, strict=True))
    asked = answer(session, "SELECT topic, body FROM themes;")
    assert all(one["topic"] == topics[one["body"]] for one in asked)
    assert {one["topic"]: one["posts"] for one in counts} == Counter(one["topic"] for one in asked)
    assert len(counts) == len(names["names"])


def test_an_archive_has_derived_columns(session: Session, tmp_path: Path) -> None:
    lines = [f"{i},10,50,{BEGIN + i},{i}" for i in range(200)]
    (tmp_path / "e.csv").write_text("\n".join(["id,lon,lat,ts,n", *lines]) + "\n")
    run_script(
        session,
        f"""CREATE EVENT STREAM e (half BIGINT AS n DIV 2) KEY id FROM FILE '{tmp_path}/e.csv'
        KEEP 10 s ARCHIVE TO '{tmp_path}/old'; RUN;""",
    )
    [counted] = answer(session, f"SELECT SUM(half) AS n FROM e WHERE ts >= '{BEGIN_TEXT}';")
    assert counted == {"n": sum(i // 2 for i in range(200))}


BEGIN_TEXT = datetime.fromtimestamp(BEGIN, UTC).isoformat()
