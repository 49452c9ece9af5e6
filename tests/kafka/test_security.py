"""SASL and TLS with a real broker: right credentials let source and sink in, and none are ever shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from support.kafka import consume, make_topic, send
from support.kafka_security import (
    PASSWORD,
    PLAIN_PASSWORD,
    USER,
    Certificates,
    has_openssl,
    make_certificates,
    secured,
)

import stqsh
from stqsh.broker.kafka import KafkaBroker, running_broker
from stqsh.client.results import Rows
from stqsh.sinks.kafka_target import KafkaSink
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError
from stqsh.sources.live.kafka_client import ClientSettings
from stqsh.sources.live.kafka_reader import KafkaReader
from stqsh.sources.live.kafka_source import KafkaLiveSource
from stqsh.sources.live.protocol import MessageRange
from stqsh.spec.sink import KafkaTargetSpec
from stqsh.spec.stream import KafkaSourceSpec
from stqsh.storage.sinks.sink_position import SinkPosition

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not has_openssl(), reason="no openssl, which makes the certificates"),
]
SCRAM: ClientSettings = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}
PLAIN: ClientSettings = {**SCRAM, "sasl.mechanism": "PLAIN", "sasl.password": PLAIN_PASSWORD}
TLS: ClientSettings = {"security.protocol": "SSL"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guarded(
    kafka_jars: Path, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    with running_broker(tmp_path_factory.mktemp("guarded"), security=secured(certificates)) as running:
        make_topic(running.address, "t", 1)
        send(running.address, "t", [(None, b"one")])
        yield running


def _source(broker: KafkaBroker, settings: ClientSettings) -> tuple[KafkaLiveSource, ClientSettings]:
    address = broker.address_of(str(settings["security.protocol"]))
    whole = {**settings, "bootstrap.servers": address}
    return KafkaLiveSource(KafkaSourceSpec(address, ("t",)), lambda: whole), whole


def _message(source: KafkaLiveSource, is_final: Callable[[str], bool]) -> str:
    until = time.monotonic() + 30
    while not is_final(source.state().message) and time.monotonic() < until:
        time.sleep(0.05)
    source.close()
    return source.state().message


def _write_to(broker: KafkaBroker, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sink write one transaction without updates."""
    for name, value in settings.items():
        monkeypatch.setenv(f"STQSH_KAFKA_{name.upper().replace('.', '_')}", str(value))
    target = KafkaTargetSpec(broker.address_of(str(settings["security.protocol"])), "out")
    sink = KafkaSink(target, f"stqsh-{time.time_ns()}", "local")
    try:
        sink.open(SinkPosition())
        position = SinkPosition(3, begun=True)
        sink.write(SinkPart(0, 1, 0, (), position))
        assert sink.open(SinkPosition()) == position
    finally:
        sink.close()


