"""Queries registered from files answer, to the byte, as the same queries registered one by one."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session
from support.running import run_script

CREATE = """
CREATE MOVING STREAM cars (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, status STRING, n INT)
  KEY oid LOCATION (x, y) TIME ts FROM FILE 'cars.csv' PLANAR;
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body FROM FILE 'posts.csv' PLANAR KEEP 4 s;
CREATE REGION corner AS RECT(0, 0, 5, 5);
"""
WORDS = ("jam", "rain", "it's", "taxi", "snow")
SELECTS = {
    "rect": "oid FROM cars INSIDE RECT({x1}, {y1}, {x2}, {y2})",
    "circle": "oid, DISTANCE FROM cars WHERE n > {least} INSIDE CIRCLE({x1}, {y1}, {r})",
    "moving": "oid FROM cars WHERE status = {word} INSIDE RECT({r}, {r}) AROUND {who}",
    "nearest": "oid, DISTANCE FROM cars WHERE status <> {word} NEAREST {k} TO ({x1}, {y1})",
    "following": "oid FROM cars NEAREST {k} TO {who}",
    "far": "COUNT(*) AS n, AVG(DISTANCE) AS mean FROM cars WHERE n > {least} INSIDE CIRCLE({x1}, {y1}, {r})",
    "inner": "MAX(DISTANCE) AS far, loc INSIDE corner AS there FROM cars NEAREST {k} TO ({x1}, {y1}) "
    "GROUP BY there",
    "words": "id, body FROM posts WHERE body CONTAINS ANY {word} INSIDE RECT({x1}, {y1}, {x2}, {y2})",
}


def rows(kind: str, count: int, chance: random.Random) -> list[dict[str, Any]]:
    """Give rows for queries of a kind."""
    return [
        {
            **{name: round(chance.uniform(0, 10), 2) for name in ("x1", "y1", "x2", "y2")},
            **{
                "r": round(chance.uniform(0.5, 3), 2),
                "k": chance.randint(1, 4),
                "least": chance.randint(0, 4),
            },
            **{"word": chance.choice(WORDS), "who": f"c{chance.randint(0, 24)}", "name": f"{kind}{number}"},
        }
        for number in range(count)
    ]


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write rows as CSV."""
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, [*lines[0]])
        writer.writeheader()
        writer.writerows(lines)


def scripts(folder: Path, count: int) -> tuple[str, str]:
    """Write a world's files; give a script that registers from files, and one of single statements."""
    chance = random.Random(7)
    write(folder / "cars.csv", [
        {"oid": f"c{car}", "x": round(chance.uniform(0, 10), 3), "y": round(chance.uniform(0, 10), 3),
         "ts": f"2008-02-02 15:00:{second:02}", "status": chance.choice(WORDS), "n": chance.randint(0, 5)}
        for second in range(8) for car in range(25) if chance.random() < 0.7
    ])  # fmt: skip
    write(folder / "posts.csv", [
        {"id": number, "x": round(chance.uniform(0, 10), 3), "y": round(chance.uniform(0, 10), 3),
         "ts": f"2008-02-02 15:00:{number // 8:02}", "body": " ".join(chance.sample(WORDS, 2))}
        for number in range(64)
    ])  # fmt: skip
    many, single = [CREATE, "RUN 2 STEPS;"], [CREATE, "RUN 2 STEPS;"]
    for kind, select in SELECTS.items():
        lines = rows(kind, count, chance)
        write(folder / f"{kind}.csv", lines)
        parameters = {name: f":{name}" for name in lines[0]}
        many.append(f"REGISTER QUERIES FROM FILE '{kind}.csv' AS SELECT {select.format(**parameters)};")
        single += [f"REGISTER QUERY {line['name']} AS SELECT {filled(select, line)};" for line in lines]
    rest = ["RUN 2 STEPS;", "DROP QUERY rect0; PAUSE QUERY circle1;", "RUN 1 STEPS;", "RESUME QUERY circle1;"]
    return "\n".join(many + rest), "\n".join(single + rest)


def filled(select: str, line: dict[str, Any]) -> str:
    """A SELECT with the values of a row."""
    return select.format(**{name: literal(value) for name, value in line.items()})


def literal(value: Any) -> str:
    """A value as a constant."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


@pytest.mark.slow
@pytest.mark.parametrize(("slots", "records"), [(1, 400_000), (3, 20)])
def test_two_thousand_queries_of_files_answer_as_single_ones(
    slots: int, records: int, tmp_path: Path
) -> None:
    outputs = []
    for number, script in enumerate(scripts(tmp_path, 340)):
        home = tmp_path / str(number)
        home.mkdir()
        with local_session(home, slots, records) as session:
            outputs.append(run_script(session, script, tmp_path / "f.stq"))
            assert len(session.queries()) == 340 * len(SELECTS) - 1
    assert outputs[0] == outputs[1]
    assert all(f'"query":"{kind}'.encode() in outputs[0] for kind in SELECTS)
