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
from support.update_logs import batch_table, log_batch, part

from stqsh.errors import StqshError
from stqsh.fs import file_lock
from stqsh.spec.chunk import pack, unpack
from stqsh.storage.control_log import ControlDb
from stqsh.storage.update_log import compaction
from stqsh.storage.update_log.compaction import FoldLimits, fold_log
from stqsh.storage.update_log.files import CompactedBase, LogCompactedError, logged_files, read_base
from stqsh.storage.update_log.reader import UpdateLog

KEYS, QUERIES, STEPS = "abcde", (3, 7, 8), range(1, 13)
OTHER = pa.schema([("oid", pa.int64()), ("x", pa.float64()), ("note", pa.string())])


def key_of(_stream):
    return "oid"


def always(_batch):
    return nullcontext(True)


@pytest.fixture
def control(tmp_path: Path) -> ControlDb:
    return home_at(tmp_path)


def home_at(folder: Path) -> ControlDb:
    (folder / "updates").mkdir()
    return ControlDb(folder, create=True)


def fold(control: ControlDb, up_to: int, **options):
    return fold_log(control, up_to, key_of, always, **options)


def place(base: CompactedBase) -> tuple[int, int]:
    return base.batch, base.step


def written(control: ControlDb, chance: random.Random, batches: int) -> dict[tuple[int, int], set[str]]:
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
            log_batch(control, number, batch_table(last + 1, step, *_parts(waiting)))
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


def read(control: ControlDb, query: int, step: int, up_to: int):
    answer = UpdateLog(control, key_of).answer_at(query, step, up_to)
    return None if answer is None else answer.to_pylist()


@share(5)
@given(st.integers(0, 1 << 32), st.integers(1, 6), st.data())
def test_answers_are_the_same_however_often_the_log_is_folded(tmp_path_factory, seed, batches, data) -> None:
    control = home_at(tmp_path_factory.mktemp("log"))
    answers = written(control, random.Random(seed), batches)
    before = {at: read(control, *at, batches) for at in answers}
    for (query, step), rows in before.items():
        named = {chr(row["key"]) if query == 8 else row["key"] for row in rows or ()}
        assert named == answers[query, step]
    for up_to in sorted(data.draw(st.sets(st.integers(0, batches), max_size=3))):
        base = fold(control, up_to, limits=FoldLimits(updates=data.draw(st.integers(0, 20))))
        assert base == read_base(control)
        assert all(file.batch > base.batch for file in logged_files(control))
        for (query, step), rows in before.items():
            if step >= base.step:
                assert (read(control, query, step, batches) or []) == (rows or [])
    for table in (only.table for tables in UpdateLog(control, key_of).read(-1, -1) for only in tables):
        pairs = list(zip(table["query"].to_pylist(), table["key"].to_pylist(), strict=True))
        assert len(set(pairs)) == len(pairs) and set(table["op"].to_pylist()) == {1}


def test_a_log_is_folded_to_what_stands_with_the_rows_that_these_need(
    tmp_path: Path, control: ControlDb
) -> None:
    first = [(1, 7, 1, 0, ("a", 1.0)), (1, 7, 1, 0, ("b", 2.0)), (1, 8, 1, 0, ("b", 2.0))]
    log_batch(control, 0, batch_table(1, 1, part(first)))
    log_batch(control, 3, batch_table(2, 4, part([(3, 7, -1, 1, ("a", 9.0)), (4, 8, 1, 0, ("c", 3.0))])))
    log_batch(control, 4, batch_table(5, 5, part([(5, 8, -1, 1, ("b", 4.0))])))
    base = fold(control, 3)
    assert place(base) == (3, 4)
    (tables, _) = UpdateLog(control, key_of).read(-1, 4)
    assert tables[0].batch == 3
    rows = tables[0].table.select(["step", "query", "op", "key", "c.lon"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 7, 1, "b", 2.0), (1, 8, 1, "b", 2.0), (4, 8, 1, "c", 3.0)
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "updates").iterdir()) == [
        "000000000004.arrow", "base-000000000003.arrow", "base-000000000003.bulk"
    ]  # fmt: skip
    assert base.file and base.file.total > base.file.size


