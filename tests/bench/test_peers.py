"""Peers: a wrong answer is found, whatever is wrong with it; and the drivers of the other systems."""

from __future__ import annotations

import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.toy_tile38 import Toy

from stqsh.bench import peers
from stqsh.bench.peers import flink, kafka_flink, ours, plainspark, postgis, tile38
from stqsh.bench.peers.answers import NONE, Updates, answer, difference, normal, updates
from stqsh.bench.peers.peer import Peer, PeerFailedError, PeerOutcome, last_words
from stqsh.bench.peers.peer_case import PeerCase
from stqsh.bench.suite.kafka import _rates

CASE = PeerCase(objects=300, queries=300, per_step=100, steps=9, peer_steps=6, side=0.1)


def silent(text: str) -> None:
    """Say nothing."""


def brute(case: PeerCase) -> Updates:
    """What every system has to say, by trying every object with every query."""
    x1, y1, x2, y2 = case.squares.T
    inside = np.zeros((case.objects, case.queries), bool)
    found = [NONE]
    for step, (who, at) in enumerate(case.reports, 1):
        x, y = at[:, :1], at[:, 1:]
        now = (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)
        for op, which in ((1, now & ~inside[who]), (-1, inside[who] & ~now)):
            place, query = np.nonzero(which)
            found.append(updates(step, query, who[place], op))
        inside[who] = now
    return np.concatenate(found)


@pytest.fixture(scope="module")
def truth() -> Updates:
    """The right updates, in an order of no meaning."""
    found = brute(CASE)
    return np.random.default_rng(5).permutation(found)


def judged(mine: Updates, theirs: Updates) -> str:
    return str(peers.judged(CASE, PeerOutcome(mine, [100.0]), PeerOutcome(theirs, [10.0, 20.0]))["equal"])


def test_the_case_is_worth_asking(truth: Updates) -> None:
    measured = normal(truth, CASE.fill, CASE.fill + CASE.peer_steps)
    later = measured[measured[:, 0] > CASE.fill]
    assert len(later) > 50
    assert set(later[:, 3]) == {1, -1}


def test_equal_answers_are_equal_in_any_order_and_only_then_a_rate_is_told(truth: Updates) -> None:
    row = peers.judged(CASE, PeerOutcome(truth, [100.0]), PeerOutcome(truth[::-1], [10.0, 20.0]))
    assert row["times"] == [10.0, 5.0]
    assert row["records"] == 600
    assert row["records_per_s"] == [10.0, 20.0]


def lies(right: Updates) -> Iterator[tuple[str, Updates]]:
    """The right updates with one thing wrong, within the steps that are compared."""
    measured = np.flatnonzero((right[:, 0] > CASE.fill) & (right[:, 0] <= CASE.fill + CASE.peer_steps))
    some = int(measured[7])
    yield "an update is missing", np.delete(right, some, axis=0)
    yield "an update comes twice", np.vstack([right, right[some]])
    for column, what in enumerate(("another step", "another query", "another object", "the other way")):
        wrong = right.copy()
        wrong[some, column] = -wrong[some, column] if column == 3 else wrong[some, column] + 1
        yield what, wrong
    first = int(np.flatnonzero(right[:, 0] <= CASE.fill)[0])
    yield "a member at the beginning is missing", np.delete(right, first, axis=0)
    yield "nothing at all is said", NONE
    yield "it stops early", right[right[:, 0] < CASE.fill + CASE.peer_steps]


@pytest.mark.parametrize("number", range(9))
def test_a_peer_that_lies_is_caught_and_gets_no_rate(truth: Updates, number: int) -> None:
    what, told = list(lies(truth))[number]
    row = peers.judged(CASE, PeerOutcome(truth, [100.0]), PeerOutcome(told, [10.0]))
    assert row["equal"].startswith("NO: "), what
    assert "records_per_s" not in row
    assert "times" not in row


def test_what_comes_after_the_peers_steps_is_not_asked_of_it(truth: Updates) -> None:
    assert not judged(truth, truth[truth[:, 0] <= CASE.fill + CASE.peer_steps]).startswith("NO")


