"""What Deliver knows of the slots' memory: the load that they tell, the orders in the log, the next one."""

from __future__ import annotations

from stqsh.engine.shedding import decide, load_of
from stqsh.profile import Profile
from stqsh.session.catalogue import stream_by_id
from stqsh.session.control import ControlDb
from stqsh.session.memory import MemorySettings, Order, memory_settings, orders_after
from stqsh.session.records import Spec
from stqsh.session.settings import session_settings

_SUMS = ("objects", "shadow", "bytes")


class Oversight:
    """Follows the orders of a session and gives new ones; `profile` has the settings below those SET."""

    def __init__(self, control: ControlDb, profile: Profile) -> None:
        self._control, self._profile = control, profile
        self._orders: list[tuple[int, Order]] = [(0, Order())]
        self._report_steps: dict[int, int] = {}

    def told(self, stats: list[Spec], seq: int) -> Spec | None:
        """What a status line says of a batch: the order in force and the sums; None: nothing is significant.

        stats: of the slots' Evaluate. seq: the last row of the log that the batch took in.
        """
        streams = _by_slot_and_stream(stats)
        if not streams:
            return None
        self._follow(seq)
        order = self._orders[0][1]
        sums = {name: sum(int(told[name]) for _, told in streams) for name in _SUMS}
        return {
            "factor": order.factor,
            "k": order.k,
            "cache": order.cache,
            "area": order.area,
            **sums,
            "approximate": max(int(told["approximate"]) for _, told in streams),
            "least": min(float(told["least"]) for _, told in streams),
        }

    def decision(self, stats: list[Spec], clock: Spec) -> Order | None:
        """The order to be given after a batch; None where the standing one stays, or is still to take effect.

        The same for a batch that comes again. To be asked within the transaction that appends the order.
        """
        streams = _by_slot_and_stream(stats)
        if not streams:
            return None
        self._follow(clock["seq"])
        seq, standing = self._orders[-1]
        if seq > clock["seq"]:
            return None
        report_steps = max(self._steps_of(stream, clock) for stream, _ in streams)
        load = load_of((told for _, told in streams), clock["last_step"], report_steps)
        order = decide(self._settings(), load, standing)
        return None if order is standing else order

    def _follow(self, seq: int) -> None:
        """Read what is new; the first order is then the one in force once the log's row `seq` is taken in."""
        self._orders += orders_after(self._control, self._orders[-1][0])
        past = sum(number <= seq for number, _ in self._orders)
        del self._orders[: max(0, past - 1)]

    def _settings(self) -> MemorySettings:
        return memory_settings(session_settings(self._control, self._profile))

    def _steps_of(self, stream: int, clock: Spec) -> int:
        """How many steps it takes until every object of a stream has reported."""
        if stream not in self._report_steps:
            report_us = stream_by_id(self._control, stream).spec["report_every_us"]
            self._report_steps[stream] = -(-report_us // (clock["tick_us"] or 1)) + 1
        return self._report_steps[stream]


def _by_slot_and_stream(stats: list[Spec]) -> list[tuple[int, Spec]]:
    """The entries "memory" of all slots: (stream, what a slot tells of it)."""
    return [(int(stream), told) for one in stats for stream, told in one.get("memory", {}).items()]
