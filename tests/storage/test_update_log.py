import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.update_logs import SCHEMA, batch_table, log_batch, part

from stqsh.errors import OtherVersionError
from stqsh.spec.chunk import Chunk, ChunkOrder, pack, pack_json, to_table, unpack
from stqsh.spec.clock import BatchClock
from stqsh.spec.stats import LiveState
from stqsh.storage.control_log import ControlDb
from stqsh.storage.update_log.files import logged_files
from stqsh.storage.update_log.order import ordered
from stqsh.storage.update_log.reader import UpdateLog, UpdateTable
from stqsh.storage.update_log.writer import write_batch


@pytest.fixture
def control(tmp_path):
    return home_at(tmp_path)


@pytest.fixture
def log(control):
    return UpdateLog(control, lambda stream: "oid")


def home_at(folder):
    (folder / "updates").mkdir()
    return ControlDb(folder, create=True)


def test_a_batch_that_is_repeated_leaves_the_same_bytes_whatever_its_sources_are_like_by_then(control):
    def times(lag):
        at = BatchClock(1, 1, 1000, 1_000_000, backlog=lag, live={1: LiveState({"t/0": lag})})
        chunks = [
            Chunk(0, 0, "clock", ChunkOrder(), 1, 1, 0, pack_json(at)),
            *part([(1, 7, 1, 0, ("a", 1.5))]),
        ]
        return write_batch(control.path.parent / "updates", 0, to_table(chunks))

    assert times(5) == times(17)


def test_a_batch_is_read_back_with_step_time_key_and_row(control, log):
    updates = [(3, 7, 1, 0, ("a", 1.5)), (4, 7, -1, 1, ("a", None))]
    assert log_batch(control, 0, batch_table(1, 5, part(updates))).total > 0
    ((only,),) = log.read(-1, 0)
    assert only.stream_id == 1 and only.table.to_pylist() == [
        dict(zip(only.table.column_names, (3, 1002_000_000, 7, 1, 0, "a", "a", 1.5), strict=True)),
        dict(zip(only.table.column_names, (4, 1003_000_000, 7, -1, 1, "a", "a", None), strict=True)),
    ]
    assert only.table.column_names == ["step", "at_us", "query", "op", "why", "key", "c.oid", "c.lon"]


def test_a_batch_without_updates_writes_no_file(tmp_path, control, log):
    assert log_batch(control, 0, batch_table(1, 5)) is None
    assert list((tmp_path / "updates").iterdir()) == [] and list(log.read(-1, 5)) == []


def test_a_repeated_batch_replaces_its_own_file(tmp_path, control, log):
    for _ in range(2):
        log_batch(control, 2, batch_table(1, 5, part([(1, 7, 1, 0, ("a", 0.0))])))
    assert [path.name for path in (tmp_path / "updates").iterdir()] == ["000000000002.arrow"]
    assert batches(control, -1, 2) == [2] and batches(control, 2, 9) == []


def batches(control, after, up_to):
    return [file.batch for file in logged_files(control, after, up_to)]


def test_slots_and_parts_keep_their_own_rows(control, log):
    parts = [
        part([(1, 7, 1, 0, (f"{slot}{number}", 0.0))], slot=slot, number=number)
        for slot in range(2)
        for number in range(2)
    ]
    log_batch(control, 0, batch_table(1, 1, *parts))
    ((only,),) = log.read(-1, 0)
    assert sorted(only.table.column("key").to_pylist()) == ["00", "01", "10", "11"]


def with_distance(chunks, distances):
    """The chunks of a part whose updates tell distances too."""
    rows, updates = chunks
    batch = unpack(updates.payload)
    batch = batch.append_column("distance", pa.array(distances, pa.float64()))
    return [rows, replace(updates, payload=pack(batch))]


def test_distances_are_null_where_a_part_or_a_batch_has_none(control, log):
    far = with_distance(part([(1, 7, 1, 0, ("a", 0.0)), (1, 7, 1, 0, ("b", 0.0))]), [2.5, None])
    near = part([(1, 7, 1, 0, ("c", 0.0))], slot=1)
    log_batch(control, 0, batch_table(1, 1, far, near))
    log_batch(control, 1, batch_table(2, 2, part([(2, 7, 1, 0, ("d", 0.0))])))
    first, second = (only.table for (only,) in log.read(-1, 1))
    assert dict(zip(first["key"].to_pylist(), first["distance"].to_pylist(), strict=True)) == {
        "a": 2.5, "b": None, "c": None
    }  # fmt: skip
    assert "distance" not in second.column_names
    assert log.answer_at(7, 2, 1)["distance"].to_pylist() == [2.5, None, None, None]