def test_how_answers_came_about_before_the_queries_does_not_matter(truth: Updates) -> None:
    filled = answer(truth, CASE.fill)
    assert not judged(truth, np.vstack([filled, truth[truth[:, 0] > CASE.fill]])).startswith("NO")


def test_the_first_difference_is_told() -> None:
    one, two = updates([3, 4], [1, 1], [7, 8], [1, -1]), updates([3, 4], [1, 1], [7, 9], [1, -1])
    words = "1 updates missing, 1 too many; only stqsh has step 4: - object 8 of query 1"
    assert difference(one, two) == words
    assert difference(one, one) == ""
    assert difference(NONE, NONE) == ""


def test_updates_that_do_not_fold_are_no_answers() -> None:
    with pytest.raises(ValueError, match="query 1 and object 7 do not fold: they add up to 2"):
        answer(updates([1, 2], 1, 7, 1), 2)
    with pytest.raises(ValueError, match="add up to -1"):
        answer(updates([1], 1, 7, -1), 2)


def test_a_peer_that_is_not_there_or_dies_has_a_row_with_the_reason() -> None:
    def die(case: PeerCase, folder: Path, say: object) -> PeerOutcome:
        raise PeerFailedError("its heart stopped")

    said: list[str] = []
    mine = PeerOutcome(NONE, [1.0])
    absent = peers.row(Peer("far", "", lambda: "it is far away", die), CASE, mine, said.append)
    dead = peers.row(Peer("dead", "", lambda: "", die), CASE, mine, said.append)
    assert (absent["equal"], absent["times"]) == ("not run: it is far away", None)
    assert (dead["equal"], dead["records_per_s"]) == ("failed", None)
    assert "dead failed: its heart stopped" in said


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"only": ("oracle",)}, "no peer 'oracle'; there are pyspark"),
        ({"steps": 5, "peer_steps": 6}, "peer-steps: 1 to 5"),
        ({"objects": 5, "per_step": 6}, "per-step: .* up to 5"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        peers.PeersOptions(**sizes)  # type: ignore[arg-type]


def test_the_cause_of_death_is_found_in_a_log() -> None:
    assert last_words("start\na.b.IOError: no disk\n  at x\nbye") == "a.b.IOError: no disk"
    assert last_words("just this\n") == "just this"


def test_lines_of_the_flink_job_are_read() -> None:
    lines = ["2> B 10.5", "1> B 10.0", "1> U 4 3 17 1 11.0", "", "2> U 5 3 17 -1 12.5", "some other words"]
    sent, begins, end = flink.parsed(lines)
    assert sent.tolist() == [[4, 3, 17, 1], [5, 3, 17, -1]]
    assert (min(begins), end) == (10.0, 12.5)
    assert flink.parsed([])[0].shape == (0, 4)


def test_messages_of_fences_are_read() -> None:
    enter = b'{"command":"set","detect":"enter","hook":"q12","key":"objects","id":"7","fields":{"step":4}}'
    leave = b'{"command":"set","detect":"exit","hook":"q0","key":"objects","id":"8","fields":{"step":5}}'
    other = b'{"command":"set","detect":"inside","hook":"q0","key":"objects","id":"8","fields":{"step":5}}'
    assert tile38.parsed([enter, leave, other]).tolist() == [[4, 12, 7, 1], [5, 0, 8, -1]]
    assert tile38.parsed([]).shape == (0, 4)


def test_commands_are_written_as_redis_does() -> None:
    assert tile38.encoded(("SET", "ä")) == b"*2\r\n$3\r\nSET\r\n$2\r\n\xc3\xa4\r\n"
    assert [count for _, count in tile38.packed([("PING",)] * 2_500)] == [1_000, 1_000, 500]


@contextmanager
def served(toy: Toy) -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), toy.handler()) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_tile38_driver_hears_what_a_server_says(truth: Updates) -> None:
    with served(Toy()) as port:
        theirs = tile38.measure(CASE, port, silent)
    assert not judged(truth, theirs.updates).startswith("NO")
    assert len(theirs.rates) == 3


