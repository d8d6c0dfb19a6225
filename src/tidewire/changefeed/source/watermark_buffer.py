"""Puts late and repeated events in order, once each: they are held until the watermarks of all partitions are later.

It has no side effects: events with their positions go in, and come out when a watermark releases them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidewire.model import Ddl, Event, Op, Position, RowChange, Watermark

_STATEMENT = 3
"""DDL comes after the rows with the same commit ts."""


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int


_ORDER: Mapping[Op, int] = {Op.DELETE: 0, Op.UPDATE: 1, Op.INSERT: 2}


@dataclass(frozen=True, slots=True)
class _Held:
    rank: tuple[int, int, int]
    at: Position
    event: RowChange | Ddl


@dataclass(slots=True)
class WatermarkBuffer:
    """Holds events until the least watermark of all partitions is not earlier than they are."""

    released: int = 0
    watermarks: dict[Partition, int] = field(default_factory=dict)
    _previous: dict[Partition, int] = field(default_factory=dict)
    _held: dict[Hashable, _Held] = field(default_factory=dict)
    _count: int = 0

    def expect(self, partitions: Iterable[Partition]) -> None:
        """Set the partitions; each must send a watermark."""
        for partition in partitions:
            self.watermarks.setdefault(partition, 0)

    def take(self, at: Position, event: Event) -> None:
        """Take an event; one that was released already, or is held already, is a repetition and ignored."""
        match event:
            case Watermark(ts):
                partition = Partition(at.topic, at.partition)
                known = self.watermarks.get(partition, 0)
                if ts > known:
                    self.watermarks[partition], self._previous[partition] = ts, known
            case RowChange() | Ddl():
                ts = event.commit_ts or 0
                if ts > self.released:
                    self._count += 1
                    kind = _STATEMENT if isinstance(event, Ddl) else _ORDER[event.op]
                    self._held.setdefault(_identity(event), _Held((ts, kind, self._count), at, event))

    def release(self, is_read: Callable[[str], bool] = lambda _: False) -> Iterator[RowChange | Ddl]:
        """Yield the events before which nothing can come any more, in commit order; :attr:`released` is their end.

        ``is_read``: has a topic been read to its end? Such a topic may be out of use if it lacks watermarks.
        """
        watermark = self._least(is_read)
        if watermark <= self.released:
            return
        self.released = watermark
        passed = {key: held for key, held in self._held.items() if held.rank[0] <= watermark}
        for key in passed:
            del self._held[key]
        yield from (held.event for held in sorted(passed.values(), key=lambda held: held.rank))

    def _least(self, is_read: Callable[[str], bool]) -> int:
        """The least watermark of all topics in use.

        A changefeed sends a watermark to one topic after the other. If a partition has two watermarks, every topic in
        use has received the first. A topic without it that has been read to its end belongs to a dropped table.
        """
        complete = max(self._previous.values(), default=0)
        newest: dict[str, int] = {}
        for (topic, _), ts in self.watermarks.items():
            newest[topic] = max(ts, newest.get(topic, 0))
        gone = {topic for topic, ts in newest.items() if ts < complete and is_read(topic)}
        return min((ts for (topic, _), ts in self.watermarks.items() if topic not in gone), default=0)

    def first_held(self) -> dict[Partition, int]:
        """The first offset of each partition whose event is still held."""
        first: dict[Partition, int] = {}
        for held in self._held.values():
            partition = Partition(held.at.topic, held.at.partition)
            first[partition] = min(held.at.offset, first.get(partition, held.at.offset))
        return first


def _identity(event: RowChange | Ddl) -> Hashable:
    """A key that repetitions of an event share. Without a handle key, equal rows of a transaction count as one."""
    if isinstance(event, Ddl):
        return (event.commit_ts, event.table, event.query)
    row = (event.before if event.after is None else event.after) or {}
    key = event.table.handle_key or sorted(row)
    return (event.commit_ts, event.table.name, event.op, event.table_id, tuple(row.get(name) for name in key))
