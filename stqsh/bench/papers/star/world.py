"""The made posts of the figures: places around towns, words by Zipf's law, and attributes to group by.

STAR's 500 million tweets are not public. These have the same attributes: place, time, text, a topic of
fifty, and what is derived from them. A slot of the core holds them, without Spark: a client reads such a
slot in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.harness.one_slot import SECOND, STREAM, Steps, evaluate_batch
from stqsh.bench.harness.posts import made_posts
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.tokenizer import coded_terms
from stqsh.routing.table import slots_of
from stqsh.spec.chunk import ChunkKind, columns_schema, pack
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

TOPICS = 50
_CITIES = 100
_DURATION_S = 2 * 3600
_BATCH = 1 << 18

POSTS = StreamSpec(
    id=STREAM,
    name="posts",
    kind="event",
    columns=tuple(
        ColumnSpec(*column)
        for column in (
            ("id", "BIGINT"),
            ("x", "DOUBLE"),
            ("y", "DOUBLE"),
            ("ts", "TIMESTAMP"),
            ("body", "STRING"),
            ("topic", "INT"),
            ("city", "STRING"),
            ("likes", "DOUBLE"),
        )
    ),
    key="id",
    x="x",
    y="y",
    time="ts",
    text="body",
    planar=True,
    bounds=(0.0, 0.0, 1.0, 1.0),
    source=FileSourceSpec(""),
)
GROUPINGS = ("topic", "city", "HOUR(ts)", "MINUTE(ts)", "LENGTH(body)")
"""What posts are grouped by: all 31 combinations of these."""


@dataclass(frozen=True)
class Posts:
    """Made posts, evenly over two hours.

    Attributes:
        places: float64 (n, 2).
        texts: the texts, from which each post draws one.
        text: the number of each post's text, int32 (n,).
        topic: int32 (n,).
    """

    places: Array
    texts: pa.Array[Any]
    text: Array
    topic: Array

    def __len__(self) -> int:
        return len(self.places)

    def words(self, post: int, count: int) -> str:
        """Return the first words of a post."""
        return " ".join(str(self.texts[int(self.text[post])]).split()[:count])

    def head(self, count: int) -> Posts:
        """Return the first posts."""
        return Posts(self.places[:count], self.texts, self.text[:count], self.topic[:count])

    @property
    def vocabulary(self) -> list[str]:
        """All terms of the texts, by their codes."""
        return [str(word) for word in coded_terms(self.texts)[1].to_pylist()]

    def times(self, first: int, last: int) -> Array:
        """Return the seconds of posts, int64."""
        return np.arange(first, last) * _DURATION_S // max(1, len(self))

    def batches(self) -> Iterator[tuple[Steps, pa.RecordBatch]]:
        """Yield all posts as records, with the steps of each batch."""
        done = 0
        for first in range(0, len(self), _BATCH):
            last = min(first + _BATCH, len(self))
            seconds = self.times(first, last)
            end = int(seconds[-1]) + 1 if last < len(self) else _DURATION_S
            yield (
                Steps(done + 1, max(end, done + 1)),
                self.records_at(first, last, np.maximum(seconds, done) + 1),
            )
            done = max(end, done + 1)

    def records_at(self, first: int, last: int, seconds: Array) -> pa.RecordBatch:
        """Return some posts as records of these seconds, int64, each in the step of that number."""
        some = slice(first, last)
        at: Any = pa.array(self.text[some])
        cities: Any = pa.array(_city(self.places[some]))
        instants: Any = pa.array(seconds * SECOND)
        keys = pa.array(np.arange(first, last))
        likes = np.random.default_rng(first).integers(0, 1000, last - first) / 10
        names = pa.array([f"c{number}" for number in range(_CITIES)])
        schema = columns_schema(POSTS.columns)
        columns: list[Any] = [
            keys,
            *(pa.array(self.places[some, axis]) for axis in (0, 1)),
            instants.cast(schema.field("ts").type),
            self.texts.take(at),
            pa.array(self.topic[some]),
            names.take(cities),
            pa.array(likes),
        ]
        made = [*columns, pa.array(seconds), pa.array(hash_keys(keys))]
        return pa.RecordBatch.from_arrays(made, names=[*schema.names, "_step", "_hash"])

    def on_slots(self, count: int) -> list[SlotState]:
        """Return slots that hold all posts, dealt by their keys."""
        states = [SlotState.fresh(slot) for slot in range(count)]
        for steps, records in self.batches():
            dealt = slots_of(records.column("_hash").to_numpy(), count)
            for slot, state in enumerate(states):
                own = records.filter(pa.array(dealt == slot))
                evaluate_batch(state, POSTS, steps, (), [(ChunkKind.RECORDS, pack(own))])
        return states


def _city(places: Array) -> Array:
    """Return the number of the city of each place: a tenth of the area by a tenth."""
    tenths: Array = np.clip((places * 10).astype(np.int64), 0, 9)
    return tenths[:, 0] * 10 + tenths[:, 1]


def make_posts(count: int, seed: int = 7) -> Posts:
    """Make posts: most of them around fifty towns of different sizes, the others anywhere."""
    draw = np.random.default_rng(seed)
    towns = draw.random((50, 2))
    shares = 1 / np.arange(1, 51)
    town = draw.choice(50, count, p=shares / shares.sum())
    around = towns[town] + draw.normal(0, 0.02, (count, 2))
    places = np.where(draw.random((count, 1)) < 0.2, draw.random((count, 2)), np.clip(around, 0, 1))
    sample = made_posts(seed)
    weights = 1 / np.arange(1, TOPICS + 1)
    topic = draw.choice(TOPICS, count, p=weights / weights.sum()).astype(np.int32)
    return Posts(places, sample.texts, draw.integers(0, len(sample.texts), count).astype(np.int32), topic)
