"""Kafka's topics, read by position: a changefeed keeps its position itself and joins no consumer group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tidewire.changefeed.config.settings import KafkaSettings
from tidewire.changefeed.sink.kafka import UNREACHABLE, client_settings, ticdc_codes, wait_seconds
from tidewire.changefeed.source.topic.watermark_buffer import Partition
from tidewire.errors import ChangefeedError
from tidewire.kafka.client import KafkaClient, Offsets, PartitionId
from tidewire.kafka.fetch import Follower
from tidewire.model import Message, Position

AT_ONCE: Final = 5000
_WAIT_SECONDS: Final = 0.2


class KafkaReader:
    """Topics of a Kafka cluster."""

    def __init__(self, settings: KafkaSettings, names: Sequence[str]) -> None:
        self._names = names
        words, seconds = client_settings(settings), wait_seconds(settings)
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            self._client = KafkaClient(words, first_seconds=seconds, later_seconds=seconds)
            self._follower = Follower(words)

    def partitions(self) -> Sequence[Partition]:
        """The partitions there are now."""
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            topics = self._client.topics(self._names)
        return [Partition(name, number) for name in self._names if name in topics for number in topics[name].partitions]

    def first(self, partition: Partition) -> int:
        """The offset of the first message a partition still has."""
        return self._offsets([partition])[partition].first

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Some of what comes next in each partition."""
        places: dict[PartitionId, int] = dict(offsets.items())
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            return self._follower.read(places, AT_ONCE, _WAIT_SECONDS)

    def ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """The offsets that the next messages of these partitions will get."""
        return {partition: found.end for partition, found in self._offsets(partitions).items()}

    def close(self) -> None:
        """Close the connections."""
        self._follower.close()

    def _offsets(self, partitions: Iterable[Partition]) -> Mapping[Partition, Offsets]:
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            wanted = list(partitions)
            found = self._client.offsets(wanted)
        lacking = next((place for place in wanted if place not in found), None)
        if lacking is not None:
            raise ChangefeedError(UNREACHABLE, f"{lacking.topic}[{lacking.number}] is gone, or has no leader yet")
        return {place: found[place] for place in wanted}
