"""Notices that came while no prompt was there: live views show them, and the next prompt the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

NOTICES: deque[str] = deque(maxlen=100)
"""The lines that are not shown yet, the oldest first; only the last ones where there are too many."""


def take_notices() -> Iterator[str]:
    """Yield the lines that are not shown yet, each once."""
    while NOTICES:
        yield NOTICES.popleft()
