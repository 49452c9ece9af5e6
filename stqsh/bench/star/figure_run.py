"""List the figures and the functions that measure them, and hold what a run shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult
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


Measure = Callable[[StarRun], list[FigureResult]]

FIGURES = {
    4: ("objects:measure",),
    6: ("snapshots:constraints",),
    7: ("continuous.throughput:constraints", "continuous.slot:measure"),
    8: ("sizes:measure",),
    9: ("slots:snapshots",),
    10: ("continuous.throughput:tornado",),
    11: ("slots:continuous",),
    13: ("snapshots:memory", "continuous.throughput:memory"),
}
"""The functions that measure each figure of the paper, as module:name; 4 shows what the object cache is."""


def measure(number: int, bench: StarRun) -> list[FigureResult]:
    """Measure a figure, and return a result for each of its parts."""
    results = list[FigureResult]()
    for module, _, name in (function.partition(":") for function in FIGURES[number]):
        function: Measure = getattr(import_module(f"stqsh.bench.star.{module}"), name)
        results += function(bench)
    return results
