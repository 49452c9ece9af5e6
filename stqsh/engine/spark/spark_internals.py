"""The engine's assumptions about the internals of Spark 4.3, which Spark does not guarantee.

Each assumption is a function or constant here, with the version for which it was checked, and a test in
`tests/engine/test_spark_internals.py` that fails when Spark changes it. Nothing here imports pyspark.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import uuid
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from struct import unpack_from
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from stqsh.checksums import DamagedFileError
from stqsh.fs import settle
from stqsh.storage import processes
from stqsh.storage.blobs import BEFORE_FIRST

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from stqsh.storage.blobs import Blobs

Heads: TypeAlias = "dict[str, dict[str, str]]"
"""The heads of slots in Base64, by operator and slot."""

CHECKED_VERSION = "4.3"
"""The Spark release for which these assumptions were checked."""

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
"""The argument that Spark 4.3 always passes to Java, even to a runtime without this module."""

WORKER_MODULE = "pyspark.worker"
"""The module whose name Spark 4.3 passes to the Python daemon for the workers of data frames."""

BATCH_PROPERTY = "streaming.sql.batchId"
"""The local property in which Spark 4.3 passes tasks the number of their batch."""

CHECKPOINT_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""The setting with the class that writes the files of a checkpoint."""

ABORTABLE_MANAGER = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""The class of Spark's module for object stores that writes a file at once.

The other classes of Spark 4.3 give a file its name by renaming, which copies it in an object store.
"""

INTERNAL_CONFIGURATION = {
    # The module that Spark runs as `python -m MODULE pyspark.worker`, and that forks its workers.
    "spark.python.daemon.module": "stqsh.engine.spark.worker_daemon",
    # If enabled, operators' workers have a different environment from the source's, and therefore their own
    # daemon.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Forking a `chmod` for each checkpoint file takes 100 ms a batch; this manager writes the same files
    # without.
    CHECKPOINT_MANAGER: (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # TCP between an operator and its state server takes 80 ms of round trips a batch.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.commitValidation.enabled": "false",
    # Otherwise each append to a list reads the whole list to count rows, and registering a million queries
    # never ends.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings that Spark 4.3 marks as internal or does not document, and would silently ignore if renamed."""

JAVA_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""The options that Spark 4.3 passes to every Java, without `VECTOR_MODULE`, which only its `ml` uses."""

NO_PYTHON = "no-python-for-the-driver"
"""The name of a command that does not exist, as the driver's Python.

Spark 4.3 runs this Python, and no other, to find data sources installed as packages; it skips this for a
command that does not exist. Our source is registered. Processes for the source run the Python of the workers.
"""

GATEWAY_SERVER = "org.apache.spark.api.python.PythonGatewayServer"
"""The main class that `spark-submit pyspark-shell` of Spark 4.3 finally runs."""

GATEWAY_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable that names the file into which that class writes its port and secret."""

GATEWAY_PORT, GATEWAY_SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""The variables with which pyspark 4.3 connects to a Java process that it did not start."""

INTERPRETED_PLANS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings of a session that stop Spark 4.3 from generating and compiling code for plans."""

POOL_PROPERTY = "spark.scheduler.pool"
"""The local property that names the pool of a thread's jobs; FAIR scheduling offers a free core to the pool
with the fewest running tasks first."""

_EXECUTOR_ID, _EXECUTOR_HOST = "--executor-id", "--hostname"
"""The arguments with which Spark 4.3 starts the Java process of an executor, whatever the master."""

_METADATA = "metadata"
_HEADS = "heads"
_BEGINS = re.compile(r"/checkpoints/(?P<first>\d+)(?:\?|$)")
"""The suffix of the URI of a checkpoint that does not begin with batch 0."""
_MASK = 0xFFFFFFFF
_SEED = 42


