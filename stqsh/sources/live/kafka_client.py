"""The settings of Kafka clients: addresses, and settings such as credentials from profile and environment.

A profile has them under `kafka`, by librdkafka's names:

    kafka:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: reader

The environment variable `STQSH_KAFKA_SASL_PASSWORD` sets `sasl.password`, and so on. Settings are read where
a client is created, and are not stored in any log, table or file of a session.

A client's calls only report that no broker has answered. librdkafka reports the reason separately to a
callback, such as rejected credentials or an untrusted certificate; `Complaints` stores it. `explain` turns it
into one sentence, which names settings but shows none of their values.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import KafkaError

from stqsh.errors import ProfileError, StqshError
from stqsh.profile import DEFAULT_PROFILE, KAFKA, find_profile

ClientSettings: TypeAlias = "dict[str, str | int | float | bool]"

_SECRET = re.compile(r"password|passphrase|client\.secret|key\.pem|oauthbearer\.config")
"""A pattern of the names of librdkafka's secrets."""
PREFIX = "STQSH_KAFKA_"
#: Settings that stqsh fixes itself, because its exactness depends on them.
_OWN = frozenset(
    [
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "isolation.level",
        "auto.offset.reset",
        "enable.partition.eof",
        "transactional.id",
        "enable.idempotence",
    ]
)


def client_settings(
    brokers: str,
    profile: str | None = None,
    environ: Mapping[str, str] | None = None,
    sent: ClientSettings | None = None,
) -> ClientSettings:
    """Return the settings of a client for some brokers.

    Args:
        brokers: addresses, separated by commas.
        profile: the name or path of the session's profile.
        environ: replaces the process's environment.
        sent: what `settings_for_hosts` returned on the driver's host, if this host may lack the profile.

    Raises:
        ProfileError: the profile cannot be read, or sets something that stqsh fixes.
    """
    environ = os.environ if environ is None else environ
    found: ClientSettings = dict(sent or {})
    try:
        path = find_profile(profile or environ.get("STQSH_PROFILE") or DEFAULT_PROFILE)
    except ProfileError:
        if sent is None:
            raise
        path = None
    if path is not None:
        found.update(_from_profile(path))
    for name, value in environ.items():
        if name.startswith(PREFIX):
            found[name.removeprefix(PREFIX).lower().replace("_", ".")] = value
    for name in sorted(_OWN & found.keys()):
        raise ProfileError(f"kafka.{name} cannot be set: stqsh sets it itself", hint=None)
    return {**found, "bootstrap.servers": brokers}


def settings_for_hosts(profile: str) -> ClientSettings:
    """Return the settings that the driver of a cluster sends to executors: all but addresses and secrets.

    Secrets are never part of a task. Hosts have them in their environment, or in a profile of the same name.

    Raises:
        ProfileError: the profile cannot be read, or sets something that stqsh fixes.
    """
    found = client_settings("", profile)
    return {name: value for name, value in found.items() if name not in _OWN and not _SECRET.search(name)}


def silent_logger() -> logging.Logger:
    """Return a logger that drops librdkafka's messages: errors are events, and messages may name users."""
    found = logging.getLogger("stqsh.kafka.silent")
    found.disabled = True
    return found


def _from_profile(path: Path) -> ClientSettings:
    import yaml

    content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    given = content.get(KAFKA) if isinstance(content, dict) else None
    return dict(_flat(given, "")) if isinstance(given, dict) else {}


def _flat(group: Mapping[str, object], prefix: str) -> list[tuple[str, str | int | float | bool]]:
    """Return nested keys as dotted keys."""
    found: list[tuple[str, str | int | float | bool]] = []
    for name, value in group.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float | bool):
            found.append((f"{prefix}{name}", value))
    return found


#: How many seconds a reported reason stays valid.
_LASTING_S = 30.0
_WHERE = re.compile(r"^\w+://\S+?: ")
_WHEN = re.compile(r" \(after \d+ms in state \w+\).*$")
_MAKING = re.compile(r"^Failed to create [\w ]+: ")
_SET = "the section kafka of the profile, or the environment"


class KafkaSettingsError(StqshError):
    """The settings of Kafka's client cannot be used."""


class Complaints:
    """Stores the last reason that a client reported for being unconnected; serves as its `error_cb`."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._reason = ""
        self._at = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Store a client's report."""
        said = explain(error, self._brokers)
        if said:
            self._reason, self._at = said, time.monotonic()

    def sentence(self, problem: KafkaError | None = None) -> str:
        """Return why Kafka does not answer: the recently reported reason, or else the error of a call."""
        if time.monotonic() - self._at < _LASTING_S and self._reason:
            return self._reason
        said = problem.str() if problem is not None else "no answer"
        return f"Kafka at {self._brokers} does not answer: {_WHERE.sub('', said)}"

    def forget(self) -> None:
        """Delete the stored reason, because Kafka has answered."""
        self._reason = ""


def explain(error: KafkaError, brokers: str) -> str:
    """Return a sentence for an error that the user can fix; "" for any other."""
    said = _WHEN.sub("", _WHERE.sub("", error.str()))
    if error.code() == KafkaError._AUTHENTICATION:
        why = said.rpartition("error: ")[2]
        return (
            f"Kafka at {brokers} refuses the credentials ({why}):"
            f" see sasl.mechanism, sasl.username and sasl.password in {_SET}"
        )
    if "verify failed" in said:
        return (
            f"the certificate of Kafka at {brokers} is not trusted:"
            f" ssl.ca.location, in {_SET}, names the file of the authority that has signed it"
        )
    if error.code() == KafkaError._SSL or "SSL" in said or "ApiVersion" in said:
        return f"Kafka at {brokers} does not speak as expected ({said}): see security.protocol in {_SET}"
    return ""


def settings_error(error: KafkaError) -> KafkaSettingsError:
    """Return the error for a client that cannot be created; librdkafka names the setting, but no secret."""
    said = _MAKING.sub("", error.str())
    return KafkaSettingsError(f"Kafka's client cannot be created: {said}; see {_SET}")
