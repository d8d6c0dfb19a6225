"""What a changefeed writes to: two contracts.

A :class:`Sink` takes changes; the runner drives it. A :class:`Queue` takes messages, and a sink for queues stands
between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidewire.changefeed.source.base import RowBatch
from tidewire.model import Ddl, Message, RowChange, TableName, TableSchema


class Queue(Protocol):
    """Topics with ordered partitions."""

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; the topic is created if it does not exist."""
        ...

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Put messages at the end of a partition, in order. They are safe only after a flush."""
        ...

    def flush(self) -> None:
        """Return when everything sent is safe; an error where something cannot be."""
        ...

    def close(self) -> None:
        """Let go of connections. What was not flushed may be lost."""
        ...


class Sink(Protocol):
    """Where the changes of a changefeed go."""

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """The changefeed begins, or begins again, with these tables."""
        ...

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Take changes, in commit order. They are safe only after a flush."""
        ...

    def columns(self, batch: RowBatch) -> None:
        """Take many changes of one table at once, as :meth:`rows` would."""
        ...

    def ddl(self, ddl: Ddl) -> None:
        """Take a statement; it is safe when this returns."""
        ...

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Send a watermark: all changes of these tables up to ``ts`` have been sent, which must be true."""
        ...

    def flush(self) -> None:
        """Return when all changes taken are safe; an error where one cannot be."""
        ...

    def close(self) -> None:
        """Let go of connections and files. What was not flushed may be lost."""
        ...
