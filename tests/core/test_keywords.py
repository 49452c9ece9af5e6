"""The keyword index finds what brute force finds, whatever came, went and was restored in between."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index import term_quadtrees
from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.core.state.string_dictionary import pool_of, vacuum
from stqsh.core.state.table import add_reference
from stqsh.core.texts import keyword_index as module
from stqsh.core.texts.keyword_index import KeywordIndex
from stqsh.core.texts.term_table import TermTable, tidy

WORDS = ["a", "b", "c", "d", "é", "北京", "x1", "Z"]
halves = st.integers(-6, 6).map(lambda n: n / 2)
maybe = st.one_of(halves, halves, halves, st.just(float("nan")), st.sampled_from([-1e9, 1e9]))
sizes = st.sampled_from([0, 0.5, 0.5, 1, 6, np.inf])
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)
queries = st.tuples(halves, halves, sizes, sizes, words, st.booleans(), st.booleans())
texts = st.one_of(st.none(), st.lists(st.sampled_from(WORDS), max_size=8))
events = st.tuples(maybe, maybe, maybe, maybe, texts, texts)


class World:
    """An index, and the same queries in a list: (box, words, every, checked, hangs)."""

    def __init__(self):
        self.state, self.known, self.next, self.bounds = SlotState.fresh(0), {}, 10, None

    @property
    def index(self):
        return KeywordIndex(self.state, "s1/range/keywords", TermTable(self.state, 1))

    def add(self, some):
        ids = np.arange(self.next, self.next + len(some))
        self.next += len(some)
        for id_, (x, y, w, h, asked, every, checked) in zip(ids.tolist(), some, strict=True):
            self.known[id_] = [(x, y, x + w, y + h), set(asked), every, checked, True]
        self.index.add(ids, [" ".join(q[4]).upper() for q in some], [q[5] for q in some])

    def settle(self):
        """The kind has other queries too: each third position is one without keywords."""
        ids = np.array(sorted([*self.known, *range(0, self.next, 3)]))
        ids = np.unique(ids[[i in self.known or i < 10 for i in ids.tolist()]])
        nowhere = [(np.nan,) * 4, set(), True, False, False]
        rows = [self.known.get(id_, nowhere) for id_ in ids.tolist()]
        boxes = np.array([row[0] if row[4] else (np.nan,) * 4 for row in rows], np.float64).reshape(-1, 4)
        self.ids = ids
        self.index.refresh(ids, boxes, np.array([row[3] for row in rows], np.bool_), self.bounds)

    def found(self, some):
        """(event, query id, flags) of each pair."""
        moves, codes = made(self.state, some)
        pairs = self.index.join(moves, self.index.terms.of_events(*codes))
        out = [
            (e, int(self.ids[q]), f) for e, q, f in zip(*(column.tolist() for column in pairs), strict=True)
        ]
        assert len(out) == len(set(out))
        return set(out)

    def wanted(self, some):
        out = set()
        for e, (ox, oy, nx, ny, old, new) in enumerate(some):
            for id_, (box, asked, every, checked, hangs) in self.known.items():
                was = hangs and holds(box, asked, every, ox, oy, old)
                now = hangs and holds(box, asked, every, nx, ny, new)
                if was != now or (was and checked):
                    out.add((e, id_, int(was) + 2 * int(now)))
        return out


def holds(box, asked, every, x, y, text):
    if text is None or not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
        return False
    return asked <= set(text) if every else bool(asked & set(text))


def made(state, some):
    """The events, with the codes of their texts; words come twice, and in capitals."""
    ox, oy, nx, ny = np.array([move[:4] for move in some], np.float64).reshape(-1, 4).T.copy()
    ox[np.isnan(oy)], nx[np.isnan(ny)] = np.nan, np.nan
    n = np.arange(len(some), dtype=np.int32)
    pool = pool_of(state, 1)
    codes = []
    for column in (4, 5):
        said = [None if move[column] is None else ", ".join(move[column] * 2).title() for move in some]
        code = pool.intern(pa.array(said, pa.string()))
        codes.append(np.where([text is None for text in said], -1, code).astype(np.int32))
    return Transitions(np.ones(len(some), np.int64), n, n, n, ox, oy, nx, ny), codes


@given(
    st.lists(st.lists(queries, max_size=12), min_size=1, max_size=3),
    st.lists(events, max_size=20),
    st.sampled_from([None, [-3.0, -3.0, 3.0, 3.0], [0.0, 0.0, 0.1, 0.1]]),
    st.data(),
)
def test_pairs_are_those_of_brute_force(rounds, some, bounds, data):
    world = World()
    world.bounds = bounds
    for new in rounds:
        world.add(new)
        for id_ in data.draw(st.sets(st.sampled_from(sorted(world.known)))) if world.known else ():
            match data.draw(st.sampled_from(["drop", "pause", "resume", "move"])):
                case "drop":
                    del world.known[id_]
                case "move":
                    world.known[id_][0] = (-1.0, -1.0, 2.0, 0.5)
                case change:
                    world.known[id_][4] = change == "resume"
        world.settle()
        assert world.found(some) == world.wanted(some)
    world.state = restore(snapshot(world.state))
    assert world.found(some) == world.wanted(some)


def crowd(count, seed=3):
    draw = np.random.default_rng(seed)
    size = np.where(draw.random(count) < 0.8, 0.02, 2.0)
    rows = zip(
        draw.random((count, 2)).tolist(), size.tolist(), draw.integers(1, 4, count).tolist(), strict=True
    )
    pick = lambda n: draw.choice(WORDS, n, p=np.array([30, 20, 10, 5, 3, 2, 1, 1]) / 72).tolist()  # noqa: E731
    return [
        (x, y, s, s, pick(n), bool(draw.random() < 0.7), bool(draw.random() < 0.3)) for (x, y), s, n in rows
    ]


def moves(count, seed=4):
    draw = np.random.default_rng(seed)
    places = draw.random((count, 4)).tolist()
    return [(*place, draw.choice(WORDS, 3).tolist(), draw.choice(WORDS, 5).tolist()) for place in places]


def test_long_lists_are_split_and_emptied_and_filled_again():
    world, some = World(), moves(40)
    world.bounds = [0.0, 0.0, 1.0, 1.0]
    world.add(crowd(3000))
    world.settle()
    assert len(world.state.array("s1/range/keywords/forest/nodes")) > 200 * term_quadtrees.WIDTH
    assert world.found(some) == world.wanted(some)
    for id_ in range(10, 2900):
        del world.known[id_]
    world.settle()
    assert world.found(some) == world.wanted(some)
    assert len(world.state.array("s1/range/keywords/forest/tag")) < 9000
    world.add(crowd(2000, seed=5))
    world.settle()
    assert world.found(some) == world.wanted(some)


def test_queries_hang_under_the_term_that_is_rare_among_records(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_LOOK", 50)
    world = World()
    world.add([(0.0, 0.0, 1.0, 1.0, ["a", "b"], True, False)] * 3)
    world.settle()
    world.add([(0.0, 0.0, 1.0, 1.0, ["a", "c"], True, False)])
    world.settle()

    def filed_under():
        terms = world.index.terms.words.strings().to_pylist()
        return [terms[code] for code in world.state.array("s1/range/keywords/asked/filed_under")]

    assert filed_under()[-1] == "c"
    _, (_, new) = made(world.state, [(0, 0, 0, 0, None, ["b", "c"])] * 49 + [(0, 0, 0, 0, None, ["a"])])
    world.index.count(len(new), new)
    world.settle()
    assert filed_under() == ["a"] * 4
    some = moves(20)
    assert world.found(some) == world.wanted(some)


def test_terms_that_nobody_names_are_forgotten(monkeypatch):
    world = World()
    state = world.state
    world.add(crowd(50))
    world.settle()
    state.create("s1/objects/c1", np.int32)
    add_reference(state, "s1/objects/c1", "strings")
    for batch in range(4):
        said = pa.array([f"{WORDS[i % 8]} {batch}-{i}" for i in range(4000)])
        codes = pool_of(state, 1).intern(said)
        world.index.count(len(codes), codes)
        state.replace("s1/objects/c1", codes[-100:])
        vacuum(state, 1, now=True)
        tidy(state, 1)
    assert len(world.index.terms) < 9000
    some = moves(40)
    assert world.found(some) == world.wanted(some)
    last = state.array("s1/objects/c1")[-1]
    spans, terms = world.index.terms.spans, world.index.terms.words.strings().to_pylist()
    known = [terms[code] for code in spans.codes[spans.begin[last] : spans.end[last]]]
    assert sorted(known) == sorted(["3", "3999", WORDS[3999 % 8].lower()])
