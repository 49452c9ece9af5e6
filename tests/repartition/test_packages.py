"""Changes of the routing in packages: what is said while they go, what replaces them, the same updates."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.local import local_session
from support.repartition import POSTS, Dealt, drive, routing, run, write_posts

from stqsh.client.api import Session
from stqsh.engine.delivery.balancer import Balancer
from stqsh.routing.packages import MOST_PACKAGES
from stqsh.storage.session_settings import session_settings
from stqsh.storage.stream_routes import stream_routes

MANY = "".join(
    f"REGISTER QUERY q{row}_{column} AS SELECT id FROM posts"
    f" INSIDE ({column}, {row}, {column + 0.9}, {row + 0.9});\n"
    for row in range(10)
    for column in range(10)
)
SMALL = "SET routing.package = 20; SET routing.cells = 64; "


def _states(session: Session, text: str, steps: int) -> list[str]:
    """Change a routing, and return the state after each step."""
    run(session, text)
    states = [str(routing(session)["state"])]
    for _ in range(steps):
        run(session, "RUN 1 STEPS;")
        states.append(str(routing(session)["state"]))
    return states


def test_queries_move_in_packages_and_show_routing_says_how_many(tmp_path: Path) -> None:
    write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run(session, POSTS.create.format(folder=tmp_path) + MANY + "RUN 10 STEPS;")
        run(session, SMALL + "REPARTITION posts USING grid INTO 2 SLOTS; RUN 1 STEPS;")
        said = run(session, "SET routing.cells = 128; REPARTITION posts USING agrid INTO 4 SLOTS;")
        entry = stream_routes(session.connection.db, 1)[-1].entry
        total, count = entry.learned[-1], len(entry.cuts)
        assert count > 2
        assert said[-1] == (
            f"posts: {total} queries move in {count} batches, about {round(total / count)} in each"
            " (routing.package)"
        )
        # The statement was in a script without a run, so it has not begun.
        assert run(session, "REPARTITION posts USING agrid INTO 4 SLOTS;") == [
            "posts: already agrid over 4 slots"
        ]
        states = _states(session, "", count)
        moved = (0, *entry.learned)
        assert states[:-1] == [f"moved {one} of {total} queries" for one in moved[:-1]]
        assert states[-1] == "in force"
        assert routing(session)["version"] == entry.version + count - 1


def test_what_is_said_of_packages_is_their_true_size_where_there_are_as_many_as_may_be(
    tmp_path: Path,
) -> None:
    write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run(session, POSTS.create.format(folder=tmp_path) + MANY + "RUN 10 STEPS;")
        run(session, SMALL + "REPARTITION posts USING grid INTO 2 SLOTS; RUN 1 STEPS;")
        said = run(session, "SET routing.package = 1; REPARTITION posts USING agrid INTO 4 SLOTS;")
        entry = stream_routes(session.connection.db, 1)[-1].entry
    total, count = entry.learned[-1], len(entry.cuts)
    assert total > MOST_PACKAGES
    assert said[-1] == (
        f"posts: {total} queries move in {count} batches, about {round(total / count)} in each"
        f" (routing.package is 1, but a change has at most {MOST_PACKAGES} packages)"
    )


def test_a_change_replaces_the_packages_that_have_not_gone(tmp_path: Path) -> None:
    write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        run(session, POSTS.create.format(folder=tmp_path) + MANY + "RUN 10 STEPS;")
        run(session, SMALL + "REPARTITION posts USING agrid INTO 4 SLOTS; RUN 1 STEPS;")
        assert str(routing(session)["state"]).startswith("moved ")
        run(session, "SET routing.package = 100000; REPARTITION posts USING grid INTO 3 SLOTS; RUN 1 STEPS;")
        shown = routing(session)
        assert (shown["strategy"], shown["slots"], shown["state"]) == ("grid", 3, "in force")
        run(session, "RUN 20 STEPS;")
        assert routing(session)["version"] == shown["version"]


def test_balance_waits_for_the_packages_of_a_change_and_then_rests(tmp_path: Path) -> None:
    write_posts(tmp_path)
    with local_session(tmp_path / "home", 2, 100, published=True) as session:
        connection = session.connection
        run(session, POSTS.create.format(folder=tmp_path) + MANY + "RUN 10 STEPS;")
        run(session, SMALL + "REPARTITION posts USING agrid INTO 4 SLOTS; SET balance = auto; RUN 1 STEPS;")
        watching = Balancer(connection.home, connection.db, lambda: session_settings(connection.db))
        watching.look()
        assert watching._streams[1].rest > 0
        rest = watching._streams[1].rest
        run(session, "RUN 1 STEPS; " * 20)
        assert routing(session)["state"] == "in force"
        watching.look()
        assert watching._streams[1].rest == rest - 1, "packages are no new changes"


@pytest.mark.slow
def test_updates_are_the_same_in_packages(tmp_path: Path) -> None:
    write_posts(tmp_path)
    script = POSTS.create + POSTS.queries + "".join(MANY.splitlines(keepends=True)[::6])
    usual = drive(tmp_path, "usual", Dealt(1), script, POSTS.others[:3])
    changes = ["SET routing.package = 2;" + change for change in POSTS.changes[:3]]
    assert drive(tmp_path, "packages", Dealt(2, restarts=True), script, changes) == usual
