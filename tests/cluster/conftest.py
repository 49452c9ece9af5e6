"""What tests of clusters need: namespaces, memory, and stqsh in an archive for hosts that have no Python."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hosts import missing, scratch_folder

from stqsh.cli.pack import pack
from stqsh.engine.spark.maven import LibraryMissingError

_LEAST_MEMORY = 6 << 30
"""A master, two workers with an executor each, a driver, and a store, in bytes."""


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip where hosts cannot be made."""
    if why := missing():
        pytest.skip(f"no hosts: {why}")
    if _free_memory() < _LEAST_MEMORY:
        pytest.skip("no hosts: a cluster needs 6 GB of free memory")


@pytest.fixture(scope="session")
def packed(namespaces: None) -> Iterator[Path]:
    """What `stqsh pack` makes: an archive."""
    with scratch_folder() as folder:
        file = folder / "stqsh.tar.gz"
        pack(file, kernels=False, show=lambda line: None)
        yield file


@pytest.fixture(scope="session")
def unpacked(packed: Path) -> Path:
    """The archive unpacked, as hosts may have it on their disks."""
    folder = packed.parent / "unpacked"
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="tar")
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that no host sees."""
    with scratch_folder() as made:
        yield made


@pytest.fixture(scope="session")
def hdfs() -> None:
    """Skip where the jars of HDFS cannot be had."""
    from support.clusters import hdfs_jars

    try:
        hdfs_jars()
    except LibraryMissingError as problem:
        pytest.skip(f"no HDFS: {problem}")


@pytest.fixture(scope="session")
def s3() -> None:
    """Skip where the jars cannot be had by which Spark writes to S3."""
    from stqsh.engine.spark.object_store import s3_jars

    try:
        s3_jars()
    except LibraryMissingError as problem:
        pytest.skip(f"no S3: {problem}")
