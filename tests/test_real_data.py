"""Austin's buses of two years in one-second ticks: the answers equal brute force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support import buses
from support.folding import fold, told
from support.local import local_session

from stqsh.session.client import Session, connect

pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
    pytest.mark.skipif(not buses.FOLDER.is_dir(), reason=f"{buses.FOLDER} is not there"),
]
STATIC, MOVING = 1000, 100
LOOKS = 20
"""At so many random moments, and after the last step, the log so far is folded and compared."""


@pytest.fixture(params=["memory", pytest.param("spark", marks=pytest.mark.spark)])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    if request.param == "memory":
        with local_session(tmp_path, slots=2, max_records=50_000) as opened:
            yield opened
    else:
        with connect(home=tmp_path, temporary=True, autoplay=False) as opened:
            yield opened


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


def test_a_thousand_rectangles_and_a_hundred_that_move(session: Session, truth: Truth) -> None:
    log = told(session, buses.STREAM + "".join(query.statement for query in truth.asked) + "RUN;")
    for at_us, held in truth.at.items():
        assert held == fold(log[log["at_us"] <= at_us])
