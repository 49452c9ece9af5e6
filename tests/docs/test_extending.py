"""The examples of the page on extending stqsh do what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.local import local_session
from support.running import parsed, run_script

from stqsh.client.results import Answer, Rows
from stqsh.core.kinds import KINDS
from stqsh.docs import document
from stqsh.lang.ast_builder import definitions
from stqsh.sources.source_files import READERS

ROOT = Path(__file__).parents[2]
TAXIS = "CREATE MOVING STREAM taxis FROM FILE 'sample_data/taxis/*.csv' TICK 1 s REPORT EVERY 30 s;"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a module made of the Python example that defines a name."""

    def module(name: str) -> Any:
        blocks = re.findall(r"^```python\n(.*?)^```$", document("extending"), re.MULTILINE | re.DOTALL)
        [code] = [block for block in blocks if re.search(rf"^(def|class) {name}\b", block, re.MULTILINE)]
        made = ModuleType(f"example_{name}")
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(code, made.__dict__)
        return getattr(made, name)

    return module


def test_the_file_format_of_the_page_is_read(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS, "reports", example("read_reports"))
    monkeypatch.setattr(definitions, "FILE_FORMATS", (*definitions.FILE_FORMATS, "reports"))
    lines = ["# ships", "a|10.0|50.0|1200000000", "b|10.1|50.1|1200000001", "c|10.1|far|1200000001", "a|1"]
    (tmp_path / "ships").mkdir()
    (tmp_path / "ships" / "one.rep").write_text("\n".join(lines))
    [create] = re.findall(
        r"^CREATE MOVING STREAM ships.*?;$", document("extending"), re.MULTILINE | re.DOTALL
    )
    with local_session(tmp_path / "home", published=True) as session:
        create = create.replace("ships/*", f"{tmp_path}/ships/*")
        outcomes = [*session.execute(f"{create} RUN; SELECT oid, lat FROM ships; SHOW DEAD LETTERS;")]
    [answer] = [one for one in outcomes if isinstance(one, Answer)]
    assert answer.table.to_pylist() == [{"oid": "a", "lat": 50.0}, {"oid": "b", "lat": 50.1}]
    assert [
        one.rows for one in outcomes if isinstance(one, Rows) and one.title == "dead letters by stream"
    ] == [(("ships", 2),)]


def test_the_query_kind_of_the_page_answers_with_the_objects_in_its_diamond(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = example("DiamondKind")()
    monkeypatch.setitem(KINDS, kind.name, kind)
    monkeypatch.chdir(ROOT)
    [register] = re.findall(r"^REGISTER QUERY sparkle.*?;$", document("extending"), re.MULTILINE | re.DOTALL)
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
