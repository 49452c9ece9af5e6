"""State arrays grow, survive a snapshot, and intern keys."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.state import interner as interners
from stqsh.core.state import slot_state as module
from stqsh.core.state.columns import encode
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState, restore, snapshot


def test_arrays_grow_with_zeros():
    state = SlotState.fresh(0)
    state.create("a", np.int64)
    state.append("a", range(40))
    assert state.array("a").tolist() == list(range(40))
    state.resize("a", 2)
    assert state.resize("a", 4).tolist() == [0, 1, 0, 0]
    assert state.nbytes == 32
    state.release("a")
    assert "a" not in state


@pytest.mark.parametrize("piece", [7, 64, 4 << 20])
def test_a_snapshot_restores_every_array(monkeypatch, piece):
    monkeypatch.setattr(module, "PIECE_BYTES", piece)
    state = SlotState.fresh(3)
    state.header["streams"] = {"1": {"name": "é"}}
    state.create("s1/x", np.float64)
    state.append("s1/x", [1.5, np.nan, -0.0])
    state.create("s1/empty", np.uint8)
    pieces = list(snapshot(state))
    assert max(map(len, pieces)) <= piece
    back = restore(pieces)
    assert back.header == state.header
    np.testing.assert_array_equal(back.array("s1/x"), state.array("s1/x"))
    assert len(back.array("s1/empty")) == 0
    assert list(snapshot(back)) == pieces


def test_half_a_snapshot_is_refused():
    state = SlotState.fresh(0)
    state.create("a", np.int64, 100)
    whole = b"".join(snapshot(state))
    with pytest.raises(ValueError, match="ends before"):
        restore([whole[:-1]])


@given(st.lists(st.lists(st.text(max_size=5), max_size=60), max_size=4))
def test_equal_strings_have_one_index_in_order_of_arrival(batches):
    interner, known = Interner(SlotState.fresh(0), "keys"), {}
    for batch in batches:
        want = [known.setdefault(text, len(known)) for text in batch]
        assert interner.intern(pa.array(batch, pa.string())).tolist() == want
    assert interner.strings().to_pylist() == list(known)
    assert interner.find(pa.array([*known, "absent"])).tolist() == [*range(len(known)), -1]


def test_integers_of_any_width_are_one_key():
    interner = Interner(SlotState.fresh(0), "keys")
    assert interner.intern(pa.array([5, -1, 5], pa.int32())).tolist() == [0, 1, 0]
    assert interner.intern(pa.array([2**40, -1], pa.int64())).tolist() == [2, 1]
    assert interner.integers().tolist() == [5, -1, 2**40]


def test_an_interner_refuses_only_texts_that_are_too_long_when_each_counts_once() -> None:
    interner = Interner(SlotState.fresh(0), "keys")
    with mock.patch.object(interners, "MAX_BYTES", 10):
        assert interner.intern(pa.array(["abc"])).tolist() == [0]
        again = pa.array(["defg", "abc", None, "defg", "hij", "defg", ""])
        assert interner.intern(again).tolist() == [1, 0, 2, 1, 3, 1, 2]
        with pytest.raises(ValueError, match="more than 10 bytes"):
            interner.intern(pa.array(["k", "k", "k"]))
        assert interner.strings().to_pylist() == ["abc", "defg", "", "hij"]


def test_texts_that_are_all_null_have_the_code_of_the_empty_one() -> None:
    pool = Interner(SlotState.fresh(0), "pool")
    column = encode(pa.array(["a", "", None, "a"]), "STRING", pool)
    assert (column.values.tolist(), column.valid.tolist()) == ([0, 1, 1, 0], [True, True, False, True])
    for count in (1, 3):
        column = encode(pa.nulls(count, pa.string()), "STRING", pool)
        assert (column.values.tolist(), column.valid.tolist()) == ([1] * count, [False] * count)
