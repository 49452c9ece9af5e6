"""The definition of CREATE SINK, as the control log keeps it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

SinkFormat = Literal["parquet", "jsonl", "csv"]
KafkaMode = Literal["updates", "answers"]


class FileTargetSpec(Struct, frozen=True, tag="file"):
    """A folder, which gets a file for each batch."""

    folder: str
    format: SinkFormat


class HttpTargetSpec(Struct, frozen=True, tag="http"):
    """An address that updates are POSTed to."""

    url: str


class KafkaTargetSpec(Struct, frozen=True, tag="kafka"):
    """A topic: all updates, or the answers, with a tombstone for each row that leaves."""

    brokers: str
    topic: str
    mode: KafkaMode = "updates"


SinkTargetSpec: TypeAlias = FileTargetSpec | HttpTargetSpec | KafkaTargetSpec


class SinkSpec(Struct, frozen=True, kw_only=True):
    """A sink.

    Attributes:
        queries: the names of the queries that it reads; none for all.
        target: where it writes.
        batch: the last batch delivered before it was created; its updates begin with the answers after that.
        step: the last step of that batch.
        at_us: the event time of that step, None before the first.
    """

    name: str
    queries: tuple[str, ...]
    target: SinkTargetSpec
    batch: int = -1
    step: int = 0
    at_us: int | None = None
    id: int = 0

    @property
    def place(self) -> str:
        """Where it writes, in one line."""
        match self.target:
            case FileTargetSpec(folder, form):
                return f"{form} files in {folder}"
            case HttpTargetSpec(url):
                return url
            case KafkaTargetSpec(brokers, topic, mode):
                return f"{mode} to topic {topic} of {brokers}"
