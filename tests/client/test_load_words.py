"""The load in a sentence: what exact answers need, what is allowed, what it costs, what would do."""

from __future__ import annotations

import pytest

from stqsh.client.show.load_words import Demand, demand, load_sentence
from stqsh.spec.stats import StreamMemory
from stqsh.storage.shedding_orders import MemorySettings

NEEDS = Demand(counts=(1000, 300, 100, 0), fixed=17, size=100.0)
"""1,417 objects; 1000 + 600 + 300 + 17 = 1,917 needs."""


def test_what_queries_need_is_summed_over_slots_and_dropped_objects() -> None:
    slots = [
        StreamMemory(objects=10, bytes=1000, histogram=(5, 3, 0), dropped=(2, 0, 0)),
        StreamMemory(objects=5, bytes=500, histogram=(4, 0, 1), dropped=(0, 0, 0)),
    ]
    needs = demand(slots)
    assert needs == Demand((11, 3, 1), fixed=2, size=100.0)
    assert needs.objects == 17


def test_objects_that_fewest_queries_need_are_given_up_first() -> None:
    assert NEEDS.kept_share(1417) == 1
    assert NEEDS.kept_share(417) == pytest.approx(1 - 1000 / 1917)
    assert NEEDS.kept_share(317) == pytest.approx(1 - 1200 / 1917)
    assert NEEDS.kept_share(0) == pytest.approx(17 / 1917)


@pytest.mark.parametrize("share", [1.0, 0.95, 0.9, 0.5, 0.2])
def test_the_objects_for_a_share_are_the_fewest_that_hold_it(share: float) -> None:
    least = NEEDS.objects_for(share)
    assert NEEDS.kept_share(least) >= share - 1e-9
    assert NEEDS.kept_share(least - 1) < share


def test_the_sentence_says_what_is_needed_allowed_and_would_do() -> None:
    wished = MemorySettings("object", budget=300, keep=0.9)
    assert load_sentence(NEEDS, wished, 0.45) == (
        "exact answers need 1,417 objects; you allow 300, which shedding brings down to 270; answers are 45"
        " % accurate on average; that keeps about 32.5 % of what queries need; a budget of 1,363 would"
        " keep 90 %"
    )


def test_the_sentence_of_a_size_says_sizes() -> None:
    wished = MemorySettings("object", budget=30_000, in_bytes=True, keep=1.0)
    said = load_sentence(NEEDS, wished, None)
    assert said.startswith("exact answers need 1,417 objects (")
    assert "accurate" not in said and said.endswith("would keep 90 %")


def test_without_a_need_to_shed_it_says_that_all_is_kept() -> None:
    assert load_sentence(NEEDS, MemorySettings(), 1.0).endswith("all are kept, nothing is shed")
    assert load_sentence(NEEDS, MemorySettings("object", 2000), 1.0).endswith("you allow 2,000: all are kept")
    assert "shrink until it fits" in load_sentence(NEEDS, MemorySettings("query", 300), 0.5)
