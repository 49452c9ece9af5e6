r"""The interval of `\watch`, and the loop that repeats a statement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from stqsh.errors import StqshError

USUAL_S = 2.0


@dataclass(frozen=True, slots=True)
class WatchInterval:
    """How often a statement is repeated: every `interval_s` seconds, `count` times or without end."""

    interval_s: float = USUAL_S
    count: int | None = None

    @property
    def words(self) -> str:
        """The interval in words."""
        return f"every {self.interval_s:g} s"


def parse_interval(argument: str) -> WatchInterval:
    r"""Parse the words after `\watch`: `i=SEC`, `c=N`, a number for `i=`. Raises `StqshError`."""
    interval, count = USUAL_S, None
    for word in argument.rstrip("; ").split():
        name, equals, value = word.partition("=")
        if not equals:
            name, value = "i", word
        if name in ("i", "interval"):
            interval = _number(value, word)
        elif name in ("c", "count"):
            count = int(_number(value, word))
        else:
            raise _fault(word)
    return WatchInterval(interval, count)


def repeat(how: WatchInterval, show: Callable[[], object]) -> None:
    """Call `show` repeatedly; it ends the loop by returning False or by raising."""
    number, began = 0, time.monotonic()
    while how.count is None or number < how.count:
        time.sleep(max(0.0, began + number * how.interval_s - time.monotonic()) if number else 0.0)
        if show() is False:
            return
        number += 1


def _number(value: str, word: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise _fault(word) from None
    if number < 0 or not math.isfinite(number):
        raise _fault(word)
    return number


def _fault(word: str) -> StqshError:
    return StqshError(
        rf"\watch does not understand '{word}'", hint=r"\watch i=0.5 c=10: ten times, every half second"
    )
