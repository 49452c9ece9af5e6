"""List the figures and the functions that measure them, and hold what a run shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult
from stqsh.bench.star.asking import StarScale, World
from stqsh.bench.star.world import make_posts


@dataclass
class StarRun:
    """A run of figures: its size, and where its progress goes."""

    scale: StarScale
    say: Say

    @cached_property
    def world(self) -> World:
        """The posts, which all figures share."""
        self.say(f"making {self.scale.posts:,} posts")
        posts = make_posts(self.scale.posts)
        return World(posts, posts.slot())


Measure = Callable[[StarRun], list[FigureResult]]

FIGURES = {
    4: "objects:measure",
    6: "snapshots:constraints",
    8: "sizes:measure",
    13: "snapshots:memory",
}
"""The function that measures each figure of the paper, as module:name; 4 shows what the object cache is."""


def measure(number: int, bench: StarRun) -> list[FigureResult]:
    """Measure a figure, and return a result for each of its parts."""
    module, _, name = FIGURES[number].partition(":")
    function: Measure = getattr(import_module(f"stqsh.bench.star.{module}"), name)
    return function(bench)
