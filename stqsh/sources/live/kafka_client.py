"""The settings of Kafka's clients: addresses, and what profile and environment add, such as credentials.

A profile has them below `kafka`, by librdkafka's names:

    kafka:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.username: reader

The environment variable `STQSH_KAFKA_SASL_PASSWORD` sets `sasl.password`, and so on. Settings are read where
a client is made, and are in no log, table or file of a session.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from stqsh.errors import ProfileError
from stqsh.profile import DEFAULT_PROFILE, KAFKA, find_profile

ClientSettings: TypeAlias = "dict[str, str | int | float | bool]"

PREFIX = "STQSH_KAFKA_"
#: What stqsh decides itself: its exactness rests on these.
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
    brokers: str, profile: str | None = None, environ: Mapping[str, str] | None = None
) -> ClientSettings:
    """Return the settings of a client of some brokers.

    Args:
        brokers: addresses, separated by commas.
        profile: the name or path of the session's profile.
        environ: replaces the process's environment.

    Raises:
        ProfileError: the profile cannot be read, or sets what stqsh decides.
    """
    environ = os.environ if environ is None else environ
    found: ClientSettings = {}
    path = find_profile(profile or environ.get("STQSH_PROFILE") or DEFAULT_PROFILE)
    if path is not None:
        found.update(_from_profile(path))
    for name, value in environ.items():
        if name.startswith(PREFIX):
            found[name.removeprefix(PREFIX).lower().replace("_", ".")] = value
    for name in sorted(_OWN & found.keys()):
        raise ProfileError(f"kafka.{name} cannot be set: stqsh sets it itself", hint=None)
    return {**found, "bootstrap.servers": brokers}


def silent_logger() -> logging.Logger:
    """Return a logger that drops what librdkafka says: errors are events, and its words may name users."""
    found = logging.getLogger("stqsh.kafka.silent")
    found.disabled = True
    return found


def _from_profile(path: Path) -> ClientSettings:
    import yaml

    content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    given = content.get(KAFKA) if isinstance(content, dict) else None
    return dict(_flat(given, "")) if isinstance(given, dict) else {}


def _flat(group: Mapping[str, object], prefix: str) -> list[tuple[str, str | int | float | bool]]:
    """Return nested keys as dotted ones."""
    found: list[tuple[str, str | int | float | bool]] = []
    for name, value in group.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float | bool):
            found.append((f"{prefix}{name}", value))
    return found
