"""The folded log: whoever reads it from its beginning comes to the same answers as without."""

import random
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.spec.chunk import pack, unpack
from stqsh.storage.update_log.compaction import fold_log
from stqsh.storage.update_log.files import CompactedBase, LogCompactedError, base_bytes, log_sizes, read_base
from stqsh.storage.update_log.reader import UpdateLog
from stqsh.storage.update_log.writer import write_batch
from tests.support.update_logs import batch_table, part

KEYS, QUERIES, STEPS = "abcde", (3, 7, 8), range(1, 13)
OTHER = pa.schema([("oid", pa.int64()), ("x", pa.float64()), ("note", pa.string())])


def key_of(_stream):
    return "oid"


def always(_batch):
    return nullcontext(True)


def fold(folder: Path, up_to: int, **options):
    return fold_log(folder, up_to, key_of, always, **options)


def written(folder: Path, chance: random.Random, batches: int) -> dict[tuple[int, int], set[str]]:
    """Write a log of random steps over two slots and two streams; give every query's keys after each step."""
    members = {query: set() for query in QUERIES}
    answers, waiting, last = {}, [], 0
    cuts = sorted(chance.sample(STEPS, batches - 1)) if batches > 1 else []
    number = 0
    for step in STEPS:
        for query in QUERIES:
            for key in chance.sample(KEYS, chance.randint(0, 4)):
                stays = key in members[query] and chance.random() < 0.3
                if key in members[query]:
                    waiting.append((query, (step, query, -1, 1, key)))
                if key not in members[query] or stays:
                    waiting.append((query, (step, query, 1, 0, key)))
                members[query] = members[query] - {key} if not stays and key in members[query] else {
                    *members[query], key
                }  # fmt: skip
            answers[query, step] = set(members[query])
        if step in cuts or step == STEPS[-1]:
            chance.shuffle(waiting)
            write_batch(folder, number, batch_table(last + 1, step, *_parts(waiting)))
            number, last, waiting = number + 1, step, []
    return answers


def _parts(waiting):
    for slot in range(2):
        for stream, schema in ((1, None), (2, OTHER)):
            mine = [
                (
                    *update[:4],
                    (ord(update[4]), update[0] / 2, "n" * update[0]) if schema else (update[4], 0.5),
                )
                for query, update in waiting
                if (query == 8) == (stream == 2) and ord(update[4]) % 2 == slot
            ]
            if mine:
                yield part(mine, slot=slot, stream=stream, **({"schema": schema} if schema else {}))


def read(folder: Path, query: int, step: int, up_to: int):
    answer = UpdateLog(folder, key_of).answer_at(query, step, up_to)
    return None if answer is None else answer.to_pylist()


@share(5)
@given(st.integers(0, 1 << 32), st.integers(1, 6), st.data())
def test_answers_are_the_same_however_often_the_log_is_folded(tmp_path_factory, seed, batches, data) -> None:
    folder: Path = tmp_path_factory.mktemp("log")
    answers = written(folder, random.Random(seed), batches)
    before = {place: read(folder, *place, batches) for place in answers}
    for (query, step), rows in before.items():
        named = {chr(row["key"]) if query == 8 else row["key"] for row in rows or ()}
        assert named == answers[query, step]
    for up_to in sorted(data.draw(st.sets(st.integers(0, batches), max_size=3))):
        base = fold(folder, up_to, at_once=data.draw(st.integers(0, 20)))
        assert base == read_base(folder)
        assert all(number > base.batch for number, _ in log_sizes(folder))
        for (query, step), rows in before.items():
            if step >= base.step:
                assert (read(folder, query, step, batches) or []) == (rows or [])
    for table in (only.table for tables in UpdateLog(folder, key_of).read(-1, -1) for only in tables):
        pairs = list(zip(table["query"].to_pylist(), table["key"].to_pylist(), strict=True))
        assert len(set(pairs)) == len(pairs) and set(table["op"].to_pylist()) == {1}


def test_a_log_is_folded_to_what_stands_with_the_rows_that_these_need(tmp_path: Path) -> None:
    first = [(1, 7, 1, 0, ("a", 1.0)), (1, 7, 1, 0, ("b", 2.0)), (1, 8, 1, 0, ("b", 2.0))]
    write_batch(tmp_path, 0, batch_table(1, 1, part(first)))
    write_batch(tmp_path, 3, batch_table(2, 4, part([(3, 7, -1, 1, ("a", 9.0)), (4, 8, 1, 0, ("c", 3.0))])))
    write_batch(tmp_path, 4, batch_table(5, 5, part([(5, 8, -1, 1, ("b", 4.0))])))
    assert fold(tmp_path, 3) == CompactedBase(3, 4)
    (tables, _) = UpdateLog(tmp_path, key_of).read(-1, 4)
    assert tables[0].batch == 3
    rows = tables[0].table.select(["step", "query", "op", "key", "c.lon"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 7, 1, "b", 2.0), (1, 8, 1, "b", 2.0), (4, 8, 1, "c", 3.0)
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000000000004.arrow", "base", "base-000000000003.arrow", "base-000000000003.bulk"
    ]  # fmt: skip
    assert base_bytes(tmp_path, CompactedBase(3, 4)) > 0


def test_distances_stay_and_are_null_where_a_batch_had_none(tmp_path: Path) -> None:
    rows, updates = part([(1, 7, 1, 0, ("a", 1.0))])
    told = unpack(updates.payload).append_column("distance", pa.array([2.5]))
    write_batch(tmp_path, 0, batch_table(1, 1, [rows, replace(updates, payload=pack(told))]))
    write_batch(tmp_path, 1, batch_table(2, 2, part([(2, 7, 1, 0, ("b", 1.0))])))
    fold(tmp_path, 1)
    assert [row["distance"] for row in read(tmp_path, 7, 2, 1)] == [2.5, None]


def test_who_reads_on_behind_the_base_is_told_and_who_is_beyond_it_is_not(tmp_path: Path) -> None:
    for batch in range(4):
        write_batch(
            tmp_path,
            batch,
            batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, (f"{batch}", 0.0))])),
        )
    fold(tmp_path, 2)
    log = UpdateLog(tmp_path, key_of)
    with pytest.raises(LogCompactedError, match="no longer kept one by one"):
        list(log.read(1, 3))
    assert [table.batch for (table,) in log.read(2, 3)] == [3]


def test_who_reads_while_the_log_is_folded_is_told(tmp_path: Path) -> None:
    for batch in range(3):
        write_batch(
            tmp_path, batch, batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, ("a", 0.0))]))
        )
    reading = UpdateLog(tmp_path, key_of).read(-1, 2)
    next(reading)
    fold(tmp_path, 1)
    with pytest.raises(LogCompactedError):
        list(reading)


def test_nothing_goes_where_a_reader_came_meanwhile(tmp_path: Path) -> None:
    for batch in range(2):
        write_batch(
            tmp_path, batch, batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, ("a", 0.0))]))
        )
    names = sorted(path.name for path in tmp_path.iterdir())

    @contextmanager
    def never(_batch):
        yield False

    assert fold_log(tmp_path, 1, key_of, never) == CompactedBase()
    assert sorted(path.name for path in tmp_path.iterdir()) == names
