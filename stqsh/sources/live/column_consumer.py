"""Fetch Kafka messages as columns, through the C interface of librdkafka.

confluent-kafka creates an object for each message, which Python asks for value, offset and partition.
Together that takes twice as long as librdkafka needs to fetch the message. Here the values of all messages
are copied into one text. The library is the one that confluent-kafka contains. The layout of its message
structure, like its functions, is documented in its public header `rdkafka.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from confluent_kafka import KafkaError, KafkaException, cimpl
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from stqsh.core.kernels.jit import Int, kernel
from stqsh.errors import SourceError
from stqsh.sources.formats.text_values import TextValues
from stqsh.sources.live.decoding import Messages, Payloads
from stqsh.sources.live.kafka_client import ClientSettings

Words = NDArray[np.int64]

#: Offsets in `rd_kafka_message_t`, in bytes; a field takes an 8-byte word, and an int the lower half of one.
_ERROR, _TOPIC, _PARTITION, _VALUE, _VALUE_SIZE, _KEY, _KEY_SIZE, _OFFSET = 0, 8, 16, 24, 32, 40, 48, 56
_INT = 0xFFFFFFFF
_LF = 10

RUN_BYTES = 2 << 20
"""The bytes of values after which a run of messages ends; small, because batches take whole pieces."""

#: `RD_KAFKA_CONSUMER`, and the flag to close a consumer without leaving a group, because none joins one.
_CONSUMER, _WITHOUT_GROUP = 1, 8
_NAME_BYTES = 512


class FetchedMessages(NamedTuple):
    """Messages of several parts; those of a part are in its order, in one or more runs.

    Attributes:
        parts: the part of each run; a run may be empty if its part has just been read to the end.
        counts: the number of messages in each run, int64.
        stops: the place after the last message of each run, int64.
        messages: the messages.
    """

    parts: list[str]
    counts: Words
    stops: Words
    messages: Messages

    def value_sizes(self) -> list[int]:
        """Return the size of the values of each run, in bytes."""
        values = self.messages.values
        if isinstance(values, TextValues):
            sizes = values.ends - values.begins
        else:
            sizes = np.array([len(value or b"") for value in values], np.int64)
        whole = np.append(0, np.cumsum(sizes))
        ends = np.cumsum(self.counts)
        found: list[int] = (whole[ends] - whole[ends - self.counts]).tolist()
        return found


class ColumnConsumer:
    """A consumer of some parts.

    Args:
        settings: the client's settings.
        position: the first place of each part, by the part's name.
        wants_keys: whether keys and times of all messages are wanted; tombstones always have them.

    Raises:
        SourceError: librdkafka rejects the settings.
    """

    def __init__(self, settings: ClientSettings, position: Mapping[str, int], *, wants_keys: bool) -> None:
        self._wants_keys = wants_keys
        self._library = _Library()
        self._client = self._library.consumer(settings)
        self._queue = self._library.call("rd_kafka_queue_get_consumer", self._client)
        self._library.assign(self._client, position)

    def fetch(self, most: int, wait_s: float) -> FetchedMessages:
        """Return the messages that arrive in a time, at most `most`, and which parts were read to their ends.

        Raises:
            KafkaException: a part cannot be read.
            SourceError: librdkafka cannot fetch.
        """
        pointers = np.empty(most, np.int64)
        count = self._library.call(
            "rd_kafka_consume_batch_queue", self._queue, int(wait_s * 1000), pointers.ctypes.data, most
        )
        if count < 0:
            raise SourceError("Kafka's client cannot fetch messages", hint=None)
        pointers = pointers[:count]
        try:
            return message_columns(pointers, self._library, wants_keys=self._wants_keys)
        finally:
            _destroy(pointers, self._library.address("rd_kafka_message_destroy"))

    def close(self) -> None:
        """Release connections and memory."""
        self._library.call("rd_kafka_queue_destroy", self._queue)
        self._library.call("rd_kafka_destroy_flags", self._client, _WITHOUT_GROUP)


class _Library:
    """The functions of librdkafka; addresses are integers."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(cimpl.__file__)  # which depends on librdkafka

    def call(self, name: str, *given: int | bytes | None, returns: Any = ctypes.c_int64) -> int:
        """Call a function with numbers, addresses and names; return a number or an address."""
        function = self._library[name]
        function.restype = returns
        words = [ctypes.c_int64(one) if isinstance(one, int) else ctypes.c_char_p(one) for one in given]
        return int(function(*words))

    def address(self, name: str) -> int:
        """Return the address of a function."""
        found = ctypes.cast(self._library[name], ctypes.c_void_p).value
        assert found is not None, name
        return found

    def consumer(self, settings: ClientSettings) -> int:
        """Return a new consumer.

        Raises:
            SourceError: a setting, or the combination of the settings, is rejected.
        """
        said = ctypes.create_string_buffer(_NAME_BYTES)
        given = self.call("rd_kafka_conf_new")
        for name, value in settings.items():
            word = str(value).lower() if isinstance(value, bool) else str(value)
            where = ctypes.addressof(said)
            words = (given, name.encode(), word.encode(), where, _NAME_BYTES)
            if self.call("rd_kafka_conf_set", *words, returns=ctypes.c_int):
                self.call("rd_kafka_conf_destroy", given)
                raise SourceError(f"Kafka's client does not take the setting {name}", hint=None)
        self.call("rd_kafka_conf_set_log_cb", given, None)
        client = self.call("rd_kafka_new", _CONSUMER, given, ctypes.addressof(said), _NAME_BYTES)
        if not client:
            self.call("rd_kafka_conf_destroy", given)
            raise SourceError("Kafka's client does not take its settings", hint=None)
        self.call("rd_kafka_poll_set_consumer", client)
        return client

    def assign(self, client: int, position: Mapping[str, int]) -> None:
        """Make a consumer read parts from the given places on."""
        places = self.call("rd_kafka_topic_partition_list_new", len(position))
        for part, at in position.items():
            topic, _, partition = part.rpartition("/")
            name, number = topic.encode(), int(partition)
            self.call("rd_kafka_topic_partition_list_add", places, name, number)
            self.call("rd_kafka_topic_partition_list_set_offset", places, name, number, at)
        code = self.call("rd_kafka_assign", client, places, returns=ctypes.c_int)
        self.call("rd_kafka_topic_partition_list_destroy", places)
        if code:
            raise KafkaException(KafkaError(code))

    def topic_name(self, topic: int) -> str:
        """Return the name of the topic of a message."""
        function = self._library["rd_kafka_topic_name"]
        function.restype = ctypes.c_char_p
        return str(function(ctypes.c_int64(topic)).decode())