def checkpoint_place(checkpoint: Blobs) -> str:
    """Return the location of a checkpoint in Hadoop's notation, because Spark 4.3 writes through Hadoop.

    Hadoop's file system for S3 is called s3a, reads its options from `spark.hadoop.*`, and supports no
    escapes in names.
    """
    if checkpoint.at_home:
        return str(checkpoint.folder)
    return unquote(checkpoint.uri.partition("?")[0]).replace("s3://", "s3a://", 1)


def read_offset(checkpoint: Blobs, batch: int) -> str:
    """Return the JSON of the only source's offset at the end of a batch.

    Spark 4.3 writes `offsets/N` before batch N begins: a line with the format's version, a line of metadata,
    and a line for each source, in order.

    Raises:
        DamagedFileError: the file is missing.
    """
    name = offset_file(batch, first_batch(checkpoint))
    *_, offset = bytes(memoryview(checkpoint.read(name))).decode().splitlines()
    return offset


def first_batch(checkpoint: Blobs) -> int:
    """Return the session's number of the first batch of a checkpoint, which Spark 4.3 counts from 0.

    It is 0 unless the checkpoint continues another one, see `begin_checkpoint`.
    """
    found = _BEGINS.search(checkpoint.uri)
    return int(found["first"]) if found else 0


def commit_file(batch: int, first: int = 0) -> str:
    """Return the name in the checkpoint of the file that Spark 4.3 writes once a batch is complete.

    Args:
        batch: the session's number of the batch.
        first: the number of the checkpoint's first batch; the file before it is of the continued checkpoint.
    """
    return f"commits/{batch - first}" if batch >= first else BEFORE_FIRST


def offset_file(batch: int, first: int = 0) -> str:
    """Return the name in the checkpoint of the file that Spark 4.3 writes before it begins a batch.

    The arguments are those of `commit_file`.
    """
    return f"offsets/{batch - first}" if batch >= first else BEFORE_FIRST


def begin_checkpoint(checkpoint: Blobs, offset: str, heads: Heads) -> None:
    """Begin a checkpoint that continues another one, with other operators.

    Spark 4.3 cannot add operators to a checkpoint, or begin one with a batch other than 0. So the name of the
    checkpoint contains its first batch (`first_batch`), and it holds the offset before that batch, and the
    operators' initial heads. It is complete once it has the offset; then this function does nothing.
    """
    if checkpoint.names(BEFORE_FIRST):
        return
    checkpoint.put(_HEADS, [json.dumps(heads).encode()])
    write_metadata(checkpoint)
    checkpoint.put(BEFORE_FIRST, [offset.encode()])


def restart_checkpoint(checkpoint: Blobs, batch: int, target: Blobs) -> None:
    """Write a checkpoint of a query without operators that continues after a complete batch of another one.

    Spark 4.3 reads the last two offsets and the last commit, and counts on from their number.
    """
    first = first_batch(checkpoint)
    content = [bytes(memoryview(checkpoint.read(offset_file(batch, first))))]
    if batch > 0:
        lines = content[0].decode().splitlines()
        content.append("\n".join([*lines[:-1], read_offset(checkpoint, batch - 1)]).encode())
    commit = bytes(memoryview(checkpoint.read(commit_file(batch, first))))
    for number, offset in zip((batch, batch - 1), content, strict=False):
        target.put(offset_file(number), [offset])
        target.put(commit_file(number), [commit])
    write_metadata(target)


def initial_heads(checkpoint: Blobs) -> Heads:
    """Return the initial heads of a checkpoint's operators; {} if it continues no other checkpoint."""
    return json.loads(memoryview(checkpoint.read(_HEADS)).tobytes()) if first_batch(checkpoint) else {}


def stored_values(spark: SparkSession, checkpoint: Blobs, operator: int, name: str) -> DataFrame:
    """Return the values by key of an operator's `ValueState`: a frame of `key` and `value`.

    Spark 4.3 numbers the operators of a query from the last one to the first.
    """
    reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    return reader.load(checkpoint_place(checkpoint))


