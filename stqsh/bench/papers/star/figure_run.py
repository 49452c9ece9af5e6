"""Hold what the figures of a run share: its size, its progress, and the posts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.star.asking import StarScale, World
from stqsh.bench.papers.star.world import Posts, make_posts


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


def prepare(scale: StarScale, say: Say, _out: Path | None) -> tuple[StarRun]:
    """Return a run."""
    return (StarRun(scale, say),)