class MessageFunctions(Protocol):
    """The functions of librdkafka that `message_columns` needs."""

    def address(self, name: str) -> int:
        """Return the address of a function."""

    def topic_name(self, topic: int) -> str:
        """Return the name of the topic at an address."""


def message_columns(
    pointers: Words, library: MessageFunctions, *, wants_keys: bool, run_bytes: int = RUN_BYTES
) -> FetchedMessages:
    """Return messages as columns.

    Args:
        pointers: addresses of messages, and of events that report the end of a part, int64 (n,).
        library: librdkafka.
        wants_keys: whether keys and times of all messages are wanted.
        run_bytes: the bytes of values after which a run of messages ends.

    Raises:
        KafkaException: an event reports that a part cannot be read.
    """
    errors, topics, partitions, sizes, offsets, is_null = _heads(pointers)
    for code in np.unique(errors).tolist():
        if code not in (KafkaError.NO_ERROR, KafkaError._PARTITION_EOF):
            raise KafkaException(KafkaError(code))
    order = np.lexsort((partitions, topics))
    good = errors[order] == 0
    bounds = _bounds(topics[order], partitions[order], np.where(good, sizes[order], 0), run_bytes)
    last = order[bounds[1:] - 1]
    names = {topic: library.topic_name(topic) for topic in np.unique(topics).tolist()}
    ends = zip(topics[last].tolist(), partitions[last].tolist(), strict=True)
    parts = [f"{names[topic]}/{partition}" for topic, partition in ends]
    counts = np.diff(np.append(0, np.cumsum(good))[bounds])
    order = order[good]
    pointers, offsets_in_order = pointers[order], offsets[order]
    text = TextValues(*_text(pointers, _VALUE, sizes[order]))
    found = Messages("", offsets_in_order, text)
    if wants_keys or is_null[order].any():
        keys = _listed(*_text(pointers, _KEY, _words(pointers, _KEY_SIZE)), _words(pointers, _KEY) == 0)
        values: Payloads = text
        if is_null[order].any():
            values = _listed(text.text, text.ends, is_null[order])
        times = _times(pointers, library.address("rd_kafka_message_timestamp"))
        found = Messages("", offsets_in_order, values, keys, times, partitions[order])
    return FetchedMessages(parts, counts, offsets[last] + (errors[last] == 0), found)


