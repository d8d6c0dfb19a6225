"""What is about to become a changefeed, as the rules look at it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from tidewire.changefeed.config.protocols import protocol_name
from tidewire.changefeed.config.sections import (
    CloudStorageConfig,
    CodecConfig,
    KafkaConfig,
    LargeMessageConfig,
    ReplicaConfig,
    SinkConfig,
)
from tidewire.changefeed.config.uri import SinkKind, SinkURI
from tidewire.errors import ChangefeedError


@dataclass(frozen=True, slots=True)
class CandidateConfig:
    """A URI and a configuration, once as ``given`` and once with the URI's parameters in it."""

    uri: SinkURI
    given: ReplicaConfig
    config: ReplicaConfig
    changefeed_id: str
    start_ts: int
    target_ts: int
    now: int
    gc_safe_point: int
    taken: Collection[str]

    @property
    def sink(self) -> SinkConfig:
        """``[sink]``."""
        return self.config.sink

    @property
    def kafka(self) -> KafkaConfig:
        """``[sink.kafka-config]``."""
        return self.sink.kafka_config or KafkaConfig()

    @property
    def codec(self) -> CodecConfig:
        """``[sink.kafka-config.codec-config]``."""
        return self.kafka.codec_config or CodecConfig()

    @property
    def large(self) -> LargeMessageConfig:
        """``[sink.kafka-config.large-message-handle]``."""
        return self.kafka.large_message_handle or LargeMessageConfig()

    @property
    def storage(self) -> CloudStorageConfig:
        """``[sink.cloud-storage-config]``."""
        return self.sink.cloud_storage_config or CloudStorageConfig()

    @property
    def protocol(self) -> str:
        """The plain name of the protocol; nobody asks a blackhole for one."""
        return "" if self.uri.kind is SinkKind.BLACKHOLE else protocol_name(self.sink.protocol)

    @property
    def checks_integrity(self) -> bool:
        """Are rows sent with checksums? Only topics have them."""
        return self.uri.kind.has_topics and self.config.integrity.integrity_check_level == "correctness"


class Rule(NamedTuple):
    """A code, and a question: what is wrong with a candidate, if anything."""

    code: str
    broken: Callable[[CandidateConfig], str | None]

    def check(self, candidate: CandidateConfig) -> None:
        """Refuse a candidate that breaks the rule."""
        reason = self.broken(candidate)
        if reason is not None:
            raise ChangefeedError(self.code, reason)


def inside(code: str, reason: str) -> str:
    """A reason whose own code is inside another one's message, as newer servers write it."""
    return f"[{code}]{reason}"