@pytest.mark.parametrize("how", ["scram", "plain", "tls", "both"])
def test_right_credentials_get_in(
    guarded: KafkaBroker, certificates: Certificates, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted: ClientSettings = {"ssl.ca.location": str(certificates.authority)}
    settings = {
        "scram": SCRAM,
        "plain": PLAIN,
        "tls": {**TLS, **trusted},
        "both": {**SCRAM, **trusted, "security.protocol": "SASL_SSL"},
    }[how]
    source, whole = _source(guarded, settings)
    assert _message(source, lambda text: text == "") == ""
    assert source.begin() == {"t/0": 0}
    read = [value for found in KafkaReader(whole).read(MessageRange("t/0", 0, 1)) for value in found.values]
    assert read == [b"one"]
    _write_to(guarded, settings, monkeypatch)


WRONG = {
    "password": ({**SCRAM, "sasl.password": "qz-wrong"}, "refuses the credentials (Authentication failed"),
    "plain password": (
        {**PLAIN, "sasl.password": "qz-wrong"},
        "refuses the credentials (Authentication failed: Invalid username or password): see sasl.mechanism,",
    ),
    "mechanism": (
        {**SCRAM, "sasl.mechanism": "SCRAM-SHA-512"},
        "(SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Unsupported SASL mechanism:"
        " broker's supported mechanisms: PLAIN,SCRAM-SHA-256)",
    ),
    "no such mechanism": (
        {**SCRAM, "sasl.mechanism": "FOO"},
        "client cannot be created: Unsupported SASL mechanism: FOO; see the section kafka of the profile",
    ),
    "no such setting": ({**SCRAM, "sasl.pasword": "x"}, 'No such configuration property: "sasl.pasword"; '),
    "stranger": (TLS, "is not trusted: ssl.ca.location, in the section kafka of the profile, or the "),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_ones_are_told_in_one_sentence(
    guarded: KafkaBroker, certificates: Certificates, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, said = WRONG[what]
    if settings is TLS:
        settings = {**settings, "ssl.ca.location": str(certificates.stranger)}
    source, _ = _source(guarded, settings)
    message = _message(source, lambda text: said in text)
    assert said in message
    assert message.startswith("the stream waits: ")
    monkeypatch.setattr("stqsh.sinks.kafka_target.TIMEOUT_S", 5.0)
    with pytest.raises(TargetBusyError) as refused:
        _write_to(guarded, settings, monkeypatch)
    assert said in refused.value.message
    for text in (message, refused.value.message):
        assert "\n" not in text
        assert "qz-" not in text


@pytest.mark.spark
def test_a_session_never_shows_its_secrets(
    guarded: KafkaBroker, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = guarded.address_of("SASL_SSL")
    for name in ("secret-in", "secret-out"):
        make_topic(guarded.address, name, 2)
    profile = tmp_path / "guarded.yaml"
    profile.write_text(
        "kafka:\n  security.protocol: SASL_SSL\n  sasl:\n    mechanism: PLAIN\n    username: reader\n"
        f"    password: {PLAIN_PASSWORD}\n  ssl.ca.location: {certificates.authority}\n"
    )
    monkeypatch.setenv("STQSH_KAFKA_SASL_MECHANISM", "SCRAM-SHA-256")
    monkeypatch.setenv("STQSH_KAFKA_SASL_PASSWORD", PASSWORD)
    row = {"oid": "a", "lon": 1, "lat": 5, "ts": 1_700_000_000}
    send(guarded.address, "secret-in", [(b"a", orjson.dumps(row)), (b"b", b"oops")])
    shown: list[str] = []
    with stqsh.connect(home=tmp_path / "homes", temporary=True, profile=str(profile)) as session:

        def execute(text: str) -> None:
            for outcome in session.outcomes(text):
                shown.append(str(outcome.rows if isinstance(outcome, Rows) else outcome))

        execute(
            "CREATE MOVING STREAM b (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid"
            f" LOCATION (lon, lat) TIME ts FROM KAFKA '{address}' TOPIC 'secret-in';"
            "REGISTER QUERY q AS SELECT oid FROM b INSIDE (0, 0, 10, 10);"
            f"CREATE SINK k FOR q TO KAFKA '{address}' TOPIC 'secret-out'; PLAY b;"
        )
        [(_, value)] = consume(guarded.address, "secret-out", 1, timeout_s=200)
        assert value is not None
        assert orjson.loads(value)["key"] == "a"
        for what in ("STATUS", "STREAMS", "SINKS", "SETTINGS", "DEAD LETTERS", "QUERIES"):
            execute(f"SHOW {what};")
        execute("DUMP; DESCRIBE b; EXPLAIN SELECT oid FROM b INSIDE (0, 0, 10, 10);")
        files = {path: path.read_bytes() for path in session.home.path.rglob("*") if path.is_file()}
    whole = "\n".join(shown)
    assert "in/" in whole
    assert address in whole
    assert any(path.name == "engine.log" for path in files)
    for secret in (PASSWORD, PLAIN_PASSWORD):
        assert secret not in whole
        assert [path for path, content in files.items() if secret.encode() in content] == []
