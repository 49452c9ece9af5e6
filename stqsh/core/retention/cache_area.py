"""How far moving regions are extended: the cache area (SOLE sections 4.4 and 4.5).

For exact answers, the cache area of a moving region must hold the following. Let V be MAX SPEED, R REPORT
EVERY, t the tick. Object P is in query Q after step T by its record of step s <= T; Q is around the focal
object F. A step lasts t, so a record's time is at most t before that of its step, or earlier if it came late.
After T, P's record is at most R old: T - s <= R. After any step u of s .. T the current record of F is at
most R old, and that of T is not from after T. So the times of the two are at most (T - u) + R <= 2 R apart; 3
t more allow for the rounding of the times of u, s and T to steps. Hence F after u is within D = V (2 R + 3 t)
of F after T, and P, which stays where it is, is in the region that is extended by D around F after u: for a
circle by the triangle inequality, for rectangles see `stqsh.core.kernels.geometry.boxes.extended_box`. So P
has been kept from s on, in each step. P's own movement plays no part, as s is the step of its record at T; D
covers it all the same, which bounds what conditions and neighbours need.

This holds while F is connected. When it comes back after a gap, its queries are like new ones: they see what
is kept, and have all objects within REPORT EVERY. To avoid that, all objects that F may meet would have to be
kept: within D of its last place, and V farther for each second of the gap, for queries without an answer in
that time, whether F comes back or not. SOLE's queries are where their focal objects are, so nothing is kept
for them.
"""

from __future__ import annotations

from stqsh.spec.stream import StreamSpec


def cache_distance(spec: StreamSpec, tick_us: int, factor: float = 1.0) -> float:
    """Return the cache distance D = factor * V * (2 REPORT + 3 TICK), in metres or the stream's unit.

    Args:
        spec: A stream with REPORT EVERY and MAX SPEED.
        tick_us: The tick in µs.
        factor: 0 .. 1; 1 is exact (SOLE's conservative cache).
    """
    assert spec.max_speed is not None and spec.report_every_us is not None, "RETAIN SIGNIFICANT needs both"
    seconds = (2 * spec.report_every_us + 3 * tick_us) / 1e6
    return float(factor * spec.max_speed * seconds)
