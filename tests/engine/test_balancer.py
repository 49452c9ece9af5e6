"""What the balancer makes of what its changes brought."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stqsh.engine.delivery.balancer import (
    LONGEST_REST,
    REST,
    SHORT_REST,
    Balancer,
    Tolerance,
    _Watched,
)
from stqsh.profile import Value, load_profile
from stqsh.routing.load import balance_of
from stqsh.settings import SettingValue
from stqsh.sources.routing_plans import EVEN
from stqsh.spec.log import StreamRouted
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.stream_routes import StreamRoute


def automatic(seq: int) -> StreamRoute:
    """A change from 3 times the mean, after which 1.2 times are expected."""
    return StreamRoute(seq, 0, StreamRouted(1, is_automatic=True, before=3.0, predicted=1.2))


@pytest.mark.parametrize(("ratio", "follows", "pause"), [(1.2, True, SHORT_REST), (2.5, False, 2 * REST)])
def test_a_change_is_judged_once_by_what_it_promised(ratio: float, follows: bool, pause: int) -> None:
    watched = _Watched()
    watched.judge(automatic(5), ratio)
    assert (watched.follows, watched.pause) == (follows, pause)
    watched.judge(automatic(5), 3.0 if follows else 1.0)
    assert (watched.follows, watched.pause) == (follows, pause)


def test_changes_that_bring_little_are_further_and_further_apart() -> None:
    watched, pauses = _Watched(), []
    for seq in range(1, 8):
        watched.judge(automatic(seq), 2.9)
        pauses.append(watched.pause)
    assert pauses == [8, 16, 32, 64, 128, 128, LONGEST_REST]
    watched.judge(automatic(9), 1.3)
    assert watched.follows and watched.pause == SHORT_REST


def test_changes_by_hand_are_not_judged() -> None:
    watched = _Watched()
    watched.judge(StreamRoute(3, 0, StreamRouted(1, before=3.0, predicted=1.2)), 2.9)
    assert not watched.follows and watched.pause == SHORT_REST


@pytest.mark.parametrize(
    ("settings", "loads", "is_uneven", "limit", "said"),
    [
        ({}, [1, 1, 1, 2], True, 1.3, "max/mean is 1.60, above 1.3"),
        ({"balance.above": 2}, [1, 1, 1, 2], False, 2, "max/mean is 1.60, not above 2"),
        ({"balance.measure": "spread"}, [1, 5, 5, 5], False, EVEN, "max/min is 5.00, not above 6"),
        ({"balance.measure": "spread"}, [0, 1, 1, 1], True, EVEN, "max/min is inf, above 6"),
        (
            {"balance.measure": "spread", "balance.above": 4},
            [1, 5, 5, 5],
            True,
            EVEN,
            "max/min is 5.00, above 4",
        ),
        (
            {"balance.measure": "variance"},
            [2, 3, 4, 11],
            True,
            EVEN,
            "the variance over mean² is 0.50, above 0.1",
        ),
    ],
)
def test_how_uneven_a_stream_may_be(
    settings: dict[str, SettingValue], loads: list[float], is_uneven: bool, limit: float, said: str
) -> None:
    profile = load_profile(None, {})
    given = {name: Value(value, "SET") for name, value in settings.items()}
    tolerance = Tolerance.of(replace(profile, values_={**profile.values_, **given}))
    balance = balance_of(np.array(loads, np.float64))
    assert (tolerance.is_exceeded(balance), tolerance.limit) == (is_uneven, limit)
    assert tolerance.judge(balance) == said


def test_what_a_dropped_stream_brought_is_forgotten(tmp_path: Path) -> None:
    balancer = Balancer(
        SessionHome(tmp_path), ControlDb(tmp_path, create=True), lambda: load_profile(None, {})
    )
    balancer._streams[7] = _Watched()
    balancer.look()
    assert not balancer._streams
