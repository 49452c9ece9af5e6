"""Keyword queries: posts a second end to end through Spark, against the number of queries, terms and size.

A session for each number of terms and each size; one event stream that keeps a few ticks of posts. Boxes are
uniform, terms are drawn as they occur in the posts. What a user would register one by one goes into the
control log in bulk, as bound queries; each portion of queries is taken in by a batch of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import stqsh
from stqsh.bench.figures import LESS, MORE, Better
from stqsh.bench.harness import bulk
from stqsh.bench.harness.cpu import CPU
from stqsh.bench.harness.drive import SPLIT, Say, execute, measured, run
from stqsh.bench.harness.posts import PostSample, made_posts, read_posts
from stqsh.client.api import Session

COLUMNS = {
    "queries": "queries",
    "terms": "terms",
    "side": "side",
    "posts_per_s": "posts/s",
    "updates_per_post": "updates/post",
    "register_s": "register s",
    "batches": "batches",
    **SPLIT,
    **CPU,
}
KEY = ("queries", "terms", "side")
FIGURES: dict[str, Better] = {
    "posts_per_s": MORE,
    "register_s": LESS,
    "cpu_java_s": LESS,
    "cpu_python_s": LESS,
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

    queries: numbers of them; terms: numbers of terms, 0: one to three; sides: of boxes, in % of the
    whole; posts: files of real ones and their columns, None for made-up ones; per_tick, ticks: posts a tick,
    measured ticks a row.
    """

    queries: tuple[int, ...] = field(
        default=(1_000, 10_000, 100_000), metadata={"help": "Numbers of queries, with commas."}
    )
    terms: tuple[int, ...] = field(
        default=(0,), metadata={"help": "Terms a query, with commas; 0: one to three."}
    )
    sides: tuple[float, ...] = field(
        default=(1.0,), metadata={"help": "Sides of boxes, % of the whole, with commas."}
    )
    posts: str | None = field(
        default=None, metadata={"help": "Real posts, FILES.csv:x,y,text,…; else made up."}
    )
    per_tick: int = field(default=20_000, metadata={"help": "Posts a tick."})
    ticks: int = field(default=30, metadata={"help": "Measured ticks for each row."})

    def __post_init__(self) -> None:
        files, _, columns = (self.posts or "FILES:x,y,text").rpartition(":")
        if not files or columns.count(",") < 2:
            raise ValueError(f"posts: say FILES.csv:x,y,text, not {self.posts}")

    def read(self) -> PostSample:
        """Read the real posts, or make some up."""
        if self.posts is None:
            return made_posts()
        files, _, columns = self.posts.rpartition(":")
        return read_posts(files, columns.split(","))


QUICK = Options((10_000,))


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return a row for each size."""
    posts = options.read()
    return [
        {"terms": terms or "1-3", "side": side, **row}
        for terms, side in product(options.terms, options.sides)
        for row in _against_queries(options, posts, (terms, side / 100), say)
    ]


def _against_queries(
    options: Options, posts: PostSample, kind: tuple[int, float], say: Say
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
            yield {
                "queries": count,
                "register_s": seconds,
                **measured(session, options.ticks, options.per_tick, "post"),
            }


def _specs(session: Session, asked: tuple[list[str], Any]) -> list[dict[str, Any]]:
    """Return the spec of a query for each phrase and box."""
    bound = bulk.bound(session, "SELECT id FROM posts WHERE body CONTAINS 'x' INSIDE (0, 0, 1, 1)")
    sides = ("x1", "y1", "x2", "y2")
    return [
        bound
        | {"region": {"type": "rect", **dict(zip(sides, box, strict=True))}}
        | {"condition": [*bound["condition"][:2], phrase, "all"]}
        for phrase, box in zip(asked[0], asked[1].tolist(), strict=True)
    ]
