"""Figure 7f: the same queries on a slot of stqsh, as a session registers them, and what they cost as a whole.

A slot finds the members of queries with SYNC when they are due, not record by record. Its time includes what
Evaluate does otherwise: it decodes records, stores them, and writes what Aggregate adds up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.arrays import Array
from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import Steps, evaluate_batch
from stqsh.bench.papers.figure import FigureResult
from stqsh.bench.papers.star.continuous.questions import ContinuousWorkload, Questions
from stqsh.bench.papers.star.continuous.tables import Predicates
from stqsh.bench.papers.star.continuous.timing import MINUTES, STEADY, Stream, minutes_of
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import COMBINATIONS
from stqsh.bench.papers.star.world import POSTS, Posts
from stqsh.core.state.slot_state import SlotState
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.syntax.parse import parse
from stqsh.spec.chunk import ChunkKind, pack, unpack
from stqsh.spec.command import RegisterCommand
from stqsh.spec.query import SlotQuery, slot_query

_MINUTE = 60


_COUNT, _MINUTE_RECORDS = 1_000, 2_000
_COLUMNS = {
    "constraints": "constraints",
    "queries": "queries",
    "us": "µs a record",
    "per_s": "records/s",
    "due_us": "µs a due query",
    "plain_us": "without queries, µs",
    "minute": "records a minute",
}


def measure(run: StarRun) -> list[FigureResult]:
    """Figure 7f: Q_C1-Count on a slot, whose answers have as many members as those of the other ways."""
    count, minute = min(_COUNT, max(run.scale.queries)), min(_MINUTE_RECORDS, len(run.posts) // MINUTES)
    posts = run.posts.head(MINUTES * minute)
    stream, rows = Stream(posts), list[Row]()
    plain = _timed(MinuteSlot(posts, None, "COUNT(*)"), minute)
    for constraints in (1, 2, 3, 4):
        run.say(f"Q_C1-Count on a slot, {count:,} queries, {constraints} constraints")
        questions = stream.draw(ContinuousWorkload("C1", constraints), count)
        slot = MinuteSlot(posts, questions, "COUNT(*)")
        micros = _timed(slot, minute)
        if not np.array_equal(slot.members, _members(stream, questions, minute)):
            raise ValueError(f"the slot finds other members of queries with {constraints} constraints")
        due = float(sum(np.mean(questions.cubes.sync == sync) / sync for sync in (1, 5, 10))) * count
        rows.append(
            {
                "constraints": constraints,
                "queries": count,
                "us": micros,
                "per_s": 1e6 / micros,
                "due_us": (micros - plain) * minute / due,
                "plain_us": plain,
                "minute": minute,
            }
        )
    return [FigureResult("7f", "a slot of stqsh as a whole, Q_C1-Count", _COLUMNS, rows)]


def _timed(slot: MinuteSlot, minute: int) -> float:
    """Return the processor time of a record once the longest windows are full, µs."""
    seconds = [slot.run(number * minute, (number + 1) * minute) for number in range(MINUTES)]
    return 1e6 * float(np.mean(seconds[STEADY:])) / minute


def _members(stream: Stream, questions: Questions, minute: int) -> Array:
    """Return how many members the answers of each query have in all, by counts of matches."""
    counts = [
        np.bincount(pairs.row, minlength=len(questions.cube))
        for pairs in minutes_of(stream, questions, minute)
    ]
    ends = np.vstack([np.zeros_like(counts[0]), np.cumsum(counts, axis=0)])
    cubes, found = questions.cubes, np.zeros(len(questions.cube), np.int64)
    for now in range(1, MINUTES + 1):
        first = np.where(cubes.window > 0, np.maximum(0, now - cubes.window), 0)
        found += np.where(now % cubes.sync == 0, ends[now] - ends[first, np.arange(len(found))], 0)
    return found


class MinuteSlot:
    """A slot that takes in a minute of posts at a time.

    Attributes:
        members: how many members the answers of each query had in all, int64 (queries,).
    """

    def __init__(self, posts: Posts, questions: Questions | None, aggregate: str) -> None:
        self._posts, self._state, self._minute = posts, SlotState.fresh(0), 0
        asked = [] if questions is None else [*_asked(posts, questions, aggregate)]
        self._commands = [RegisterCommand(query=query) for query in asked]
        self.members = np.zeros(len(asked), np.int64)

    def run(self, first: int, last: int) -> float:
        """Take in posts first … last - 1 within a minute and answer what is due; return the seconds taken."""
        begin = self._minute * _MINUTE
        records = self._posts.records_at(
            first, last, begin + 1 + np.arange(last - first) * 58 // max(1, last - first)
        )
        steps = Steps(begin + 1, begin + _MINUTE)
        commands = self._commands if self._minute == 0 else []
        cost, sent = evaluate_batch(self._state, POSTS, steps, commands, [(ChunkKind.RECORDS, pack(records))])
        self._minute += 1
        for chunk in sent:
            if chunk.kind.startswith("partial/"):
                self._note(unpack(chunk.payload))
        return cost.seconds

    def _note(self, heard: pa.RecordBatch) -> None:
        if "value" in heard.schema.names:
            return
        count, query = (heard[name].to_numpy() for name in ("n", "query"))
        there = count > 0
        np.add.at(self.members, query[there] - 1, count[there].astype(np.int64))


def _asked(posts: Posts, questions: Questions, aggregate: str) -> Iterator[SlotQuery]:
    """Yield the queries as the binder makes them, with ids from 1 on."""
    catalogue = Catalogue({"posts": POSTS})
    words, cubes, asked = posts.vocabulary, questions.cubes, questions.predicates
    predicate = np.repeat(np.arange(len(asked.topic)), np.diff(cubes.start))
    for number, cube in enumerate(questions.cube.tolist(), 1):
        by = ", ".join(COMBINATIONS[cubes.grouping[cube]])
        window = f" WINDOW {cubes.window[cube]} min" if cubes.window[cube] else ""
        text = (
            f"REGISTER QUERY q AS SELECT {by}, {aggregate}"
            f" FROM posts{_tests(asked, int(predicate[cube]), words)}"
            f" GROUP BY {by}{window} SYNC {cubes.sync[cube]} min;"
        )
        [statement] = parse(text)
        yield replace(slot_query(bind(statement, catalogue).spec), id=number)


def _tests(asked: Predicates, row: int, words: list[str]) -> str:
    """Return the condition and the region of a row."""
    said = " ".join(words[term] for term in asked.terms[asked.start[row] : asked.start[row + 1]])
    tests = [f"body CONTAINS '{said}'"] if said else []
    tests += [f"topic = {asked.topic[row]}"] if asked.topic[row] >= 0 else []
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    box = asked.box[row].tolist()
    return where + (f" INSIDE ({', '.join(map(repr, box))})" if np.isfinite(box[0]) else "")
