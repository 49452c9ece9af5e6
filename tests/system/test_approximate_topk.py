"""Approximate TOPK (STAR section 4.1.2): counts are never too low, and too high by a share of the records."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.local import local_session
from support.running import parsed, run_script

from stqsh.bench.harness.topics import CREATE, write_posts
from stqsh.client.read.subscription import Subscription
from stqsh.client.results import Rows
from stqsh.core.aggregates.answers import show_measures
from stqsh.core.aggregates.states import Contribution, States, add_states, contribute
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.spec.aggregate import Measure
from stqsh.spec.expression import ColumnExpr

WORDS = st.text("abcdefgh", min_size=1, max_size=2)
TEXTS = st.lists(st.lists(WORDS, max_size=5).map(" ".join), max_size=40)
TOP3 = (Measure("topk", ColumnExpr("body"), "STRING", 3),)


def state(texts: list[str], error: float, sign: int = 1) -> States:
    """What the records of one slot contribute to one group."""
    by = pa.table({"key": pa.array([b""], pa.binary())})
    records = Contribution(np.zeros(len(texts), np.int32), np.full(len(texts), sign, np.int8))
    return contribute(TOP3, [pa.array(texts, pa.string())], by, records, error=error)


def shown(states: States) -> list[tuple[str, int]]:
    [top] = show_measures(TOP3, states, about=True)["m0"].to_pylist()
    return [(one["term"], one["count"]) for one in top]


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=5), st.sampled_from([0.01, 0.1, 0.3, 0.9]))
def test_merged_counts_are_within_the_bound(slots: list[list[str]], error: float) -> None:
    texts = [text for some in slots for text in some]
    true = Counter(term for text in texts for term in set(text.split()))
    top = shown(add_states([state(some, error) for some in slots]))
    allowed = error * len(texts)
    assert all(true[term] <= count <= true[term] + allowed for term, count in top)
    assert top == sorted(top, key=lambda pair: (-pair[1], pair[0]))
    counts = sorted(true.values(), reverse=True)[:3]
    assert len(top) == min(3, len(true))
    # Each place has no lower count than in truth, and whoever has it is as frequent but for the error.
    for (term, count), least in zip(top, counts, strict=True):
        assert count >= least
        assert true[term] >= least - allowed
    # Terms that are more frequent than the last one by more than the error are all there (Theorem 4.3).
    assert {term for term, n in true.items() if len(counts) == 3 and n > counts[2] + allowed} <= dict(
        top
    ).keys()


@given(TEXTS.filter(bool), TEXTS.filter(bool))
def test_what_leaves_as_a_whole_leaves_nothing(some: list[str], others: list[str]) -> None:
    together = [state(some, 0.2), state(others, 0.2), state(some, 0.2, -1)]
    assert shown(add_states(together)) == shown(add_states([state(others, 0.2)]))


@given(TEXTS.filter(bool))
def test_a_summary_has_few_counters(texts: list[str]) -> None:
    kept = state(texts, 0.25).values.num_rows
    terms = sum(len(set(text.split())) for text in texts)
    assert kept <= 3 + math.ceil(terms / (0.25 * len(texts))) + 1


SCRIPT = """REGISTER QUERY a {option} AS
  SELECT topic, TOPK(body, 8) AS words, COUNT(*) AS n FROM m GROUP BY topic SYNC 3 s;
RUN;"""


@pytest.fixture(scope="module")
def posts(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("posts") / "posts.parquet"
    write_posts(file, 12, 200, 3, said=True)
    return CREATE.format(file=file, keep=6)


def answers(folder: Path, posts: str, option: str, slots: int, size: int) -> list[dict[str, Any]]:
    with local_session(folder, slots, size) as session:
        return parsed(run_script(session, posts + SCRIPT.format(option=option)))


def test_the_same_bytes_for_any_cut(tmp_path: Path, posts: str) -> None:
    option = "WITH (error => 0.05)"
    once = answers(tmp_path / "a", posts, option, 3, 400_000)
    assert answers(tmp_path / "b", posts, option, 3, 1) == once
    exact = {(one["step"], str(one["key"]), one["op"]): one["row"] for one in answers(
        tmp_path / "c", posts, "", 3, 400_000
    )}  # fmt: skip
    compared = 0
    for line in once:
        right = exact.get((line["step"], str(line["key"]), line["op"]))
        if right is not None:
            assert line["row"]["n"] == right["n"]
            for (_, count), (_, least) in zip(line["row"]["words"], right["words"], strict=True):
                assert least <= count <= least + 0.05 * right["n"]
            compared += 1
    assert compared >= 20


def test_it_is_said(tmp_path: Path, posts: str) -> None:
    with local_session(tmp_path) as session:
        run_script(session, posts + SCRIPT.format(option="WITH (error => 0.05)"))
        [explained] = session.execute("EXPLAIN a;")
        assert isinstance(explained, Rows)
        assert "TOPK approximate, error 0.05" in str(explained.rows)
        [status] = session.execute("SHOW STATUS;")
        assert isinstance(status, Rows)
        assert dict(status.rows)["approximate TOPK"] == "a"
        [tail] = session.execute("TAIL a;")
        assert isinstance(tail, Subscription)
        tail.until_idle = True
        assert list(tail)
        assert tail.accuracy_text == "counts of TOPK are too high by up to 5 % of a group's records"


@pytest.mark.parametrize(
    ("select", "error", "message"),
    [
        ("TOPK(body, 3) FROM m SYNC 1 s", "2", "error must be a number between 0 and 1, such as 0.01"),
        ("TOPK(body, 3) FROM m SYNC 1 s", "0", "error must be a number between 0 and 1, such as 0.01"),
        ("COUNT(*) FROM m SYNC 1 s", "0.1", "error is for TOPK"),
        ("TOPK(body, 3) FROM m", "0.1", "not supported yet: approximate TOPK without SYNC or WINDOW"),
    ],
)
def test_what_it_is_not_for(tmp_path: Path, posts: str, select: str, error: str, message: str) -> None:
    with local_session(tmp_path) as session:
        run_script(session, posts)
        with pytest.raises((BindError, NotSupportedError), match=message):
            run_script(session, f"REGISTER QUERY q WITH (error => {error}) AS SELECT {select};")
