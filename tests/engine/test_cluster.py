"""The profile `cluster`: slots in executors that share the home with the driver, and nothing else."""

from __future__ import annotations

import math
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.local import local_session
from support.running import run_script
from support.standalone import standalone

from stqsh.engine.config import EngineSettings
from stqsh.engine.operators.slot_processor import SlotProcessor
from stqsh.engine.operators.slot_task import EVALUATE, OperatorContext
from stqsh.engine.spark import cluster
from stqsh.engine.spark.cluster import LOOPBACK, SOCKETS, driver_address, executors_python, prepare_host
from stqsh.engine.spark.spark_session import configuration
from stqsh.errors import ProfileError
from stqsh.profile import Value
from stqsh.storage import home as homes
from stqsh.storage.arena_cleanup import host_folders
from stqsh.storage.blobs import home_blobs, host_cache

SCRIPT = """
CREATE MOVING STREAM cars FROM FILE '{folder}/cars.csv' REPORT EVERY 30 s;
REGISTER QUERY inside AS SELECT oid FROM cars INSIDE (0, 0, 1, 1);
REGISTER QUERY nearest AS SELECT oid, DISTANCE FROM cars NEAREST 3 TO (0.7, 0.5);
REGISTER QUERY around AS SELECT oid, lon FROM cars
  WHERE status = 'free' INSIDE RECT(60 km, 60 km) AROUND 'c11';
RUN;
SELECT COUNT(*) AS here FROM cars;
SELECT oid FROM cars INSIDE CIRCLE(0.7, 0.5, 20 km);
"""


def write_cars(folder: Path) -> str:
    """Forty cars for eight seconds, and the script about them."""
    rows = ["oid,lon,lat,ts,status"]
    for second in range(8):
        for car in range(40):
            lon = 0.05 * car + 0.03 * second * (1 if car % 2 else -1)
            lat = 0.5 + 0.2 * math.sin(car + second / 3)
            status = "free" if (car + second) % 3 else "busy"
            rows.append(f"c{car:02d},{lon:.4f},{lat:.4f},{second},{status}")
    (folder / "cars.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return SCRIPT.format(folder=folder)


LIGHT = (
    """
CREATE MOVING STREAM cars FROM GENERATOR 'network' (objects => 200, bounds => '0, 0, 0.1, 0.1');
REGISTER QUERY inside AS SELECT oid FROM cars INSIDE (0, 0, 0.05, 0.05);
REGISTER QUERY many AS SELECT COUNT(*), AVG(speed) FROM cars GROUP BY kind;
"""
    + 10 * "RUN 3 STEPS;\n"
)
MANY = """
CREATE MOVING STREAM crowd FROM GENERATOR 'network' (objects => 40000);
REGISTER QUERY all_of_them AS SELECT oid, lon, lat FROM crowd;
RUN 2 STEPS;
SELECT COUNT(*) AS here FROM crowd;
"""


def run_on_cluster(master: str, folder: Path, script: str, profile: str = "cluster") -> bytes:
    """What `stqsh run --profile PROFILE` prints."""
    file = folder / "script.stq"
    file.write_text(script, encoding="utf-8")
    settings = {
        "STQSH_HOME": str(folder / "home"),
        "STQSH_SPARK_MASTER": master,
        "STQSH_SPARK_EXECUTOR_MEMORY": "700m",
        "STQSH_ENGINE_SLOTS": "4",
        "STQSH_ENGINE_MEMORY": "1g",
        "STQSH_INDEX_QUERIES": "chtree",
        "STQSH_INDEX_TREE_QUERIES": "2",
    }
    command = [sys.executable, "-m", "stqsh", "run", str(file), "--profile", profile, "--format", "jsonl"]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_script_prints_on_a_cluster_what_it_prints_on_one_machine_to_the_byte(tmp_path: Path) -> None:
    script = write_cars(tmp_path)
    with local_session(tmp_path / "local", slots=1) as session:
        expected = run_script(session, script)
    with standalone(tmp_path, workers=2, memory="1g") as master:
        assert run_on_cluster(master, tmp_path, script) == expected
    executors = {log.parent.parent.parent for log in tmp_path.glob("work-*/app-*/*/stderr")}
    assert len(executors) == 2, "both workers had a part in it"
    assert {b'"query":"inside"', b'"query":"nearest"', b'"query":"around"'} <= {
        line.split(b",")[0].lstrip(b"{") for line in expected.splitlines()
    }


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_light_batches_and_updates_beyond_the_drivers_limit_on_results_pass_as_on_one_machine(
    tmp_path: Path,
) -> None:
    with local_session(tmp_path / "local", slots=1) as session:
        expected = run_script(session, LIGHT + MANY)
    assert expected.count(b'"inside"') > 30
    assert len(expected) > 4 << 20
    profile = tmp_path / "narrow.yaml"
    profile.write_text("spark: {driver.maxResultSize: 1m}\n", encoding="utf-8")
    assert run_on_cluster("local-cluster[2,1,1024]", tmp_path, LIGHT + MANY, str(profile)) == expected


def test_a_host_that_does_not_see_the_home_keeps_the_arena_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "SHM", tmp_path)
    monkeypatch.setattr(cluster, "compile_kernels", lambda: None)
    monkeypatch.setattr(homes, "SHM_FREE_BYTES", 0)
    arena = Path(f"stqsh-{os.getuid()}-{'a' * 32}")
    for _ in range(2):
        prepare_host((arena,))
        assert (tmp_path / arena).is_dir()


