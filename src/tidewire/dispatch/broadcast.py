"""The topics and partitions of what is not a row: DDL, watermarks and BOOTSTRAP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tidewire.codec import Options
from tidewire.codec import protocol as codec_of
from tidewire.codec.capabilities import Capabilities
from tidewire.dispatch.router import Dispatch
from tidewire.dispatch.statements import old_name
from tidewire.model import Ddl, TableName

CountOf: TypeAlias = Callable[[str], int]
"""How many partitions a topic has."""

_FIRST_PARTITION_ONLY = frozenset({"canal-json"})
"""Protocols whose DDL goes to the first partition; that of all others goes to every partition."""


class Address(NamedTuple):
    """Where a message goes."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Broadcast:
    """The addresses of everything that concerns more than one row.

    If a protocol has no message for something, there are no addresses. ``bootstrap_everywhere`` is
    ``send-bootstrap-to-all-partition``.
    """

    dispatch: Dispatch
    protocol: str
    options: Options = field(default_factory=Options)
    bootstrap_everywhere: bool = True

    def ddl(self, ddl: Ddl, count_of: CountOf) -> tuple[Address, ...]:
        """A statement goes to the topic of the table's old name; schema DDL goes to the default topic."""
        topic = self.dispatch.topic_of(old_name(ddl) or ddl.table)
        if self._capabilities.ddl is None:
            return ()
        return tuple(_addresses(topic, 1 if self.protocol in _FIRST_PARTITION_ONLY else count_of(topic)))

    def watermark(self, tables: Iterable[TableName], count_of: CountOf) -> tuple[Address, ...]:
        """A watermark goes to the topics of all tables, in their order, then to the default topic."""
        if not self._capabilities.watermark:
            return ()
        topics = dict.fromkeys((*map(self.dispatch.topic_of, tables), self.dispatch.default_topic))
        return tuple(address for topic in topics for address in _addresses(topic, count_of(topic)))

    def bootstrap(self, table: TableName, count_of: CountOf) -> tuple[Address, ...]:
        """A table's schema goes to the table's topic."""
        if not self._capabilities.bootstrap:
            return ()
        topic = self.dispatch.topic_of(table)
        return tuple(_addresses(topic, count_of(topic) if self.bootstrap_everywhere else 1))

    @property
    def _capabilities(self) -> Capabilities:
        return codec_of(self.protocol).capabilities(self.options)


def _addresses(topic: str, count: int) -> Iterator[Address]:
    return (Address(topic, number) for number in range(count))
