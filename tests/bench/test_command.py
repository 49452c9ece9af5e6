"""`stqsh bench`: its commands, its files, its comparison; with a benchmark that measures nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from bench import toy_bench
from stqsh.bench import cli
from stqsh.bench.options import choices
from stqsh.bench.registry import BENCHMARKS, Benchmark, find

Bench = Callable[..., int]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run `stqsh bench` where there is a toy only, and give the exit code."""
    toys = (Benchmark("toy", "Nothing.", module="bench.toy_bench"), Benchmark("big", "More.", in_all=False))
    monkeypatch.setattr(cli, "BENCHMARKS", toys)

    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as left:
            cli.app([*words])
        return int(left.value.code or 0)

    return run


def help_of(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.app([*words, "--help"])
    return capsys.readouterr().out


def test_the_help_and_the_list_name_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of(capsys=capsys)
    with pytest.raises(SystemExit):
        cli.app(["list"])
    listed = capsys.readouterr().out
    for benchmark in BENCHMARKS:
        assert f"\n  {benchmark.name} " in shown
        assert f"{benchmark.help}\n" in listed


@pytest.mark.parametrize(
    "benchmark", [one for one in BENCHMARKS if not one.has_own_command], ids=lambda b: b.name
)
def test_every_benchmark_has_what_the_tool_asks_for(
    benchmark: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    module = benchmark.load()
    assert type(module.QUICK) is type(module.FULL)
    assert callable(module.measure)
    assert set(module.KEY) | set(module.FIGURES) <= set(module.COLUMNS), "what counts is shown"
    assert set(module.FIGURES.values()) <= {"more", "less"}
    assert module.__doc__
    shown = help_of(benchmark.name, capsys=capsys)
    for choice in choices(module.FULL, module.QUICK):
        assert choice.flag in shown
    for item in fields(module.FULL):
        assert item.metadata.get("help"), f"{benchmark.name}: what is {item.name}?"


def test_names_are_found_and_others_are_told_what_there_is() -> None:
    assert find("range").load().__name__ == "stqsh.bench.suite.range"
    with pytest.raises(ValueError, match=r"no benchmark 'rage'; there are .*range"):
        find("rage")


def test_a_table_shows_medians_and_spread(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("toy") == 0
    shown = capsys.readouterr()
    assert "100 ±0.5" in shown.out
    assert "all is well" in shown.out
    assert "toy: Nothing." in shown.err


def test_full_sizes_are_asked_for(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*words: str) -> int:
        assert bench("toy", "--json", *words) == 0
        return len(json.loads(capsys.readouterr().out)["benchmarks"][0]["rows"])

    assert rows() == 1
    assert rows("--full") == 2
    assert rows("--full", "--queries", "1,2,3") == 3


def test_json_holds_figures_options_and_environment(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("toy", "--json", "--repeat", "2") == 0
    run = json.loads(capsys.readouterr().out)
    [result] = run["benchmarks"]
    assert result["rows"][0]["rate"]["n"] == 6
    assert result["rows"][0]["ms"] == {"median": 5, "q1": 5, "q3": 5, "min": 5, "max": 5, "n": 2}
    assert result["options"]["queries"] == [1]
    assert result["repetitions"] == 2
    assert set(run["load"]) == {"begin", "end"}
    expected = {"cpu", "cores", "memory_mb", "python", "pyspark", "java", "numba", "commit", "settings"}
    assert expected <= set(run["environment"])


def test_a_saved_run_compares_as_before_with_itself(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "run.json")
    assert bench("toy", "--save", file) == 0
    assert bench("toy", "--compare", file, "--fail-over", "1.2") == 0
    shown = capsys.readouterr().out
    assert "as before" in shown
    assert "1.00" in shown
    assert "one sample" in shown  # of ms there is a single one


@pytest.mark.parametrize(
    ("name", "value", "code", "verdict"),
    [
        ("rate", 50.0, 1, "WORSE"),
        ("rate", 200.0, 0, "better"),
        ("rate", 90.0, 0, "WORSE"),  # by less than was said
        ("ms", 10.0, 1, "one sample"),
        ("ms", 5.5, 0, "one sample"),
    ],
)
def test_what_got_worse_by_more_than_was_said_gives_1(
    bench: Bench,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: float,
    code: int,
    verdict: str,
) -> None:
    then, now = str(tmp_path / "then.json"), str(tmp_path / "now.json")
    assert bench("toy", "--save", then) == 0
    monkeypatch.setitem(toy_bench.NOW, name, value)
    assert bench("toy", "--save", now, "--compare", then, "--fail-over", "1.2") == code
    shown = capsys.readouterr()
    assert verdict in shown.out
    assert (f"{name} is worse by" in shown.err) == bool(code)
    assert bench("compare", then, now, "--fail-over", "1.2") == code
    assert bench("compare", then, now) == 0


def test_other_sizes_are_no_worsening(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    then = str(tmp_path / "then.json")
    assert bench("toy", "--save", then, "--queries", "1,2") == 0
    monkeypatch.setitem(toy_bench.NOW, "rate", 50.0)
    assert bench("toy", "--compare", then, "--fail-over", "1.2", "--objects", "11") == 0
    assert "other sizes" in capsys.readouterr().out
    # The row says of how many queries it is: that is no other size.
    assert bench("toy", "--compare", then, "--fail-over", "1.2") == 1


def test_one_benchmark_that_fails_leaves_the_others_their_figures(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    assert bench("toy", "--fails", "--save", str(file)) == 1
    shown = capsys.readouterr().err
    assert "toy failed: RuntimeError: the floor gave way" in shown
    assert "Traceback" not in shown
    assert json.loads(file.read_text())["benchmarks"] == []


def test_all_runs_what_belongs_to_it(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("all") == 0
    shown = capsys.readouterr().err
    assert "toy: Nothing." in shown
    assert "big" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("toy", "--objects", "few"), "'few' is not whole numbers"),
        (("toy", "--queries", "1,x"), "'1,x' is not whole numbers with commas"),
        (("toy", "--share", "much"), "'much' is not numbers"),
        (("toy", "--objects", "0"), "objects: one at least"),
        (("toy", "--fail-over", "1.2"), "--compare FILE"),
        (("toy", "--compare", "nowhere.json"), "cannot read the saved run nowhere.json"),
        (("all", "--only", "toys"), "no benchmark 'toys'; there are toy"),
    ],
)
def test_what_cannot_be_done_is_a_mistake_of_the_command_line(
    bench: Bench, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert bench(*words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_file_of_something_else_is_no_saved_run(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"bench": "range"}')
    assert bench("toy", "--compare", str(file)) == 2
    assert "is not a saved run of format 1" in " ".join(capsys.readouterr().err.split())
