"""Textual splits: a qttree of a load with texts, the shares of children, and adjusters over such tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from routing.maps import leaves_are_squares

from stqsh.core.kernels.index.hashing import hash_integers, hash_keys
from stqsh.core.kernels.text.keyword_lists import grow_lists
from stqsh.routing.adjusters import ADJUSTERS, ratio
from stqsh.routing.adjusters.adjuster_choice import even_out
from stqsh.routing.cells import Cells
from stqsh.routing.load import PAIR, Load, balance_of, leaf_costs, slot_loads, slot_records
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.routing.text_leaves import CHILDREN, SoughtTerms, TextTerms
from stqsh.routing.text_splits import TextSample

CELLS = Cells((0.0, 0.0, 1.0, 1.0), 64)
TOPICS = 6


def topical(
    rng: np.random.Generator, count: int, sd: float = 0.02
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Places around two spots, and texts of three words of one of some topics."""
    spots = np.array([[0.3, 0.4], [0.7, 0.6]])[rng.integers(0, 2, count)]
    x, y = np.clip(spots + rng.normal(0, sd, (count, 2)), 0, 1).T
    topic = rng.integers(0, TOPICS, count)
    words = rng.integers(0, 20, (count, 3))
    pairs = zip(topic.tolist(), words.tolist(), strict=True)
    return x, y, pa.array([" ".join(f"t{of}w{word}" for word in row) for of, row in pairs])


def load_of(
    rng: np.random.Generator, side: float = 0.2, count: int = 20_000, sd: float = 0.02
) -> tuple[Load, Load, np.ndarray]:
    """The load of topical records under queries for one word, without and with texts; and the boxes."""
    x, y, texts = topical(rng, count, sd)
    qx, qy, _ = topical(rng, 600, sd)
    boxes = np.column_stack([qx - side / 2, qy - side / 2, qx + side / 2, qy + side / 2])
    words = [f"t{rng.integers(0, TOPICS)}w{rng.integers(0, 20)}" for _ in qx]
    sought = SoughtTerms(np.arange(len(words) + 1), hash_keys(pa.array(words)))
    terms = TextTerms.of(texts).among(sought.term)
    load = Load.of(CELLS, x, y, boxes)
    sample = TextSample(CELLS, CELLS.of_places(x, y), terms, CELLS.of_boxes(boxes), sought)
    return load, replace(load, texts=sample), boxes


@pytest.mark.parametrize("slots", [2, 8])
def test_queries_for_other_words_about_the_same_places_make_splits(
    slots: int,
) -> None:
    rng = np.random.default_rng(1)
    plain, load, boxes = load_of(rng)
    before, after = STRATEGIES["qttree"](plain, slots), STRATEGIES["qttree"](load, slots)
    assert before.texts is None and after.texts is not None and load.texts is not None
    assert leaves_are_squares(replace(after, slot=after.slot[: after.laid], texts=None))
    sought = load.texts.sought
    on_slots = after.slots_touching(boxes, sought).sum(axis=1).mean()
    assert on_slots < after.slots_touching(boxes).sum(axis=1).mean()
    assert slots == 2 or on_slots < before.slots_touching(boxes).sum(axis=1).mean()
    assert balance_of(slot_loads(after, load.cost)).ratio < 1.3
    assert slot_loads(after, load.cost).sum() == pytest.approx(load.cost.sum())


def test_shares_are_those_of_records_to_come() -> None:
    rng = np.random.default_rng(2)
    _, load, _ = load_of(rng)
    table = STRATEGIES["qttree"](load, 8)
    x, y, texts = topical(rng, 20_000)
    owners = table.slots_of(x, y, hash_integers(np.arange(len(x))), texts)
    expected = slot_records(table, load.records) / load.records.sum()
    np.testing.assert_allclose(np.bincount(owners, minlength=8) / len(x), expected, atol=0.02)
    assert table.texts is not None
    assert (table.texts.records[:, 0] < 0.3).all(), "few records have words that are on no common list"


