"""Compare a run with a saved one: ratios, and which of them are more than noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stqsh.bench.figures import Better, Figure, Ratio, identity, ratio
from stqsh.bench.results import BenchmarkResult, BenchmarkRun

_MACHINE = ("cpu", "cores", "python", "java", "pyspark", "numba")


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure of a row in both runs; `is_same_size`: whether the options were equal."""

    bench: str
    row: str
    name: str
    better: Better
    then: Figure
    now: Figure
    ratio: Ratio
    is_same_size: bool

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if not self.is_same_size:
            return "other sizes"
        if self.ratio.differs is None:
            return "one sample"
        if not self.ratio.differs:
            return "as before"
        return "WORSE" if self.ratio.worsening(self.better) > 1 else "better"

    def fails(self, bound: float) -> bool:
        """Return whether the figure got worse by more than the factor `bound` and more than noise."""
        is_noise = self.ratio.differs is False
        return self.is_same_size and not is_noise and self.ratio.worsening(self.better) > bound


def differences(now: BenchmarkRun, then: BenchmarkRun) -> list[Difference]:
    """Compare the figures that both runs have, in the order of `now`."""
    return [
        difference
        for result in now.results
        if (before := then.find(result.bench)) is not None
        for difference in _of_benchmark(result, before)
    ]


def unlike(now: BenchmarkRun, then: BenchmarkRun) -> list[str]:
    """Describe how the machines differ, as a comparison across machines compares these."""
    return [
        f"{name} was {then.environment.get(name)}, is {now.environment.get(name)}"
        for name in _MACHINE
        if now.environment.get(name) != then.environment.get(name)
    ]


def _of_benchmark(now: BenchmarkResult, then: BenchmarkResult) -> Iterator[Difference]:
    before = {identity(row, then.key): row for row in then.rows}
    for row in now.rows:
        old = before.get(identity(row, now.key), {})
        for name, better in now.figures.items():
            is_value, was = row.get(name), old.get(name)
            if not isinstance(is_value, Figure) or not isinstance(was, Figure):
                continue
            found = ratio(is_value, was)
            if found is not None:
                words = " ".join(f"{key}={row.get(key)}" for key in now.key)
                same = _sizes(now) == _sizes(then)
                yield Difference(now.bench, words, name, better, was, is_value, found, same)


def _sizes(result: BenchmarkResult) -> dict[str, object]:
    """Return the options that are not in a row's key, as JSON holds them."""
    known = {*result.key, *(f"{name}s" for name in result.key)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in result.options.items()
        if name not in known
    }
