"""How long a map rests: three times what a look took of the processor, within bounds."""

import pytest

from stqsh.shell.map import poll_rate
from stqsh.shell.map.poll_rate import LONGEST_S, PollRate


@pytest.mark.parametrize(
    ("spent", "least", "rest"),
    [(0.0, None, 0.05), (0.2, None, 0.6), (9.0, None, LONGEST_S), (0.0, 0.5, 0.5), (9, 5, 5)],
)
def test_rest(monkeypatch: pytest.MonkeyPatch, spent: float, least: float | None, rest: float) -> None:
    now = [100.0]
    monkeypatch.setattr(poll_rate.time, "thread_time", lambda: now[0])
    made = PollRate(0.05)
    made.begin()
    now[0] += spent
    assert made.rest_s(least) == pytest.approx(rest)
