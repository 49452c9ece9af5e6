"""What the balancer makes of what its changes brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.engine.delivery.balancer import LONGEST_REST, REST, SHORT_REST, Balancer, _Watched
from stqsh.profile import load_profile
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


def test_what_a_dropped_stream_brought_is_forgotten(tmp_path: Path) -> None:
    balancer = Balancer(
        SessionHome(tmp_path), ControlDb(tmp_path, create=True), lambda: load_profile(None, {})
    )
    balancer._streams[7] = _Watched()
    balancer.look()
    assert not balancer._streams