def test_distances_stay_and_are_null_where_a_batch_had_none(control: ControlDb) -> None:
    rows, updates = part([(1, 7, 1, 0, ("a", 1.0))])
    told = unpack(updates.payload).append_column("distance", pa.array([2.5]))
    log_batch(control, 0, batch_table(1, 1, [rows, replace(updates, payload=pack(told))]))
    log_batch(control, 1, batch_table(2, 2, part([(2, 7, 1, 0, ("b", 1.0))])))
    fold(control, 1)
    assert [row["distance"] for row in read(control, 7, 2, 1)] == [2.5, None]


def test_who_reads_on_behind_the_base_is_told_and_who_is_beyond_it_is_not(control: ControlDb) -> None:
    for batch in range(4):
        log_batch(
            control,
            batch,
            batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, (f"{batch}", 0.0))])),
        )
    fold(control, 2)
    log = UpdateLog(control, key_of)
    with pytest.raises(LogCompactedError, match="no longer kept one by one"):
        list(log.read(1, 3))
    assert [table.batch for (table,) in log.read(2, 3)] == [3]


def test_who_reads_while_the_log_is_folded_is_told(control: ControlDb) -> None:
    for batch in range(3):
        log_batch(control, batch, batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, ("a", 0.0))])))
    reading = UpdateLog(control, key_of).read(-1, 2)
    next(reading)
    fold(control, 1)
    with pytest.raises(LogCompactedError):
        list(reading)


def test_nothing_goes_where_a_reader_came_meanwhile(tmp_path: Path, control: ControlDb) -> None:
    for batch in range(2):
        log_batch(control, batch, batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, ("a", 0.0))])))
    names = sorted(path.name for path in (tmp_path / "updates").iterdir())

    @contextmanager
    def never(_batch):
        yield False

    assert fold_log(control, 1, key_of, never) == CompactedBase()
    assert sorted(path.name for path in (tmp_path / "updates").iterdir()) == names


def _log_of_two(control: ControlDb) -> list[str]:
    for batch in range(2):
        log_batch(control, batch, batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, ("a", 0.0))])))
    return _names(control)


def _names(control: ControlDb) -> list[str]:
    return sorted(path.name for path in (control.path.parent / "updates").iterdir())


def test_nothing_changes_while_another_process_folds(control: ControlDb) -> None:
    names = _log_of_two(control)
    with file_lock(control.path.parent / "folding.lock"):
        assert fold(control, 1) == CompactedBase()
    assert _names(control) == names
    assert fold(control, 1).batch == 1


def test_a_base_does_not_take_the_last_of_a_disk(control: ControlDb, monkeypatch: pytest.MonkeyPatch) -> None:
    names = _log_of_two(control)
    monkeypatch.setattr(compaction, "free_bytes", lambda _: 200)
    with pytest.raises(StqshError, match=r"its base takes more than the 100 .* that the disk can spare"):
        fold(control, 1)
    assert _names(control) == names


def test_what_an_interrupted_call_left_goes_with_the_next_one(control: ControlDb) -> None:
    names = _log_of_two(control)
    (control.path.parent / "updates" / "base-000000000000.bulk").write_bytes(b"half of it")
    fold(control, -1)
    assert _names(control) == names


def test_few_files_are_mapped_at_once_however_many_there_are(
    control: ControlDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []
    settle = compaction._Fold.settle

    def counted(self: compaction._Fold) -> None:
        waiting.append(sum(map(len, self._parts.values())))
        settle(self)

    monkeypatch.setattr(compaction._Fold, "settle", counted)
    for batch in range(12):
        log_batch(control, batch, batch_table(batch + 1, batch + 1, part([(batch + 1, 7, 1, 0, ("a", 0.0))])))
    fold(control, 11, limits=FoldLimits(parts=3))
    assert len(waiting) == 4
    assert max(waiting) == 5, "one that stands, and four that wait"
