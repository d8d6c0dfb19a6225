"""Messages that tasks fetch from Kafka themselves: a range of offsets in, record batches out.

Spark's connector would fetch them in Java, make rows of them, and columns of the rows, and send those to Python. Tasks
are given the ranges that the connector planned, and the messages never pass through Java.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from tidewire.errors import MissingExtra, SyncError

PREFIX = "kafka-range:"
"""How the name of a range begins."""

_AT_ONCE = 16384
_PATIENCE_SECONDS = 120
_POLL_SECONDS = 1.0

_SETTINGS: Mapping[str, str | int | bool] = {
    "group.id": "tidewire",  # librdkafka wants one; it is neither joined nor committed to
    "enable.auto.commit": False,
    "auto.offset.reset": "error",  # a hole in the messages is an error
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",  # as Spark reads
    # What is fetched beyond the end of a range is for nothing, so little is fetched ahead, but without waiting.
    "queued.max.messages.kbytes": 16384,
    "fetch.queue.backoff.ms": 5,
    "log_level": 0,
}


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one partition, from an offset to before another, and librdkafka's settings to get them with."""

    topic: str
    partition: int
    start: int
    end: int
    client: Mapping[str, str]

    @property
    def place(self) -> str:
        """Which messages these are, for people."""
        return f"{self.topic}, partition {self.partition}"

    @property
    def name(self) -> str:
        """The range as text that a task can read."""
        return PREFIX + json.dumps(asdict(self))

    @classmethod
    def parse(cls, name: str) -> Range:
        """The range of a name."""
        return cls(**json.loads(name.removeprefix(PREFIX)))


def fetched(range_: Range, patience: float = _PATIENCE_SECONDS) -> Iterator[pa.RecordBatch]:
    """The messages of a range, in columns as a file of messages has them.

    A broker that does not answer is waited for, until nothing came for so many seconds.
    """
    try:
        from confluent_kafka import Consumer, KafkaException, TopicPartition
    except ImportError as error:
        raise MissingExtra("confluent-kafka", "kafka") from error
    troubles: deque[str] = deque(maxlen=1)
    try:
        consumer = Consumer({**_SETTINGS, **range_.client, "error_cb": lambda error: troubles.append(error.str())})
        try:
            consumer.assign([TopicPartition(range_.topic, range_.partition, range_.start)])
            yield from _batches(consumer, range_, troubles, patience)
        finally:
            consumer.close()
    except KafkaException as error:
        raise SyncError(f"{range_.place}: {error.args[0].str()}") from error


def _batches(consumer: Any, range_: Range, troubles: deque[str], patience: float) -> Iterator[pa.RecordBatch]:
    begin, deadline = range_.start, time.monotonic() + patience
    while begin < range_.end:
        heard = consumer.consume(min(_AT_ONCE, range_.end - begin), _POLL_SECONDS)
        messages = [message for message in heard if message.error() is None]
        if len(messages) < len(heard):
            ends = [_end(message, range_, troubles) for message in heard if message.error() is not None]
            begin = max(begin, *ends)
        offsets = [message.offset() for message in messages]
        while offsets and offsets[-1] >= range_.end:  # where offsets have gaps
            begin = range_.end
            offsets.pop()
        if offsets:
            begin, deadline = max(begin, offsets[-1] + 1), time.monotonic() + patience
            yield _columns(range_, messages[: len(offsets)], offsets)
        elif time.monotonic() > deadline:
            told = f": {troubles[-1]}" if troubles else ""
            raise SyncError(f"{range_.place}: nothing came from offset {begin} on for {patience:g} seconds{told}")


def _end(message: Any, range_: Range, troubles: deque[str]) -> int:
    """Up to where there are no more messages, of what was heard instead of one: the end, or a trouble that may pass."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise SyncError(
            f"{range_.place}: messages from offset {range_.start} on are gone, and a table cannot be right without them"
        )
    if error.fatal():
        raise SyncError(f"{range_.place}: {error.str()}")
    troubles.append(error.str())
    return 0


def _columns(range_: Range, messages: list[Any], offsets: list[int]) -> pa.RecordBatch:
    count = len(messages)
    return pa.record_batch(
        {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "topic": pa.repeat(range_.topic, count),
            "partition": pa.repeat(pa.scalar(range_.partition, pa.int32()), count),
            "offset": pa.array(offsets, pa.int64()),
        }
    )