def has_metadata(checkpoint: Blobs) -> bool:
    """Return whether the checkpoint's file `metadata`, with Spark 4.3's query id, can be read."""
    try:
        content = json.loads(memoryview(checkpoint.read(_METADATA)).tobytes())
        return is_intact(checkpoint, _METADATA) and bool(uuid.UUID(content["id"]))
    except (DamagedFileError, ValueError, TypeError, KeyError, AttributeError):
        return False


def write_metadata(checkpoint: Blobs) -> None:
    """Write the checkpoint's file `metadata` with a new id, to which nothing else refers."""
    remove_file(checkpoint, _METADATA)
    checkpoint.put(_METADATA, [json.dumps({"id": str(uuid.uuid4())}).encode()])


def is_intact(checkpoint: Blobs, name: str) -> bool:
    """Return whether a file of the checkpoint is intact.

    On a disk Hadoop, through which Spark 4.3 writes, stores `.NAME.crc` beside each file: `crc` and a zero
    byte, the size of a block, and the CRC32 of each block, big-endian. A file without one is trusted if it is
    not empty. Other stores ensure integrity themselves.

    Raises:
        DamagedFileError: the file is missing.
    """
    content = memoryview(checkpoint.read(name))
    beside = None if checkpoint.folder is None else checkpoint.folder / _checksums(name)
    if not content or beside is None or not beside.exists():
        return bool(content)
    found = beside.read_bytes()
    size = int.from_bytes(found[4:8], "big") or len(content)
    blocks = (content[at : at + size] for at in range(0, len(content), size))
    sums = b"".join(zlib.crc32(block).to_bytes(4, "big") for block in blocks)
    return found[:4] == b"crc\0" and found[8:] == sums


def remove_file(checkpoint: Blobs, name: str) -> None:
    """Remove a file of the checkpoint and its checksum, so that Spark 4.3 treats it as never written."""
    checkpoint.delete([name, _checksums(name)])


def settle_batch(checkpoint: Blobs, batch: int) -> None:
    """Sync the files that Spark 4.3 wrote before a batch to the disk, if durability requires it.

    Spark syncs nothing. The slots are about to depend on the batch's offset, and to remove files that a batch
    before the last commit would need. Hadoop stores a checksum of each file beside it. Blobs in a store are
    durable once written.
    """
    folder = checkpoint.folder
    if folder is None:
        return
    first = first_batch(checkpoint)
    written = [commit_file(batch - 1, first), offset_file(batch, first)]
    if batch == first:
        written = ["metadata", *written]
    for name in written:
        for file in (folder / name, folder / _checksums(name)):
            if file.exists():
                settle(file)
    if batch == first:
        settle(folder)


def last_commit(checkpoint: Blobs) -> int:
    """Return the number of the last complete batch; -1 if there is none."""
    return _last_number(checkpoint, "commits/")


def last_offset(checkpoint: Blobs) -> int:
    """Return the number of the last batch that was started; -1 if there is none."""
    return _last_number(checkpoint, "offsets/")


def _last_number(checkpoint: Blobs, folder: str) -> int:
    names = [name.removeprefix(folder) for name in checkpoint.names(folder)]
    return first_batch(checkpoint) + max((int(name) for name in names if name.isdigit()), default=-1)


def _checksums(name: str) -> str:
    """Return the name of the file with the checksums of a file of the checkpoint."""
    folder, mark, file = name.rpartition("/")
    return f"{folder}{mark}.{file}.crc"


def spark_folder() -> Path:
    """Return the folder of pyspark, which contains Spark's `jars`, without importing it."""
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None, "pyspark is installed"
    return Path(found.origin).resolve().parent


def spark_classpath() -> str:
    """Return the classpath that the scripts of Spark 4.3 give to drivers and executors, without its `conf`.

    pyspark has no folder `conf`, and Java ignores what is missing when it compares classpaths.
    """
    jars = spark_folder() / "jars"
    return os.pathsep.join([*map(str, sorted(jars.glob("slf4j-api-*.jar"))), f"{jars}/*"])


