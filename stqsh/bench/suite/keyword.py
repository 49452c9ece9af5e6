"""Measure posts a second end to end against the number of keyword queries, their terms and sizes.

Each number of terms and each size has a session of its own, with an event stream that keeps a few ticks of
posts. Boxes are uniform, and terms are drawn as often as they occur in the posts. Bound queries are written
straight into the control log, and a batch of its own takes in each portion of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import stqsh
from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.cpu import CPU, CPU_FIGURES
from stqsh.bench.harness.drive import SPLIT, Say, execute, measured, run, temporary_folder
from stqsh.bench.harness.posts import PostSample, made_posts, read_posts
from stqsh.bench.options import option
from stqsh.client.api import Session
from stqsh.spec.expression import ColumnExpr, ContainsExpr
from stqsh.spec.query import QuerySpec, with_members
from stqsh.spec.region import RectangleSpec

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
FIGURES: dict[str, Better] = {"posts_per_s": MORE, "register_s": LESS, **CPU_FIGURES}

_CREATE = (
    "CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING) KEY id "
    "LOCATION (x, y) TIME ts TEXT body FROM FILE '{file}' PLANAR BOUNDS ({bounds}) TICK 1 s KEEP {keep} s;"
)
_KEPT = 5
"""The number of ticks for which the stream keeps posts."""


@dataclass(frozen=True)
class KeywordOptions:
    """What to measure; see the help of each option.

    Raises:
        ValueError: `posts` does not name files and three columns.
    """

    queries: tuple[int, ...] = option((1_000, 10_000, 100_000), "Numbers of queries.")
    terms: tuple[int, ...] = option((0,), "Terms a query; 0: one to three.")
    sides: tuple[float, ...] = option((1.0,), "Sides of boxes, % of the whole.")
    posts: str | None = option(None, "Real posts, FILES.csv:x,y,text,…; else made up.")
    per_tick: int = option(20_000, "Posts a tick.")
    ticks: int = option(30, "Measured ticks for each row.")

    def __post_init__(self) -> None:
        files, _, columns = (self.posts or "FILES:x,y,text").rpartition(":")
        if not files or columns.count(",") < 2:
            raise ValueError(f"posts: say FILES.csv:x,y,text, not {self.posts}")

    def read(self) -> PostSample:
        """Read the real posts, or make up synthetic ones."""
        if self.posts is None:
            return made_posts()
        files, _, columns = self.posts.rpartition(":")
        return read_posts(files, columns.split(","))


FULL = KeywordOptions()
QUICK = KeywordOptions((10_000,))


def measure(options: KeywordOptions, say: Say) -> list[Row]:
    """Return a row for each number of terms, size and number of queries."""
    posts = options.read()
    return [
        {"terms": terms or "1-3", "side": side, **row}
        for terms, side in product(options.terms, options.sides)
        for row in _against_queries(options, posts, (terms, side / 100), say)
    ]


def _against_queries(
    options: KeywordOptions, posts: PostSample, kind: tuple[int, float], say: Say
) -> Iterator[Row]:
    counts = sorted(options.queries)
    portions = sum(map(registration.portions, counts))
    with temporary_folder() as folder, stqsh.connect(temporary=True, autoplay=False) as session:
        file = folder / "posts.parquet"
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
            seconds = registration.log_in_portions(session, specs[:count], done)
            done = count
            say(f"{count:,} queries: {options.ticks * options.per_tick:,} posts")
            yield {
                "queries": count,
                "register_s": seconds,
                **measured(session, options.ticks, options.per_tick, "post"),
            }


def _specs(session: Session, asked: tuple[list[str], Any]) -> list[QuerySpec]:
    """Return a bound query for each phrase and box."""
    bound = registration.bind(session, "SELECT id FROM posts WHERE body CONTAINS 'x' INSIDE (0, 0, 1, 1)")
    body = ColumnExpr("body")
    return [
        with_members(bound, region=RectangleSpec(*box), condition=ContainsExpr(body, phrase, "all"))
        for phrase, box in zip(asked[0], asked[1].tolist(), strict=True)
    ]
