"""A script of all kinds of questions, from a seed: ranges, neighbours, aggregates, joins, the past."""

from __future__ import annotations

from pathlib import Path

from support.running import Together
from support.seeded import moving_script, posts_script, significant_script, with_aggregates

_DEFINED = """
CREATE TABLE ranks (n BIGINT, name STRING) FROM FILE 'ranks.csv' KEY n;
CREATE REGION market AS POLYGON ((1 1, 8 1, 8 8, 1 8, 1 1), (3 3, 5 3, 5 5, 3 5, 3 3));
REGISTER QUERY ranked AS SELECT T.oid, R.name FROM taxis T, ranks R WHERE T.n = R.n INSIDE RECT(0, 0, 6, 6);
REGISTER QUERY sold WITH (changes => true) AS SELECT oid, n FROM taxis INSIDE market;
REGISTER QUERIES watched FROM INSERTS AS SELECT oid, n FROM taxis INSIDE CIRCLE(:x, :y, :far);
INSERT INTO watched VALUES ('west', 2, 5, 2, NULL), ('east', 8, 5, 2, NULL), ('north', 5, 8, 1.5, NULL);
"""
_ASKED = """
SELECT COUNT(*) AS n, SUM(x) AS x FROM taxis INSIDE RECT(0, 0, 7, 7);
SELECT oid, DISTANCE AS far FROM taxis NEAREST 3 TO (5, 5);
SELECT oid FROM posts WHERE body CONTAINS 'street' ORDER BY oid LIMIT 5;
SELECT COUNT(*) AS n, MIN(ts) AS first, SUM(y) AS y FROM posts WHERE ts > '1960-01-01';
SELECT oid, body FROM posts WHERE ts > '1960-01-01' AND body CONTAINS 'hole' ORDER BY ts, oid LIMIT 5;
"""
_CHANGED = """
INSERT INTO watched VALUES ('west', 3, 5, 2.5, NULL), ('south', 5, 2, 2, NULL);
INSERT INTO watched (name, _drop) VALUES ('north', TRUE);
"""
_ROUTED = "REPARTITION posts USING {strategy};\n"
_KEEP = "KEEP 10 s ARCHIVE TO '{folder}/archive'"


def mixed_script(folder: Path, seed: int, steps: int = 20) -> Path:
    """Write a script and its files into a folder; the script's path. The folder gets an archive, too."""
    cases = [moving_script(seed, steps=steps), posts_script(seed + 1, steps)]
    file = Together([*cases, significant_script(seed + 2, steps=steps)], [1, 1, 1]).write(folder)
    (folder / "ranks.csv").write_text("n,name\n" + "".join(f"{n},rank {n % 4}\n" for n in range(0, 60, 2)))
    before, *runs = with_aggregates(file.read_text(encoding="utf-8")).split("\nRUN")
    strategy = ("grid", "quadtree", "agrid")[seed % 3]
    before = before.replace("KEEP 20 s", _KEEP.format(folder=folder))
    text = before + _DEFINED + "\nRUN" + runs[0]
    text += _ASKED + _CHANGED + _ROUTED.format(strategy=strategy) + "".join(f"\nRUN{run}" for run in runs[1:])
    file.write_text(text + _ASKED, encoding="utf-8")
    return file


def archived_elsewhere(text: str) -> str:
    """The same script for another session, with an archive of its own."""
    return text.replace("/archive'", "/other-archive'")
