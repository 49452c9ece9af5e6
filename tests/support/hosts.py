"""Hosts that share nothing, on one machine: namespaces of processes, networks and mounts, and a switch.

A host has its own /tmp, /dev/shm and home, its own name, processes and boot; the driver's home, this checkout
and its Python are not there. What hosts may have of this machine is bound below /srv, at other paths.
All addresses are of a network for measurements (RFC 2544) in the tests' own namespaces; they lead nowhere.
All processes of a host end with it, and hosts end with the process of the tests, even if that is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NET = "198.18.0"
_READY = b"ready\n"
_TOOLS = ("unshare", "nsenter", "ip", "mount", "setpriv")
_ALONE = ("--net", "--mount", "--pid", "--uts", "--ipc")
"""The namespaces of a host that shares nothing."""
_PLAIN = ("--net", "--mount", "--pid")
"""Those of a host of services, and of the driver's: they see this machine's files."""

#: What a host does before it is there: it binds what it may have, and hides the rest. Then it adopts orphans.
_BOOT = """set -e
hostname "$1"
mount -t tmpfs -o mode=755 tmpfs /srv
{binds}
{hidden}
mount -t proc proc /proc
printf '127.0.0.1 localhost\n%s %s\n' "$3" "$1" > /srv/hosts
mount --bind /srv/hosts /etc/hosts
echo "$2" > /srv/boot_id
mount --bind /srv/boot_id /proc/sys/kernel/random/boot_id
ip link set lo up
echo ready
while :; do sleep 3600 & wait $!; done
"""
#: The same for a host that sees this machine's files.
_BOOT_PLAIN = """set -e
mount -t proc proc /proc
ip link set lo up
echo ready
while :; do sleep 3600 & wait $!; done
"""
#: The switch has the processes of this machine, because it names hosts by their pids.
_BOOT_SWITCH = """echo ready
exec sleep infinity
"""


def missing() -> str:
    """Why there can be no such hosts here; "" where there can be."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if absent := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"there is no {absent[0]}"
    tried = "mount -t tmpfs tmpfs /srv && ip link add a0 type veth peer name b0 && ip link add c0 type bridge"
    command = ["unshare", *_ALONE, "--fork", "sh", "-c", tried]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"namespaces are not allowed: {done.stderr.strip()}" if done.returncode else ""


