"""Appending to topics in files: whole segments under their names at the end, or nothing.

Segments are written in a folder whose name begins with a dot, which Spark and we overlook, and move to their places
when all of them are there. Spark's file stream takes files in the order of their modification times, in milliseconds,
so each segment gets a later one than the last; the time of the topics' lock file remembers which that was.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.errors import TopicError
from tidewire.model import Message, Position
from tidewire.topic.segments import (
    MESSAGES,
    checked_partition,
    checked_topic,
    end_of,
    partition_folder,
    segment_name,
)

MOST_MESSAGES = 50_000
MOST_BYTES = 32 << 20
"""A segment holds no more than that, so that neither writing nor reading one takes much memory."""

MOST_WAITING = 128 << 20
"""The bytes that may wait in all partitions together; then all are written."""

_CREATE_TIME = 0  # Kafka's timestampType of a time the producer set
_MS = 1_000_000  # nanoseconds


@dataclass(slots=True)
class _Tail:
    """A partition that grows: where the next segment begins, and the messages that wait for it."""

    topic: str
    partition: int
    folder: Path
    began: int
    first: int
    messages: list[Message] = field(default_factory=list)
    bytes: int = 0

    @property
    def end(self) -> int:
        return self.first + len(self.messages)


class Appending:
    """A ``with`` block that adds messages to partitions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[tuple[str, int], _Tail] = {}
        self._written: list[tuple[Path, Path]] = []
        self._waiting = 0
        self._clock = time.time_ns() // 1000
        self._hidden = folder / f".appending-{uuid.uuid4().hex}"

    def end(self, topic: str, partition: int) -> int:
        """The offset that the next message of a partition gets."""
        return self._tail(topic, partition).end

    def add(self, at: Position, message: Message) -> None:
        """One more message; raises ``TopicError`` if its offset is not the next one."""
        tail = self._tail(at.topic, at.partition)
        if at.offset != tail.end:
            raise TopicError(at.topic, _misplaced(at, tail.end))
        tail.messages.append(message)
        size = len(message.key or b"") + len(message.value or b"")
        tail.bytes += size
        self._waiting += size
        if len(tail.messages) >= MOST_MESSAGES or tail.bytes >= MOST_BYTES:
            self._write(tail)
        elif self._waiting >= MOST_WAITING:
            self._write_all()

    def __enter__(self) -> Appending:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._write_all()
                self._name_all()
        finally:
            shutil.rmtree(self._hidden, ignore_errors=True)

    def _tail(self, topic: str, partition: int) -> _Tail:
        tail = self._tails.get((topic, partition))
        if tail is None:
            checked_topic(topic)
            folder = partition_folder(self._folder, topic, checked_partition(topic, partition))
            end = end_of(folder)
            tail = self._tails[topic, partition] = _Tail(topic, partition, folder, end, end)
        return tail

    def _write_all(self) -> None:
        for tail in self._tails.values():
            if tail.messages:
                self._write(tail)

    def _write(self, tail: _Tail) -> None:
        hidden = self._hidden / str(len(self._written))
        self._hidden.mkdir(parents=True, exist_ok=True)
        self._written.append((hidden, tail.folder / segment_name(tail.first)))
        with hidden.open("wb") as file:
            pq.write_table(_table(tail, self._clock), file, compression="zstd", use_dictionary=["topic"])
            file.flush()
            os.fsync(file.fileno())
        self._waiting -= tail.bytes
        tail.first, tail.messages, tail.bytes = tail.end, [], 0

    def _name_all(self) -> None:
        if not self._written:
            return
        with _locked(self._folder) as lock:
            for tail in self._tails.values():
                if tail.first > tail.began != end_of(tail.folder):
                    raise TopicError(
                        tail.topic, f"another program appended to partition {tail.partition} meanwhile; try again"
                    )
            for hidden, path in self._written:
                path.parent.mkdir(parents=True, exist_ok=True)
                clock = max(time.time_ns() // _MS, os.fstat(lock).st_mtime_ns // _MS + 1) * _MS
                os.utime(lock, ns=(clock, clock))
                os.utime(hidden, ns=(clock, clock))
                hidden.rename(path)
        for folder in {path.parent for _, path in self._written}:
            _sync(folder)


def _misplaced(at: Position, end: int) -> str:
    what = "that offset is taken" if at.offset < end else "there would be a gap"
    return f"{at} cannot be appended: partition {at.partition} ends at {end}, so {what}"


def _table(tail: _Tail, clock: int) -> pa.Table:
    count = len(tail.messages)
    headers = [[{"key": name, "value": data} for name, data in message.headers] or None for message in tail.messages]
    columns = {
        "key": [message.key for message in tail.messages],
        "value": [message.value for message in tail.messages],
        "topic": pa.repeat(tail.topic, count),
        "partition": pa.repeat(pa.scalar(tail.partition, pa.int32()), count),
        "offset": range(tail.first, tail.end),
        "timestamp": pa.repeat(pa.scalar(clock, MESSAGES.field("timestamp").type), count),
        "timestampType": pa.repeat(pa.scalar(_CREATE_TIME, pa.int32()), count),
        "headers": headers,
    }
    return pa.table([pa.array(columns[column.name], column.type) for column in MESSAGES], schema=MESSAGES)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """The right to move segments to their places, and the lock file it is held by."""
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
