"""The examples in the docstrings of what users and extenders call."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from support.local import local_session

from stqsh.client.api import Session

ROOT = Path(__file__).parents[2]
FED = "CREATE MOVING STREAM buses (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid"
FED += " LOCATION (lon, lat) TIME ts FROM INSERTS;"
STREAM = "CREATE MOVING STREAM taxis FROM FILE 'sample_data/taxis/*.csv' TICK 1 s REPORT EVERY 30 s;"
PLAIN = (
    "stqsh.docs",
    "stqsh.docs.drawing",
    "stqsh.docs.manual",
    "stqsh.client.python.tables",
    "stqsh.client.statements.help",
    "stqsh.client.statements.questions",
    "stqsh.lang",
    "stqsh.lang.printer.printer",
    "stqsh.lang.syntax.parse",
    "stqsh.lang.syntax.split",
    "stqsh.profile",
    "stqsh.sources.source_files",
    "stqsh.units",
)
"""Modules whose examples need nothing."""
IN_SESSION = (
    "stqsh.client.api",
    "stqsh.client.results",
    "stqsh.client.run",
    "stqsh.client.python.result",
    "stqsh.client.python.tail",
)
"""Modules whose examples run one after the other in the session called `session`."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch, local_session(folder, published=True) as session:
        patch.chdir(ROOT)
        patch.setenv("STQSH_HOME", str(folder / "temporary"))
        list(session.execute(STREAM))
        yield session


def run_examples(module: str, names: dict[str, object]) -> None:
    found = import_module(module)
    tests = doctest.DocTestFinder(exclude_empty=True).find(found, extraglobs=names)
    tests = sorted((test for test in tests if test.examples), key=lambda test: test.lineno or 0)
    assert tests, f"{module} has no examples"
    for test in tests:
        output: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert runner.run(test, out=output.append).failed == 0, "".join(output)


@pytest.mark.parametrize("module", PLAIN)
def test_the_examples_of_a_module_are_right(module: str) -> None:
    run_examples(module, {})


def test_the_example_of_feed_is_right(tmp_path: Path) -> None:
    with local_session(tmp_path) as session:
        list(session.execute(FED))
        run_examples("stqsh.client.feed", {"session": session})


def test_the_examples_that_use_a_session_are_right(session: Session) -> None:
    for module in IN_SESSION:
        run_examples(module, {"session": session})
