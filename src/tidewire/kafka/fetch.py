"""Messages of offset ranges, fetched by consumers that are kept open.

A range costs no new connection: each process keeps its consumers, and a range is one assignment of one of them. They
join no consumer group and commit nothing.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from tidewire.errors import BrokerError, MissingExtra, SyncError, TopicError
from tidewire.kafka.client import LATER_SECONDS, KafkaClient, PartitionId, explained, passes, unusable
from tidewire.kafka.settings import configured
from tidewire.kafka.uri import KafkaAddress
from tidewire.model import Message, Position

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
except ImportError as error:
    raise MissingExtra("confluent-kafka", "kafka") from error

_AT_ONCE: Final = 16384
_POLL_SECONDS: Final = 0.25

_SETTINGS: Final[Mapping[str, str | int | bool]] = {
    "group.id": "tidewire",  # librdkafka wants one; it is neither joined nor committed to
    "enable.auto.commit": False,
    "auto.offset.reset": "error",  # a hole in the messages is an error
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    # What is fetched beyond the end of a range is for nothing, so little is fetched ahead, but without waiting.
    "queued.max.messages.kbytes": 16384,
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 10,  # the next assignment waits until the fetch before it is answered
    "log_level": 0,
}


class _Kept:
    """A consumer, and what librdkafka last complained of."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.brokers = settings["bootstrap.servers"]
        self.troubles: deque[str] = deque(maxlen=1)
        try:
            self.consumer = Consumer(configured({**_SETTINGS, **settings}, error_cb=self._told))
        except (KafkaException, ValueError) as error:
            raise unusable(self.brokers, error) from error

    def _told(self, error: KafkaError) -> None:
        self.troubles.append(explained(error))


