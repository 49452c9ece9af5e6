"""The parts of live views: what is read ahead, kept, filtered, and drawn as panels and bars."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shell.samples import START_US, query, updates
from stqsh.client.read.watch import AnswerState
from stqsh.client.results import SnapshotMark
from stqsh.shell.live import prefetch as feeding
from stqsh.shell.live.prefetch import Prefetch
from stqsh.shell.live.scrollback import ScrollBuffer
from stqsh.shell.live.update_filter import UpdateFilter, wanted
from stqsh.shell.terminal.fullscreen import cut, joined
from stqsh.shell.terminal.screen import fitted
from stqsh.shell.watch.dashboard import Dashboard, left_text, shared
from stqsh.shell.watch.panel import slots_line, sparkline, steps_line
from stqsh.spec.stats import BatchStats, SlotStats
from stqsh.storage.rows import Progress

Q1, Q2 = query(7, "near"), query(8, "far")


def enters(step: int, key: str, number: int = 7, op: str = "+") -> Any:
    return (step, number, op, key, key, 116.4, 39.9, START_US, "free")


def plain(line: Any) -> str:
    return "".join(text for _, text, *_ in line)


# ---- reading ahead


def take_all(feed: Prefetch[Any]) -> list[Any]:
    found: list[Any] = []
    while not feed.is_over:
        found += feed.take()
        feed.wait(1)
    return found


def test_a_feed_gives_all_in_order_and_then_what_ended_it() -> None:
    def source(on_idle: Any) -> Any:
        on_idle(Progress(3))
        yield from items
        raise ValueError("the end")

    items = [
        updates([Q1], [enters(1, "a")]),
        SnapshotMark(Q1, 1, None, "end"),
        updates([Q1], [enters(2, "b")]),
    ]
    feed = Prefetch(source)
    assert take_all(feed) == items
    assert feed.progress == Progress(3)
    with pytest.raises(ValueError, match="the end"):
        feed.take()
    feed.close()


def test_a_feed_reads_so_far_ahead_and_no_farther(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "AHEAD", 3)
    given_: list[int] = []
    full = threading.Event()

    def source(on_idle: Any) -> Any:
        for step in range(1, 9):
            given_.append(step)
            if step == 4:
                full.set()
            yield updates([Q1], [enters(step, "a")])

    feed = Prefetch(source)
    assert full.wait(30)
    assert feed.is_full and feed.waiting == 3 and given_ == [1, 2, 3, 4]
    assert sum(item.table.num_rows for item in take_all(feed)) == 8
    feed.close()


def test_a_feed_that_is_closed_leaves_its_source() -> None:
    left = threading.Event()

    def source(on_idle: Any) -> Any:
        try:
            while True:
                on_idle(Progress())
                yield updates([Q1], [enters(1, "a")])
        finally:
            left.set()

    Prefetch(source).close()
    assert left.wait(30)


def test_the_latest_item_stays_until_there_is_a_newer_one() -> None:
    def source(on_idle: Any) -> Any:
        yield from (1, 2)
        assert more.wait(30)
        yield 3

    more = threading.Event()
    feed: Prefetch[int] = Prefetch(source)
    while feed.latest() != 2:
        feed.wait(1)
    assert feed.latest() == 2
    more.set()
    while not feed.is_over:
        assert feed.latest() in (2, 3)
    assert feed.latest() == 3
    feed.close()


# ---- filters


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ["a1", "b2", "A3"]),
        ("+", ["a1", "A3"]),
        ("-", ["b2"]),
        ("a", ["a1", "A3"]),
        ("- b", ["b2"]),
        ("+ b", []),
        ("left", ["b2"]),
        ("116.4", ["a1", "b2", "A3"]),
        ("15:00:13", ["b2"]),
        ("far", ["A3"]),
        ("%", []),
    ],
)
def test_a_filter_finds_texts_ops_reasons_times_and_names(typed: str, found: list[str]) -> None:
    rows = [enters(12, "a1"), enters(13, "b2", op="left"), enters(14, "A3", 8)]
    shown = wanted(typed, names=typed == "far").of(updates([Q1, Q2], rows))
    assert shown.table.column("key").to_pylist() == found


def test_a_filter_is_shown_as_it_is_typed() -> None:
    assert [wanted(typed).words for typed in (" + ", "- taxi", "-5", "a b")] == ["+", "- taxi", "-5", "a b"]
    assert wanted("-5") == UpdateFilter(0, "-5")


# ---- scrolling back


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 30), st.integers(1, 12), st.booleans()
)
def test_a_window_on_what_is_kept_is_a_slice_of_it(
    sizes: list[int], offset: int, count: int, odd: bool
) -> None:
    kept, every, number = ScrollBuffer(), [], 0
    only = wanted("odd") if odd else UpdateFilter()
    for size in sizes:
        keys = [f"{number + place}{'odd' if (number + place) % 2 else ''}" for place in range(size)]
        number += size
        kept.add(updates([Q1], [enters(1, key) for key in keys]))
        every += [key for key in keys if not odd or "odd" in key]
    items, passed = kept.window(only, offset, count)
    found = [key for item in items for key in item.table.column("key").to_pylist()]  # type: ignore[union-attr]
    end = len(every) - offset
    assert found == every[max(0, end - count) : max(0, end)]
    assert passed == min(len(every), offset + count)


def test_what_is_kept_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stqsh.shell.live.scrollback.KEPT", 10)
    kept = ScrollBuffer()
    for step in range(100):
        kept.add(updates([Q1], [enters(step, "a"), enters(step, "b"), enters(step, "c")]))
    assert 10 <= kept.rows <= 12


# ---- drawing


def test_bars_are_as_high_as_their_share() -> None:
    assert sparkline([0, 1, 50, 100]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁" and sparkline([]) == ""
    assert steps_line({3: 4, 5: 2}, 5, 4) == "▁█▁▅"
    assert steps_line({1: 1}, 2, 10) == "█▁"


def test_slots_are_bars_where_there_is_room_and_characters_where_not() -> None:
    slots = [SlotStats(number, records=100 * number) for number in range(3)]
    assert plain(slots_line(slots, 80)) == (
        "slots  0 ▁▁▁▁▁▁▁▁ 0  1 ████▁▁▁▁ 100  2 ████████ 200 records in the last batch"
    )
    assert plain(slots_line(slots, 60)) == "3 slots  ▁▅█  0 to 200 records in the last batch"
    assert plain(slots_line([], 80)) == "no slot has reported its load yet"


def test_a_status_line_loses_what_weighs_least() -> None:
    parts = [(3, "name"), (1, "hint"), (2, "count"), (9, "")]
    assert [fitted(parts, width) for width in (17, 16, 10, 1)] == [
        "name  hint  count",
        "name  count",
        "name",
        "name",
    ]


def test_a_full_screen_shows_no_control_characters_of_data() -> None:
    shown = joined([[("", "q\x1b[41m\n\x9b")], [("bold", "next")]], 12, 5)
    assert "".join(text for _, text, *_ in shown) == r"q\x1b[41m\n…" + "\nnext"


def test_a_line_is_cut_by_the_room_that_its_characters_take() -> None:
    assert plain(cut([("", "ab"), ("", "cdef")], 5)) == "abcd…"
    assert plain(cut([("", "日本語")], 5)) == "日本…"
    assert plain(joined([[("", "a")], [("", "b")], [("", "c")]], 9, 2)) == "a\nb"


@given(st.lists(st.integers(3, 40), min_size=1, max_size=8), st.integers(3, 60))
def test_panels_share_the_height_by_what_they_need(needs: list[int], height: int) -> None:
    rooms = shared(needs, height)
    assert sum(rooms) <= max(height, 0) and all(room <= need for room, need in zip(rooms, needs, strict=True))
    short = [room for room, need in zip(rooms, needs, strict=True) if room < need]
    if short:
        assert height - sum(rooms) < len(needs)  # nothing is left over
        assert max(short) - min(short) <= 1 and max(rooms) <= max(short) + 1


# ---- the dashboard


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A dashboard of two queries, a clock that the test sets, and what there is to be seen."""
    monkeypatch.setattr(
        "stqsh.shell.watch.dashboard.alive_text", lambda home, progress: f"step {progress.step}"
    )
    now, there = [0.0], [None]
    made = Dashboard(SimpleNamespace(name="mine"), lambda: there[0], lambda: now[0])  # type: ignore[arg-type]
    return SimpleNamespace(view=made, now=now, there=there)


