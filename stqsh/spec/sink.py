"""The definitions of CREATE SINK and CREATE ALERT, as stored in the control log.

An alert is a sink whose target is an action.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

SinkFormat = Literal["parquet", "jsonl", "csv"]
KafkaMode = Literal["updates", "answers"]


class FileTargetSpec(Struct, frozen=True, tag="file"):
    """A folder that receives a file for each batch."""

    folder: str
    format: SinkFormat


class HttpTargetSpec(Struct, frozen=True, tag="http"):
    """An address to which updates are POSTed."""

    url: str


class KafkaTargetSpec(Struct, frozen=True, tag="kafka"):
    """A topic: all updates, or the answers, with a tombstone for each row that leaves."""

    brokers: str
    topic: str
    mode: KafkaMode = "updates"


class NotifyActionSpec(Struct, frozen=True, tag="notify"):
    """Show a message in the shells of the session: a text with fields, or "" for the row in words."""

    text: str = ""


class BellActionSpec(Struct, frozen=True, tag="bell"):
    """Show the message there, and ring the terminal's bell."""

    text: str = ""


class RunActionSpec(Struct, frozen=True, tag="run"):
    """Run a command in a folder; its standard input is a text with fields, "" for JSON."""

    command: str
    folder: str
    text: str = ""


class PostActionSpec(Struct, frozen=True, tag="post"):
    """POST a text with fields to an address, "" for the update as JSON."""

    url: str
    text: str = ""


AlertActionSpec: TypeAlias = NotifyActionSpec | BellActionSpec | RunActionSpec | PostActionSpec
AlertEdge = Literal["enter", "leave"]


class AlertTargetSpec(Struct, frozen=True, tag="alert"):
    """An action for updates of one query, at most one per `every_us` of the session's clock.

    `edge` limits it to updates that enter or leave the answer; None for both.
    """

    action: AlertActionSpec
    every_us: int
    edge: AlertEdge | None = None

    @property
    def text(self) -> str:
        """The action in one line."""
        match self.action:
            case RunActionSpec(command):
                done = f"run {command}"
            case PostActionSpec(url):
                done = f"post {url}"
            case BellActionSpec():
                done = "bell"
            case NotifyActionSpec():
                done = "notify"
        return f"{done}: {self.action.text}" if self.action.text else done


SinkTargetSpec: TypeAlias = FileTargetSpec | HttpTargetSpec | KafkaTargetSpec | AlertTargetSpec


class SinkSpec(Struct, frozen=True, kw_only=True):
    """A sink.

    Attributes:
        queries: the names of the queries that it reads; empty for all.
        target: its target.
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
        """The target in one line."""
        match self.target:
            case FileTargetSpec(folder, form):
                return f"{form} files in {folder}"
            case HttpTargetSpec(url):
                return url
            case KafkaTargetSpec(brokers, topic, mode):
                return f"{mode} to topic {topic} of {brokers}"
            case AlertTargetSpec():
                return self.target.text

    @property
    def is_alert(self) -> bool:
        """Whether it was made by CREATE ALERT."""
        return isinstance(self.target, AlertTargetSpec)
