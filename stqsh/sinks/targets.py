"""The target of each kind of sink."""

from __future__ import annotations

from stqsh.client.connection import Connection
from stqsh.profile import Profile
from stqsh.sinks.alert_target import AlertTarget
from stqsh.sinks.file_target import FileSink
from stqsh.sinks.http_target import HttpSink
from stqsh.sinks.target import SinkTarget
from stqsh.spec.sink import AlertTargetSpec, FileTargetSpec, HttpTargetSpec, KafkaTargetSpec
from stqsh.storage.rows import SinkRow


def target_of(link: Connection, sink: SinkRow, settings: Profile, session: str) -> SinkTarget:
    """Return the target of a sink or an alert.

    Args:
        link: the session.
        sink: the sink.
        settings: the session's settings, which hold credentials.
        session: what distinguishes this session from all others.
    """
    spec = sink.spec
    identity, authorization = f"{session}-{spec.id}", settings.text("sinks.http.authorization")
    match spec.target:
        case FileTargetSpec():
            return FileSink(spec, spec.target)
        case HttpTargetSpec(url):
            return HttpSink(url, identity, authorization)
        case AlertTargetSpec():
            return AlertTarget(link, sink, spec.target, identity, authorization)
        case KafkaTargetSpec():
            from stqsh.sinks.kafka_target import KafkaSink  # its client takes a while to load

            return KafkaSink(spec.target, f"stqsh-{identity}", str(settings.path or settings.name))
