"""Keyword queries: posts a second end to end through Spark, against the number of queries, terms and size.

A session for each number of terms and each size; one event stream that keeps a few ticks of posts. Boxes are
uniform, terms are drawn as they occur in the posts. What a user would register one by one goes into the
control log in bulk, as bound queries; each portion of queries is taken in by a batch of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import stqsh
from stqsh.bench import bulk
from stqsh.bench.drive import SPLIT, Say, execute, medians, run
from stqsh.bench.posts import Posts, made_posts
from stqsh.session.client import Session

COLUMNS = {
    "queries": "queries",
    "terms": "terms",
    "side": "side",
    "posts_per_s": "posts/s",
    "updates_per_post": "updates/post",
    "register_s": "register s",
    "batches": "batches",
    **SPLIT,
}

_CREATE = (
    "CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING) KEY id "
    "LOCATION (x, y) TIME ts TEXT body FROM FILE '{file}' PLANAR BOUNDS ({bounds}) TICK 1 s KEEP {keep} s;"
)
_KEPT = 5
"""Ticks for which posts are kept."""

_PORTION = 50_000
"""Queries that go into the log, and into the engine, at once."""


@dataclass(frozen=True)
class Options:
    """What to measure.

    queries: numbers of them; terms: numbers of terms, 0: one to three; sides: of boxes, as shares of the
    whole; posts: real ones, None for made-up ones; per_tick, ticks: posts a tick, measured ticks a row.
    """

    queries: tuple[int, ...] = (1_000, 10_000, 100_000)
    terms: tuple[int, ...] = (0,)
    sides: tuple[float, ...] = (0.01,)
    posts: Posts | None = None
    per_tick: int = 20_000
    ticks: int = 20


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark; `say` is told what goes on. One row a number of queries, terms and a size."""
    posts = options.posts or made_posts()
    return [
        {"terms": terms or "1-3", "side": side, **row}
        for terms, side in product(options.terms, options.sides)
        for row in _against_queries(options, posts, (terms, side), say)
    ]


def _against_queries(
    options: Options, posts: Posts, kind: tuple[int, float], say: Say
) -> Iterator[dict[str, Any]]:
    counts = sorted(options.queries)
    portions = sum(-(-count // _PORTION) for count in counts)
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        file = Path(folder) / "posts.parquet"
        ticks = _KEPT + portions + len(counts) * options.ticks
        say(f"writing {ticks * options.per_tick:,} posts")
        posts.write(file, ticks, options.per_tick)
        bounds = ", ".join(map(repr, posts.bounds))
        execute(session, _CREATE.format(file=file, bounds=bounds, keep=_KEPT))
        run(session, _KEPT)
        specs = _specs(session, posts.queries(counts[-1], *kind))
        done = 0
        for count in counts:
            say(f"registering {count - done:,} more queries")
            begun = time.perf_counter()
            for first in range(done, count, _PORTION):
                last = min(first + _PORTION, count)
                bulk.register(session, specs[first:last], first)
                run(session, 1)
            seconds, done = time.perf_counter() - begun, count
            say(f"{count:,} queries: {options.ticks * options.per_tick:,} posts")
            yield {"queries": count, "register_s": seconds, **_measured(session, options)}


def _specs(session: Session, asked: tuple[list[str], Any]) -> list[dict[str, Any]]:
    """Give the spec of a query for each phrase and box."""
    bound = bulk.bound(session, "SELECT id FROM posts WHERE body CONTAINS 'x' INSIDE (0, 0, 1, 1)")
    sides = ("x1", "y1", "x2", "y2")
    return [
        bound
        | {"region": {"type": "rect", **dict(zip(sides, box, strict=True))}}
        | {"condition": [*bound["condition"][:2], phrase, "all"]}
        for phrase, box in zip(asked[0], asked[1].tolist(), strict=True)
    ]


def _measured(session: Session, options: Options) -> dict[str, Any]:
    """Run the measured ticks and sum up what they cost."""
    begun = time.perf_counter()
    batches = run(session, options.ticks)
    seconds = time.perf_counter() - begun
    posts = options.ticks * options.per_tick
    updates = sum(int(progress.stats.get("updates", 0)) for progress in batches)
    return {
        "posts_per_s": posts / seconds,
        "seconds": seconds,
        "posts": posts,
        "updates_per_post": updates / posts,
        "batches": len(batches),
        **medians(batches),
    }
