"""The slots that snapshots of nearest objects query: few, also far from all objects, and never too few."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.local import local_session
from support.repartition import run

from stqsh.client.api import Session
from stqsh.client.read import asked_slots
from stqsh.client.results import Answer, Rows

CREATE = """
CREATE EVENT STREAM posts (id BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY id LOCATION (x, y) TIME ts FROM FILE '{folder}/posts.csv' TICK 1 s KEEP 1 h PLANAR
  BOUNDS (0, 0, 100, 100);
"""
_SLOTS, _POSTS = 24, 2400


def _posts() -> np.ndarray:
    """Return the places of posts: a large town in a corner, and a small one in the corner opposite."""
    chance = np.random.default_rng(5)
    large, small = chance.normal((20, 20), 6, (_POSTS - 200, 2)), chance.normal((90, 90), 1, (200, 2))
    return np.clip(chance.permutation(np.concatenate([large, small])), 0, 100).round(3)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("nearest")
    lines = [f"{key},{x},{y},{1_718_409_300 + key // 100}" for key, (x, y) in enumerate(_posts().tolist())]
    (folder / "posts.csv").write_text("\n".join(["id,x,y,ts", *lines, ""]))
    with local_session(folder / "home", _SLOTS, 100, published=True) as session:
        run(session, CREATE.format(folder=folder) + "RUN 2 STEPS; REPARTITION posts USING grid; RUN;")
        yield session


def _nearest(session: Session, text: str) -> list[int]:
    [found] = [one for one in session.execute(text) if isinstance(one, Answer)]
    return [row["id"] for row in found.table.to_pylist()]


def _queried(session: Session, text: str) -> int:
    [rows] = [one for one in session.execute(f"EXPLAIN {text}") if isinstance(one, Rows)]
    return int(str(dict(rows.rows)["slots"]).split()[0])


@pytest.mark.parametrize("k", [1, 7, 300, 5000])
def test_the_nearest_are_found_from_anywhere(session: Session, k: int) -> None:
    places, chance = _posts(), np.random.default_rng(k)
    for x, y in chance.uniform(-20, 120, (25, 2)).round(2).tolist():
        for where, posts in (("", np.arange(_POSTS)), ("WHERE id > 2300", np.arange(2301, _POSTS))):
            far = np.hypot(*(places[posts] - (x, y)).T)
            expected = posts[np.lexsort((posts, far))[:k]]
            text = f"SELECT id FROM posts {where} NEAREST {k} TO ({x}, {y});"
            assert _nearest(session, text) == expected.tolist()


def test_counts_of_cells_save_slots_far_from_all_objects(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        f"SELECT id FROM posts NEAREST 5 TO ({x}, {y});"
        for x, y in ((60, 60), (95, 5), (5, 95), (70, 30), (75, 75), (99, 50))
    ]
    by_counts = [_queried(session, text) for text in texts]
    monkeypatch.setattr(asked_slots, "_MANY", _SLOTS)
    without = [_queried(session, text) for text in texts]
    assert all(one <= other for one, other in zip(by_counts, without, strict=True))
    assert sum(by_counts) < sum(without) / 2