class Follower:
    """Reads some partitions together, each from an offset on, as messages come.

    While brokers do not answer, there are no messages. Raises :class:`BrokerError` for what does not pass by itself.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._kept = _Kept({**settings, "fetch.wait.max.ms": "500"})
        self._assigned: frozenset[PartitionId] = frozenset()

    def read(
        self, offsets: Mapping[PartitionId, int], count: int, seconds: float
    ) -> Iterator[tuple[Position, Message]]:
        """Some of the next messages, at most ``count``, waiting at most ``seconds`` for them.

        ``offsets`` says where to begin when the set of partitions changes; as long as it is the same, reading goes on.
        """
        if self._assigned != offsets.keys():
            self._assigned = frozenset(offsets)
            self._kept.consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        try:
            heard = self._kept.consumer.consume(count, seconds)
        except KafkaException as error:
            raise BrokerError(self._kept.brokers, explained(error.args[0])) from error
        for message in heard:
            if message.error() is not None:
                self._look_at(message)
        return (_placed(message) for message in heard if message.error() is None)

    def close(self) -> None:
        """Close the connections."""
        self._kept.consumer.close()

    def _look_at(self, message: Any) -> None:
        error = message.error()
        if error.code() != KafkaError._PARTITION_EOF and not passes(error):
            place = _named((message.topic(), message.partition()))
            raise BrokerError(self._kept.brokers, f"{place}: {explained(error)}", transient=False)


def _placed(message: Any) -> tuple[Position, Message]:
    headers = tuple((name, value or b"") for name, value in message.headers() or ())
    at = Position(message.topic(), message.partition(), message.offset())
    return at, Message(message.key(), message.value(), headers)


_Settings = tuple[int, frozenset[tuple[str, str]]]
_idle: dict[_Settings, list[_Kept]] = {}
_lock = threading.Lock()


def _key(settings: Mapping[str, str]) -> _Settings:
    """Consumers do not survive a fork, so those of another process are not used."""
    return os.getpid(), frozenset(settings.items())


def fetched(
    settings: Mapping[str, str], place: PartitionId, start: int, end: int, *, patience: float = LATER_SECONDS
) -> Generator[list[Any]]:
    """The messages of a partition from the offset ``start`` to before ``end``, in lists of librdkafka's messages.

    When this ends, all of the range has been read: the last offsets may have no messages, because transaction markers
    take offsets and compaction removes messages. Brokers that do not answer are waited for; :class:`BrokerError` is
    raised when nothing came for ``patience`` seconds, and :class:`SyncError` if messages of the range are gone.
    """
    key = _key(settings)
    with _lock:
        kept = _idle[key].pop() if _idle.get(key) else None
    if kept is None:
        kept = _Kept(settings)
    try:
        kept.consumer.assign([TopicPartition(*place, start)])
        yield from _lists(kept, place, start, end, patience)
        kept.consumer.unassign()
    except GeneratorExit:  # the reader wants no more
        kept.consumer.unassign()
    except KafkaException as error:
        kept.consumer.close()
        raise BrokerError(kept.brokers, f"{_named(place)}: {explained(error.args[0])}") from error
    except BaseException:
        kept.consumer.close()
        raise
    kept.troubles.clear()
    with _lock:
        _idle.setdefault(key, []).append(kept)


def topic_messages(address: KafkaAddress) -> Iterator[tuple[Position, Message]]:
    """The messages that topics have now, partition by partition, in the order of their offsets."""
    client = KafkaClient(address.settings)
    pattern = None if address.pattern is None else re.compile(address.pattern)
    names = [*address.topics, *(name for name in client.names() if pattern is not None and pattern.fullmatch(name))]
    topics = client.topics(names)
    lacking = sorted(set(names) - topics.keys())
    if lacking:
        raise TopicError(lacking[0], f"not in {address.uri}")
    places = [(name, number) for name in topics for number in topics[name].partitions]
    for place, offsets in client.offsets(places).items():
        with closing(fetched(address.settings, place, offsets.first, offsets.end)) as lists:
            for messages in lists:
                yield from map(_placed, messages)


def close(settings: Mapping[str, str]) -> None:
    """Close the consumers of this process that are kept for some settings."""
    with _lock:
        found = _idle.pop(_key(settings), [])
    for kept in found:
        kept.consumer.close()


@atexit.register
def _close_all() -> None:
    for pid, settings in list(_idle):
        if pid == os.getpid():
            close(dict(settings))


def _lists(kept: _Kept, place: PartitionId, start: int, end: int, patience: float) -> Iterator[list[Any]]:
    begin, deadline = start, time.monotonic() + patience
    while begin < end:
        heard = kept.consumer.consume(min(_AT_ONCE, end - begin), _POLL_SECONDS)
        messages: list[Any] = [message for message in heard if message.error() is None]
        if len(messages) < len(heard):
            begin = max([begin, *(_end(kept, message, place, begin) for message in heard if message.error())])
        while messages and messages[-1].offset() >= end:  # offsets have gaps
            begin = end
            messages.pop()
        if messages:
            begin, deadline = max(begin, messages[-1].offset() + 1), time.monotonic() + patience
            yield messages
        elif time.monotonic() > deadline:
            told = f": {kept.troubles[-1]}" if kept.troubles else ""
            reason = f"{_named(place)}: nothing came from offset {begin} on for {patience:g} seconds{told}"
            raise BrokerError(kept.brokers, reason)


def _end(kept: _Kept, message: Any, place: PartitionId, begin: int) -> int:
    """The offset up to which an error says that there are no more messages; 0 for a trouble that may pass."""
    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        first, end = kept.consumer.get_watermark_offsets(TopicPartition(*place), timeout=LATER_SECONDS)
        raise SyncError(
            f"{_named(place)}: messages from offset {begin} on are gone (the partition now has offsets {first} to "
            f"{end}), and a table cannot be right without them. Begin anew with an empty target, and give the topic "
            "a longer retention"
        )
    if error.fatal():
        raise BrokerError(kept.brokers, f"{_named(place)}: {explained(error)}", transient=False)
    kept.troubles.append(explained(error))
    return 0


def _named(place: PartitionId) -> str:
    return f"{place[0]}[{place[1]}]"
