"""How many rows answers have, as the engine notes it for many queries at once and the catalogue tells it."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.storage.catalogue import live_queries, query_by_id
from stqsh.storage.control_log import ControlDb
from stqsh.storage.progress import mark_ended, record_growth

SPEC = '{"stream":"s","stream_id":1,"text":"","kind":"range","members":{"region":{"type":"all"}}}'
INSERT = (
    "INSERT INTO queries (id, name, stream_id, spec, state, seq, size, since_us)"
    f" VALUES (?, ?, 1, '{SPEC}', 'active', 1, 0, 0)"
)
IDS = st.sampled_from([1, 2, 510, 511, 512, 513, 1024, 100_000, 100_001])
SIZES = st.integers(0, 2**32 - 1)


def note(db: ControlDb, growth: dict[int, int]) -> None:
    record_growth(db, *(np.array(some, np.int64) for some in zip(*sorted(growth.items()), strict=True)))


def with_queries(folder: Path, ids: list[int]) -> ControlDb:
    db = ControlDb(folder, create=True)
    with db.transaction() as connection:
        connection.executemany(INSERT, [(number, f"q{number}") for number in ids])
    return db


@given(st.lists(st.dictionaries(IDS, SIZES), max_size=5))
def test_each_query_tells_the_size_to_which_it_grew(
    tmp_path_factory: Any, batches: list[dict[int, int]]
) -> None:
    ids = sorted({number for batch in batches for number in batch} | {7})
    db = with_queries(tmp_path_factory.mktemp("home"), ids)
    last = dict.fromkeys(ids, 0)
    for batch in batches:
        grown = {number: size - last[number] for number, size in batch.items()}
        if grown:
            note(db, grown)
        last |= batch
    assert {query.id: query.size for query in live_queries(db)} == last
    db.close()


def test_an_ended_query_has_an_empty_answer(tmp_path: Path) -> None:
    db = with_queries(tmp_path, [5, 6])
    note(db, {5: 3, 6: 4})
    mark_ended(db, [5])
    note(db, {5: 2})
    assert [query_by_id(db, number).size for number in (5, 6)] == [0, 4]
    db.close()
