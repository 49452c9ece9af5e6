"""Disturb a running session: kill and stop its processes, and remove its shared memory."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from stqsh.client.api import Session
from stqsh.client.run import RunHandle
from stqsh.errors import StqshError
from stqsh.storage.engine_info import read_engine

STOPPED_S = 20.0
"""How long a stopped process stands before it is continued."""
PATIENCE_S = 600.0
"""How long a session may take from one step to the next."""

KILLS = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc"),
]
"""The marks of tests that kill processes of a session."""
STQSH = (sys.executable, "-m", "stqsh")


@dataclass
class Disturber:
    """Disturbs one session, by a seed, and keeps what it has done.

    Attributes:
        session: the session whose engine is disturbed.
        draw: decides what is killed, and when.
        folder: where clients write what they print.
        query: the name of a query that clients follow.
        most_s: how long the session is left alone between two disturbances, at most.
        done: the disturbances so far, by name, in order.
    """

    session: Session
    draw: random.Random
    folder: Path
    query: str = ""
    most_s: float = 4.0
    done: list[str] = field(default_factory=list)

    def disturb(self, name: str) -> bool:
        """Do what the name says; return whether there was something to disturb."""
        happened = DISTURBANCES[name](self)
        if happened:
            self.done.append(name)
        return happened

    def kill(self, kind: str) -> bool:
        """Kill a process of a kind of `processes_of`, if there is one, and wait until it is no more."""
        found = self.pick(kind)
        if found is None:
            return False
        with suppress(psutil.NoSuchProcess):
            found.kill()
            while found.is_running() and found.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.005)
        return True

    def pick(self, kind: str) -> psutil.Process | None:
        """Return a process of a kind, None if there is none just now."""
        found = processes_of(self.session).get(kind, [])
        return self.draw.choice(found) if found else None


def processes_of(session: Session) -> dict[str, list[psutil.Process]]:
    """Return the processes of a session's engine by kind: parent, engine, jvm, daemon, worker."""
    info = read_engine(session.home)
    kinds: dict[str, list[psutil.Process]] = {}
    below: list[psutil.Process] = []
    for kind, pid in (("parent", info.parent), ("engine", info.pid)) if info else ():
        with suppress(psutil.NoSuchProcess):
            kinds[kind] = [psutil.Process(pid)]
            below = kinds[kind][0].children(recursive=True) + _orphans(session)
    for process in sorted(below, key=lambda process: process.pid):
        with suppress(psutil.NoSuchProcess):
            kind = _kind(process)
            if kind is not None:
                kinds.setdefault(kind, []).append(process)
    return kinds


def _orphans(session: Session) -> list[psutil.Process]:
    """Return the workers of a session whose daemon was killed, and which Spark goes on to use."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            is_worker = process.ppid() == 1 and any(w.startswith("pyspark.worker") for w in process.cmdline())
            if is_worker and any(str(session.home.path) in value for value in process.environ().values()):
                found.append(process)
    return found


def kill_all(session: Session) -> None:
    """Kill a session's engine with all its processes, the one first that would start it again."""
    kinds = processes_of(session)
    for found in (process for kind in kinds.values() for process in kind):
        with suppress(psutil.NoSuchProcess):
            found.kill()
            found.wait(10)


def _kind(process: psutil.Process) -> str | None:
    """Tell the JVM, the Python daemon and its workers apart by their command lines."""
    words = process.cmdline()
    parent = process.parent()
    is_copy = parent is not None and parent.cmdline() == words
    if words and words[0].endswith("java"):
        # What Java starts looks like Java itself until it executes its own program.
        return None if is_copy else "jvm"
    if not any(word.startswith("pyspark.worker") for word in words):
        return None
    return "worker" if is_copy or process.ppid() == 1 else "daemon"


def _kill_several(disturber: Disturber) -> bool:
    kinds = disturber.draw.sample(
        ("parent", "engine", "jvm", "worker", "daemon"), disturber.draw.randint(2, 3)
    )
    killed = [disturber.kill(kind) for kind in kinds]
    return any(killed)


