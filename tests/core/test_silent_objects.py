"""Objects that have been silent for REPORT EVERY, and whose keys never come again, take no memory."""

from __future__ import annotations

import pytest

from core.slots import TICK, Slot, register
from stqsh.core.retention import object_retention

LAST = 200
REPORT = {"report_every_us": 3 * TICK}
AROUND = {"type": "moving_rect", "focal": "stays", "xdist": 2.0, "ydist": 2.0}


def passing(step):
    """Records of a step: one object comes, that of two steps before leaves, and one is never heard again."""
    leaves = [(step, f"k{step - 2}", None, None, step)] if step > 2 else []
    return [*leaves, (step, f"k{step}", 0, 0, step), (step, f"once{step}", 9, 9, step)]


def objects(slot):
    return len(slot.state.array("s1/objects/ts"))


def test_silent_objects_make_room_and_nobody_notices(monkeypatch):
    monkeypatch.setattr(object_retention, "_SPARE", 4)
    slot = Slot(**REPORT)
    slot.batch(1, 1, [(1, "stays", 1, 1, 1), (1, "k1", 0, 0, 1)], [register(7), register(8, AROUND)])
    for step in range(2, LAST):
        gone = [(step, 7, "-", f"k{step - 2}", "gone")] if step > 2 else []
        told = slot.updates(step, step, [*passing(step), (step, "stays", 1, 1, step)])
        assert [one for one in told if one[1] == 7] == sorted([*gone, (step, 7, "+", f"k{step}", "none")])
    assert objects(slot) < 50
    assert len(slot.state.array("s1/objects/keys/table")) < 200
    # A key that was forgotten may come back.
    told = slot.updates(LAST, LAST, [(LAST, "k5", 0, 0, LAST)])
    assert (LAST, 7, "+", "k5", "none") in told


def test_without_report_every_all_objects_stay(monkeypatch):
    monkeypatch.setattr(object_retention, "_SPARE", 4)
    slot = Slot()
    for step in range(1, 50):
        slot.batch(step, step, passing(step))
    assert objects(slot) == 2 * 49


@pytest.mark.parametrize("spare", [4, 10_000], ids=["forgotten", "kept"])
def test_what_a_paused_query_holds_is_taken_back_when_it_goes_on(monkeypatch, spare):
    monkeypatch.setattr(object_retention, "_SPARE", spare)
    slot = Slot(**REPORT)
    slot.batch(1, 1, [(1, "held", 0, 0, 1)], [register(7)])
    slot.batch(2, 2, [(2, "held", None, None, 2)], [{"op": "pause", "id": 7}])
    for step in range(3, 60):
        slot.batch(step, step, passing(step))
    assert (objects(slot) < 50) == (spare == 4)
    resumed = slot.updates(60, 60, commands=[{"op": "resume", "id": 7}])
    assert [update for update in resumed if update[2] == "-"] == [(60, 7, "-", "held", "disconnected")]