def _bounds(topics: Words, partitions: Words, sizes: Words, run_bytes: int) -> Words:
    """Return where the runs of messages of one part begin, int64, followed by the number of messages."""
    if not len(topics):
        return np.zeros(1, np.int64)
    is_first = np.append(True, (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1]))
    before = np.cumsum(sizes) - sizes
    begun = np.maximum.accumulate(np.where(is_first, before, 0))
    run = (before - begun) // run_bytes
    return np.concatenate((np.flatnonzero(is_first | np.append(False, run[1:] != run[:-1])), [len(topics)]))


def _listed(text: bytes, ends: Words, is_null: NDArray[np.bool_]) -> list[bytes | None]:
    values = list(TextValues(text, ends))
    return [None if null else value for value, null in zip(values, is_null.tolist(), strict=True)]


# -- kernels over the memory of librdkafka -------------------------------------------------------------------


def _generate_load(_: Any, address: Any) -> Any:
    del address
    signature = types.int64(types.int64)

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        return builder.load(builder.inttoptr(given[0], ir.IntType(64).as_pointer()))

    return signature, generate


def _generate_copy(_: Any, to: Any, source: Any, count: Any) -> Any:
    del to, source, count
    signature = types.void(types.int64, types.int64, types.int64)
    copy: Any = cgutils.raw_memcpy

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        to, source = (builder.inttoptr(each, byte) for each in given[:2])
        copy(builder, to, source, given[2], 1)

    return signature, generate


def _generate_call(_: Any, function: Any, first: Any) -> Any:
    del function, first
    signature = types.int64(types.int64, types.int64)

    def generate(_: Any, builder: Any, __: Any, given: Any) -> Any:
        word = ir.IntType(64)
        pointer = ir.FunctionType(word, [word, word]).as_pointer()
        return builder.call(builder.inttoptr(given[0], pointer), [given[1], ir.Constant(word, 0)])

    return signature, generate


_load: Any = intrinsic(_generate_load)
"""`_load(address)` returns the 8-byte word at an address."""

_copy: Any = intrinsic(_generate_copy)
"""`_copy(to, source, count)` copies bytes between addresses."""

_call: Any = intrinsic(_generate_call)
"""`_call(function, word)` calls the function at an address with a word and null, and returns a word."""


@kernel
def _words(pointers: Words, place: Int) -> Words:
    """Return the word at an offset of each message."""
    found = np.empty(len(pointers), np.int64)
    for at in range(len(pointers)):
        found[at] = _load(pointers[at] + place)
    return found


@kernel
def _heads(pointers: Words) -> tuple[Words, Words, Words, Words, Words, NDArray[np.bool_]]:
    """Return the error, topic, partition, size and offset of each message, and whether its value is null."""
    count = len(pointers)
    errors, topics, partitions = (
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
    sizes, offsets, is_null = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.bool_)
    for at in range(count):
        message = pointers[at]
        errors[at] = np.int32(_load(message + _ERROR) & _INT)
        topics[at] = _load(message + _TOPIC)
        partitions[at] = np.int32(_load(message + _PARTITION) & _INT)
        sizes[at] = _load(message + _VALUE_SIZE)
        offsets[at] = _load(message + _OFFSET)
        is_null[at] = _load(message + _VALUE) == 0
    return errors, topics, partitions, sizes, offsets, is_null


@kernel
def _copied(pointers: Words, place: Int, sizes: Words, out: NDArray[np.uint8]) -> Words:
    """Copy values or keys into `out` in one pass, with line ends in between; return where each ends."""
    ends = np.empty(len(pointers), np.int64)
    at = 0
    for which in range(len(pointers)):
        _copy(out.ctypes.data + at, _load(pointers[which] + place), sizes[which])
        at += sizes[which]
        ends[which] = at
        if at < len(out):
            out[at] = _LF
        at += 1
    return ends


@kernel
def _times(pointers: Words, function: Int) -> Words:
    """Return the times of messages in ms; `function` is the address of librdkafka's function for them."""
    found = np.empty(len(pointers), np.int64)
    for at in range(len(pointers)):
        found[at] = _call(function, pointers[at])
    return found


@kernel
def _destroy(pointers: Words, function: Int) -> None:
    """Release messages; `function` is the address of librdkafka's function for that."""
    for at in range(len(pointers)):
        _call(function, pointers[at])


def _text(pointers: Words, place: int, sizes: Words) -> tuple[bytes, Words]:
    """Return the values or keys of messages as one text, and where each ends."""
    out = np.empty(max(0, int(sizes.sum()) + len(sizes) - 1), np.uint8)
    ends = _copied(pointers, place, sizes, out)
    return out.tobytes(), ends
