"""Measure continuous aggregates end to end: those that follow every step, refreshes by topic, and TOPK.

`follow`: a stream of objects that report in turn, and a COUNT(*) over each of many uniform squares of 1 %
side. All objects have reported once before the measurement begins.

`topics`: posts about topics, and COUNT(*) and AVG by topic over each square, every minute. `topk`: the ten
most frequent terms of each square, every minute. The stream keeps a minute of posts, and one minute has
passed before the measurement begins.

`peers`: the same posts and questions in DuckDB and PostGIS, asked again each minute, and in the windowed
aggregation of PySpark and of Flink SQL; the answers are compared first. It has to be asked for by name.

`memory`: what a slot, and Aggregate, hold for each topic of each square.

`refresh`: how long a batch of one step takes that refreshes all queries by topic, without posts of its own.

A batch of its own takes in new queries. An update is half of a change: the old row goes, the new one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import stqsh
from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.cpu import CPU, CPU_FIGURES
from stqsh.bench.harness.drive import (
    SPLIT,
    Say,
    execute,
    measured,
    run,
    split,
    temporary_folder,
)
from stqsh.bench.harness.exact_sums import measure_sums
from stqsh.bench.harness.group_memory import measure_memory
from stqsh.bench.harness.topics import CREATE, write_posts
from stqsh.bench.harness.workload import rectangles
from stqsh.bench.options import option
from stqsh.bench.peers.groups.case import GroupCase
from stqsh.bench.peers.groups.compare import compare
from stqsh.bench.suite.range import RangeOptions, measure_squares
from stqsh.client.api import Session
from stqsh.spec.query import with_members
from stqsh.spec.region import RectangleSpec

COLUMNS = {
    "what": "what",
    "queries": "queries",
    "records_per_s": "records/s",
    "wanted": "wanted",
    "updates_per_record": "updates/record",
    "batches": "batches",
    **SPLIT,
    "ratio": "times floats",
    "groups": "groups",
    "slot_bytes": "slot's bytes a group",
    "row_bytes": "Aggregate's",
    **CPU,
}
KEY = ("what", "queries")
FIGURES: dict[str, Better] = {
    "records_per_s": MORE,
    "total_ms": LESS,
    "ratio": LESS,
    "row_bytes": LESS,
    **CPU_FIGURES,
}

_MINUTE = 60
_SYNC = "SYNC 1 minute"
_BY_TOPIC = f"SELECT topic, COUNT(*) AS n, AVG(len) AS mean FROM m INSIDE (0, 0, 1, 1) GROUP BY topic {_SYNC}"
_WANTED = {
    ("follow", 10_000): "500 k/s",
    ("follow", 100_000): "250 k/s",
    ("topics", 10_000): "300 k/s",
    ("topics", 100_000): "150 k/s",
    ("topk", 1_000): "100 k/s",
    ("refresh", 100_000): "500 ms",
    ("sums", 10_000): "1.3 times",
    ("memory", 100_000): "100 bytes",
}


@dataclass(frozen=True)
class AggregatesOptions:
    """What to measure; see the help of each option."""

    parts: tuple[str, ...] = option(
        ("follow", "topics", "topk", "refresh", "sums", "memory"), "What to measure; peers is another part."
    )
    queries: tuple[int, ...] = option((10_000, 100_000), "Numbers of queries.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(100_000, "Records a tick of moving objects.")
    ticks: int = option(60, "Measured ticks for each number of queries.")
    posts: int = option(50_000, "Posts a tick.")
    topics: int = option(10, "Topics of posts.")
    minutes: int = option(2, "Measured minutes of posts for each number of queries.")
    keep: int = option(60, "For how many seconds posts are kept.")

    def __post_init__(self) -> None:
        unknown = [name for name in self.parts if name not in _PARTS]
        if unknown:
            raise ValueError(f"no part {unknown[0]!r}; there are {', '.join(_PARTS)}")


def measure(options: AggregatesOptions, say: Say) -> list[Row]:
    """Return a row for each part and number of queries."""
    return [
        {"what": part, "wanted": _WANTED.get((part, int(str(row["queries"])))), **row}
        for part in options.parts
        for row in _PARTS[part](options, say)
    ]


def _follow(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    squares = RangeOptions(options.queries, options.objects, options.per_tick, options.ticks)
    yield from measure_squares(squares, say, "COUNT(*)")


def _topics(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    for count in sorted(options.queries):
        yield from _posted(options, say, (count, 0.01), _BY_TOPIC)


def _topk(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    select = f"SELECT TOPK(body, 10) AS words FROM m INSIDE (0, 0, 1, 1) {_SYNC}"
    yield from _posted(options, say, (1_000, 0.03), select)


def _posted(options: AggregatesOptions, say: Say, asked: tuple[int, float], select: str) -> Iterator[Row]:
    """Yield what queries over posts cost, which are asked as this many squares of a side."""
    count, side = asked
    measured_ticks = options.minutes * _MINUTE
    with temporary_folder() as folder, stqsh.connect(temporary=True, autoplay=False) as session:
        ticks = _MINUTE + registration.portions(count) + measured_ticks
        say(f"writing {ticks * options.posts:,} posts")
        write_posts(folder / "posts.parquet", ticks, options.posts, options.topics, said="body" in select)
        execute(session, CREATE.format(file=folder / "posts.parquet", keep=options.keep))
        run(session, _MINUTE)
        say(f"registering {count:,} queries")
        registration.log_in_portions(session, _specs(session, select, rectangles(count, side)), 0)
        say(f"{count:,} queries: {measured_ticks * options.posts:,} posts")
        yield {"queries": count, **measured(session, measured_ticks, options.posts)}


def _refresh(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    """Yield the cost of batches that refresh the greatest number of queries, over ten topics."""
    count = max(options.queries)
    first = _MINUTE - registration.portions(count)
    with temporary_folder() as folder, stqsh.connect(temporary=True, autoplay=False) as session:
        write_posts(folder / "posts.parquet", 4 * _MINUTE, options.posts, options.topics, said=False)
        execute(session, CREATE.format(file=folder / "posts.parquet", keep=options.keep))
        run(session, first)
        say(f"registering {count:,} queries")
        registration.log_in_portions(session, _specs(session, _BY_TOPIC, rectangles(count)), 0)
        batches = []
        for _ in range(3):
            batches += run(session, 1)
            run(session, _MINUTE - 1)
        groups = sum(progress.stats.updates for progress in batches)
        yield {
            "queries": count,
            "batches": len(batches),
            "updates_per_record": groups / len(batches) / options.posts,
            **split(batches),
        }


def _sums(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    del options
    say("exact sums and plain ones in one slot of the core")
    yield measure_sums(10_000)


def _memory(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    say("the memory of groups in one slot of the core, and in Aggregate")
    yield from measure_memory(max(options.queries))


def _peers(options: AggregatesOptions, say: Say) -> Iterator[Row]:
    for count in sorted(options.queries):
        case = GroupCase(count, options.posts, options.minutes, options.topics)
        with temporary_folder() as folder:
            yield from compare(case, folder, say)


def _specs(session: Session, select: str, boxes: Any) -> list[Any]:
    """Return a bound query over each of the boxes, float64 (n, 4)."""
    bound = registration.bind(session, select)
    return [with_members(bound, region=RectangleSpec(*box)) for box in boxes.tolist()]


_PARTS: dict[str, Callable[[AggregatesOptions, Say], Iterator[Row]]] = {
    "follow": _follow,
    "topics": _topics,
    "topk": _topk,
    "refresh": _refresh,
    "sums": _sums,
    "memory": _memory,
    "peers": _peers,
}

FULL = AggregatesOptions()
QUICK = AggregatesOptions(("follow", "topics", "sums"), (10_000,), ticks=24, posts=10_000, minutes=1)