def look(step: int, near: list[tuple[int, str]], total: int = 0, far: Any = Q2) -> Any:
    rows = [enters(came, key) for came, key in near]
    standing = AnswerState(Q1, updates([Q1], rows) if rows else None, {step: len(rows)}, total or len(rows))
    return Progress(step, step, stats=BatchStats()), (standing, AnswerState(far))


def text(board: Any, width: int = 60, height: int = 12) -> list[str]:
    lines = [plain(line).rstrip() for line in board.view.draw(width, height)]
    assert len(lines) == height
    return lines


def test_the_newest_rows_come_first_and_are_marked_for_a_while(board: Any) -> None:
    assert text(board)[0] == "reading the answers…"
    board.there[0] = look(1, [(1, "a"), (1, "b")])
    text(board)
    board.now[0], board.there[0] = 1.0, look(2, [(1, "a"), (1, "b")])
    text(board)
    board.now[0], board.there[0] = 2.0, look(3, [(1, "a"), (3, "c")])
    assert text(board)[:7] == [
        "mine  step 3",
        "no slot has reported its load yet",
        " near   2 rows  0.0 updates/s  ▁▁█",
        "  oid    lon   lat",
        "+ c    116.4  39.9",
        "  a    116.4  39.9",
        " far   0 rows  0.0 updates/s  ▁▁▁",
    ]
    board.now[0] = 9.0
    board.there[0] = look(4, [(1, "a"), (3, "c")])
    assert "  c    116.4  39.9" in text(board)