def tied(words: Sequence[str]) -> list[str]:
    """A command line whose process is killed when this one ends, even by SIGKILL, where that can be done."""
    return [*(["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []), *words]


@dataclass
class Host:
    """One host: its name, address, and the process that is its first one."""

    name: str
    address: str
    pid: int
    spaces: Sequence[str]
    _parent: subprocess.Popen[bytes] = field(repr=False)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command line that runs another one on this host."""
        return ["nsenter", "--target", str(self.pid), *self.spaces, "--", *words]

    def start(
        self, words: Sequence[str], log: Path, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process on this host, with this environment; an almost empty one unless it is given."""
        with log.open("ab") as out:
            return subprocess.Popen(
                self.command(words),
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} if environ is None else dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                start_new_session=True,
            )

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """Run a command on this host to its end; what it prints."""
        done = subprocess.run(
            self.command(words), capture_output=True, text=True, check=False, env=environ, cwd="/"
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(words)} on {self.name}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def signal(self, pattern: str, name: str = "KILL") -> bool:
        """Send a signal to the processes whose command line has a pattern; return whether there were any.

        The pattern must not match itself, which would be in the command line of the search.
        """
        search = f"grep -l -e '{pattern}' /proc/[0-9]*/cmdline 2>/dev/null || true"
        pids = [file.split("/")[2] for file in self.run("sh", "-c", search).splitlines()]
        if pids:
            self.run("sh", "-c", f"kill -{name} {' '.join(pids)} 2>/dev/null || true")
        return bool(pids)

    def lose(self) -> None:
        """Lose the host with all its processes, its memory and its disk."""
        self._parent.send_signal(signal.SIGKILL)
        self._parent.wait()


class Hosts:
    """A switch, and the hosts that are connected to it; use it as a context."""

    def __init__(self, folder: Path, hidden: Sequence[Path] = ()) -> None:
        self._folder = folder
        self._hidden = [Path.home(), ROOT, Path("/tmp"), Path("/dev/shm"), folder, *hidden]
        self._hidden += [Path(sys.base_prefix)] if not sys.base_prefix.startswith("/usr") else []
        self._count = 0
        self.all: list[Host] = []
        self._switch: Host | None = None

    def __enter__(self) -> Hosts:
        self._switch = self._begin("switch", "", _BOOT_SWITCH, ("--net",))
        self._switch.run("ip", "link", "add", "bridge", "type", "bridge")
        self._switch.run("ip", "link", "set", "bridge", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in [*self.all, self._switch]:
            if host is not None and host._parent.poll() is None:
                host.lose()

    def add(self, name: str, binds: Mapping[str, Path] | None = None) -> Host:
        """A new host: with `binds`, it shares nothing but them, each at a path below /srv; else all files."""
        address = f"{_NET}.{len(self.all) + 1 + self._count}"
        if binds is None:
            host = self._begin(name, address, _BOOT_PLAIN, _PLAIN)
        else:
            bound = "\n".join(
                f'mkdir -p "/srv/{place}" && mount --bind "{source}" "/srv/{place}"'
                for place, source in binds.items()
            )
            kept = [path for path in self._hidden if path.exists()]
            hidden = "\n".join(f'mount -t tmpfs -o mode=1777 tmpfs "{path}"' for path in _outermost(kept))
            no_python = 'for p in /usr/bin/python* /usr/local/bin/python*; do [ -f "$p" ] && mount --bind '
            hidden += f'\n{no_python} /dev/null "$p"; done; true'
            host = self._begin(name, address, _BOOT.format(binds=bound, hidden=hidden), _ALONE)
        self.all.append(host)
        return host

    def lose(self, host: Host) -> None:
        """Lose a host for good; one that is added later has another address."""
        host.lose()
        self.all.remove(host)
        self._count += 1

    def cut(self, one: Host, other: Host) -> None:
        """Cut the network between two hosts: what they send to each other is lost without a word."""
        for a, b in ((one, other), (other, one)):
            a.run("ip", "neigh", "replace", b.address, "lladdr", "02:00:00:00:00:01", "dev", "eth0")

    def mend(self, one: Host, other: Host) -> None:
        """Mend what was cut."""
        for a, b in ((one, other), (other, one)):
            a.run("ip", "neigh", "del", b.address, "dev", "eth0")

    def _begin(self, name: str, address: str, boot: str, spaces: Sequence[str]) -> Host:
        words = tied(["unshare", *spaces, "--fork", "--kill-child=SIGKILL", "sh", "-c", boot, name, name])
        log = (self._folder / f"host-{name}.log").open("ab")
        parent = subprocess.Popen(
            [*words, str(uuid.uuid4()), address], stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL
        )
        log.close()
        assert parent.stdout is not None
        if parent.stdout.readline() != _READY:
            parent.kill()
            said = (self._folder / f"host-{name}.log").read_text(errors="replace")
            raise AssertionError(f"the host {name} does not come up: {said}")
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        host = Host(name, address, int(children[0]), spaces, parent)
        if self._switch is not None:
            self._connect(host)
        return host

    def _connect(self, host: Host) -> None:
        assert self._switch is not None
        end = f"to-{host.address.rpartition('.')[2]}"
        self._switch.run(
            "ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid)
        )
        self._switch.run("ip", "link", "set", end, "master", "bridge", "up")
        for words in (["addr", "add", f"{host.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            host.run("ip", *words)


def _outermost(paths: list[Path]) -> list[Path]:
    """Paths without those that lie below another one of them."""
    found: list[Path] = []
    for path in sorted({path.resolve() for path in paths}):
        if not any(path.is_relative_to(above) for above in found):
            found.append(path)
    return found


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of this machine that no host sees, on a disk rather than in memory."""
    folder = Path(tempfile.mkdtemp(prefix="stqsh-hosts-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def until(sought: str, log: Path, patience_s: float = 120.0) -> str:
    """Wait for a text in a log; the line that has it."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace") if log.exists() else ""
        if line := next((line for line in text.splitlines() if sought in line), None):
            return line
        time.sleep(0.1)
    raise AssertionError(f"no {sought!r} in:\n{log.read_text(errors='replace')[-3000:]}")
