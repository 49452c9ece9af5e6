"""Keys of present objects, from the slots' states."""

from __future__ import annotations

from core.slots import SPEC, Slot
from support.specs import stream_spec

from stqsh.client.read.live_keys import MOST
from stqsh.client.read.slot_answers import first_keys, frequent_values
from stqsh.core.state.slot_state import SlotState

STREAM = stream_spec(SPEC)


def states(*keys: str, statuses: tuple[str, ...] = ("free",)) -> list[SlotState]:
    """Two slots that hold objects of these names, whose statuses are as given, in turn."""
    of = {key: statuses[number % len(statuses)] for number, key in enumerate(keys)}
    made = []
    for number in range(2):
        slot = Slot()
        slot.batch(1, 1, [(1, key, 1.0, 1.0, 1, of[key], 3) for key in keys[number::2]])
        made.append(slot.state)
    return made


def test_keys_that_begin_with_a_prefix_in_order_from_all_slots() -> None:
    held = states("taxi-2", "bus-1", "taxi-1", "taxi-3", "it's", "50%")
    assert first_keys(held, STREAM, "taxi", MOST) == ("taxi-1", "taxi-2", "taxi-3")
    assert first_keys(held, STREAM, "", MOST) == ("50%", "bus-1", "it's", "taxi-1", "taxi-2", "taxi-3")
    assert first_keys(held, STREAM, "it'", MOST) == ("it's",)
    assert first_keys(held, STREAM, "50%", MOST) == ("50%",)
    assert first_keys(held, STREAM, "x", MOST) == ()


def test_values_that_begin_with_a_prefix_the_most_frequent_first() -> None:
    held = states(*"abcdefg", statuses=("free", "free", "busy", "broken", "it's 50%"))
    assert frequent_values(held, STREAM, "status", "", MOST) == ("free", "broken", "busy", "it's 50%")
    assert frequent_values(held, STREAM, "status", "b", MOST) == ("broken", "busy")
    assert frequent_values(held, STREAM, "status", "it's 50%", MOST) == ("it's 50%",)
    assert frequent_values(held, STREAM, "status", "", 2) == ("free", "broken")


def test_no_more_than_a_menu_takes() -> None:
    assert len(first_keys(states(*(f"{n:03}" for n in range(3 * MOST))), STREAM, "0", MOST)) == MOST


def test_nothing_where_the_slots_have_not_heard_of_the_stream() -> None:
    assert first_keys([SlotState.fresh(0)], STREAM, "", MOST) == ()
