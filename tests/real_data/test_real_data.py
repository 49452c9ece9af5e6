"""Austin's buses of two years in one-second ticks, through Spark: the answers equal brute force.

Real data go through the engine without Spark in test_real_posts and test_real_events.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support import buses
from support.folding import fold, told

from stqsh.client.api import connect

pytestmark = [
    pytest.mark.data,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not buses.FOLDER.is_dir(), reason=f"{buses.FOLDER} is not there"),
]
STATIC, MOVING = 1000, 100
LOOKS = 8
"""At so many random moments, and after the last step, the log so far is folded and compared."""


@dataclass(frozen=True)
class Truth:
    """What is asked, and who is in which answer at some moments, by brute force."""

    asked: list[buses.Query]
    at: dict[int, dict[str, set[str]]]


@pytest.fixture(scope="module")
def truth() -> Truth:
    fixes = buses.load()
    asked = buses.queries(fixes, STATIC, MOVING)
    draw = np.random.default_rng(5)
    moments = [*draw.choice(fixes["t"], LOOKS), fixes["t"].max()]
    seconds = sorted({int(t) // 1_000_000 * 1_000_000 for t in moments})
    found = {at_us: buses.answers(fixes, asked, at_us) for at_us in seconds}
    return Truth(
        asked, {at_us: {name: keys for name, keys in held.items() if keys} for at_us, held in found.items()}
    )


def test_a_thousand_rectangles_and_a_hundred_that_move(tmp_path: Path, truth: Truth) -> None:
    with connect(home=tmp_path, temporary=True, autoplay=False) as session:
        log = told(session, buses.STREAM + "".join(query.statement for query in truth.asked) + "RUN;")
    for at_us, held in truth.at.items():
        assert held == fold(log[log["at_us"] <= at_us])
