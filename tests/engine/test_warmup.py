"""Which queries have not seen all that they need yet."""

from __future__ import annotations

from msgspec import convert, to_builtins

from stqsh.engine.delivery.shedding_controller import MOST, WarmupBatch, ask_for_more, warmup_after
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import Warmup


def batch(first: int, last: int, before: int, seq: int, *, grown: bool = False) -> WarmupBatch:
    return WarmupBatch(first, last, before, seq, report_steps=5, grows=grown)


def test_what_came_with_a_batch_is_settled_once_everything_has_reported() -> None:
    after = warmup_after(Warmup(), batch(1, 2, 0, 7))
    assert after.recent == ((0, 6),)
    assert warmup_after(after, batch(3, 5, 7, 7)).recent == ((0, 6),)
    assert warmup_after(after, batch(3, 6, 7, 7)).recent == ()


def test_a_batch_that_took_nothing_in_or_is_long_leaves_nothing() -> None:
    assert warmup_after(Warmup(), batch(1, 2, 7, 7)) == Warmup()
    assert warmup_after(Warmup(), batch(1, 6, 0, 7)) == Warmup()


def test_regions_that_grow_back_concern_all_queries() -> None:
    after = warmup_after(Warmup(), batch(11, 12, 7, 8, grown=True))
    assert after.all_until == 16
    assert warmup_after(after, batch(13, 13, 8, 8)).all_until == 16


def test_very_many_batches_share_the_oldest_entry() -> None:
    settling = Warmup()
    for number in range(200):
        one = WarmupBatch(number + 1, number + 1, number, number + 1, report_steps=1000)
        settling = warmup_after(settling, one)
    assert len(settling.recent) == MOST
    assert settling.recent[0][0] == 0  # nobody is called settled too early
    assert settling.recent[-1] == (199, 1200)
    assert convert(to_builtins(settling), Warmup) == settling


def test_less_is_no_growth_and_neither_is_another_k() -> None:
    assert (
        ask_for_more(
            [SheddingOrder(), SheddingOrder(0.5), SheddingOrder(0.5, cache=0.5), SheddingOrder(0.25, k=3)]
        )
        is False
    )
    assert ask_for_more([SheddingOrder(area=0.5), SheddingOrder(area=0.6)])
    assert ask_for_more([SheddingOrder(), SheddingOrder(area=0.5), SheddingOrder()])
    assert ask_for_more([SheddingOrder(0.5, cache=0.5), SheddingOrder(0.5)])
    assert not ask_for_more([SheddingOrder()])
