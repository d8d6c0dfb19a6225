"""Topics of Kafka, for the topic source. It stores its offsets itself and does not join a consumer group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tidewire.changefeed.config.settings import KafkaSettings
from tidewire.changefeed.sink.kafka import UNREACHABLE, client_settings, ticdc_codes, wait_seconds
from tidewire.changefeed.source.watermark_buffer import Partition
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
        arguments, seconds = client_settings(settings), wait_seconds(settings)
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            self._client = KafkaClient(arguments, first_seconds=seconds, later_seconds=seconds)
            self._follower = Follower(arguments)

    def partitions(self) -> Sequence[Partition]:
        """The partitions that exist now."""
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            topics = self._client.topics(self._names)
        return [Partition(name, number) for name in self._names if name in topics for number in topics[name].partitions]

    def first(self, partition: Partition) -> int:
        """The offset of the first message a partition still has."""
        return self._offsets([partition])[partition].first

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Some of the next messages of each partition."""
        starts: dict[PartitionId, int] = dict(offsets.items())
        with ticdc_codes(UNREACHABLE, UNREACHABLE):
            return self._follower.read(starts, AT_ONCE, _WAIT_SECONDS)

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
        missing = next((partition for partition in wanted if partition not in found), None)
        if missing is not None:
            raise ChangefeedError(
                UNREACHABLE, f"{missing.topic}[{missing.number}] does not exist any more, or has no leader yet"
            )
        return {partition: found[partition] for partition in wanted}
