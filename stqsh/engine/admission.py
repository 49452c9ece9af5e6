"""Admission: how many records the next batch may take, from what the last one cost.

A trickle is taken at once; a backlog is taken in batches of about TARGET_US, since large batches pay Spark's
floor less often, and still tell something every other second. Batches may be cut between any two ticks
without changing a result, so nothing here touches one. A session's first batch is small, for a first answer
soon; later ones grow and shrink with what was measured. The bounds are for memory: records, the bytes that
they have in the replay stores, and the updates that the last batch lets expect.
Streams that keep significant objects only are the exception: orders about their memory are given between two
batches, so a replay of them is repeated by batches of one size only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

TARGET_US = 2_000_000
"""So long a batch of a backlog is to take. Of 1 M objects and 10,000 rectangles, batches of 0.8 s take 0.65
times the records a second of batches of 1.6 s; longer ones bring little."""
FIRST = 1 << 16
"""Records of a session's first batch, and of one that brings commands: whoever gave them waits for it."""
LEAST = 1_000
"""A batch of fewer records would be all floor, whatever a record costs."""
STEADY = 400_000
"""Records of every batch while there is a stream that keeps significant objects only."""
MOST_UPDATES = 4_000_000
"""Updates of a batch at the most, as far as can be told: some 50 bytes each, several times over."""
_GROWTH, _SHRINKING = 4.0, 0.5
"""How far a batch's size goes from that of the last one. What a batch costs besides its records (queries that
it registers, code that is compiled) is soon forgotten."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a batch may take in: records, and bytes as the replay stores have them."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Gives each batch its room; `most` is what none may exceed."""

    most: Room

    def room(self, stats: Mapping[str, Any], *, steady: bool = False) -> Room:
        """Give the room of a batch of a backlog, after one with these statistics (see `Progress.stats`).

        steady: there is a stream that keeps significant objects only.
        """
        records = STEADY if steady else max(LEAST, wanted(stats))
        return replace(self.most, records=min(self.most.records, records))


def at_first(room: Room) -> Room:
    """Give the room of a batch that brings commands that somebody waits for."""
    return replace(room, records=min(room.records, FIRST))


def wanted(stats: Mapping[str, Any]) -> int:
    """Give how many records would have taken TARGET_US, not too far from the size before.

    stats: "room" (the size before), "records", "updates", "time" {"total_us"} of the last batch; FIRST where
    there has been none. A batch that did not use its room, and took no longer than it should, tells nothing.
    """
    room = int(stats.get("room") or FIRST)
    records, took_us = int(stats.get("records", 0)), int(stats.get("time", {}).get("total_us", 0))
    if not records or not took_us or (2 * records < room and took_us <= TARGET_US):
        return room
    by_time = records * TARGET_US / took_us
    by_updates = records * MOST_UPDATES / max(1, int(stats.get("updates", 0)))
    return int(min(max(min(by_time, by_updates), room * _SHRINKING), room * _GROWTH))