def test_small_queries_and_queries_without_words_make_no_splits() -> None:
    rng = np.random.default_rng(3)
    _, small, _ = load_of(rng, side=0.002)
    assert STRATEGIES["qttree"](small, 8).texts is None
    _, load, _ = load_of(rng)
    assert load.texts is not None
    nothing = SoughtTerms(np.zeros(601, np.int64), np.empty(0, np.uint64))
    free = replace(load, texts=replace(load.texts, sought=nothing))
    assert STRATEGIES["qttree"](free, 8).texts is None


def test_a_cell_that_is_too_dear_is_split_by_texts_if_that_suffices() -> None:
    rng = np.random.default_rng(4)
    plain, load, _ = load_of(rng, sd=1e-6)
    assert (STRATEGIES["qttree"](plain, 4).slot == HASHED).any()
    table = STRATEGIES["qttree"](load, 4)
    assert not (table.slot == HASHED).any() and table.texts is not None
    assert (STRATEGIES["qttree"](load, 40).slot == HASHED).any(), "four children are not enough"


@pytest.mark.parametrize("adjuster", ["pm", "fm", "fg", "greedy"])
def test_adjusters_move_children_and_keep_their_lists(adjuster: str) -> None:
    rng = np.random.default_rng(5)
    _, load, _ = load_of(rng)
    table = STRATEGIES["qttree"](load, 8)
    skewed = replace(load, records=load.records * np.linspace(0, 4, 64))
    new = ADJUSTERS[adjuster].propose(table, skewed, 1.05)
    assert new is not None and ratio(new, skewed) < ratio(table, skewed)
    check_same_lists(table, new)


def check_same_lists(table: RoutingTable, new: RoutingTable) -> None:
    assert new.texts is table.texts and np.array_equal(new.owners <= TEXT, table.owners <= TEXT)
    assert np.array_equal(np.minimum(new.owners, HASHED), np.minimum(table.owners, HASHED))
    assert len(new.slot) - new.laid == len(table.slot) - table.laid
    assert ((new.slot[new.laid :] >= 0) & (new.slot[new.laid :] < new.slots)).all()


def test_a_table_of_text_leaves_alone_can_be_adjusted() -> None:
    rng = np.random.default_rng(6)
    _, load, _ = load_of(rng)
    made = STRATEGIES["qttree"](load, 8).texts
    assert made is not None
    one = replace(made, start=made.start[:2], records=made.records[:1], cost=made.cost[:1])
    leaf, slot = np.zeros((64, 64), np.int32), np.array([TEXT, 0, 0, 0, 0], np.int16)
    table = RoutingTable("qttree", CELLS, leaf, slot, 4, one)
    table, used = even_out(table, load, 1.05)
    assert used and len(set(table.slot[1:].tolist())) > 1
    for name in ("pm", "fm", "fg", "greedy"):
        ADJUSTERS[name].adjust(table, load, 1.0)


def test_shares_are_measured_anew() -> None:
    rng = np.random.default_rng(7)
    _, load, _ = load_of(rng)
    table = STRATEGIES["qttree"](load, 8)
    assert load.texts is not None and table.texts is not None
    even = replace(table, texts=replace(table.texts, cost=np.full_like(table.texts.cost, 1 / CHILDREN)))
    again = load.texts.measured(even).texts
    assert again is not None
    np.testing.assert_allclose(again.cost, table.texts.cost, atol=0.15)
    np.testing.assert_allclose(again.records, table.texts.records, atol=0.15)
    costs = leaf_costs(table, load.cost)
    assert (costs[table.split_leaves] == 0).all()
    assert costs.sum() == pytest.approx(load.cost.sum())


def test_lists_grow_by_the_least_increment() -> None:
    """The second record shares a term with the first; the third would make a child dear, so it goes to 0."""
    start, term = np.array([0, 2, 4, 5, 5]), np.array([0, 1, 1, 2, 3])
    lists = grow_lists(start, term, np.array([1.0, 1.0, 1.0, 90.0]), 93, CHILDREN, PAIR)
    assert lists[0] == 0b0010 and lists[1] & 0b0010 == 0b0010 and lists[2] in (0b0010, 0b0100)
    assert lists[3] in (0, 0b0100, 0b1000)
