"""Continuous queries of `stqsh bench star`: indexes match as tests of all pairs, upkeeps count as by hand."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import times

from stqsh.bench.papers.figures import STAR
from stqsh.bench.papers.runner import run
from stqsh.bench.papers.star.asking import StarScale
from stqsh.bench.papers.star.continuous import standing, timing
from stqsh.bench.papers.star.continuous.ch_tree import ENDLESS, ChIndex
from stqsh.bench.papers.star.continuous.forest import Fast, Forest, RarestFirst
from stqsh.bench.papers.star.continuous.peers import OpIndex, RPTrees, packed
from stqsh.bench.papers.star.continuous.posted import CountedCells
from stqsh.bench.papers.star.continuous.questions import ContinuousWorkload, Cubes, Questions, shared
from stqsh.bench.papers.star.continuous.standing import Pairs, Standing
from stqsh.bench.papers.star.continuous.tables import Posted, Predicates
from stqsh.bench.papers.star.continuous.tallies import MOST
from stqsh.bench.papers.star.continuous.timing import Stream, match_costs, upkeep_costs
from stqsh.bench.papers.star.continuous.upkeep import MT, RECOMPUTING, WAYS, Upkeep
from stqsh.bench.papers.star.world import make_posts
from stqsh.core.indexes import ch_trees

TINY = StarScale(posts=3000, past=24, asked=3, budget=8 << 20, queries=(20,), updates=5_000)
TERMS, TOPICS = 7, 4
SIDES = st.sampled_from([-0.5, 0.0, 0.125, 0.25, 0.3, 0.5, 0.75, 1.0, 1.5])
INDEXES = {
    "OpIndex": OpIndex,
    "RP-trees": RPTrees,
    "CH, 5 a tree": partial(ChIndex, limit=5),
    "CH": partial(ChIndex, limit=ENDLESS),
    "FAST": Fast,
    "forest": Forest,
    "rarest first": RarestFirst,
}


@st.composite
def _predicates(draw) -> Predicates:
    boxes, topics, terms = [], [], []
    for _ in range(draw(st.integers(1, 60))):
        corners = draw(st.tuples(SIDES, SIDES, SIDES, SIDES))
        low, high = np.minimum(corners[:2], corners[2:]), np.maximum(corners[:2], corners[2:])
        boxes.append([*low, *high] if draw(st.booleans()) else [-np.inf, -np.inf, np.inf, np.inf])
        topics.append(draw(st.integers(-1, TOPICS - 1)))
        terms.append(sorted(draw(st.sets(st.integers(0, TERMS - 1), max_size=3))))
    start = np.cumsum([0, *map(len, terms)]).astype(np.int32)
    flat = np.array([one for some in terms for one in some], np.int32)
    return Predicates(
        np.array(boxes), np.array(topics, np.int32), start, flat, np.ones(len(topics), np.bool_)
    )


@st.composite
def _posted(draw) -> Posted:
    count = draw(st.integers(1, 25))
    x, y = (np.array([draw(SIDES) for _ in range(count)]) for _ in range(2))
    topic = np.array([draw(st.integers(0, TOPICS - 1)) for _ in range(count)], np.int32)
    terms = [sorted(draw(st.sets(st.integers(0, TERMS - 1)))) for _ in range(count)]
    start = np.cumsum([0, *map(len, terms)]).astype(np.int64)
    return Posted(x, y, topic, start, np.array([one for some in terms for one in some], np.int32))


def _wanted(sought: Predicates, posts: Posted, rows: set[int]) -> set[tuple[int, int]]:
    """Return the pairs as the words of the predicates say."""
    found = set()
    for e in range(len(posts.x)):
        said = set(posts.terms[posts.start[e] : posts.start[e + 1]].tolist())
        for q in rows:
            x1, y1, x2, y2 = sought.box[q].tolist()
            asked = set(sought.terms[sought.start[q] : sought.start[q + 1]].tolist())
            inside = x1 <= posts.x[e] <= x2 and y1 <= posts.y[e] <= y2
            if inside and sought.topic[q] in (-1, posts.topic[e]) and asked <= said:
                found.add((e, q))
    return found


@pytest.mark.parametrize("name", INDEXES)
@given(sought=_predicates(), posts=_posted(), sample=_posted(), draw=st.data())
def test_an_index_matches_as_a_test_of_all_pairs(name, sought, posts, sample, draw) -> None:
    index, every = (make(sought, sample, TERMS) for make in (INDEXES[name], Standing))
    rows = draw.draw(st.permutations(range(len(sought.topic))))
    stands: set[int] = set()
    with mock.patch.object(standing, "_LAZY", 3), mock.patch.object(ch_trees, "LAZY", 3):
        while rows:
            some, rows = rows[:20], rows[20:]
            stands |= set(some)
            gone = draw.draw(st.sets(st.sampled_from(sorted(stands)), max_size=10))
            stands -= gone
            for one in (index, every):
                one.add(np.array(some, np.int32))
                one.drop(np.array(sorted(gone), np.int32))
            wanted = _wanted(sought, posts, stands)
            for one in (index, every):
                pairs = one.match(posts)
                found = list(zip(pairs.record.tolist(), pairs.row.tolist(), strict=True))
                assert len(found) == len(set(found))
                assert set(found) == wanted


@pytest.mark.parametrize("name", INDEXES)
def test_records_may_have_topics_that_no_row_asks_for(name) -> None:
    box, start = np.full((1, 4), np.inf) * [-1, -1, 1, 1], np.zeros(2, np.int32)
    sought = Predicates(box, np.array([1], np.int32), start, np.empty(0, np.int32), np.ones(1, np.bool_))
    index = INDEXES[name](sought, SAMPLE, TERMS)
    index.add(np.zeros(1, np.int32))
    topic = np.array([1, 2, 1_000_000, 0, 1], np.int32)
    posts = Posted(np.full(5, 0.5), np.full(5, 0.5), topic, np.zeros(6, np.int64), np.empty(0, np.int32))
    assert index.match(posts).record.tolist() == [0, 4]


SAMPLE = Posted(
    np.array([0.1, 0.9]),
    np.array([0.1, 0.9]),
    np.array([0, 1], np.int32),
    np.array([0, 1, 2]),
    np.array([0, 1], np.int32),
)


def test_a_packed_r_tree_covers_its_boxes() -> None:
    low = np.random.default_rng(2).random((1000, 2))
    order, levels = packed(np.hstack([low, low + 0.1]))
    assert sorted(order) == [*range(1000)]
    assert [len(level) for level in levels] == [63, 4, 1]
    assert levels[-1][0].tolist() == [*low.min(axis=0), *(low + 0.1).max(axis=0)]


@st.composite
def _minutes(draw) -> tuple[Cubes, CountedCells, list[Pairs]]:
    """Draw results of some rows, the cells of records, and the pairs of some minutes."""
    per_row = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    count = sum(per_row)
    window, sync = (
        np.array([draw(st.sampled_from(some)) for _ in range(count)], np.int32)
        for some in ((0, 3, 5, 8), (1, 2, 5))
    )
    grouping = np.array([draw(st.integers(0, 1)) for _ in range(count)], np.int32)
    cubes = Cubes(np.cumsum([0, *per_row]), grouping, window, sync)
    minutes, pairs, start = draw(st.integers(1, 20)), [], [0]
    for _ in range(minutes):
        found = draw(st.lists(st.integers(0, len(per_row) - 1), max_size=4))
        records = [len(start) - 1 + k for k in range(len(found))]
        for _ in found:
            start.append(start[-1] + draw(st.integers(0, 3)))
        pairs.append(Pairs(np.array(records, np.int32), np.array(found, np.int32)))
    cell = np.array([[draw(st.integers(0, 30)) for _ in range(start[-1])] for _ in range(2)], np.int32)
    group = np.arange(31, dtype=np.int32)[None, :] // np.array([[16], [31]])
    return cubes, CountedCells(np.array(start), cell, group.astype(np.int32)), pairs


def _answers(
    cubes: Cubes, cells: CountedCells, pairs: list[Pairs], is_top: bool
) -> list[list[dict[int, int]]]:
    """Return what each result shows at each of its refreshes, counted anew."""
    shown = []
    for cube in range(len(cubes.window)):
        row = int(np.searchsorted(cubes.start, cube, side="right")) - 1
        g, window, mine = cubes.grouping[cube], int(cubes.window[cube]), []
        for end in range(1, len(pairs) + 1):
            if end % cubes.sync[cube]:
                continue
            counts: Counter[int] = Counter()
            for some in pairs[max(0, end - window) if window else 0 : end]:
                for record in some.record[some.row == row]:
                    counts.update(cells.cell[g, cells.start[record] : cells.start[record + 1]].tolist())
            kept = dict(counts)
            if is_top:
                for one in set(cells.group[g].tolist()):
                    mine_ = sorted(
                        (c for c in counts if cells.group[g, c] == one), key=lambda c: (-counts[c], c)
                    )
                    for cell in mine_[MOST:]:
                        del kept[cell]
            mine.append(kept)
        shown.append(mine)
    return shown


def _digest(answers: list[dict[int, int]]) -> int:
    mask, found = (1 << 64) - 1, 0
    for answer in answers:
        for cell, count in answer.items():
            mixed = ((cell << 32 | count) * 0xBF58476D1CE4E5B9) & mask
            found += ((mixed ^ (mixed >> 29)) * 0x94D049BB133111EB) & mask
    return found & mask


@times(2)
@given(case=_minutes(), is_top=st.booleans())
def test_all_upkeeps_tell_what_counting_anew_tells(case, is_top) -> None:
    cubes, cells, pairs = case
    wanted = [_digest(one) for one in _answers(cubes, cells, pairs, is_top)]
    for way in WAYS:
        upkeep = Upkeep(way, cubes, cells, is_top)
        for some in pairs:
            upkeep.count(some)
            upkeep.close()
            upkeep.answer()
        assert upkeep.digests.tolist() == wanted, way.name


def test_an_mt_index_answers_from_few_intervals() -> None:
    cubes = Cubes(np.array([0, 1]), np.zeros(1, np.int32), np.full(1, 30, np.int32), np.ones(1, np.int32))
    cells = CountedCells(np.arange(2), np.zeros((1, 1), np.int32), np.zeros((1, 1), np.int32))
    layered, plain = (Upkeep(way, cubes, cells, False) for way in (MT, RECOMPUTING))
    for upkeep in (layered, plain):
        for _ in range(64):
            upkeep.close()
    assert len(plain._making(30)) == 30
    assert layered._making(30) == [(1, 17), (2, 9), (3, 5), (4, 3)]


@pytest.fixture(scope="module")
def stream() -> Stream:
    return Stream(make_posts(3000))


@pytest.mark.parametrize("kind", ["C1", "C2"])
def test_equal_queries_share_predicates_and_results(stream: Stream, kind: str) -> None:
    drawn = stream.draw(ContinuousWorkload(kind, 1), 500)
    few = shared(drawn)
    assert len(few.predicates.topic) < 250 < len(few.cubes.window) < 500
    for is_top in (False, True):
        digests = [upkeep_costs(stream, one, 4, is_top=is_top).digests for one in (drawn, few)]
        assert np.array_equal(*digests)
        assert len(np.unique(digests[0])) > 100


def test_an_index_that_matches_otherwise_is_found(stream: Stream) -> None:
    class Wrong(Forest):
        name = "wrong"

        def match(self, posts: Posted) -> Pairs:
            return Pairs(*(column[1:] for column in super().match(posts)))

    questions: Questions = stream.draw(ContinuousWorkload("C1", 2), 50)
    with (
        mock.patch.object(timing, "INDEXES", (Forest, Wrong)),
        pytest.raises(ValueError, match="wrong matches other records"),
    ):
        match_costs(stream, questions)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "parts"), [("7", "7a 7b 7c 7d 7e 7f"), ("10", "10a 10c")])
def test_figures_of_continuous_queries_are_written(number: str, parts: str, tmp_path: Path) -> None:
    results = run(STAR, [number], lambda text: None, scale=TINY, out=tmp_path)
    assert [result.name for result in results] == parts.split()
    for result in results:
        assert result.rows and all(set(row) <= set(result.columns) for row in result.rows)
        assert all(goal.found is not None for goal in result.goals)
        assert json.loads((tmp_path / f"figure-{result.name}.json").read_text())["results"]