def test_a_host_without_shared_memory_has_the_arena_on_the_disk_that_spark_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "SHM", tmp_path / "none")
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(tmp_path / "given"))
    host_cache.cache_clear()
    name = Path("stqsh-0-" + "a" * 32)
    folders = host_folders((name,))
    host_cache.cache_clear()
    assert len({*folders}) == 2
    assert all(tmp_path / "given" in folder.parents and name.name in folder.parts for folder in folders)
    assert host_folders((tmp_path, tmp_path / "more")) == (tmp_path, tmp_path / "more"), "of one machine"


def test_the_driver_is_where_it_reaches_a_standalone_master_from() -> None:
    with socket.create_server((LOOPBACK, 0)) as master:
        port = master.getsockname()[1]
        assert driver_address(f"spark://localhost:{port}") == LOOPBACK
        assert driver_address(f"spark://{LOOPBACK}:{port},{LOOPBACK}:1") == LOOPBACK
    assert driver_address("local-cluster[2,1,1024]") == LOOPBACK


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:6443"])
def test_other_clusters_have_their_own_ways_to_the_driver(master: str) -> None:
    assert driver_address(master) == ""


def test_executors_are_as_the_profile_says_and_on_one_machine_there_are_none(tmp_path: Path) -> None:
    given = EngineSettings(tmp_path, "yarn", executor_memory="3g", executor_cores="4")
    found = configuration(given)
    assert (found["spark.executor.memory"], found["spark.executor.cores"]) == ("3g", "4")
    assert "spark.driver.host" not in found
    assert "spark.executor.memory" not in configuration(EngineSettings(tmp_path, "yarn"))
    local = configuration(EngineSettings(tmp_path, "local[2]", executor_memory="3g"))
    assert "spark.executor.memory" not in local
    assert local["spark.driver.host"] == LOOPBACK


def test_sockets_have_a_short_path_where_yarn_would_give_them_a_long_one(tmp_path: Path) -> None:
    assert configuration(EngineSettings(tmp_path, "yarn"))[SOCKETS] == "/tmp"
    assert SOCKETS not in configuration(EngineSettings(tmp_path, "k8s://https://host:6443"))
    mine = {SOCKETS: Value("/run/stqsh", "mine.yaml:3")}
    assert configuration(EngineSettings(tmp_path, "yarn", of_spark=mine))[SOCKETS] == "/run/stqsh"


def given(**settings: str) -> dict[str, Value]:
    """Settings of Spark's, as a profile gives them: `_` stands for a dot."""
    return {f"spark.{name.replace('_', '.')}": Value(text, "mine.yaml:3") for name, text in settings.items()}


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:6443"])
def test_what_the_profile_gives_to_spark_stays_as_it_is(tmp_path: Path, master: str) -> None:
    mine = given(kubernetes_container_image="stqsh:1", ui_enabled="true", network_crypto_enabled="true")
    mine |= given(sql_streaming_checkpointFileManagerClass="org.example.Manager")
    found = configuration(EngineSettings(tmp_path, master, of_spark=mine))
    assert {name: found[name] for name in mine} == {name: str(value.value) for name, value in mine.items()}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("speculation", "true", "stqsh's answers or its memory rest on it"),
        ("driver_memory", "3g", "engine.memory says it"),
        ("sql_shuffle_partitions", "7", "engine.slots says it"),
        ("submit_deployMode", "cluster", "the driver is the session's own process, wherever that runs"),
    ],
)
def test_what_stqsh_decides_itself_is_refused_with_its_line(
    tmp_path: Path, name: str, value: str, why: str
) -> None:
    mine = given(**{name: value})
    with pytest.raises(ProfileError) as caught:
        configuration(EngineSettings(tmp_path, "yarn", of_spark=mine))
    assert caught.value.message == f"mine.yaml:3: {next(iter(mine))} cannot be set: {why}"