def test_a_tile38_that_forgets_a_message_is_caught(truth: Updates) -> None:
    with served(Toy(forgets=40)) as port:
        theirs = tile38.measure(CASE, port, silent)
    assert "1 updates missing" in judged(truth, theirs.updates)


def test_an_error_of_the_server_ends_the_driver() -> None:
    with served(Toy()) as port, pytest.raises(PeerFailedError, match="tile38: ERR unknown command"):
        tile38.Tile38Connection(port).send([("DANCE",)])


def test_peers_are_found_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(tile38.VARIABLE, str(tmp_path / "none"))
    monkeypatch.setenv(flink.VARIABLE, str(tmp_path / "none"))
    assert "STQSH_BENCH_TILE38" in tile38.missing()
    assert "stqsh bench peers --get --only flink" in flink.missing()
    (tmp_path / "none").touch()
    assert tile38.missing() == ""
    assert flink.missing() == ""


def check(peer: Peer, truth: Updates, folder: Path) -> None:
    """Run a real system on the case; skip where it is not here."""
    if reason := peer.missing():
        pytest.skip(reason)
    theirs = peer.run(CASE, folder, silent)
    assert not judged(truth, theirs.updates).startswith("NO")
    assert theirs.rates
    assert min(theirs.rates) > 0


@pytest.mark.spark
def test_stqsh_answers_as_it_is_measured(truth: Updates, tmp_path: Path) -> None:
    mine = ours.measure(CASE, tmp_path, silent)
    last = CASE.fill + CASE.steps
    assert difference(normal(truth, CASE.fill, last), normal(mine.updates, CASE.fill, last)) == ""
    assert len(mine.rates) == 3


@pytest.mark.peers
def test_postgis_answers_the_same(truth: Updates) -> None:
    # Where the tests are run by root the server is not, and pytest's own folders are closed to it.
    with tempfile.TemporaryDirectory() as folder:
        check(postgis.PEER, truth, Path(folder))


@pytest.mark.peers
@pytest.mark.spark
@pytest.mark.parametrize("peer", [plainspark.PEER, plainspark.BUCKETED], ids=lambda peer: peer.name)
def test_plain_pyspark_answers_the_same(peer: Peer, truth: Updates, tmp_path: Path) -> None:
    check(peer, truth, tmp_path)


@pytest.mark.peers
@pytest.mark.slow
def test_flink_answers_the_same(truth: Updates, tmp_path: Path) -> None:
    check(flink.PEER, truth, tmp_path)


@pytest.mark.peers
def test_tile38_answers_the_same(truth: Updates, tmp_path: Path) -> None:
    check(tile38.PEER, truth, tmp_path)


def test_what_flink_prints_of_a_topic_is_read_without_its_warm_up() -> None:
    marks = [f"{1 + n % 2}> T {100 + n * n}.5" for n in range(10)]
    found = kafka_flink.outcome(["1> U 1 1", *marks, "2> U 1 1", "U 0 1", "1> U 0 -1", ""], 3)
    assert found.counts.tolist() == [0, 2, 0]
    assert found.rates == [7 * 2000 / (81 - 4)]


def test_too_few_records_of_a_topic_are_no_figure() -> None:
    with pytest.raises(PeerFailedError, match="too few records"):
        kafka_flink.outcome(["1> T 5.0", "1> U 0 1"], 1)


SLOW_START = (10.0, 100, 0)
"""The first batch, of 100 messages, has come after ten seconds."""


def test_the_first_batch_is_no_part_of_the_rate_even_where_there_are_few() -> None:
    looks = [(0.0, 0, 0), SLOW_START, (11.0, 300, 0), (12.0, 900, 100)]
    assert sum(_rates(looks, 1_000)) / len(_rates(looks, 1_000)) == pytest.approx(450)


def test_damaged_messages_count_and_the_warm_up_does_not() -> None:
    looks = [(0.0, 0, 0), SLOW_START, *((11.0 + n, 400 + 90 * n, 10 * n) for n in range(7))]
    assert _rates(looks, 1_000) == pytest.approx([100.0] * len(_rates(looks, 1_000)))


def test_a_single_batch_is_counted_whole() -> None:
    assert _rates([(0.0, 0, 0), (2.0, 100, 0)], 100) == [50.0]
