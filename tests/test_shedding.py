"""Load shedding from end to end, without Spark: a budget, a load beyond it, and what users are told."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.read.accuracy import accuracies
from stqsh.client.results import Message, Rows
from stqsh.client.run import RunHandle
from stqsh.engine.config import TUNING
from stqsh.spec.chunk import WHY
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage.control_log import read_log
from stqsh.storage.home import SessionArena

STEPS = 120
CREATE = (
    "CREATE MOVING STREAM cars (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP) FROM FILE '{}'"
    " PLANAR REPORT EVERY 3 s MAX SPEED 0.1 RETAIN SIGNIFICANT;"
)
QUERIES = (
    "REGISTER QUERY everyone WITH (min_accuracy => 0.2) AS SELECT oid FROM cars INSIDE RECT(0, 0, 100, 100);"
    "REGISTER QUERY half AS SELECT oid FROM cars INSIDE RECT(0, 0, 49.5, 100);"
    "REGISTER QUERY careful WITH (min_accuracy => 0.9) AS SELECT oid FROM cars INSIDE RECT(90, 0, 100, 100);"
    "REGISTER QUERY around AS SELECT oid FROM cars INSIDE RECT(10.5, 200) AROUND 'c10';"
)


def write_cars(file: Path, count: int = 100, steps: int = STEPS) -> None:
    """Cars on a line, one unit apart, that tremble and report in two of three seconds."""
    rows = ["oid,x,y,ts"]
    for step in range(steps):
        at = f"2025-01-01T00:{step // 60:02d}:{step % 60:02d}Z"
        for car in range(count):
            if (step + car) % 3:
                rows.append(f"c{car},{car + 0.01 * ((step + car) % 2)},50,{at}")
    file.write_text("\n".join(rows) + "\n")


@contextmanager
def session(tmp_path: Path, slots: int = 2, mishaps: Container[int] = ()) -> Iterator[Session]:
    write_cars(tmp_path / "cars.csv")
    tuning = replace(TUNING, shedding_steps=1)
    with local_session(
        tmp_path, slots=slots, max_records=70, mishaps=mishaps, published=True, tuning=tuning
    ) as opened:
        list(opened.execute(CREATE.format(tmp_path / "cars.csv") + QUERIES))
        run(opened, 6)
        yield opened


def tables(opened: Session, statement: str) -> list[list[dict[str, Any]]]:
    found = [outcome for outcome in opened.outcomes(statement) if isinstance(outcome, Rows)]
    return [[dict(zip(rows.columns, row, strict=True)) for row in rows.rows] for rows in found]


def table(opened: Session, statement: str) -> list[dict[str, Any]]:
    [rows] = tables(opened, statement)
    return rows


def items(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["item"]: row["value"] for row in rows}


def status(opened: Session) -> dict[str, Any]:
    return items(table(opened, "SHOW STATUS"))


def load(opened: Session) -> dict[str, Any]:
    """What SHOW LOAD says of the session, and of all slots."""
    session, slots = tables(opened, "SHOW LOAD")
    return items(session) | slots[-1]


def run(opened: Session, steps: int) -> list[tuple[str, str, str]]:
    """Run so many steps; the updates: query, `+` or why, key."""
    told: list[tuple[str, str, str]] = []
    for outcome in opened.outcomes(f"RUN {steps} STEPS"):
        assert isinstance(outcome, RunHandle)
        for updates in opened.updates(until=outcome):
            names = {query: row.name for query, row in updates.queries.items()}
            rows = zip(
                *(updates.table[name].to_pylist() for name in ("query", "op", "why", "key")), strict=True
            )
            told += [(names[query], "+" if op > 0 else WHY[why], key) for query, op, why, key in rows]
    return told


def orders(opened: Session) -> list[SheddingOrder]:
    return [row.entry for row in read_log(opened.connection.db) if row.kind == "memory"]


def say(opened: Session, text: str) -> list[str]:
    return [outcome.text for outcome in opened.outcomes(text) if isinstance(outcome, Message)]


def test_without_load_shedding_answers_are_exact_and_all_is_held(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        assert status(opened)["answers"] == "exact"
        row = load(opened)
        assert (row["objects"], row["shadow"], row["k"], row["shedding"]) == (100, 0, 1, "off")
        assert row["histogram"] == "1: 40, 2: 38, 3: 12"  # those of careful are locked on each slot
        assert run(opened, 5) == []
        assert orders(opened) == []


def test_objects_are_shed_down_to_the_target_and_come_back(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        told_first = say(opened, "SET shedding.budget = 80; SET shedding.keep = 0.9; SET shedding = object;")
        assert told_first[-1].startswith("shedding is object; exact answers need 100 objects; you allow 80")
        assert load(opened).get("with the next batch") is None
        told = run(opened, 6)
        assert {(query, why) for query, why, _ in told} == {("everyone", "shed")}
        row = load(opened)
        assert (row["target"], row["k"]) == (72, 2)
        assert 66 <= row["objects"] <= 80  # a part of the keys is not exactly a part of the objects
        assert row["objects"] + row["shadow"] == 100
        assert (row["k"], row["shedding"], row["budget"]) == (2, "object", 80)
        assert row["least accuracy"] == row["objects"] / 100
        found = status(opened)
        assert found["answers"] == f"1 of 4 approximate, least accuracy {row['objects'] / 100:.2f}"
        assert found["shedding"] == f"object, k 2, {row['shadow']} % dropped"
        [sentence] = say(opened, "SHOW LOAD")
        assert sentence.startswith("exact answers need 100 objects; you allow 80, which shedding brings down")
        assert say(opened, "SHOW CACHE")[0].endswith(f"; {row['shadow']} that they need are dropped")
        by_query = {row["query"]: row for row in table(opened, "SHOW CACHE")}
        assert by_query["everyone"]["shed"] == row["shadow"]
        assert by_query["careful"]["accuracy"] >= 0.9
        assert by_query["half"]["accuracy"] == 1

        say(opened, "SET shedding = off")
        back = run(opened, 4)
        assert {(query, why) for query, why, _ in back} == {("everyone", "+")}
        assert len(back) == len(told)
        assert status(opened)["answers"] == "exact"
        assert load(opened)["objects"] == 100


def test_regions_shrink_and_grow_back(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        say(opened, "SET shedding.budget = 80; SET shedding = query;")
        told = run(opened, 12)
        assert {query for query, why, _ in told if why == "shed"} >= {"everyone", "half", "careful"}
        row = load(opened)
        assert row["objects"] <= 80
        assert row["cache"] == 0.0
        assert row["area"] < 1
        by_query = {row["query"]: row for row in table(opened, "SHOW CACHE")}
        assert by_query["careful"]["accuracy"] == pytest.approx(max(0.9, row["area"]))
        assert by_query["everyone"]["accuracy"] == pytest.approx(row["area"], abs=1e-4)
        assert by_query["around"]["expected"] < 1
        assert "4 of 4 approximate" in status(opened)["answers"]

        say(opened, "SET shedding = off")
        assert orders(opened)[-1] == SheddingOrder(step=orders(opened)[-1].step)
        run(opened, 1)
        assert "4 of 4 not settled before step" in status(opened)["answers"]
        run(opened, 4)
        assert status(opened)["answers"] == "exact"
        assert load(opened)["objects"] == 100


def test_a_budget_that_comes_with_the_profile_and_one_in_bytes_hold_as_well(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        size = load(opened)["bytes"]
        say(opened, f"SET shedding.keep = 1; SET shedding.budget = '{size - 1000} B'; SET shedding = object;")
        run(opened, 5)
        row = load(opened)
        assert row["k"] == 2
        run(opened, 20)  # of so few keys none is in so small a part: it grows
        row = load(opened)
        assert row["shadow"] > 0
        assert row["budget"].endswith("kB")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "least"), [("object", 1), ("query", 5)])
def test_what_is_shed_does_not_depend_on_how_a_run_is_divided_into_batches_and_slots(
    tmp_path: Path, mode: str, least: int
) -> None:
    write_cars(tmp_path / "cars.csv")
    found = []
    for number, (records, slots) in enumerate(((70, 2), (300, 2), (400_000, 2), (1000, 3))):
        folder = tmp_path / str(number)
        with local_session(folder, slots=slots, max_records=records, published=True) as opened:
            list(opened.execute(CREATE.format(tmp_path / "cars.csv") + QUERIES))
            run(opened, 7)
            say(opened, f"SET shedding.budget = 80; SET shedding = {mode};")
            found.append((run(opened, 63), orders(opened)))
    told, ordered = found[0]
    assert ("everyone", "shed") in {(query, why) for query, why, _ in told}
    assert len(ordered) >= least
    assert found == [(told, ordered)] * 4


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["object", "query"])
def test_batches_that_are_lost_and_done_again_change_nothing(tmp_path: Path, mode: str) -> None:
    seen = []
    for number, mishaps in enumerate(((), range(0, 99, 2))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with session(folder, mishaps=mishaps) as opened:
            say(opened, f"SET shedding.budget = 80; SET shedding = {mode};")
            seen.append((run(opened, 15), orders(opened), load(opened)["objects"]))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) > 0


def test_a_new_query_is_not_called_exact_before_everything_has_reported(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        say(opened, "DROP QUERY everyone")
        run(opened, 2)
        say(opened, "REGISTER QUERY late AS SELECT oid FROM cars INSIDE RECT(60, 0, 89.5, 100)")
        assert "1 of 4 not settled" in status(opened)["answers"]
        begun = opened.progress().step + 1
        run(opened, 1)
        [late] = [row for row in table(opened, "SHOW QUERIES") if row["name"] == "late"]
        assert late["answer"] < 30
        assert late["accuracy"] == f"not settled before step {begun + 4}"
        run(opened, 4)
        assert status(opened)["answers"] == "exact"
        [late] = [row for row in table(opened, "SHOW QUERIES") if row["name"] == "late"]
        assert (late["answer"], late["accuracy"]) == (30, 1.0)


def test_with_less_cache_moving_queries_are_expected_to_miss_something(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        say(opened, "SET cache.factor = 0")
        assert load(opened)["with the next batch"] == "factor 0"
        run(opened, 1)
        assert "with the next batch" not in load(opened)
        rows = {row["query"]: row for row in table(opened, "SHOW CACHE")}
        side = (10.5 * 200) ** 0.5
        assert rows["around"]["expected"] == pytest.approx((side / (side + 0.6)) ** 2, abs=1e-4)
        assert (rows["around"]["accuracy"], rows["around"]["cache area"]) == (None, 0)
        assert (rows["half"]["expected"], rows["half"]["accuracy"]) == (1, 1)
        assert status(opened)["answers"].startswith("1 of 4 approximate, least accuracy 0.97")


def test_who_tails_an_approximate_query_is_told_once_and_who_selects_too(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        say(opened, "SET shedding.budget = 80; SET shedding = object;")
        run(opened, 6)
        [following] = opened.execute("TAIL everyone")
        notices: list[str] = []
        following.on_notice = notices.append  # type: ignore[union-attr]
        list(following)  # type: ignore[arg-type]
        assert len(notices) == 1
        assert notices[0].startswith("everyone: the answer is approximate: accuracy 0.")
        assert following.accuracy_text.startswith("accuracy 0.")  # type: ignore[union-attr]
        [exact] = opened.execute("TAIL half")
        list(exact)  # type: ignore[arg-type]
        assert exact.accuracy_text == ""  # type: ignore[union-attr]
        assert any(
            "keeps only the objects that queries need" in text for text in say(opened, "SELECT oid FROM cars")
        )
        [accuracy] = [
            row["value"] for row in table(opened, "SHOW QUERY everyone") if row["item"] == "accuracy"
        ]
        explained = {row["item"]: row["value"] for row in table(opened, "EXPLAIN everyone")}
        assert accuracy < 1
        assert explained["accuracy"] == accuracy


def test_where_no_state_can_be_read_nothing_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(tmp_path) as opened:
        say(opened, "SET shedding.budget = 80; SET shedding = object;")
        run(opened, 6)
        with monkeypatch.context() as patched:
            patched.setattr(SessionArena, "folders", (tmp_path / "nowhere",))
            assert {found.value for found in accuracies(opened.connection, opened.queries()).values()} == {
                None
            }
            assert status(opened)["answers"] == "4 of 4 of unknown accuracy"
            row = load(opened)
            assert row["as of"].startswith("step 12: the slots cannot be looked at")
            assert "mean accuracy" not in row
            rows, [note] = tables(opened, "SHOW CACHE")
            assert {row["inside"] for row in rows} == {None}
            assert note["query"] == "all"
            assert note["note"].startswith("the slots cannot be looked at")


def test_a_script_of_the_session_carries_settings_and_retention(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        say(opened, "SET shedding.budget = '64 MB'; SET shedding = query; SET cache.factor = 0.5")
        [script] = opened.execute("DUMP")
        lines = script.text.splitlines()  # type: ignore[union-attr]
        assert lines[:3] == [
            "SET shedding.budget = '64 MB';", "SET shedding = query;", "SET cache.factor = 0.5;"
        ]  # fmt: skip
        assert lines[3].endswith("REPORT EVERY 3 s MAX SPEED 0.1 RETAIN SIGNIFICANT;")
        assert "WITH (min_accuracy => 0.2)" in lines[4]


def test_while_the_slots_cannot_be_looked_at_the_figures_that_they_told_last_are_shown(
    tmp_path: Path,
) -> None:
    write_cars(tmp_path / "cars.csv")
    with local_session(tmp_path, slots=2, max_records=70) as opened:
        list(opened.execute(CREATE.format(tmp_path / "cars.csv") + QUERIES))
        run(opened, 6)
        row = load(opened)
        assert (row["queries"], row["approximate"], row["least accuracy"]) == (4, 0, 1.0)
        assert row["as of"] == "step 6: the slots cannot be looked at, the engine has not started"
        assert row["locked"] == 1
