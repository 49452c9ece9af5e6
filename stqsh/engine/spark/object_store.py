"""Spark's access to object stores: the settings and jars with which its checkpoint is in `session.storage`.

Spark writes the checkpoint of a cluster's session through Hadoop, which needs a module and a client for each
kind of store. For S3 they are downloaded here, unless the profile names jars itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.engine.spark.maven import LibraryMissingError, bring
from stqsh.engine.spark.spark_internals import ABORTABLE_MANAGER, CHECKPOINT_MANAGER
from stqsh.storage.blobs import s3_access

if TYPE_CHECKING:
    from stqsh.profile import Value

HADOOP, AWS_SDK, ACCELERATOR, SPARK_CLOUD = "3.5.0", "2.35.4", "1.3.1", "4.1.1"
"""The versions of Hadoop's module for S3 (that of Spark's Hadoop), of the two libraries for which it was
built, and of Spark's module for object stores."""
_SDK = "software.amazon.awssdk"
_PARTS = ("s3", "s3-transfer-manager", "sts")
"""The parts of Amazon's client that Hadoop uses; Hadoop itself asks for a bundle of 600 MB."""
_ALONE = (
    ("org.apache.hadoop", "hadoop-aws", HADOOP),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", ACCELERATOR),
    ("org.apache.spark", "spark-hadoop-cloud_2.13", SPARK_CLOUD),
)
_OF_SPARK = ("netty-", "slf4j-")
"""The names of jars that Spark brings in other versions begin with these, ..."""
_NOT_OF_SPARK = ("netty-nio-client-",)
"""... except for these."""
JARS = ("spark.jars", "spark.jars.packages")
"""The settings with which a profile names jars itself."""


def s3_jars() -> list[Path]:
    """Return the jars by which Spark accesses S3 (17 MB); download them once.

    Raises:
        LibraryMissingError: they cannot be downloaded.
    """
    folders = [bring(f"aws-{part}-{AWS_SDK}", _SDK, part, AWS_SDK) for part in _PARTS]
    folders += [bring(f"{name}-{number}", group, name, number, alone=True) for group, name, number in _ALONE]
    named = {jar.name: jar for folder in folders for jar in sorted(folder.glob("*.jar"))}
    return [
        jar for name, jar in named.items() if not name.startswith(_OF_SPARK) or name.startswith(_NOT_OF_SPARK)
    ]


def for_store(uri: str, given: Mapping[str, Value]) -> dict[str, str]:
    """Return the settings with which Spark accesses a session's storage; a profile may override each.

    Args:
        uri: the storage; the settings are empty unless it is in S3.
        given: the settings of the profile for Spark.

    Raises:
        LibraryMissingError: jars are needed and cannot be downloaded.
    """
    if not uri.startswith("s3://"):
        return {}
    access = s3_access(uri)
    options = {
        "endpoint": access.url,
        "endpoint.region": access.region or "",
        # As pyarrow does: servers other than Amazon's have no host name for each bucket.
        "path.style.access": "true" if access.url else "",
        # Otherwise Spark's state files are uploaded by another client, which repeats an upload for ever if
        # the server sends `100 Continue` twice.
        "optimized.copy.from.local.enabled": "false",
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items() if value}
    if any(name in given for name in JARS):
        return settings
    try:
        jars = s3_jars()
    except LibraryMissingError as error:
        raise LibraryMissingError(
            f"Spark cannot write to {uri.partition('?')[0]}: {error.message}",
            hint="name Hadoop's jars for S3 in spark.jars, or a repository in STQSH_MAVEN",
        ) from error
    return settings | {"spark.jars": ",".join(map(str, jars)), CHECKPOINT_MANAGER: ABORTABLE_MANAGER}
