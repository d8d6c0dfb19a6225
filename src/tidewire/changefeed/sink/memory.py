"""Topics in a dict: for tests, notebooks and trying things out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidewire.model import Message


class MemoryQueue:
    """Topics in a dict. ``counts`` are the partitions of topics that do not have the usual number."""

    def __init__(self, partitions: int = 3, counts: Mapping[str, int] = {}) -> None:
        self.topics: dict[str, list[list[Message]]] = {topic: _empty(count) for topic, count in counts.items()}
        self.flushed: dict[tuple[str, int], int] = {}
        """How many messages of each partition are safe."""
        self._usual = partitions

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(self.topics.setdefault(topic, _empty(self._usual)))

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Put messages at the end of a partition."""
        self.partitions(topic)
        self.topics[topic][partition].extend(messages)

    def flush(self) -> None:
        """Count what was sent as safe."""
        self.flushed = {
            (topic, number): len(messages)
            for topic, partitions in self.topics.items()
            for number, messages in enumerate(partitions)
        }

    def close(self) -> None:
        """There is nothing to let go of."""


def _empty(count: int) -> list[list[Message]]:
    return [[] for _ in range(count)]
