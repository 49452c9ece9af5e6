"""What a benchmark's table, its portions and its environment look like."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.bench.figures import figure
from stqsh.bench.harness import environment
from stqsh.bench.harness.drive import REPETITIONS, portions
from stqsh.bench.report import cell, show


@given(st.integers(1, 10_000))
def test_portions_are_nearly_equal_and_none_is_empty(steps: int) -> None:
    found = portions(steps)
    assert sum(found) == steps
    assert len(found) == min(steps, REPETITIONS)
    assert max(found) - min(found) <= 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.01234, "0.0123"),
        (123456.7, "123,457"),
        (1_000, "1,000"),
        ("walk", "walk"),
        (figure([1.0, 2.0, 3.0]), "2 ±0.5"),
        (figure([7.0]), "7"),
    ],
)
def test_cells_have_as_many_digits_as_mean_something(value: object, text: str) -> None:
    assert cell(value, spread=True) == text


def test_a_narrow_table_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    columns = {f"key{number}": f"a rather long heading {number}" for number in range(12)}
    show("wide", [dict.fromkeys(columns, "supercalifragilistic")], columns)
    assert "…" not in capsys.readouterr().out


def test_a_busy_machine_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "cores", lambda: 2)
    assert environment.busy([0.4, 9.0, 9.0]) == ""
    assert environment.busy(None) == ""
    assert environment.busy([5.0, 0.0, 0.0]).startswith("the machine is busy: load 5.0 on 2 cores")


def test_the_environment_names_the_commit_of_a_working_copy_only(tmp_path: Path) -> None:
    assert environment._commit(tmp_path) is None
    (tmp_path / ".git").touch()
    assert environment._commit(tmp_path) is None
