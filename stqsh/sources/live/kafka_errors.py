"""What is wrong with Kafka, in one sentence, which names settings and shows none of their values.

A client's calls only say that no broker has answered. Why, such as refused credentials or a certificate that
is not trusted, librdkafka reports beside them, to a function of ours.
"""

from __future__ import annotations

import re
import time

from confluent_kafka import KafkaError

from stqsh.errors import StqshError

#: A reason counts for this many seconds after it was last reported.
_LASTING_S = 30.0
_WHERE = re.compile(r"^\w+://\S+?: ")
_WHEN = re.compile(r" \(after \d+ms in state \w+\).*$")
_MAKING = re.compile(r"^Failed to create [\w ]+: ")
_SET = "the section kafka of the profile, or the environment"


class KafkaSettingsError(StqshError):
    """The settings of Kafka's client cannot be used."""


class Complaints:
    """The last reason that a client has reported why it is not connected; a client's `error_cb`."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._reason = ""
        self._at = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Take a client's report."""
        said = explain(error, self._brokers)
        if said:
            self._reason, self._at = said, time.monotonic()

    def sentence(self, problem: KafkaError | None = None) -> str:
        """Return why Kafka does not answer: what was reported of late, else the error of a call."""
        if time.monotonic() - self._at < _LASTING_S and self._reason:
            return self._reason
        said = problem.str() if problem is not None else "no answer"
        return f"Kafka at {self._brokers} does not answer: {_WHERE.sub('', said)}"

    def forget(self) -> None:
        """Forget what was reported, since Kafka has answered."""
        self._reason = ""


def explain(error: KafkaError, brokers: str) -> str:
    """Return the sentence for an error that its user can mend; "" for any other."""
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
    """Return the error of a client that cannot be made: librdkafka names the setting, and no secret."""
    said = _MAKING.sub("", error.str())
    return KafkaSettingsError(f"Kafka's client cannot be created: {said}; see {_SET}")
