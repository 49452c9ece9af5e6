"""Select lists, computed from what the engine sent and from joined tables."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from support.specs import stream_spec, table_spec
from support.typed import expression, select_list

from stqsh.checksums import DamagedFileError
from stqsh.client.read.projection import RowLookups, project, satisfying
from stqsh.client.results import Updates
from stqsh.spec.chunk import WHY
from stqsh.storage import catalogue_writer
from stqsh.storage.rows import StreamRow

STREAM = StreamRow(1, "taxis", stream_spec(x="lon", y="lat"))
NOON_US = 1_201_953_600_000_000  # 2008-02-02T12:00:00Z
TABLE = {
    "name": "favourites",
    "columns": [["oid", "STRING"], ["name", "STRING"], ["stars", "INT"], ["since", "TIMESTAMP"]],
    "key": "oid",
    "source": {"type": "file", "glob": "/f.csv", "format": None, "options": {}},
}
SPEED, KEY = ["col", "speed"], ["col", "oid"]


def updates(*, distance=None, lookups=None):
    columns = {
        "step": [1, 1, 2],
        "at_us": [NOON_US, NOON_US, NOON_US + 1_000_000],
        "why": pa.array([0, 0, 0], pa.int8()),
        "key": ["a", "b", "c"],
        "c.oid": ["a", "b", "c"],
        "c.speed": pa.array([1.5, None, 4.0], pa.float32()),
        "c.n": pa.array([1, 2, None], pa.int32()),
        "c.ts": pa.array([NOON_US, NOON_US - 3_600_000_000, None], pa.timestamp("us", tz="UTC")),
        "c.body": ["Tea time", None, "coffee"],
    }
    if distance is not None:
        columns["distance"] = pa.array(distance, pa.float64())
    return Updates(pa.table(columns), STREAM, {}, lookups=lookups)


@pytest.mark.parametrize(
    ("expr", "kind", "values"),
    [
        (SPEED, pa.float32(), [1.5, None, 4.0]),
        (["col", "n"], pa.int32(), [1, 2, None]),
        (["arith", "*", SPEED, ["lit", 2, "BIGINT"]], pa.float64(), [3.0, None, 8.0]),
        (["arith", "+", ["col", "n"], ["lit", 1, "BIGINT"]], pa.int64(), [2, 3, None]),
        (["fn", "DATE", ["col", "ts"]], pa.string(), ["2008-02-02", "2008-02-02", None]),
        (["fn", "HOUR", ["col", "ts"]], pa.int64(), [12, 11, None]),
        (["contains", ["col", "body"], "TEA", "all"], pa.bool_(), [True, None, False]),
        (["cmp", "<", ["col", "ts"], ["now"]], pa.bool_(), [False, True, None]),
        (["lit", "x", "STRING"], pa.string(), ["x", "x", "x"]),
        (["distance"], pa.float64(), [None, None, None]),
    ],
)
def test_expressions_of_a_select_list(expr, kind, values):
    [column] = project(updates(), select_list([["out", expr]]))
    assert (column.type, column.to_pylist()) == (kind, values)


def test_distance_is_what_the_log_has():
    shown = updates(distance=[0.5, None, 2000.0])
    kilometres = ["arith", "/", ["distance"], ["lit", 1000, "BIGINT"]]
    near, km = project(shown, select_list([["d", ["distance"]], ["km", kilometres]]))
    assert near.to_pylist() == [0.5, None, 2000.0] and km.to_pylist() == [0.0005, None, 2.0]
    assert satisfying(shown, expression(["cmp", "<", ["distance"], ["lit", 1, "BIGINT"]])).to_pylist() == [
        True,
        None,
        False,
    ]


def test_the_old_row_of_a_change_is_shown_and_chosen_as_of_the_step_before():
    shown = updates()
    changed = pa.array([WHY.index("changed"), 0, 0], pa.int8())
    at = shown.table.column_names.index("why")
    shown = replace(shown, table=shown.table.set_column(at, "why", changed))
    fresh = ["cmp", "<", ["now"], ["col", "ts"]]
    [column] = project(shown, select_list([["fresh", fresh]]))
    assert column.to_pylist() == [True, False, None]
    assert satisfying(shown, expression(fresh)).to_pylist() == [True, False, None]


@pytest.fixture
def table(connection):
    row = catalogue_writer.create_table(connection.db, "CREATE TABLE favourites …;", table_spec(TABLE))
    content = pa.table(
        {
            "oid": ["c", "a", "x"],
            "name": ["cab", None, "none"],
            "stars": pa.array([5, 3, None], pa.int32()),
            "since": pa.array([NOON_US, None, None], pa.timestamp("us", tz="UTC")),
        }
    )
    folder = connection.home.table(row.id)
    folder.mkdir(parents=True)
    with pa.OSFile(str(folder / "content.arrow"), "wb") as sink, pa.ipc.new_file(sink, content.schema) as out:
        out.write_table(content, max_chunksize=2)
    return row


def test_columns_of_a_joined_table(connection, table):
    def of_table(name):
        return ["join", table.id, "oid", name]

    select = [
        ["name", of_table("name")],
        ["since", of_table("since")],
        ["twice", ["arith", "*", of_table("stars"), ["lit", 2, "BIGINT"]]],
        ["key", of_table("oid")],
    ]
    found = [
        column.to_pylist() for column in project(updates(lookups=connection.lookups), select_list(select))
    ]
    noon = datetime(2008, 2, 2, 12, tzinfo=UTC)
    assert found == [[None, None, "cab"], [None, None, noon], [6, None, 10], ["a", None, "c"]]


def test_a_table_is_read_once(connection, table, monkeypatch):
    lookups = RowLookups(connection.home, connection.db)
    shown = updates(lookups=lookups)
    select = select_list([["name", ["join", table.id, "oid", "name"]]])
    project(shown, select)
    monkeypatch.setattr(pa, "memory_map", None)
    assert project(shown, select)[0].to_pylist() == [None, None, "cab"]


def test_a_missing_file_of_a_table_is_an_error(connection, table):
    (connection.home.table(table.id) / "content.arrow").unlink()
    listed = select_list([["name", ["join", table.id, "oid", "name"]]])
    with pytest.raises(DamagedFileError, match=r"content\.arrow is missing"):
        project(updates(lookups=connection.lookups), listed)


def test_a_dropped_table_whose_file_is_removed_has_no_rows(connection, table):
    catalogue_writer.drop_table(connection.db, "DROP TABLE t;", table)
    (connection.home.table(table.id) / "content.arrow").unlink()
    listed = select_list([["name", ["join", table.id, "oid", "name"]]])
    [column] = project(updates(lookups=connection.lookups), listed)
    assert column.to_pylist() == [None, None, None]
