"""Strike a cluster of hosts that share nothing at random, and compare the updates with those of one machine.

    python tests/strikes.py --seed 7 --strikes 100 --store s3

Each round runs the script of `support.mixed` on a new cluster in namespaces. Executors, their Python and the
driver's processes are killed, hosts are lost with their disks, the network between two hosts is cut and
mended, and the storage fails or is slow for a while, one after the other at random times. What the script
prints must then be the same to the byte as what one machine prints that nothing disturbs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from support.clusters import EXECUTOR, Cluster, cluster, restart_name_node, start_hdfs, start_s3
from support.hosts import missing, scratch_folder
from support.local import local_session
from support.mixed import archived_elsewhere, mixed_script
from support.running import run_script
from support.s3 import CREDENTIALS

from stqsh.cli.pack import pack

STEPS = 120
"""The length of a session, unless the command line says otherwise."""
RECORDS = "40"
"""The records of a batch at most, so that there are many batches to strike."""
A_ROUND = 12
"""Strikes of one round at most; a round that ends before leaves the others to the next."""
REST_S = 2.0, 15.0
"""How long the session is left alone between two strikes."""
CUT_S, FAILING_S, SLOW_S, AWAY_S = (1.0, 45.0), (5.0, 60.0), (5.0, 40.0), (0.0, 10.0)
"""How long a network is cut, a storage fails or is slow, and a lost host is not replaced."""
PATIENCE_S = 900.0
"""How long a session may print nothing."""
_PYTHON, _ENGINE, _JAVA = "worker_daemo[n]", "engine.launch.mai[n]", "PythonGatewayServe[r]"
"""Patterns of command lines: an executor's Python, the engine, and the driver's Java."""


@dataclass
class Striker:
    """Strikes one cluster, by a seed, and counts what it has done.

    Attributes:
        made: the cluster.
        draw: decides what is struck, and for how long.
        fault: the file that says what is wrong with S3; None if the storage is HDFS.
        hurry: how many times shorter the strikes, and the times between them, are.
        done: the strikes so far, by name.
    """

    made: Cluster
    draw: random.Random
    fault: Path | None
    hurry: float = 1.0
    done: Counter[str] = field(default_factory=Counter)

    def strike(self, name: str) -> None:
        """Do what the name says; count it if there was something to strike."""
        begun = time.monotonic()
        if STRIKES[name](self):
            self.done[name] += 1
            print(f"  {name}, {time.monotonic() - begun:.0f} s", flush=True)

    def seconds(self, between: tuple[float, float]) -> float:
        """Some time."""
        return self.draw.uniform(*between) / self.hurry

    def worker(self) -> str:
        """The name of some worker."""
        return self.draw.choice(sorted(self.made.workers))


def _kill_executor(striker: Striker) -> bool:
    return striker.made.workers[striker.worker()].signal(EXECUTOR)


def _kill_python(striker: Striker) -> bool:
    return striker.made.workers[striker.worker()].signal(_PYTHON)


def _lose_host(striker: Striker) -> bool:
    """Lose a host with its disk; another one comes a while later."""
    striker.made.lose_worker(striker.worker())
    time.sleep(striker.seconds(AWAY_S))
    striker.made.add_worker()
    return True


def _kill_driver(striker: Striker) -> bool:
    return striker.made.driver.signal(striker.draw.choice((_ENGINE, _JAVA)))


def _cut_network(striker: Striker) -> bool:
    made = striker.made
    hosts = [made.driver, made.services, *(made.workers[name] for name in sorted(made.workers))]
    one, other = striker.draw.sample(hosts, 2)
    made.hosts.cut(one, other)
    time.sleep(striker.seconds(CUT_S))
    made.hosts.mend(one, other)
    print(f"  between {one.name} and {other.name}:", end="")
    return True


def _fail_storage(striker: Striker) -> bool:
    """Let the storage answer with errors, or not be there, for a while."""
    seconds = striker.seconds(FAILING_S)
    if striker.fault is None:
        restart_name_node(striker.made, seconds)
        return True
    striker.fault.write_text(striker.draw.choice(("503", "500", "close")), encoding="ascii")
    time.sleep(seconds)
    striker.fault.unlink()
    return True


def _slow_storage(striker: Striker) -> bool:
    """Let each request to the storage take some time, or all of them wait."""
    seconds = striker.seconds(SLOW_S)
    if striker.fault is None:
        pattern = striker.draw.choice(("NameNod[e]", "DataNod[e]"))
        striker.made.services.signal(pattern, "STOP")
        time.sleep(seconds)
        return striker.made.services.signal(pattern, "CONT")
    striker.fault.write_text(f"{striker.draw.uniform(0.2, 3):.1f}s", encoding="ascii")
    time.sleep(seconds)
    striker.fault.unlink()
    return True


STRIKES: dict[str, Callable[[Striker], bool]] = {
    "executor": _kill_executor,
    "python": _kill_python,
    "host": _lose_host,
    "driver": _kill_driver,
    "network": _cut_network,
    "errors": _fail_storage,
    "slow": _slow_storage,
}
"""By name: does what it says, and returns whether there was something to strike."""
WEIGHTS = {"executor": 3, "python": 2, "host": 3, "driver": 3, "network": 4, "errors": 3, "slow": 2}


def strike_while_it_runs(
    striker: Striker, process: subprocess.Popen[bytes], out: Path, names: list[str]
) -> None:
    """Strike at random times until a process ends, the last of the names first.

    Raises:
        AssertionError: the process has failed, or prints nothing for `PATIENCE_S`.
    """
    made = striker.made
    size, since, due = 0, time.monotonic(), 0.0
    while process.poll() is None:
        time.sleep(0.05)
        now, printed = time.monotonic(), out.stat().st_size
        if printed != size:
            size, since = printed, now
        due = due or (now + striker.seconds(REST_S) if printed else 0.0)
        assert now - since < PATIENCE_S, f"nothing is printed after {size} bytes: {made.said()}"
        if names and due and now > due:
            striker.strike(names.pop())
            due = time.monotonic() + striker.seconds(REST_S)
    errors = out.with_suffix(".err").read_text(errors="replace")
    assert process.returncode == 0, f"{striker.done}: {errors[-3000:]}{made.said()}"


class Striking(NamedTuple):
    """What is struck in a round.

    Attributes:
        seed: decides data, queries and strikes.
        most: how many strikes there are at most, if they are drawn.
        names: the strikes in order, instead of drawn ones.
        hurry: see `Striker`.
    """

    seed: int
    most: int = 0
    names: tuple[str, ...] = ()
    hurry: float = 1.0


def run_round(
    folder: Path, unpacked: Path, store: str, striking: Striking, steps: int = STEPS
) -> Counter[str]:
    """Run one session under strikes; raise AssertionError where it prints something else.

    Args:
        folder: an empty folder that hosts do not see.
        unpacked: stqsh for the hosts.
        store: `s3` or `hdfs`.
        striking: what is struck.
        steps: how long the session is.
    """
    seed, most, names, hurry = striking
    file, out = mixed_script(folder, seed, steps), folder / "struck.jsonl"
    with local_session(folder / "local", slots=2, published=True) as session:
        expected = run_script(session, archived_elsewhere(file.read_text(encoding="utf-8")), file)
    fault = folder / "fault" if store == "s3" else None
    environ = {**CREDENTIALS, "STQSH_ENGINE_MAX_RECORDS_PER_BATCH": RECORDS}
    with cluster(folder, workers=2, binds={"stqsh": unpacked}, environ=environ) as made:
        uri = start_hdfs(made) if fault is None else start_s3(made, fault)
        settings = {"spark.pyspark.python": "/srv/stqsh/bin/python", "session.storage": uri}
        striker = Striker(made, random.Random(seed), fault, hurry)
        drawn = striker.draw.choices(list(WEIGHTS), list(WEIGHTS.values()), k=most)
        process = made.start(made.profile("hosts", settings), ["run", str(file), "--format", "jsonl"], out)
        strike_while_it_runs(striker, process, out, [*reversed(names)] or drawn)
    if out.read_bytes() != expected:
        (folder / "expected.jsonl").write_bytes(expected)
        raise AssertionError(f"seed {seed}: after {dict(striker.done)} the output differs, see {folder}")
    return striker.done


def main() -> int:
    """Run rounds until enough has been struck; return 0 if the output was the same each time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strikes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each session")
    parser.add_argument("--store", choices=("s3", "hdfs"), help="both in turn without it")
    wanted = parser.parse_args()
    if why := missing():
        sys.exit(f"no hosts: {why}")
    done: Counter[str] = Counter()
    seed, begun = wanted.seed, time.monotonic()
    with scratch_folder() as shared:
        pack(shared / "stqsh.tar.gz", kernels=False, show=lambda line: None)
        with tarfile.open(shared / "stqsh.tar.gz") as archive:
            archive.extractall(shared / "unpacked", filter="tar")
        while done.total() < wanted.strikes:
            store = wanted.store or ("s3", "hdfs")[seed % 2]
            folder = Path(tempfile.mkdtemp(prefix="stqsh-strikes-"))
            print(f"seed {seed}, {store}", flush=True)
            most = min(A_ROUND, wanted.strikes - done.total())
            done.update(run_round(folder, shared / "unpacked", store, Striking(seed, most), wanted.steps))
            shutil.rmtree(folder)
            counts = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
            print(f"seed {seed}: same output; {done.total()} so far ({counts})", flush=True)
            seed += 1
    print(f"{done.total()} strikes, the same output each time, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