def test_a_setting_as_stqsh_has_it_anyway_is_no_error(tmp_path: Path) -> None:
    found = configuration(EngineSettings(tmp_path, "yarn", of_spark=given(speculation="false")))
    assert found["spark.speculation"] == "false"


def test_options_for_java_are_added_to_those_of_stqsh(tmp_path: Path) -> None:
    mine = given(driver_extraJavaOptions="-Dmine='a b'")
    found = configuration(EngineSettings(tmp_path, "yarn", of_spark=mine))["spark.driver.extraJavaOptions"]
    assert found.endswith("'-Dmine=a b'")
    assert "log4j2.properties" in found
    mine = given(executor_extraJavaOptions="-Dmine='a b'")
    found = configuration(EngineSettings(tmp_path, "yarn", of_spark=mine))["spark.executor.extraJavaOptions"]
    assert found == "-XX:TieredStopAtLevel=1 '-Dmine=a b'"


def test_executors_are_told_the_durability_and_use_the_drivers_python_unless_they_bring_their_own(
    tmp_path: Path,
) -> None:
    plain = EngineSettings(tmp_path, "yarn", durability="disk")
    found = configuration(plain)
    assert found["spark.executorEnv.STQSH_DURABILITY"] == "disk"
    assert "spark.executorEnv.PYTHONPATH" in found
    assert executors_python(plain) == ""
    packed = EngineSettings(tmp_path, "yarn", of_spark=given(archives="/a/x.zip,/a/packed.tar.gz#stqsh"))
    assert "spark.executorEnv.PYTHONPATH" not in configuration(packed)
    assert executors_python(packed) == "stqsh/bin/python"
    named = EngineSettings(tmp_path, "yarn", of_spark=given(pyspark_python="/opt/python/bin/python3"))
    assert executors_python(named) == "/opt/python/bin/python3"
    assert configuration(named)["spark.files"].endswith("/sent/stqsh-python")


def test_the_secret_of_a_standalone_cluster_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("known to few\n", encoding="utf-8")
    mine = given(authenticate="true", authenticate_secret_file=str(file))
    found = configuration(EngineSettings(tmp_path, "spark://host:7077", of_spark=mine))
    assert (found["spark.authenticate"], found["spark.authenticate.secret"]) == ("true", "known to few")
    on_kubernetes = configuration(EngineSettings(tmp_path, "k8s://https://host:6443", of_spark=mine))
    assert "spark.authenticate.secret" not in on_kubernetes
    assert on_kubernetes["spark.authenticate.secret.file"] == str(file)
    file.unlink()
    with pytest.raises(ProfileError, match=r"mine\.yaml:3: cannot read the secret"):
        configuration(EngineSettings(tmp_path, "spark://host:7077", of_spark=mine))


def test_processes_of_a_cluster_within_this_machine_prove_themselves_by_a_secret_of_the_session(
    tmp_path: Path,
) -> None:
    first, second = (configuration(EngineSettings(tmp_path, "local-cluster[2,1,1024]")) for _ in range(2))
    assert first["spark.authenticate"] == "true"
    assert len(first["spark.authenticate.secret"]) == 64
    assert first["spark.authenticate.secret"] != second["spark.authenticate.secret"]


def test_the_drivers_helper_of_an_operator_imports_nothing_of_its_fold(tmp_path: Path) -> None:
    context = OperatorContext(1, (tmp_path,), tmp_path, home_blobs(tmp_path))
    file = tmp_path / "processor"
    file.write_bytes(pickle.dumps(SlotProcessor(EVALUATE.name, pickle.dumps((EVALUATE, context)))))
    code = (
        "import pickle, sys; from pathlib import Path; from unittest.mock import Mock;"
        "pickle.loads(Path(sys.argv[1]).read_bytes()).init(Mock());"
        "print([name for name in ('numba', 'pandas', 'stqsh.core.evaluate') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_secret_is_in_what_settings_print(tmp_path: Path) -> None:
    settings = EngineSettings(tmp_path, secret="hidden", of_spark=given(hadoop_fs_s3a_secret_key="hidden"))
    assert "hidden" not in repr(settings)
