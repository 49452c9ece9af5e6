"""Run Apache Flink through PyFlink, with broadcast state and keyed state; see flink_job.py.

PyFlink pins other versions of the libraries of stqsh, so it has an environment of its own:
`STQSH_BENCH_FLINK` names its Python; the default is the cache folder of `stqsh bench peers --get`.
Checkpoints are off, which favours Flink: nothing survives a crash.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import platformdirs

from stqsh.bench.harness.drive import Say
from stqsh.bench.peers.answers import NONE, Updates, updates
from stqsh.bench.peers.peer import Peer, PeerFailedError, PeerOutcome, last_words, write_csv
from stqsh.bench.peers.peer_case import PeerCase
from stqsh.engine.spark.java import find_java
from stqsh.errors import StqshError

VARIABLE = "STQSH_BENCH_FLINK"
_JOB = Path(__file__).with_name("flink_job.py")
_HALVES = 2


def python() -> Path:
    """Return the path of the interpreter that has PyFlink, whether it exists or not."""
    given = os.environ.get(VARIABLE)
    return (
        Path(given) if given else platformdirs.user_cache_path("stqsh") / "peers" / "flink" / "bin" / "python"
    )


def missing() -> str:
    """Return why Flink cannot run here, "" where it can."""
    if not python().exists():
        return f"there is no PyFlink at {python()}; get it with: stqsh bench peers --get --only flink"
    try:
        find_java()
    except StqshError as error:
        return error.message
    return ""


def run(case: PeerCase, folder: Path, say: Say) -> PeerOutcome:
    """Write queries and records, run the job, and read its output."""
    write_csv(case.regions(), folder / "queries.csv")
    (folder / "records").mkdir()
    for half in range(_HALVES):
        share = case.share(1, case.fill + case.peer_steps, half, _HALVES)
        write_csv(share, folder / "records" / f"{half}.csv")
    printed = folder / "printed"
    run_job(_JOB, [str(folder), str(case.queries), str(case.fill)], printed)
    sent, begins, end = parsed(printed.read_text().splitlines())
    if not begins:
        raise PeerFailedError("the job has not come to the measured records")
    seconds = end - min(begins)
    rate = case.peer_steps * case.per_step / seconds
    say(f"flink: {rate:,.0f} records/s")
    return PeerOutcome(sent, [rate])


PEER = Peer("flink", "PyFlink, STRtree from broadcast state, keyed state, no checkpoints", missing, run)


def parsed(lines: list[str]) -> tuple[Updates, list[float], float]:
    """Read the job's output.

    Returns:
        The updates, when each subtask began to measure, and when the last update was sent.

    A line may begin with the number of the subtask and `>`, as Flink's print does.
    """
    rows, begins, end = [], [], 0.0
    for line in lines:
        word, *rest = line.rpartition("> ")[2].split() or [""]
        if word == "B":
            begins.append(float(rest[0]))
        elif word == "U":
            rows.append([int(number) for number in rest[:4]])
            end = max(end, float(rest[4]))
    return updates(*zip(*rows, strict=True)) if rows else NONE, begins, end


def run_job(job: Path, words: list[str], printed: Path) -> None:
    """Run a program with the Python that has PyFlink; what it prints goes into a file.

    Raises:
        PeerFailedError: it ends with an error.
    """
    with printed.open("w") as out, printed.with_suffix(".log").open("w+") as log:
        command = [str(python()), str(job), *words]
        done = subprocess.run(
            command, stdout=out, stderr=log, env=environment(), cwd=printed.parent, check=False
        )
        if done.returncode:
            log.seek(0)
            raise PeerFailedError(f"the job ended with {done.returncode}: {last_words(log.read())}")


def environment() -> dict[str, str]:
    """Return the environment of a job: with our Java, without our modules."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**own, "JAVA_HOME": str(find_java().home)}
