"""Limit how often a map polls: as often as the engine has news, but with at most a quarter of a core."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

REST = 3.0
"""After each poll a map rests for this multiple of the processor time of the poll, ..."""
LONGEST_S = 2.0
"""... but no longer than this: the first poll loads what later ones need."""


@dataclass
class PollRate:
    """Measures the polls of one thread; `least_s` is the minimum rest, in seconds."""

    least_s: float
    _began: float = field(default_factory=time.thread_time, init=False)

    def begin(self) -> None:
        """Record the start of a poll."""
        self._began = time.thread_time()

    def rest_s(self, least_s: float | None = None) -> float:
        """Return the time to rest after a poll, in seconds."""
        least = self.least_s if least_s is None else least_s
        return min(max(LONGEST_S, least), max(least, (time.thread_time() - self._began) * REST))
