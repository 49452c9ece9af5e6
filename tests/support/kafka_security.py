"""A broker that asks for credentials and encrypts: certificates made by openssl, users of SCRAM and PLAIN."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stqsh.broker.kafka import BrokerSecurity

USER, PASSWORD = "reader", "qz-Secret-of-the-reader-7"
PLAIN_PASSWORD = "qz-Plain-secret-8"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LISTENER = """listener.name.{name}.sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
listener.name.{name}.plain.sasl.jaas.config={plain} user_{user}="{password}";
listener.name.{name}.scram-sha-256.sasl.jaas.config={scram}
"""


@dataclass(frozen=True)
class Certificates:
    """Files of PEM: an authority, one that signed nothing, and the broker's key with its certificate."""

    authority: Path
    stranger: Path
    broker: Path


def make_certificates(folder: Path) -> Certificates:
    """Make an authority, a stranger, and a certificate of 127.0.0.1 that the authority has signed."""
    authority, key = _authority(folder, "authority")
    stranger, _ = _authority(folder, "stranger")
    request, signed, names = folder / "broker.csr", folder / "broker.crt", folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\n", "ascii")
    _openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "broker.key",
        "-subj",
        "/CN=broker",
        "-out",
        request,
        at=folder,
    )
    _openssl(
        "x509",
        "-req",
        "-in",
        request,
        "-CA",
        authority,
        "-CAkey",
        key,
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        names,
        "-out",
        signed,
        at=folder,
    )
    together = folder / "broker.pem"
    together.write_bytes((folder / "broker.key").read_bytes() + signed.read_bytes())
    return Certificates(authority, stranger, together)


def secured(made: Certificates) -> BrokerSecurity:
    """Return listeners for SASL without and with TLS, and for TLS alone."""
    lines = "".join(
        _LISTENER.format(name=name, plain=_PLAIN, scram=_SCRAM, user=USER, password=PLAIN_PASSWORD)
        for name in ("sasl_plaintext", "sasl_ssl")
    )
    lines += f"ssl.keystore.type=PEM\nssl.keystore.location={made.broker}\nssl.client.auth=none\n"
    user = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
    return BrokerSecurity(("SASL_PLAINTEXT", "SSL", "SASL_SSL"), lines, (user,))


def has_openssl() -> bool:
    """Return whether certificates can be made."""
    return shutil.which("openssl") is not None


def _authority(folder: Path, name: str) -> tuple[Path, Path]:
    made, key = folder / f"{name}.crt", folder / f"{name}.key"
    _openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        key,
        "-subj",
        f"/CN={name}",
        "-out",
        made,
        at=folder,
    )
    return made, key


def _openssl(*words: str | Path, at: Path) -> None:
    subprocess.run(["openssl", *map(str, words)], cwd=at, check=True, capture_output=True)
