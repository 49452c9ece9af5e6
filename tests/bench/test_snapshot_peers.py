"""Snapshots beside databases: answers are compared, and a system that answers otherwise has no time."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from stqsh.bench.peers import postgis
from stqsh.bench.peers.snapshots import SnapshotPeersOptions, by_postgis, measure
from stqsh.bench.peers.snapshots.case import (
    ALL_GROUPS,
    COUNT,
    GROUPS,
    KINDS,
    NEAREST,
    RANGE,
    Numbers,
    SnapshotCase,
    SnapshotQuestion,
    check,
)
from stqsh.bench.peers.snapshots.job import main, numbers

CASE = SnapshotCase(objects=3_000, asked=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("case")
    CASE.write(made)
    return made


def truth(folder: Path) -> list[Numbers]:
    """Answer all questions by brute force."""
    table = pq.read_table(folder / "objects.parquet")
    topic, x, y = (table[name].to_numpy() for name in ("topic", "x", "y"))

    def groups(inside: np.ndarray) -> Numbers:
        parts = {one: inside & (topic == one) for one in np.unique(topic[inside]).tolist()}
        rows = [(one, int(part.sum()), float(x[part].mean())) for one, part in parts.items()]
        return [number for row in rows for number in row]

    def answer(question: SnapshotQuestion) -> Numbers:
        inside = (x >= question.x1) & (x <= question.x2) & (y >= question.y1) & (y <= question.y2)
        middle = question.words
        if question.kind == NEAREST:
            return np.argsort(np.hypot(x - middle["x"], y - middle["y"]))[:10].tolist()
        if question.kind in (GROUPS, ALL_GROUPS):
            return groups(inside if question.kind == GROUPS else np.ones(len(x), np.bool_))
        return np.flatnonzero(inside).tolist() if question.kind == RANGE else [int(inside.sum())]

    return [answer(question) for question in CASE.questions()]


def test_a_system_that_answers_otherwise_is_caught(folder: Path) -> None:
    questions, wanted = CASE.questions(), truth(folder)
    check("good", questions, wanted, wanted)
    for number in range(len(wanted)):
        lies = [list(answer) for answer in wanted]
        lies[number] = [*lies[number][:-1], lies[number][-1] * 1.001 + 1]
        with pytest.raises(ValueError, match="liar answers"):
            check("liar", questions, wanted, lies)
        lies[number] = lies[number][:-1]
        with pytest.raises(ValueError, match="liar answers"):
            check("liar", questions, wanted, lies)


def test_the_first_questions_of_a_kind_are_not_measured() -> None:
    times = list(range(len(CASE.questions())))
    by_kind = CASE.by_kind(times)
    assert list(by_kind) == list(KINDS)
    assert by_kind[RANGE] == [2, 3] and by_kind[COUNT] == [6, 7]


def test_an_answer_becomes_numbers_row_by_row() -> None:
    assert numbers(RANGE, [[3, 1, 2], [0.0, 0.0, 0.0]]) == [1, 2, 3]
    assert numbers(GROUPS, [[0, 1], [5, 6], [0.5, 0.25]]) == [0, 5, 0.5, 1, 6, 0.25]


@pytest.mark.spark
def test_stqsh_is_asked_what_it_is_measured_by() -> None:
    rows = measure(SnapshotPeersOptions(only=("nobody",), objects=2_000, asked=2), lambda text: None)
    assert [(row["what"], row["system"]) for row in rows] == [(kind, "stqsh") for kind in KINDS]


@pytest.mark.peers
def test_postgis_answers_the_same(folder: Path) -> None:
    if why := postgis.missing():
        pytest.skip(why)
    with tempfile.TemporaryDirectory() as own:  # into which the user may look who runs the server
        CASE.write(Path(own))
        answers, milliseconds = by_postgis.ask(CASE.questions(), Path(own))
    check("postgis", CASE.questions(), truth(folder), answers)
    assert len(milliseconds) == len(answers) and min(milliseconds) > 0


@pytest.mark.peers
@pytest.mark.parametrize(
    ("system", "modules"),
    [
        ("duckdb", ["duckdb"]),
        ("duckdb-rtree", ["duckdb", "duckdb_extension_spatial"]),
        ("sedonadb", ["sedonadb", "geoarrow.pyarrow"]),
    ],
)
def test_embedded_databases_answer_the_same(folder: Path, system: str, modules: list[str]) -> None:
    for module in modules:
        pytest.importorskip(module)
    main(system, folder)
    answers, _ = json.loads((folder / f"{system}.json").read_text())
    check(system, CASE.questions(), truth(folder), answers)