def test_only_the_wanted_queries_are_read(control, log):
    updates = [(1, query, 1, 0, (f"o{query}", 0.0)) for query in (7, 8, 7)]
    log_batch(control, 0, batch_table(1, 1, part(updates)))
    assert [t.table.num_rows for (t,) in log.read(-1, 0, lambda ids: ids == 7)] == [2]
    assert list(log.read(-1, 0, lambda ids: ids == 9)) == []


def test_order_is_step_name_minus_plus_key():
    updates = [
        (2, 8, 1, 0, ("a", 0.0)),
        (2, 7, 1, 0, ("b", 0.0)),
        (2, 7, 1, 0, ("\U0001f600", 0.0)),
        (2, 7, 1, 0, ("￿", 0.0)),
        (2, 7, -1, 1, ("z", 0.0)),
        (1, 8, 1, 0, ("z", 0.0)),
    ]
    (run,) = ordered([_table(1, updates)], {7: "zoo", 8: "alpha"})
    rows = run[1].select(["step", "query", "op", "key"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 8, 1, "z"),
        (2, 8, 1, "a"),
        (2, 7, -1, "z"),
        (2, 7, 1, "b"),
        (2, 7, 1, "￿"),
        (2, 7, 1, "\U0001f600"),
    ]


def test_a_log_of_another_version_is_refused_in_one_sentence(control, log):
    chunks = batch_table(1, 1, part([(1, 7, 1, 0, ("a", 0.0))]))
    log_batch(control, 0, chunks.drop_columns(["phase"]))
    with pytest.raises(OtherVersionError, match="begun by another version of stqsh"):
        list(log.read(-1, 0))


def test_integer_keys_are_ordered_by_value():
    schema = pa.schema([("id", pa.int64())])
    updates = [(1, 7, 1, 0, (key,)) for key in (10, 9, -1, 2**40)]
    (run,) = ordered([_table(1, updates, schema, "id")], {7: "q"})
    assert run[1].column("key").to_pylist() == [-1, 9, 10, 2**40]


KEYS = st.text(max_size=3)
UPDATES = st.tuples(st.integers(1, 4), st.integers(1, 6), st.sampled_from([1, -1]), KEYS)


@given(st.lists(UPDATES, min_size=1, unique=True), st.permutations(["q", "r", "ab", "é", "z", "Q"]))
def test_streams_interleave_as_a_plain_sort_would(updates, names):
    name_of = dict(enumerate(names, 1))
    of_stream = {stream: [u for u in updates if u[1] % 2 == stream % 2] for stream in (1, 2)}
    tables = [
        _table(stream, [(step, query, op, 0, (key, 0.0)) for step, query, op, key in mine])
        for stream, mine in of_stream.items()
        if mine
    ]
    rows = [
        tuple(row.values())
        for _, run in ordered(tables, name_of)
        for row in run.select(["step", "query", "op", "key"]).to_pylist()
    ]
    assert rows == sorted(updates, key=lambda u: (u[0], name_of[u[1]], u[2], u[3]))


@given(st.integers(0, 2**32), st.integers(0, 6), st.integers(1, 3))
def test_the_answer_is_the_fold_of_the_log(tmp_path_factory, seed, step, batches):
    control = home_at(tmp_path_factory.mktemp("log"))
    chance, members, updates = random.Random(seed), {}, []
    expected = {}
    for number in range(1, 7):
        for key in "abcde":
            if chance.random() < 0.5:
                entering = key not in members
                updates.append((number, 7, 1 if entering else -1, 0 if entering else 1, (key, number / 2)))
                members = (
                    {**members, key: number / 2}
                    if entering
                    else {k: v for k, v in members.items() if k != key}
                )
        if number <= step:
            expected = members
    for index, steps in enumerate(np.array_split(np.arange(1, 7), batches)):
        mine = [update for update in updates if update[0] in steps]
        chance.shuffle(mine)
        if mine:
            log_batch(control, index, batch_table(int(steps[0]), int(steps[-1]), part(mine)))
    answer = UpdateLog(control, lambda stream: "oid").answer_at(7, step, batches)
    rows = [] if answer is None else zip(answer["key"].to_pylist(), answer["c.lon"].to_pylist(), strict=True)
    assert list(rows) == sorted(expected.items())


def _table(stream, updates, schema=SCHEMA, key="oid"):
    columns = list(zip(*updates, strict=True))
    rows = list(zip(*columns[4], strict=True))
    types = (pa.int64(), pa.int64(), pa.int64(), pa.int8(), pa.int8())
    values = (columns[0], columns[0], columns[1], columns[2], columns[3])
    arrays = [pa.array(v, t) for v, t in zip(values, types, strict=True)]
    named = [pa.array(v, field.type) for v, field in zip(rows, schema, strict=True)]
    names = ["step", "at_us", "query", "op", "why", "key", *(f"c.{name}" for name in schema.names)]
    return UpdateTable(
        0, stream, pa.Table.from_arrays([*arrays, named[schema.names.index(key)], *named], names)
    )
