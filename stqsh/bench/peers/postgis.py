"""Run PostgreSQL with PostGIS: a trigger on insert, GiST on the regions; see postgis.sql.

The cluster is in a temporary folder with its unix socket. An unprivileged user runs it (PostgreSQL refuses
root), without the costs of durability: no sync, no log of tables, no archive. Two connections load the
reports with COPY, half of the objects each, so that both cores work.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv

from stqsh.bench.harness.drive import Say, portions
from stqsh.bench.peers.answers import NONE, Updates, updates
from stqsh.bench.peers.peer import Peer, PeerClock, PeerFailedError, PeerOutcome, write_csv
from stqsh.bench.peers.peer_case import PeerCase

CONNECTIONS = 2
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "1GB",
    "work_mem": "64MB",
    "jit": "off",
    "autovacuum": "on",
    "max_wal_size": "4GB",
}
_FOLDERS = ("/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt/postgresql")
_SCHEMA = Path(__file__).with_name("postgis.sql")
_INSTALL = "get it with: stqsh bench peers --get --only postgis"


def missing() -> str:
    """Return why PostGIS cannot run here, "" where it can."""
    if _programs() is None:
        return f"there is no PostgreSQL (initdb, pg_ctl, psql); {_INSTALL}"
    if not _extension().exists():
        return f"PostgreSQL is here, its extension PostGIS is not; {_INSTALL}"
    if os.geteuid() == 0 and _account() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return ""


def run(case: PeerCase, folder: Path, say: Say) -> PeerOutcome:
    """Load objects and regions, answer the queries, then time COPY of the reports in portions."""
    with cluster(folder) as database:
        say("postgis: taking objects and queries in")
        _load(database, case, folder)
        rates, step, clock = [], case.fill + 1, PeerClock(database.pid)
        for number, steps in enumerate(portions(case.peer_steps)):
            scripts = [_script(case, folder, (step, step + steps), half) for half in range(CONNECTIONS)]
            begun = time.perf_counter()
            database.together(scripts)
            rates.append(steps * case.per_step / (time.perf_counter() - begun))
            step += steps
            say(f"postgis: portion {number + 1}: {rates[-1]:,.0f} records/s")
        cpu_s = clock.per_million(case.peer_records)
        return PeerOutcome(_changes(database, folder), rates, cpu_s)


PEER = Peer("postgis", "statement trigger, GiST, 2 connections with COPY", missing, run)


class Database:
    """A running cluster, which psql reaches by the socket in its folder."""

    def __init__(self, psql: str, folder: Path) -> None:
        options = f"-X -q -v ON_ERROR_STOP=1 -h {folder} -U postgres -d postgres"
        self._command = [psql, *options.split()]
        self.pid = int((folder / "postmaster.pid").read_text().split()[0])

    def run(self, *words: str) -> str:
        """Run psql with more words on its command line, and return what it prints."""
        [printed] = _finish([self._start(*words)])
        return printed

    def _start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*self._command, *words], stdout=pipe, stderr=pipe, text=True)

    def together(self, scripts: Sequence[Path]) -> None:
        """Run scripts in parallel, each on a connection of its own."""
        _finish([self._start("-f", str(script)) for script in scripts])


def _finish(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Wait for psql processes, and return what each prints."""
    said = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, said, strict=True):
        if process.returncode:
            raise PeerFailedError(f"psql: {errors.strip()[-500:]}")
    return [printed for printed, _ in said]


@contextmanager
def cluster(folder: Path) -> Iterator[Database]:
    """Create and start a cluster below `folder`; stop it in the end."""
    programs, account = _programs(), _account()
    assert programs is not None  # `missing` has looked
    data = folder / "cluster"
    data.mkdir()
    folder.chmod(0o711)
    if account is not None:
        shutil.chown(data, account)
    _as_user(
        [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
        account,
    )
    options = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in _SETTINGS.items())
    control: list[str | Path] = [programs / "pg_ctl", "-D", data, "-w"]
    _as_user([*control, "-l", data / "server.log", "-o", f"{options} -k {data}", "start"], account)
    try:
        yield Database(str(programs / "psql"), data)
    finally:
        _as_user([*control, "-m", "immediate", "stop"], account)


