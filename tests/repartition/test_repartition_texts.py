"""REPARTITION USING qttree with routing.text_leaves: leaves split by texts, on a session."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session
from support.repartition import STEPS, Dealt, dealt_in_two_ways, drive, routing, rows, run

from stqsh.client.api import Session
from stqsh.client.results import Rows

pytestmark = pytest.mark.slow

TOPICS = [[f"{letter}{number}" for number in range(5)] for letter in "abcdef"]
CREATE = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (x, y) TIME ts TEXT body
  FROM FILE '{folder}/posts.csv' TICK 1 s KEEP 20 s PLANAR;
"""
QUERIES = "".join(
    f"REGISTER QUERY {word} AS SELECT id FROM posts INSIDE ({at % 3}, 0, 9, 9) WHERE body CONTAINS '{word}';"
    for topic in TOPICS
    for at, word in enumerate(topic)
) + (
    "REGISTER QUERY both AS SELECT id FROM posts INSIDE (0, 0, 9, 9) WHERE body CONTAINS ANY 'a0 f4';"
    "REGISTER QUERY rare AS SELECT id FROM posts INSIDE (0, 0, 9, 9) WHERE body CONTAINS 'unheard';"
    "REGISTER QUERY small AS SELECT id FROM posts INSIDE (3, 3, 4, 4);"
    "REGISTER QUERY busy AS SELECT COUNT(*), TOPK(body, 2) FROM posts INSIDE (2, 2, 9, 9)"
    " WHERE body CONTAINS 'b1';"
    "REGISTER QUERY near AS SELECT id FROM posts WHERE body CONTAINS 'c2' NEAREST 3 TO (3, 3);"
    "REGISTER QUERY brief FOR 35 s AS SELECT id FROM posts INSIDE (1, 1, 8, 8) WHERE body CONTAINS 'd3';"
)
OTHERS = [
    "PAUSE QUERY a0; REGISTER QUERY later AS SELECT id FROM posts INSIDE (0, 0, 9, 9)"
    " WHERE body CONTAINS 'zz';",
    "RESUME QUERY a0; REGISTER QUERY last AS SELECT id FROM posts INSIDE (0, 0, 9, 9)"
    " WHERE body CONTAINS 'f0';",
    "DROP QUERY b1;",
    "",
    "",
]
ON = "SET routing.text_leaves = true;"
CHANGES = [
    one + also
    for one, also in zip(
        [
            f"{ON} REPARTITION posts USING qttree INTO 4 SLOTS;",
            "REPARTITION posts USING qttree INTO 3 SLOTS; REBALANCE posts;",
            "REBALANCE posts USING fm; REBALANCE posts USING fg;",
            "REPARTITION posts USING grid INTO 2 SLOTS;",
            "REPARTITION posts USING qttree INTO 5 SLOTS;",
        ],
        OTHERS,
        strict=True,
    )
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with posts of two minutes about topics, most of them around one spot."""
    folder, chance, lines = tmp_path_factory.mktemp("posts"), random.Random(7), ["id,x,y,ts,body"]
    for key in range(4800):
        x, y = (chance.gauss(3.2, 0.5) if key % 10 else chance.uniform(0, 10) for _ in "xy")
        words = chance.sample(chance.choice(TOPICS), 2) + (["zz"] if chance.random() < 0.1 else [])
        if chance.random() < 0.05:
            words = []
        lines.append(f"{key},{x:.3f},{y:.3f},{1_718_409_300 + key * STEPS // 4800},{' '.join(words)}")
    (folder / "posts.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def usual(folder: Path) -> list[dict[str, object]]:
    """The updates under the routing by object on one slot."""
    return drive(folder, "usual", Dealt(1), CREATE + QUERIES, OTHERS)


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run(session, CREATE.format(folder=folder) + QUERIES)
        yield session


@dealt_in_two_ways
def test_updates_are_the_same(folder: Path, usual: list[dict[str, object]], dealt: Dealt) -> None:
    name = f"changing-{dealt.slots}"
    assert drive(folder, name, dealt, CREATE + QUERIES, CHANGES) == usual
    assert {row["query"] for row in usual} >= {
        "a1",
        "both",
        "small",
        "busy",
        "near",
        "brief",
        "later",
        "last",
    }


def test_leaves_are_split_by_texts_only_if_that_is_set(session: Session) -> None:
    run(session, "RUN 20 STEPS; REPARTITION posts USING qttree INTO 4 SLOTS;")
    assert routing(session)["by texts"] == 0
    run(session, f"{ON} REPARTITION posts USING qttree INTO 4 SLOTS;")
    shown = routing(session)
    assert shown["by texts"] > 0 and shown["version"] == 3
    assert run(session, "REPARTITION posts USING qttree INTO 4 SLOTS;") == [
        "posts: already qttree over 4 slots"
    ]
    run(session, "REPARTITION posts USING agrid INTO 4 SLOTS;")
    assert routing(session)["by texts"] == 0


def test_what_is_shown_of_them(session: Session) -> None:
    run(session, f"RUN 20 STEPS; {ON} REPARTITION posts USING qttree INTO 4 SLOTS; RUN 25 STEPS;")
    _, slots = [one for one in session.outcomes("SHOW ROUTING;") if isinstance(one, Rows)]
    by_slot = [dict(zip(slots.columns, row, strict=True)) for row in slots.rows]
    assert len(by_slot) == 4 and sum(row["leaves"] for row in by_slot) == routing(session)["leaves"]
    assert sum(row["recent records"] for row in by_slot) == pytest.approx(45 * 40, rel=0.01)
    assert explained(session, "SELECT id FROM posts INSIDE (0, 0, 9, 9) WHERE body CONTAINS 'a0'").endswith(
        "those whose cells the region touches and whose lists have its words"
    )
    assert explained(session, "SELECT id FROM posts INSIDE (0, 0, 9, 9)").startswith("4 of 4")


def explained(session: Session, text: str) -> str:
    (found,) = [one for one in session.outcomes(f"EXPLAIN {text};") if isinstance(one, Rows)]
    return str(dict(found.rows)["slots"])


def test_snapshots_look_at_the_slots_that_may_have_their_words(session: Session) -> None:
    asked = [
        f"SELECT id FROM posts INSIDE (2, 2, 7, 7) WHERE body CONTAINS {how} '{words}';"
        for how, words in (("", "a0"), ("", "b1 b2"), ("ANY", "a0 e4"), ("ANY", "c1 unheard"), ("", "zz"))
    ]
    asked += [
        "SELECT id FROM posts WHERE body CONTAINS 'd1' NEAREST 5 TO (3, 3);",
        "SELECT COUNT(*) FROM posts INSIDE (2, 2, 7, 7) WHERE body CONTAINS 'f3';",
        "SELECT id FROM posts INSIDE (3, 3, 4, 4);",
    ]
    run(session, "RUN 30 STEPS;")

    def answers() -> list[list[str]]:
        return [sorted(map(str, rows(session, text))) for text in asked]

    expected = answers()
    assert all(expected)
    run(session, f"{ON} REPARTITION posts USING qttree INTO 4 SLOTS;")
    assert answers() == expected
    run(session, "RUN 30 STEPS;")
    split = answers()
    run(session, "REPARTITION posts USING object INTO 2 SLOTS;")
    assert answers() == split
