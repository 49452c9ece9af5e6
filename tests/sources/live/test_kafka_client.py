"""The settings of Kafka's clients: those of profile and environment, shown nowhere."""

from pathlib import Path

import pytest

from stqsh.errors import ProfileError
from stqsh.profile import load_profile
from stqsh.sources.live.kafka_client import client_settings, settings_for_hosts

PROFILE = """
kafka:
  security.protocol: SASL_SSL
  sasl:
    username: reader
    password: from the file
"""


@pytest.fixture
def profile(tmp_path: Path) -> str:
    file = tmp_path / "mine.yaml"
    file.write_text(PROFILE, "utf-8")
    return str(file)


def test_the_environment_overrides_the_profile(profile: str) -> None:
    environ = {"STQSH_KAFKA_SASL_PASSWORD": "hidden", "STQSH_HOME": "x"}
    assert client_settings("a:1,b:2", profile, environ) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "sasl.username": "reader",
        "sasl.password": "hidden",
    }
    assert client_settings("a:1", None, {}) == {"bootstrap.servers": "a:1"}


def test_a_host_without_the_profile_has_its_settings_and_secrets_of_its_own(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STQSH_KAFKA_SSL_KEY_PASSWORD", "of the driver")
    monkeypatch.setenv("STQSH_KAFKA_SSL_CA_LOCATION", "/ca.pem")
    sent = settings_for_hosts(profile)
    usual = {"security.protocol": "SASL_SSL", "sasl.username": "reader", "ssl.ca.location": "/ca.pem"}
    assert sent == usual
    Path(profile).unlink()
    environ = {"STQSH_KAFKA_SASL_PASSWORD": "of the host"}
    found = client_settings("a:1", profile, environ, sent)
    assert found == {**usual, "bootstrap.servers": "a:1", "sasl.password": "of the host"}
    with pytest.raises(ProfileError, match="there is no profile file"):
        client_settings("a:1", profile, environ)


def test_what_exactness_rests_on_cannot_be_set(profile: str) -> None:
    with pytest.raises(ProfileError, match=r"kafka\.isolation\.level cannot be set"):
        client_settings("a:1", profile, {"STQSH_KAFKA_ISOLATION_LEVEL": "read_uncommitted"})


def test_settings_that_are_shown_have_no_secret(profile: str) -> None:
    settings = load_profile(profile, {"STQSH_KAFKA_SASL_PASSWORD": "hidden"})
    assert "hidden" not in repr(settings) and "from the file" not in repr(settings)