def _as_user(command: Sequence[str | Path], account: str | None) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, user=account, cwd="/", capture_output=True, text=True, check=False, env=_environment()
    )
    if done.returncode:
        raise PeerFailedError(f"{Path(words[0]).name}: {(done.stderr or done.stdout).strip()[-500:]}")


def _environment() -> dict[str, str]:
    """Return our environment without the variables that name another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _load(database: Database, case: PeerCase, folder: Path) -> None:
    """Make the schema, load regions and objects, and put the answers after step `fill` into `change`."""
    last = case.table(1, case.fill)
    newest = np.unique(last.column("oid").to_numpy()[::-1], return_index=True)[1]
    objects = last.take(len(last) - 1 - newest).select(["oid", "x", "y"])
    write_csv(case.regions(), folder / "regions.csv")
    write_csv(objects, folder / "objects.csv")
    script = folder / "load.sql"
    script.write_text(f"""
{_SCHEMA.read_text()}
CREATE TEMP TABLE square (id int, x1 float8, y1 float8, x2 float8, y2 float8);
CREATE TEMP TABLE place (oid bigint, x float8, y float8);
\\copy square FROM '{folder}/regions.csv' CSV
\\copy place FROM '{folder}/objects.csv' CSV
INSERT INTO region SELECT id, ST_MakeEnvelope(x1, y1, x2, y2) FROM square;
CREATE INDEX ON region USING gist (area);
INSERT INTO object SELECT oid, ST_Point(x, y) FROM place;
VACUUM ANALYZE region;
VACUUM ANALYZE object;
INSERT INTO change
  SELECT {case.fill}, r.id, o.oid, 1 FROM object o JOIN region r ON ST_Intersects(r.area, o.at);
""")
    database.run("-f", str(script))


def _script(case: PeerCase, folder: Path, steps: tuple[int, int], half: int) -> Path:
    """Write the script of one connection for a range of steps: a COPY for each."""
    lines = []
    for step in range(*steps):
        file = folder / f"step-{step}-{half}.csv"
        write_csv(case.share(step, step, half, CONNECTIONS), file)
        lines.append(f"\\copy report FROM '{file}' CSV")
    script = folder / f"from-{steps[0]}-{half}.sql"
    script.write_text("\n".join(lines) + "\n")
    return script


def _changes(database: Database, folder: Path) -> Updates:
    file = folder / "changes.csv"
    database.run("-c", f"\\copy change TO '{file}' CSV")
    if not file.stat().st_size:
        return NONE
    names = ["step", "query", "oid", "op"]
    table = pa_csv.read_csv(file, read_options=pa_csv.ReadOptions(column_names=names))
    return updates(*(table[name].to_numpy() for name in names))


def _programs() -> Path | None:
    """Return the folder of initdb, pg_ctl and psql: of the newest version, or on the PATH."""
    homes = [
        found
        for folder in _FOLDERS
        for found in Path(folder).parent.glob(f"{Path(folder).name}*/**/bin/initdb")
    ]
    on_path = shutil.which("initdb")
    candidates = [*sorted(homes, reverse=True), *([Path(on_path).resolve()] if on_path else [])]
    for initdb in candidates:
        if all((initdb.parent / name).exists() for name in ("pg_ctl", "psql")):
            return initdb.parent
    return None


def _extension() -> Path:
    programs = _programs()
    command = [str((programs or Path()) / "pg_config"), "--sharedir"]
    share = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return Path(share) / "extension" / "postgis.control"


def _account() -> str | None:
    """Return the user who runs the server; None: this one, who is not root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)
