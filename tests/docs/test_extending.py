"""The package that the page on extending stqsh shows does what the page says, installed beside stqsh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session
from support.running import parsed, run_script

from stqsh import core, extensions
from stqsh.cli.doctor import additions
from stqsh.client import catalogue_view
from stqsh.client.results import Answer, Rows
from stqsh.core.kinds import KINDS
from stqsh.docs import document
from stqsh.engine.launch.audit import check_kinds
from stqsh.errors import EngineError, StqshError
from stqsh.lang.errors import BindError, StatementSyntaxError
from stqsh.storage.catalogue_writer import note_added_kind

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "extension_package"
TAXIS = "CREATE MOVING STREAM taxis FROM FILE 'sample_data/taxis/*.csv' TICK 1 s REPORT EVERY 30 s;"
REPORTS = ["# ships", "a|10.0|50.0|1200000000", "b|10.1|50.1|1200000001", "c|10.1|far|1200000001", "a|1"]


def statement_of_page(beginning: str) -> str:
    """Return the statement of the page that begins so."""
    [found] = re.findall(rf"^{beginning}.*?;$", document("extending"), re.MULTILINE | re.DOTALL)
    return str(found)


def add_entry_points(folder: Path, name: str, points: dict[str, dict[str, str]]) -> Path:
    """Make what pip leaves of a package that it installed: its name, and its entry points."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {one}\n" for key, one in of.items())
        for group, of in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


@pytest.fixture
def fresh() -> Iterator[None]:
    """Look through the packages anew, before and after a test."""
    caches = (extensions._entry_points, extensions._load, catalogue_view.added_function)
    for one in caches:
        one.cache_clear()
    yield
    for one in caches:
        one.cache_clear()


