"""Leaves that are split by texts: where records go, and which children queries have to go to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies.conditions import ASKED
from support.strategies.routing import split_tables
from support.strategies.streams import TEXTS

from stqsh.core.kernels.index.hashing import hash_integers, hash_keys
from stqsh.core.texts.tokenizer import contains, needed_words
from stqsh.routing.cells import Cells
from stqsh.routing.slot_terms import sought_words
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.routing.table_payload import pack_table, unpack_table
from stqsh.routing.text_leaves import CHILDREN, SoughtTerms, TextLeaves, TextTerms

BOX = np.array([[-9.0, -9.0, 9.0, 9.0]])


def split_table(lists: Mapping[str, int], slot: tuple[int, ...] = (0, 1, 2, 3)) -> RoutingTable:
    """A table of one cell that is split by texts; by word, the lists that it is on as bits."""
    term = hash_keys(pa.array(list(lists), pa.string()))
    order = np.argsort(term)
    texts = TextLeaves.of([(term[order], np.array(list(lists.values()), np.uint8)[order])])
    cells, leaf = Cells((0.0, 0.0, 1.0, 1.0), 1), np.zeros((1, 1), np.int32)
    return RoutingTable("qttree", cells, leaf, np.array([TEXT, *slot], np.int16), 4, texts)


LISTS = {"fire": 0b0010, "smoke": 0b0110, "flood": 0b0100, "jam": 0b1000, "sun": 0}


def slots(table: RoutingTable, *texts: str | None, first: int = 0) -> list[int]:
    hashes = hash_integers(np.arange(first, first + len(texts)))
    place = np.zeros(len(texts))
    found: list[int] = table.slots_of(place, place, hashes, pa.array(texts, pa.string())).tolist()
    return found


def touched(table: RoutingTable, *words: str) -> list[int]:
    return np.flatnonzero(table.slots_touching(BOX, sought_words(words))[0]).tolist()


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("Fire!", 1),
        ("fire, smoke and a cat", 1),
        ("flood smoke", 2),
        ("jam", 3),
        ("fire flood", 0),
        ("smoke jam", 0),
        ("sun", 0),
        ("sun fire", 0),
    ],
)
def test_a_record_goes_to_a_child_whose_list_has_all_of_its_terms_else_to_child_0(
    text: str, slot: int
) -> None:
    assert slots(split_table(LISTS), *[text] * 40) == [slot] * 40


@pytest.mark.parametrize(
    ("text", "among"), [("smoke", {1, 2}), ("a cat", {0, 1, 2, 3}), ("", {0, 1, 2, 3}), (None, {0, 1, 2, 3})]
)
def test_of_several_children_the_key_chooses_evenly(text: str | None, among: set[int]) -> None:
    counts = np.bincount(slots(split_table(LISTS), *[text] * 4000), minlength=4)
    assert set(np.flatnonzero(counts).tolist()) == among
    assert counts[counts > 0].min() > 0.85 * 4000 / len(among)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fire"], [0, 1]),
        (["smoke"], [0, 1, 2]),
        (["fire", "jam"], [0, 1, 3]),
        (["sun"], [0]),
        (["hail"], [0, 1, 2, 3]),
        (["fire", "hail"], [0, 1, 2, 3]),
        ([], [0, 1, 2, 3]),
    ],
)
def test_a_query_goes_to_child_0_and_where_its_terms_are_on_lists(
    words: list[str], expected: list[int]
) -> None:
    table = split_table(LISTS)
    assert touched(table, *words) == expected
    assert table.slots_touching(BOX)[0].all(), "without terms it goes to all"


def test_a_leaf_without_terms_deals_by_key_and_sends_queries_everywhere() -> None:
    table = split_table({})
    assert set(slots(table, *["fire"] * 400)) == {0, 1, 2, 3}
    assert touched(table, "fire") == [0, 1, 2, 3]


def test_each_leaf_has_its_own_lists_whatever_the_hashes_of_terms() -> None:
    last = 2**64 - 1
    lists = [{3: 0b0010, last: 0b0100}, {3: 0b1000}, {}]
    leaves = TextLeaves.of(
        [(np.array(list(some), np.uint64), np.array(list(some.values()), np.uint8)) for some in lists]
    )
    sought = SoughtTerms(np.arange(4), np.array([3, last, 4], np.uint64))
    leaf, query = np.divmod(np.arange(9), 3)
    found = leaves.children_of_queries(leaf, query, sought) @ (1 << np.arange(CHILDREN))
    every = (1 << CHILDREN) - 1
    assert found.tolist() == [0b0011, 0b0101, every, 0b1001, every, every, every, every, every]
    terms = TextTerms(np.arange(9), np.tile(np.arange(3), 3), sought.term)
    child = leaves.children_of_records(leaf, np.zeros(9, np.uint64), terms)
    assert child.tolist() == [1, 2, 0, 3, 0, 0, 0, 0, 0]


def test_children_may_be_dealt_by_hash_and_share_slots() -> None:
    table = split_table(LISTS, (2, HASHED, 2, 3))
    assert set(slots(table, *["fire"] * 400)) == {0, 1, 2, 3}
    assert touched(table, "flood") == [2] and touched(table, "fire") == [0, 1, 2, 3]
    assert touched(table.over(2), "flood") == [0]


def test_cells_beside_it_are_dealt_as_ever() -> None:
    table = split_table(LISTS)
    leaf, slot = np.array([[0, 1], [2, 1]], np.int32), np.array([TEXT, 3, HASHED, 0, 1, 2, 3], np.int16)
    table = RoutingTable("qttree", Cells((0.0, 0.0, 2.0, 2.0), 2), leaf, slot, 4, table.texts)
    x, y = np.array([0.5, 1.5, 0.5]), np.array([0.5, 0.5, 1.5])
    hashes = hash_integers(np.arange(3))
    found = table.slots_of(x, y, hashes, pa.array(["fire", "fire", "fire"]))
    assert found[:2].tolist() == [1, 3]
    boxes = np.array([[0.1, 0.1, 0.2, 0.2], [0.1, 0.1, 1.2, 0.2], [0.1, 0.1, 0.2, 1.9], [1.1, 0.1, 1.2, 0.2]])
    sought = SoughtTerms(np.arange(5), hash_keys(pa.array(["fire", "flood", "fire", "jam"])))
    wanted = [[True, True, False, False], [True, False, True, True], [True] * 4, [False, False, False, True]]
    assert table.slots_touching(boxes, sought).tolist() == wanted
    many = SoughtTerms(np.arange(41), np.tile(sought.term, 10))
    assert table.slots_touching(np.tile(boxes, (10, 1)), many).tolist() == wanted * 10


@given(
    split_tables(),
    st.lists(st.tuples(st.integers(0, 99), st.sampled_from([None, *TEXTS])), min_size=12, max_size=30),
    st.lists(st.tuples(st.sampled_from([*ASKED, "", "hail"]), st.booleans()), min_size=6, max_size=12),
    st.data(),
)
def test_a_record_that_satisfies_a_query_is_where_the_query_is(
    table: RoutingTable,
    records: list[tuple[int, str | None]],
    asked: list[tuple[str, bool]],
    data: st.DataObject,
) -> None:
    coordinates = st.lists(st.floats(-1.2, 2.2), min_size=len(records), max_size=len(records))
    x, y = (np.array(data.draw(coordinates)) for _ in "xy")
    texts = pa.array([text for _, text in records], pa.string())
    owner = table.slots_of(x, y, hash_integers(np.array([key for key, _ in records])), texts)
    phrases, every = pa.array([phrase for phrase, _ in asked]), np.array([every for _, every in asked])
    count, words = needed_words(phrases, every)
    sought = SoughtTerms(np.cumsum(np.append(0, count)), hash_keys(words))
    boxes = np.tile(np.array([-1.0, -1.0, 2.0, 2.0]), (len(asked), 1))
    found = table.slots_touching(boxes, sought)
    inside = (x >= -1) & (x <= 2) & (y >= -1) & (y <= 2)
    for number, (phrase, all_) in enumerate(asked):
        if not count[number]:
            assert (found[number] == table.slots_touching(boxes[:1])[0]).all()
            continue
        truth = contains(texts, pa.scalar(phrase), "all" if all_ else "any").fill_null(False)
        assert found[number][owner[truth.to_numpy(zero_copy_only=False) & inside]].all()


@given(split_tables())
def test_a_table_with_such_leaves_is_read_back_as_it_was_written(table: RoutingTable) -> None:
    again = unpack_table(pack_table(table))
    assert np.array_equal(again.owners, table.owners) and np.array_equal(again.slot, table.slot)
    assert table.texts is not None and again.texts is not None
    assert len(again.texts) == len(table.texts) and again.laid == table.laid
    for name in ("start", "term", "lists", "records", "cost"):
        assert np.array_equal(getattr(again.texts, name), getattr(table.texts, name))


def test_shares_of_children_are_even_until_they_are_measured() -> None:
    texts = split_table(LISTS).texts
    assert texts is not None and texts.cost.tolist() == [[1 / CHILDREN] * CHILDREN]
