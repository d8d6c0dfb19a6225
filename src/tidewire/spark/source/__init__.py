"""Where the sync reads messages: topics of a Kafka cluster, topics in files, or the files of a storage sink."""

from __future__ import annotations

from tidewire.kafka.uri import SCHEMES
from tidewire.spark.source.base import Extent, Fetcher, MessageForm, NoSource, OffsetRange, Source, planned_ranges
from tidewire.spark.source.files import FileSource
from tidewire.spark.source.storage_sink import StorageForm, StorageSource
from tidewire.topic import open_topics

__all__ = [
    "Extent",
    "Fetcher",
    "FileSource",
    "MessageForm",
    "NoSource",
    "OffsetRange",
    "Source",
    "StorageForm",
    "open_source",
    "planned_ranges",
]


def open_source(uri: str, form: StorageForm | None = None) -> Source:
    """The source behind a URI: ``kafka://host:port/topic``, ``file:///folder`` or ``s3://bucket/prefix``.

    ``form`` is that of a storage sink's files; without one there are topics behind the URI.
    """
    if uri.startswith(SCHEMES):
        from tidewire.spark.source.kafka import KafkaSource

        return KafkaSource.open(uri)
    if form is not None:
        return StorageSource(form)
    return FileSource(open_topics(uri))