def read_gateway(file: Path) -> tuple[int, str] | None:
    """Return the port and the secret that Spark's gateway has written; None if there is no file yet.

    The format is the port and the length of the secret, big-endian int32 each, then the secret. Spark 4.3
    writes it to another file first, and renames that.
    """
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    port, length = unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def keep_java_process(spark: SparkSession, process: subprocess.Popen[bytes]) -> None:
    """Store a Java process that pyspark did not start where `java_process` finds it."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "a session has a gateway"
    gateway.proc = process


def end_idle_java() -> None:
    """End the Java process that pyspark 4.3 keeps for the next session when a session has stopped.

    pyspark would put the next session into it, whatever Java that one needs: executors of a cluster find
    Spark by variables of the environment that only the scripts of `spark-submit` set.
    """
    context = import_module("pyspark").SparkContext
    gateway = context._gateway
    if gateway is None or context._active_spark_context is not None:
        return
    context._gateway = context._jvm = None
    gateway.shutdown()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()


def java_process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """Return Spark's Java process, which pyspark 4.3 stores as the `proc` of its py4j gateway."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return process


def java_exit_code(spark: SparkSession) -> int | None:
    """Return the exit code of Spark's Java process (negative: the signal), None while it runs."""
    process = java_process(spark)
    return None if process is None else process.poll()


def serve_workers() -> None:
    """Fork Python workers on Spark's request, like the daemon of pyspark 4.3, until Spark exits."""
    import_module("pyspark.daemon").manager()


@cache
def executor_location() -> str:
    """Return the location of this worker's executor, in the form that `located_tasks` accepts.

    It is "" if there is none: on one machine, and outside of Spark. The executor is the nearest ancestor of
    this process that was started as an executor.
    """
    pid = os.getpid()
    while pid > 1:
        words = processes.command_line(pid)
        if _EXECUTOR_ID in words and _EXECUTOR_HOST in words:
            host, number = (words[words.index(name) + 1] for name in (_EXECUTOR_HOST, _EXECUTOR_ID))
            return f"executor_{host}_{number}"
        pid = processes.parent_of(pid)
    return ""


def located_tasks(context: SparkContext, parts: Sequence[tuple[object, str]]) -> RDD[Any]:
    """Return an RDD of some parts' values, with one task per part that prefers an executor's location.

    Spark 4.3 runs a task there if the executor has a free core within `spark.locality.wait`, else anywhere.
    It accepts locations only from Scala, through a constructor that pyspark lacks, and interprets
    `executor_HOST_ID` as the location of an executor.
    """
    jvm = context._jvm
    assert jvm is not None, "the context is running"
    any_reference = getattr(getattr(jvm, "scala.reflect.ClassTag$"), "MODULE$").AnyRef()
    located = [
        jvm.scala.Tuple2(pickle.dumps(value), jvm.PythonUtils.toSeq([location])) for value, location in parts
    ]
    made = context._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(located), any_reference).toJavaRDD()
    serializer = import_module("pyspark.serializers").CPickleSerializer()
    rdd: RDD[Any] = import_module("pyspark.core.rdd").RDD(made, context, serializer)
    return rdd


def spark_hash(key: int) -> int:
    """Return Spark's Murmur3 hash (seed 42) of a 32-bit integer, as a signed 32-bit integer."""
    k = (key & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotate(k, 15) * 0x1B873593 & _MASK
    h = _rotate(_SEED ^ k, 13) * 5 + 0xE6546B64 & _MASK
    h ^= 4  # the length of an int in bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


@cache
def slot_keys(slots: int) -> tuple[int, ...]:
    """Return a key for each slot 0 .. slots-1, such that key i falls on shuffle partition i of `slots`.

    Spark 4.3 puts a row of integer key k on partition `pmod(murmur3(k, seed 42), partitions)`. Each slot gets
    the smallest key that falls on its partition, so each task holds exactly one slot.
    """
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < slots:
        keys.setdefault(spark_hash(key) % slots, key)
        key += 1
    return tuple(keys[slot] for slot in range(slots))


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