@pytest.fixture
def package(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the package of the page to this process."""
    described = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = add_entry_points(tmp_path / "installed", described["name"], described["entry-points"])
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.syspath_prepend(str(folder))
    for kind in core.kinds._added():
        monkeypatch.setitem(KINDS, kind.name, kind)


@pytest.mark.parametrize(
    "file", ["pyproject.toml", "stqsh_ships/reports.py", "stqsh_ships/knots.py", "stqsh_ships/diamond.py"]
)
def test_the_page_shows_the_files_of_the_package(file: str) -> None:
    assert f"\n{(PACKAGE / file).read_text()}```\n" in document("extending")


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("says_format", [True, False])
def test_the_file_format_of_the_page_is_read_by_its_name_or_its_ending(
    tmp_path: Path, says_format: bool
) -> None:
    (tmp_path / "ships").mkdir()
    (tmp_path / "ships" / "one.rep").write_text("\n".join(REPORTS))
    create = statement_of_page("CREATE MOVING STREAM ships").replace("ships/*", f"{tmp_path}/ships/*")
    if not says_format:
        create = create.replace(" FORMAT REPORTS (timestamp => 's')", "")
    with local_session(tmp_path / "home", published=True) as session:
        outcomes = [*session.execute(f"{create} RUN; SELECT oid, lat FROM ships; SHOW DEAD LETTERS;")]
    [answer] = [one for one in outcomes if isinstance(one, Answer)]
    assert answer.table.to_pylist() == [{"oid": "a", "lat": 50.0}, {"oid": "b", "lat": 50.1}]
    assert [
        one.rows for one in outcomes if isinstance(one, Rows) and one.title == "dead letters by stream"
    ] == [(("ships", 2),)]


@pytest.mark.usefixtures("package")
def test_the_function_of_the_page_is_called_in_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with local_session(tmp_path, published=True) as session:
        lines = parsed(
            run_script(session, f"{TAXIS} {statement_of_page('REGISTER QUERY fast')} RUN 20 STEPS;")
        )
    knots = [line["row"]["knots"] for line in lines if line.get("op") == "+"]
    assert knots
    assert min(knots) > 20


@pytest.mark.usefixtures("package")
def test_the_query_kind_of_the_page_answers_with_the_objects_in_its_diamond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    register = statement_of_page("REGISTER QUERY sparkle")
    script = f"{TAXIS} {register} RUN 180 STEPS; SELECT oid, lon, lat FROM taxis;"
    with local_session(tmp_path, slots=2, published=True) as session:
        lines = parsed(run_script(session, script))
    answer: set[str] = set()
    for line in lines:
        if "query" in line and line["step"] <= 180:
            (answer.add if line["op"] == "+" else answer.remove)(line["key"])
    x1, y1, x2, y2 = 10.02, 50.01, 10.04, 50.025
    places = [line["row"] for line in lines if "statement" in line]
    away = {
        row["oid"]: abs(2 * row["lon"] - x1 - x2) / (x2 - x1) + abs(2 * row["lat"] - y1 - y2) / (y2 - y1)
        for row in places
    }
    assert answer == {oid for oid, distance in away.items() if distance <= 1}
    assert 0 < len(answer) < len(away)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("strategy", ["grid", "quadtree"])
def test_the_query_kind_of_the_page_sends_the_same_updates_where_the_stream_is_repartitioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.chdir(ROOT)
    register = statement_of_page("REGISTER QUERY sparkle")
    ended = register.replace("sparkle WITH (", "later FOR 40 s WITH (")
    outputs = []
    for folder, change in (("hashed", ""), ("moved", f"REPARTITION taxis USING {strategy};")):
        begin = f"{TAXIS} {register} RUN 40 STEPS; {change} RUN 40 STEPS; {ended} RUN 60 STEPS;"
        script = f"{begin} DROP QUERY sparkle; RUN 9 STEPS;"
        with local_session(tmp_path / folder, slots=3, published=True) as session:
            lines = parsed(run_script(session, script))
        outputs.append([line for line in lines if "query" in line])
    assert len(outputs[0]) > 150
    assert outputs[1] == outputs[0]


@pytest.mark.usefixtures("package")
def test_the_doctor_lists_what_packages_add() -> None:
    assert [(one.state, one.found) for one in additions()] == [
        ("ok", "format 'reports' of stqsh-ships 1.0"),
        ("ok", "function 'knots' of stqsh-ships 1.0"),
        ("ok", "kind of query 'diamond' of stqsh-ships 1.0"),
    ]


@pytest.mark.usefixtures("fresh")
def test_an_addition_that_cannot_be_loaded_or_is_there_twice_says_of_which_package_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {
        "stqsh.functions": {"one": "no_such_module:f", "two": "json:dumps"},
        "stqsh.formats": {"odd": "json:dumps"},
    }
    monkeypatch.syspath_prepend(str(add_entry_points(tmp_path / "a", "first-package", points)))
    again = {"stqsh.functions": {"two": "json:loads"}}
    monkeypatch.syspath_prepend(str(add_entry_points(tmp_path / "b", "second-package", again)))
    monkeypatch.chdir(ROOT)
    (tmp_path / "some.odd").write_text("x")
    with local_session(tmp_path / "home", published=True) as session:
        [*session.execute(TAXIS)]
        with pytest.raises(
            StqshError, match=r"function 'one' of first-package 1\.0 cannot be loaded.*no_such_module"
        ):
            [*session.execute("SELECT ONE(oid) FROM taxis;")]
        with pytest.raises(StqshError, match=r"first-package 1\.0 and second-package 1\.0 both add .*'two'"):
            [*session.execute("SELECT TWO(oid) FROM taxis;")]
        with pytest.raises(BindError, match="'odd' is not a FileFormat"):
            [*session.execute(f"CREATE MOVING STREAM s FROM FILE '{tmp_path}/some.odd' FORMAT ODD;")]
        with pytest.raises(StatementSyntaxError, match="unknown format 'EVEN'"):
            [*session.execute(f"CREATE MOVING STREAM s FROM FILE '{tmp_path}/some.odd' FORMAT EVEN;")]


def test_an_engine_without_the_package_of_a_kind_does_not_start(tmp_path: Path) -> None:
    with local_session(tmp_path, published=True) as session:
        check_kinds(session.connection.db)
        note_added_kind(session.connection.db, "diamond")
        with pytest.raises(
            EngineError, match="queries of the kind 'diamond', which no installed package adds"
        ):
            check_kinds(session.connection.db)


@pytest.mark.spark
def test_the_package_is_installed_and_a_session_of_its_own_process_uses_it(tmp_path: Path) -> None:
    """Build and install the package as a user does; shell, engine and workers find it on their path."""
    target, source = tmp_path / "site", tmp_path / "source"
    shutil.copytree(PACKAGE, source)
    uv = shutil.which("uv")
    install = (
        [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    )
    installed = subprocess.run(
        [*install, "--no-deps", "--target", str(target), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"the package's build tool cannot be had: {installed.stderr[-200:]}")
    (tmp_path / "one.rep").write_text("\n".join(REPORTS[:3]))
    script = tmp_path / "ships.stq"
    script.write_text(
        f"CREATE MOVING STREAM ships TIME seconds FROM FILE '{tmp_path}/*.rep'"
        " FORMAT REPORTS (timestamp => 's') TICK 1 s;"
        " REGISTER QUERY d WITH (kind => 'diamond') AS SELECT oid, KNOTS(lon) AS k FROM ships"
        " INSIDE RECT(9, 49, 11, 51); RUN;"
    )
    done = subprocess.run(
        [sys.executable, "-m", "stqsh", "run", str(script), "--format", "jsonl"],
        env={**os.environ, "PYTHONPATH": str(target), "STQSH_HOME": str(tmp_path / "home")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line["row"]["oid"] for line in parsed(done.stdout) if line.get("op") == "+"] == [
        "a",
        "b",
    ]
