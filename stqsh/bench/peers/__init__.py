"""Give other systems the same reports and the same queries, and compare their answers.

`peer_case` is what all of them get, `answers` compares answers, `ours` runs stqsh, and each peer is a module
with a `PEER`. Where the answers differ from those of stqsh, there is no time. Rates are for the same numbers
of queries and objects; a slow peer takes fewer records than stqsh, which the table says.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.options import option
from stqsh.bench.peers import flink, ours, plainspark, postgis, tile38
from stqsh.bench.peers.answers import difference, normal
from stqsh.bench.peers.peer import Peer, PeerFailedError, PeerOutcome, last_words
from stqsh.bench.peers.peer_case import PeerCase

_GET = Path(__file__).with_name("get.sh")

COLUMNS = {
    "peer": "peer",
    "how": "how",
    "queries": "queries",
    "records": "records",
    "records_per_s": "records/s",
    "times": "stqsh is faster by",
    "cpu_s": "CPU s/M",
    "equal": "same updates",
}
KEY = ("peer", "queries")
FIGURES: dict[str, Better] = {"records_per_s": MORE, "times": MORE, "cpu_s": LESS}

PEERS: tuple[Peer, ...] = (plainspark.PEER, plainspark.BUCKETED, postgis.PEER, flink.PEER, tile38.PEER)


@dataclass(frozen=True)
class PeersOptions:
    """The sizes of the case, and the peers to run; see the help of each option."""

    only: tuple[str, ...] = option((), "These peers.")
    queries: int = option(10_000, "Range queries, squares of 1 % side.")
    objects: int = option(200_000, "Moving objects.")
    per_step: int = option(20_000, "Records a step.")
    steps: int = option(120, "Measured steps of stqsh.")
    peer_steps: int = option(18, "How many of them a peer takes.")

    get: bool = option(False, "First install the peers on this machine (get.sh).")

    def __post_init__(self) -> None:
        unknown = set(self.only) - {peer.name for peer in PEERS}
        if unknown:
            names = ", ".join(peer.name for peer in PEERS)
            raise ValueError(f"only: no peer {sorted(unknown)[0]!r}; there are {names}")
        if not 0 < self.peer_steps <= self.steps:
            raise ValueError(f"peer-steps: 1 to {self.steps}, as many as stqsh takes, not {self.peer_steps}")
        if not 0 < self.per_step <= self.objects:
            raise ValueError(f"per-step: no object reports twice in a step, so up to {self.objects}")


FULL = PeersOptions()
QUICK = PeersOptions(objects=50_000, per_step=10_000, peer_steps=9)


def measure(options: PeersOptions, say: Say) -> list[Row]:
    """Run stqsh and each peer; return a row for each, with the reason where there is no figure."""
    wanted = [peer for peer in PEERS if not options.only or peer.name in options.only]
    for peer in wanted if options.get else ():
        _get(peer, say)
    case = PeerCase(options.objects, options.queries, options.per_step, options.steps, options.peer_steps)
    with tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder:
        mine = ours.measure(case, Path(folder), say)
    first: Row = {
        "peer": "stqsh",
        "how": "",
        "queries": case.queries,
        "records": case.steps * case.per_step,
        "records_per_s": mine.rates,
        "cpu_s": mine.cpu_s,
        "equal": f"{len(mine.updates):,}",
    }
    return [first, *(row(peer, case, mine, say) for peer in wanted)]


def _get(peer: Peer, say: Say) -> None:
    """Run the script that installs a peer; if it fails, `missing` says what is not installed."""
    if not peer.missing():
        return
    say(f"getting {peer.name}")
    cache = platformdirs.user_cache_path("stqsh") / "peers"
    done = subprocess.run(
        ["sh", str(_GET), peer.name, str(cache)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        say(f"{peer.name} was not got: {last_words(done.stderr)}")


def row(peer: Peer, case: PeerCase, mine: PeerOutcome, say: Say) -> Row:
    """Run one peer and compare it with stqsh; give rates only where the answers are equal."""
    blank: Row = {
        "peer": peer.name,
        "how": peer.setting,
        "queries": case.queries,
        "records": None,
        "records_per_s": None,
        "times": None,
        "cpu_s": None,
    }
    if reason := peer.missing():
        say(f"{peer.name} is left out: {reason}")
        return {**blank, "equal": f"not run: {reason}"}
    say(f"{peer.name}: {case.peer_steps * case.per_step:,} records")
    try:
        with tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder:
            theirs = peer.run(case, Path(folder), say)
    except PeerFailedError as error:
        say(f"{peer.name} failed: {error}")
        return {**blank, "equal": "failed"}
    return {**blank, **judged(case, mine, theirs)}


def judged(case: PeerCase, mine: PeerOutcome, theirs: PeerOutcome) -> Row:
    """Compare the updates of the steps that both took; give the rates if the updates are equal."""
    last = case.fill + case.peer_steps
    expected = normal(mine.updates, case.fill, last)
    try:
        given = normal(theirs.updates, case.fill, last)
    except ValueError as fault:
        return {"equal": f"NO: {fault}"}
    if words := difference(expected, given):
        return {"equal": f"NO: {words}"}
    rate = statistics.median(mine.rates)
    return {
        "records": case.peer_records,
        "records_per_s": theirs.rates,
        "times": [rate / theirs_rate for theirs_rate in theirs.rates],
        "cpu_s": theirs.cpu_s,
        "equal": f"{len(given):,}",
    }