def _stop_for_a_while(disturber: Disturber) -> bool:
    found = disturber.pick(disturber.draw.choice(("engine", "jvm", "worker", "daemon")))
    if found is None:
        return False
    with suppress(psutil.NoSuchProcess):
        found.suspend()
        time.sleep(STOPPED_S)
        found.resume()
    return True


def _lose_the_arena(disturber: Disturber) -> bool:
    """Kill the engine with all below it, and remove its shared memory, as a reboot does."""
    kill_all(disturber.session)
    shutil.rmtree(disturber.session.home.arena.folder, ignore_errors=True)
    return True


def _kill_a_client(disturber: Disturber) -> bool:
    """Start a client that follows a query, and kill it while it prints."""
    home = disturber.session.home
    with (disturber.folder / f"client-{len(disturber.done)}.jsonl").open("wb") as printed:
        client = subprocess.Popen(
            [*STQSH, "-s", home.name, "--format", "jsonl", "-c", f"TAIL {disturber.query} FROM START;"],
            env=os.environ | {"STQSH_HOME": str(home.path.parent)},
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        time.sleep(disturber.draw.uniform(1, 5))
        client.kill()
        client.wait()
    return True


def _kill_the_daemon(disturber: Disturber) -> bool:
    """Kill the daemon, or a worker where the daemon was killed before: Spark goes on with those it left."""
    return disturber.kill("daemon") or disturber.kill("worker")


def _killer(kind: str) -> Callable[[Disturber], bool]:
    return lambda disturber: disturber.kill(kind)


DISTURBANCES: dict[str, Callable[[Disturber], bool]] = {
    **{kind: _killer(kind) for kind in ("parent", "engine", "jvm", "worker")},
    "daemon": _kill_the_daemon,
    "several": _kill_several,
    "stopped": _stop_for_a_while,
    "client": _kill_a_client,
    "arena": _lose_the_arena,
}
"""By name: does what it says to a session, and returns whether there was something to disturb."""


def run_disturbed(disturber: Disturber, running: RunHandle, names: Iterable[str]) -> list[str]:
    """Disturb a session now and then until a run is done, and start the engine again where it is gone.

    Args:
        disturber: disturbs the session.
        running: the run.
        names: what to do, in order; once they are used up, the rest of the run is left alone.

    Returns:
        The names that the run was too short for.

    Raises:
        TimeoutError: the session has not advanced for `PATIENCE_S`.
    """
    session, draw = disturber.session, disturber.draw
    left = list(names)
    due = time.monotonic() + draw.uniform(0.2, 3)
    step, since, refused = -1, time.monotonic(), ""
    while (progress := session.progress()).run_done < running.seq:
        time.sleep(0.02)
        try:
            session.start_engine()
        except StqshError as error:  # a full disk, or a death during the start
            refused = str(error)
        if progress.step != step:
            step, since = progress.step, time.monotonic()
        if time.monotonic() - since > PATIENCE_S:
            raise TimeoutError(f"nothing advances after step {step}: {disturber.done}, {refused}")
        if not left or time.monotonic() < due:
            continue
        if disturber.disturb(left[0]):
            del left[0]
            due = time.monotonic() + draw.uniform(0.2, disturber.most_s)
    return left


def disturb_at_rest(disturber: Disturber, names: Iterable[str]) -> None:
    """Do what a run was too short for, each once the engine stands again.

    Raises:
        TimeoutError: there has been nothing to disturb for `PATIENCE_S`.
    """
    for name in names:
        since = time.monotonic()
        disturber.session.start_engine()
        while not disturber.disturb(name):
            if time.monotonic() - since > PATIENCE_S:
                raise TimeoutError(f"there is no {name}: {disturber.done}")
            time.sleep(0.02)
    disturber.session.start_engine()