def test_a_board_that_stands_still_counts_what_it_misses(board: Any) -> None:
    board.there[0] = look(1, [(1, "a")])
    text(board)
    board.view.is_paused = True
    board.there[0] = look(2, [(1, "a"), (2, "b")], total=41)
    shown = text(board)
    assert shown[0] == "mine  step 1  paused, 40 updates since"
    assert not any("b  " in line for line in shown)
    board.view.is_paused = False
    assert "  b    116.4  39.9" in [line.replace("+", " ") for line in text(board)]


def test_a_board_without_room_for_rows_shows_none(board: Any) -> None:
    board.there[0] = look(1, [(1, "a"), (1, "b")])
    for height in range(4, 9):
        text(board, height=height)


def test_columns_are_shown_by_width_and_the_rest_is_told(board: Any) -> None:
    board.there[0] = look(1, [(1, "a")])
    assert "  oid    lon  → 1 more" in text(board, 17)
    board.view.panels[0].shift = 2
    assert "   lat" in text(board, 17)


def test_where_there_are_too_many_queries_only_one_is_open(board: Any) -> None:
    board.there[0] = look(1, [(1, "a"), (1, "b")])
    shown = text(board, height=8)
    assert shown[2].startswith(" near") and shown[-2].startswith(" far")
    board.view.focus = 1
    shown = text(board, height=8)
    assert shown[2].startswith(" near") and shown[3].startswith(" far") and "empty" in shown[4]


def test_leaving_says_what_goes_on_and_what_does_not(board: Any) -> None:
    board.there[0] = look(
        1, [], far=SimpleNamespace(**{"id": 8, "name": "far", "state": "dropped", "live": False})
    )
    text(board)
    assert (
        left_text([panel.standing.query for panel in board.view.panels])
        == "left WATCH; near goes on; far was dropped"
    )
