"""Austin's buses of two years in one-second ticks: the answers equal brute force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
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


@pytest.fixture(scope="module")
def fixes() -> pd.DataFrame:
    return buses.load()


@pytest.fixture(params=["memory", pytest.param("spark", marks=pytest.mark.spark)])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    if request.param == "memory":
        with local_session(tmp_path, slots=2, max_records=50_000) as opened:
            yield opened
    else:
        with connect(home=tmp_path, temporary=True, autoplay=False) as opened:
            yield opened


def test_a_thousand_rectangles_and_a_hundred_that_move(session: Session, fixes: pd.DataFrame) -> None:
    asked = buses.queries(fixes, STATIC, MOVING)
    log = told(session, buses.STREAM + "".join(query.statement for query in asked) + "RUN;")
    last = int(fixes["t"].max()) // 1_000_000 * 1_000_000
    draw = np.random.default_rng(5)
    moments = sorted(int(t) // 1_000_000 * 1_000_000 for t in draw.choice(fixes["t"], LOOKS))
    for at_us in [*moments, last]:
        held = fold(log[log["at_us"] <= at_us])
        expected = buses.answers(fixes, asked, at_us)
        assert {name: keys for name, keys in expected.items() if keys} == held
