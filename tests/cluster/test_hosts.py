"""The hosts of these tests share nothing, and what `stqsh pack` makes runs on them, where no Python is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hosts import ROOT, Host, Hosts

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
_REACHES = "timeout 2 bash -c 'exec 3<>/dev/tcp/{address}/7070' 2>/dev/null && echo yes || echo no"
_IMPORTS = "import stqsh.core.evaluate, stqsh.engine.ingest.task_reader, pyspark; print(stqsh.__file__)"


@pytest.fixture
def hosts(namespaces: None, folder: Path, unpacked: Path) -> Iterator[Hosts]:
    with Hosts(folder) as made:
        yield made


def reaches(one: Host, other: Host) -> bool:
    return one.run("sh", "-c", _REACHES.format(address=other.address)).strip() == "yes"


def test_a_host_sees_no_python_no_checkout_and_no_home_of_this_machine(hosts: Hosts, folder: Path) -> None:
    one, other = hosts.add("one", {}), hosts.add("two", {})
    for place in (ROOT, folder, Path.home(), Path("/tmp"), Path("/dev/shm")):
        assert one.run("sh", "-c", f"ls -A '{place}' 2>/dev/null || true") == ""
    one.run("touch", "/tmp/own", "/dev/shm/own")
    assert other.run("ls", "-A", "/tmp", "/dev/shm").split() == ["/dev/shm:", "/tmp:"]
    assert one.run("sh", "-c", "python3 -c 1 2>/dev/null || echo none").strip() == "none"
    boots = {host.run("cat", "/proc/sys/kernel/random/boot_id") for host in (one, other)}
    assert len(boots | {Path("/proc/sys/kernel/random/boot_id").read_text()}) == 3


def test_the_network_between_two_hosts_is_cut_and_mended(hosts: Hosts, folder: Path, unpacked: Path) -> None:
    one, other = hosts.add("one", {}), hosts.add("two", {"stqsh": unpacked})
    server = ["/srv/stqsh/bin/python", "-m", "http.server", "7070", "--bind", other.address]
    listening = other.start(server, folder / "server.log")
    while not reaches(one, other):
        assert listening.poll() is None, (folder / "server.log").read_text()
    hosts.cut(one, other)
    assert not reaches(one, other)
    hosts.mend(one, other)
    assert reaches(one, other)
    hosts.lose(other)
    assert listening.wait(10) != 0
    assert not reaches(one, other)


def test_a_packed_stqsh_runs_where_there_is_no_python(hosts: Hosts, unpacked: Path) -> None:
    host = hosts.add("one", {"stqsh": unpacked})
    for python in ("/srv/stqsh/bin/python", "/srv/stqsh/bin/python3"):
        found = host.run(python, "-c", _IMPORTS)
        assert found.startswith("/srv/stqsh/lib/")
