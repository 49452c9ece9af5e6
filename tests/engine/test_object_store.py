"""Spark's access to a storage on S3: its settings follow from `session.storage` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stqsh.engine.config import EngineSettings
from stqsh.engine.spark import object_store
from stqsh.engine.spark.maven import LibraryMissingError
from stqsh.engine.spark.object_store import for_store, s3_jars
from stqsh.engine.spark.spark_internals import ABORTABLE_MANAGER, CHECKPOINT_MANAGER
from stqsh.engine.spark.spark_session import configuration
from stqsh.profile import Value

S3A = "spark.hadoop.fs.s3a."
OTHER = "s3://sessions/a?endpoint_override=198.18.0.1:5000&scheme=http&region=eu-west-1"


@pytest.fixture(autouse=True)
def no_settings_of_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def own_jars(names: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Path]:
    def brought(name: str, *_: object, alone: bool = False) -> Path:
        made = folder / name
        made.mkdir(exist_ok=True)
        for jar in [f"{name}.jar"] if alone else names:
            (made / jar).touch()
        return made

    monkeypatch.setattr(object_store, "bring", brought)
    return s3_jars()


def test_spark_has_its_own_netty_but_not_the_client_that_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        "s3-2.35.4.jar",
        "netty-codec-4.1.126.Final.jar",
        "netty-nio-client-2.35.4.jar",
        "slf4j-api-1.jar",
    ]
    found = [jar.name for jar in own_jars(names, monkeypatch, tmp_path)]
    assert found[:2] == ["netty-nio-client-2.35.4.jar", "s3-2.35.4.jar"]
    assert {"hadoop-aws-3.5.0.jar", "analyticsaccelerator-s3-1.3.1.jar"} < set(found)
    assert not [name for name in found if "4.1.126" in name or "slf4j" in name]


def test_a_server_of_s3_is_reached_as_the_storage_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_jars(["s3.jar"], monkeypatch, tmp_path)
    found = for_store(OTHER, {})
    assert found[f"{S3A}endpoint"] == "http://198.18.0.1:5000"
    assert found[f"{S3A}endpoint.region"] == "eu-west-1"
    assert found[f"{S3A}path.style.access"] == "true"
    assert found[CHECKPOINT_MANAGER] == ABORTABLE_MANAGER
    assert "s3.jar" in found["spark.jars"]
    amazon = for_store("s3://sessions/a", {})
    assert not {f"{S3A}endpoint", f"{S3A}endpoint.region", f"{S3A}path.style.access"} & set(amazon)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://s3.example.org")
    assert for_store("s3://sessions/a", {})[f"{S3A}endpoint"] == "https://s3.example.org"


@pytest.mark.parametrize("uri", ["", "file:///folder", "hdfs://host:9000/stqsh"])
def test_other_storages_need_no_settings(uri: str) -> None:
    assert for_store(uri, {}) == {}


def test_a_profile_that_names_jars_has_its_own_writer_of_checkpoints_too(tmp_path: Path) -> None:
    mine = {
        "spark.jars": Value("/mine.jar", "mine.yaml:3"),
        f"{S3A}connection.maximum": Value("7", "mine.yaml:4"),
        f"{S3A}path.style.access": Value("false", "mine.yaml:5"),
    }
    found = configuration(EngineSettings(tmp_path, "yarn", storage=OTHER, of_spark=mine))
    assert {name: found[name] for name in mine} == {name: str(value.value) for name, value in mine.items()}
    assert found[CHECKPOINT_MANAGER] != ABORTABLE_MANAGER
    assert found[f"{S3A}endpoint"] == "http://198.18.0.1:5000"


def test_jars_that_cannot_be_had_are_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> Path:
        raise LibraryMissingError("s3 did not come within 300 s")

    monkeypatch.setattr(object_store, "bring", refused)
    with pytest.raises(LibraryMissingError) as caught:
        for_store(OTHER, {})
    assert caught.value.message == "Spark cannot write to s3://sessions/a: s3 did not come within 300 s"
    assert caught.value.hint == "name Hadoop's jars for S3 in spark.jars, or a repository in STQSH_MAVEN"
