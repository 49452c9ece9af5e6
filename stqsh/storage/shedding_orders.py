"""How much memory streams that RETAIN SIGNIFICANT may take: what the settings wish, and what slots are told.

What slots are told is an `SheddingOrder`. Orders are rows of the control log (kind "memory"): the engine
appends one between two batches when the load asks for it (`stqsh.engine.delivery.shedding_policy`), a SET or
a CREATE at once where the settings leave no choice. The last one stands, also for streams that are created
later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stqsh.profile import Profile
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage.control_log import ControlDb, append
from stqsh.storage.progress import read_progress
from stqsh.units import parse_size

SETTINGS = ("shedding", "shedding.budget", "shedding.keep", "cache.factor")
"""The settings that an order depends on."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What is wished: the mode (off, object, query), the budget, and how far to go when it is exceeded.

    `budget` is in objects or, `in_bytes`, in bytes; None: there is none, and nothing is shed. `keep`: the
    share of it to which the load is brought down. `factor`: `cache.factor`, SOLE's c.
    """

    mode: str = "off"
    budget: int | None = None
    in_bytes: bool = False
    keep: float = 0.9
    factor: float = 1.0

    @property
    def sheds(self) -> bool:
        """Whether there is a load beyond which something has to go."""
        return self.mode != "off" and self.budget is not None

    @property
    def target(self) -> float | None:
        """The load to which shedding brings the streams down, None without a budget."""
        return None if self.budget is None else self.keep * self.budget


def memory_settings(settings: Profile) -> MemorySettings:
    """The part of the settings that concerns memory."""
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
    """An order as the settings allow it: their cache factor, and no shedding but that of their mode."""
    by_object, by_query = (settings.sheds and settings.mode == mode for mode in ("object", "query"))
    return replace(
        order,
        factor=settings.factor,
        k=order.k if by_object else 1,
        part=order.part if by_object else 1.0,
        cache=order.cache if by_query else 1.0,
        area=order.area if by_query else 1.0,
    )


def orders_after(db: ControlDb, seq: int) -> list[tuple[int, SheddingOrder]]:
    """The orders in the log's rows after `seq`, each with its number there."""
    found = db.entries_after(seq, ["memory"])
    return [(number, order) for number, order in found if isinstance(order, SheddingOrder)]


def standing_order(db: ControlDb) -> SheddingOrder:
    """The last order in the log; before the first one everything is kept that queries need."""
    rows = db.query("SELECT max(seq) FROM log WHERE kind = 'memory'")
    last = rows[0][0]
    return SheddingOrder() if last is None else orders_after(db, last - 1)[0][1]


def append_order(db: ControlDb, order: SheddingOrder) -> None:
    """Give an order, by way of the log; joins a transaction that is open."""
    append(db, order)


def follow_settings(db: ControlDb, settings: Profile, *, anew: bool = False) -> None:
    """Give an order at once where the settings do not allow the standing one; joins an open transaction.

    Nothing is said while no stream keeps significant objects only. `anew`: the first such stream has just
    come, so what was shed before it concerns nobody.
    """
    with db.transaction():
        if not has_significant_streams(db):
            return
        standing = standing_order(db)
        base = SheddingOrder(factor=standing.factor) if anew else standing
        order = replace(allowed(memory_settings(settings), base), step=read_progress(db).step)
        if not order.same_as(standing):
            append_order(db, order)


def has_significant_streams(db: ControlDb) -> bool:
    """Whether a live stream keeps significant objects only."""
    sql = "SELECT 1 FROM streams WHERE dropped_seq IS NULL AND json_extract(spec, '$.retain') = 'significant'"
    return bool(db.query(f"{sql} LIMIT 1"))
