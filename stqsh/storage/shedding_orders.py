"""Memory of streams with RETAIN SIGNIFICANT: the limits in the settings, and the orders to slots.

An order is a `SheddingOrder`, stored as a row of the control log (kind "memory"). The engine appends one
between two batches when the load requires it (`stqsh.engine.delivery.shedding_policy`). A SET or a CREATE
appends one at once if the settings require it. The last order applies, also to streams that are created
later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stqsh.profile import Profile
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage.control_log import ControlDb, append, entries_after
from stqsh.storage.progress import read_progress
from stqsh.units import parse_size

SETTINGS = ("shedding", "shedding.budget", "shedding.keep", "cache.factor")
"""The settings that an order depends on."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The memory that the settings allow.

    Attributes:
        mode: off, object or query.
        budget: in objects or, if `in_bytes`, in bytes; None if there is no budget and nothing is shed.
        keep: the fraction of the budget to which shedding reduces the load.
        factor: `cache.factor`, SOLE's c.
    """

    mode: str = "off"
    budget: int | None = None
    in_bytes: bool = False
    keep: float = 0.9
    factor: float = 1.0

    @property
    def sheds(self) -> bool:
        """Whether shedding begins above some load."""
        return self.mode != "off" and self.budget is not None

    @property
    def target(self) -> float | None:
        """The load to which shedding reduces the streams, None without a budget."""
        return None if self.budget is None else self.keep * self.budget


def memory_settings(settings: Profile) -> MemorySettings:
    """Return the part of the settings that concerns memory."""
    given = settings["shedding.budget"].value
    in_bytes = isinstance(given, str)
    budget = None if given is None else parse_size(str(given)) if in_bytes else int(given)
    return MemorySettings(
        settings.text("shedding"),
        budget,
        in_bytes,
        settings.share("shedding.keep"),
        settings.share("cache.factor"),
    )


def allowed(settings: MemorySettings, order: SheddingOrder) -> SheddingOrder:
    """Return an order restricted to the settings: with their cache factor, and no other mode than theirs."""
    by_object, by_query = (settings.sheds and settings.mode == mode for mode in ("object", "query"))
    return replace(
        order,
        factor=settings.factor,
        k=order.k if by_object else 1,
        part=order.part if by_object else 1.0,
        cache=order.cache if by_query else 1.0,
        area=order.area if by_query else 1.0,
    )


def look_after(step: int, every: int) -> int:
    """Return the next step after `step` at which the load is checked; one check every `every` steps.

    >>> look_after(0, 10), look_after(9, 10), look_after(10, 10)
    (10, 10, 20)
    """
    return (step // every + 1) * every


def orders_after(db: ControlDb, seq: int) -> list[tuple[int, SheddingOrder]]:
    """Return the orders in the log's rows after `seq`, each with its number."""
    found = entries_after(db, seq, ["memory"])
    return [(number, order) for number, order in found if isinstance(order, SheddingOrder)]


def standing_order(db: ControlDb) -> SheddingOrder:
    """Return the last order in the log; without one, slots keep every object that queries need."""
    rows = db.query("SELECT max(seq) FROM log WHERE kind = 'memory'")
    last = rows[0][0]
    return SheddingOrder() if last is None else orders_after(db, last - 1)[0][1]


def append_order(db: ControlDb, order: SheddingOrder) -> None:
    """Append an order to the log; joins an open transaction."""
    append(db, order)


def follow_settings(db: ControlDb, settings: Profile, *, is_first: bool = False) -> None:
    """Append an order at once if the settings forbid the current one; joins an open transaction.

    Nothing is appended while no stream keeps only significant objects. `is_first` means that this is the
    first such stream, so that earlier shedding is irrelevant.
    """
    with db.transaction():
        if not has_significant_streams(db):
            return
        standing = standing_order(db)
        base = SheddingOrder(factor=standing.factor) if is_first else standing
        order = replace(allowed(memory_settings(settings), base), step=read_progress(db).step)
        if not order.same_as(standing):
            append_order(db, order)


def has_significant_streams(db: ControlDb) -> bool:
    """Return whether a live stream keeps only significant objects."""
    sql = "SELECT 1 FROM streams WHERE dropped_seq IS NULL AND json_extract(spec, '$.retain') = 'significant'"
    return bool(db.query(f"{sql} LIMIT 1"))
