"""List the figures of STAR, run them, and hold what a run shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult
from stqsh.bench.paper_run import Paper, run_figures
from stqsh.bench.star.asking import StarScale, World
from stqsh.bench.star.world import Posts, make_posts


@dataclass
class StarRun:
    """A run of figures: its size, and where its progress goes."""

    scale: StarScale
    say: Say

    @cached_property
    def posts(self) -> Posts:
        """The posts, which all figures share."""
        self.say(f"making {self.scale.posts:,} posts")
        return make_posts(self.scale.posts)

    @cached_property
    def world(self) -> World:
        """A slot that holds the posts, which snapshots are asked of."""
        return World(self.posts, self.posts.on_slots(1))


STAR = Paper(
    "star",
    {
        4: "objects:measure",
        6: "snapshots:constraints",
        7: "continuous.throughput:constraints continuous.slot:measure",
        8: "sizes:measure",
        9: "slots:snapshots",
        10: "continuous.throughput:tornado",
        11: "slots:continuous",
        13: "snapshots:memory continuous.throughput:memory",
    },
)
"""The figures of the paper; 4 shows what the object cache is."""


def run(figures: Sequence[int], out: Path, say: Say, scale: StarScale) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out`.

    Raises:
        ValueError: there is no such figure, or answers differ.
    """
    STAR.check(figures)
    out.mkdir(parents=True, exist_ok=True)
    return run_figures(STAR, figures, StarRun(scale, say), say, scale=scale, out=out)
