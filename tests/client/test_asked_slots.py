"""A snapshot of one object asks the slots to which its records may have been dealt, and no others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.examples import spec as example

from stqsh.client.read.asked_slots import slots_of_key
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.cells import Cells
from stqsh.routing.table import RoutingTable, slots_of
from stqsh.spec.stream import StreamSpec, stream_spec

KEYS = st.one_of(
    st.lists(st.text(max_size=4), min_size=1, max_size=40, unique=True),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40, unique=True),
)


def moving(key_type: str) -> StreamSpec:
    told = example()
    columns = [[name, key_type if name == told["key"] else kind] for name, kind in told["columns"]]
    return stream_spec(told | {"columns": columns})


def states_of(stream: StreamSpec, keys: pa.Array, slot_of: np.ndarray, count: int) -> list[SlotState]:
    """Return slots that know the keys that were dealt to them."""
    states = [SlotState.fresh(slot) for slot in range(count)]
    for slot in np.unique(slot_of).tolist():  # the other slots know nothing of the stream
        mine = keys.filter(pa.array(slot_of == slot))
        Interner(states[slot], f"s{stream.id}/objects/keys").intern(mine)
    return states


@given(KEYS, st.lists(st.integers(1, 7), min_size=1, max_size=3), st.data())
def test_only_the_slot_of_the_key_is_asked_under_routing_by_object(keys, slots, data):
    stream = moving("STRING" if isinstance(keys[0], str) else "INT")
    values = pa.array(keys, pa.string() if isinstance(keys[0], str) else pa.int32())
    count, key = max(slots), data.draw(st.sampled_from(keys))
    dealt = [int(slots_of(hash_keys(values), each)[keys.index(key)]) for each in slots]
    tables = [RoutingTable.by_object(each) for each in slots]
    asked = slots_of_key([SlotState.fresh(slot) for slot in range(count)], stream, key, tables)
    assert np.flatnonzero(asked).tolist() == sorted(set(dealt))


@given(KEYS, st.integers(1, 7), st.booleans(), st.data())
def test_the_slots_that_know_the_key_are_asked_under_routing_by_place(keys, count, is_changing, data):
    stream = moving("STRING" if isinstance(keys[0], str) else "INT")
    values = pa.array(keys, pa.string() if isinstance(keys[0], str) else pa.int32())
    slot_of = np.array([data.draw(st.integers(0, count - 1)) for _ in keys])
    states, strange = states_of(stream, values, slot_of, count), "none"
    leaf = np.zeros((1, 1), np.int32)
    by_place = RoutingTable("grid", Cells((0.0, 0.0, 1.0, 1.0), 1), leaf, np.zeros(1, np.int16), count)
    tables = [RoutingTable.by_object(count), by_place] if is_changing else [by_place]
    for key, slot in zip(keys, slot_of.tolist(), strict=True):
        assert np.flatnonzero(slots_of_key(states, stream, key, tables)).tolist() == [slot]
    if isinstance(keys[0], str) and strange not in keys:
        assert not slots_of_key(states, stream, strange, tables).any()


def test_all_slots_are_asked_for_an_event_under_routing_by_place_and_while_the_routing_is_unknown():
    states, stream = [SlotState.fresh(slot) for slot in range(3)], moving("STRING")
    events = stream_spec(example(kind="event", keep_us=1, report_every_us=None))
    leaf = np.zeros((1, 1), np.int32)
    by_place = RoutingTable("grid", Cells((0.0, 0.0, 1.0, 1.0), 1), leaf, np.zeros(1, np.int16), 3)
    assert slots_of_key(states, events, "a", [by_place]).all()
    assert not slots_of_key(states, stream, "a", []).any()  # nothing has been stored
