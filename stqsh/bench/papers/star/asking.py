"""Ask contenders the same questions, time them, and compare the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.one_slot import STREAM
from stqsh.bench.papers.star.contenders import Contender
from stqsh.bench.papers.star.workload import Workload, bound
from stqsh.bench.papers.star.world import Posts
from stqsh.core.state.slot_state import SlotState


@dataclass(frozen=True)
class StarScale:
    """The size of a run.

    Attributes:
        posts: the number of posts.
        past: the questions that warm up, from which views are chosen.
        asked: the questions that are timed.
        budget: the bytes of views, the paper's larger memory.
        queries: the numbers of continuous queries.
        updates: how often a run of continuous queries counts a record in a result, more or less.
    """

    posts: int = 1_000_000
    past: int = 96
    asked: int = 32
    budget: int = 64 << 20
    queries: tuple[int, ...] = (1_000, 10_000, 100_000)
    updates: int = 8_000_000


QUICK = StarScale(posts=100_000, past=48, asked=12, queries=(1_000,), updates=400_000)


def scale_of(*, quick: bool, posts: int | None, mebibytes: int | None) -> StarScale:
    """Return the usual size of a run, or a quick one, with other numbers of posts and of MiB for views."""
    scale = QUICK if quick else StarScale()
    budget = scale.budget if mebibytes is None else mebibytes << 20
    return replace(scale, posts=scale.posts if posts is None else posts, budget=budget)


@dataclass(frozen=True)
class World:
    """Posts, and the slots that hold them."""

    posts: Posts
    states: Sequence[SlotState]


@dataclass(frozen=True)
class Timed:
    """How long a contender took for questions, ms; `learned_s` is the time of the warm-up."""

    name: str
    mean_ms: float
    p50_ms: float
    p99_ms: float
    learned_s: float
    nbytes: int


def ask(
    world: World, workload: Workload, contenders: Sequence[Contender], scale: StarScale, say: Say
) -> dict[str, Timed]:
    """Ask each contender the same questions after the same past.

    The time of an answer is that of the slowest slot, and of the merge.

    Raises:
        ValueError: answers differ.
    """
    past = [bound(text) for text in workload.texts(world.posts, scale.past, seed=11)]
    asked = [bound(text) for text in workload.texts(world.posts, scale.asked, seed=12)]
    found, first = dict[str, Timed](), None
    for contender in contenders:
        say(f"{workload.name}, {workload.constraints or 'a range of'} constraints: {contender.name}")
        begun = time.process_time()
        if contender.kept is not None:
            for spec in past if contender.learns else past[:1]:
                contender.warm(world.states, spec)
            contender.finish(world.states, STREAM)
        learned = time.process_time() - begun
        times, answers = [], []
        for spec in asked:
            answer, milliseconds = contender.answer(world.states, spec)
            answers.append(answer)
            times.append(milliseconds)
        first = first or answers
        if any(not one.equals(other) for one, other in zip(first, answers, strict=True)):
            raise ValueError(f"{contender.name} answers {workload.name} otherwise")
        p50, p99 = np.percentile(times, [50, 99]).tolist()
        found[contender.name] = Timed(
            contender.name, float(np.mean(times)), p50, p99, learned, contender.nbytes
        )
    return found
