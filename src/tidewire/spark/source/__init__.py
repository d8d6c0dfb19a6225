"""Where the sync reads messages: topics of a Kafka cluster, or topics in files."""

from __future__ import annotations

from tidewire.kafka.uri import SCHEMES
from tidewire.spark.source.base import Extent, Fetcher, NoSource, OffsetRange, Source, planned_ranges
from tidewire.spark.source.files import FileSource
from tidewire.topic import open_topics

__all__ = ["Extent", "Fetcher", "FileSource", "NoSource", "OffsetRange", "Source", "open_source", "planned_ranges"]


def open_source(uri: str) -> Source:
    """The source behind a URI: ``kafka://host:port/topic`` or ``file:///folder``."""
    if uri.startswith(SCHEMES):
        from tidewire.spark.source.kafka import KafkaSource

        return KafkaSource.open(uri)
    return FileSource(open_topics(uri))
