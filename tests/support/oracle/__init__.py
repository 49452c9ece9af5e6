"""The oracle: what a case must bring, by brute force, from the law's own words.

It shares no code with stqsh. Everything is a plain loop over plain dicts, so that it can be checked
by reading.
"""

from support.oracle.expressions import World, parts_of, value
from support.oracle.fold import Oracle, Update, alike, fold, in_log_order, world_of
from support.oracle.geometry import EARTH_M, distance
from support.oracle.snapshots import snapshot
from support.oracle.text import terms
from support.oracle.whole import accepted, after, moments, run, sorted_out, stale

__all__ = [
    "EARTH_M",
    "Oracle",
    "Update",
    "World",
    "accepted",
    "after",
    "alike",
    "distance",
    "fold",
    "in_log_order",
    "moments",
    "parts_of",
    "run",
    "snapshot",
    "sorted_out",
    "stale",
    "terms",
    "value",
    "world_of",
]
