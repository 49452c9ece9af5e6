"""The target of each kind of sink."""

from __future__ import annotations

from stqsh.profile import Profile
from stqsh.sinks.file_target import FileSink
from stqsh.sinks.http_target import HttpSink
from stqsh.sinks.target import SinkTarget
from stqsh.spec.sink import FileTargetSpec, HttpTargetSpec, KafkaTargetSpec, SinkSpec


def target_of(spec: SinkSpec, settings: Profile, session: str) -> SinkTarget:
    """Return the target of a sink.

    Args:
        spec: the sink.
        settings: the session's settings, which hold credentials.
        session: what tells this session from all others.
    """
    identity = f"{session}-{spec.id}"
    match spec.target:
        case FileTargetSpec():
            return FileSink(spec, spec.target)
        case HttpTargetSpec(url):
            return HttpSink(url, identity, settings.text("sinks.http.authorization"))
        case KafkaTargetSpec():
            from stqsh.sinks.kafka_target import KafkaSink  # its client takes a while to load

            return KafkaSink(spec.target, f"stqsh-{identity}", str(settings.path or settings.name))
