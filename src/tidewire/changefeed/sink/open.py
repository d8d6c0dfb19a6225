"""From settings to a sink: one function for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from tidewire.changefeed.config.dispatching import dispatching
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import URI_INVALID, SinkKind, SinkURI
from tidewire.changefeed.sink.base import BlackholeSink, Queue, Sink
from tidewire.changefeed.sink.queue import QueueSink
from tidewire.codec import Options, Resources
from tidewire.errors import ChangefeedError, MissingExtra
from tidewire.storage import Storage, known_parameters, open_storage


def open_sink(settings: Settings, start_ts: int) -> Sink:
    """The sink of a changefeed that begins at ``start_ts``, connected if it needs a connection."""
    opened = _SINKS.get(settings.kind)
    if opened is None:
        raise ChangefeedError(URI_INVALID, f"{settings.uri} has no sink in tidewire; it has {', '.join(_SINKS)}")
    return opened(settings, start_ts)


def queue_sink(settings: Settings, queue: Queue, options: Options | None = None) -> QueueSink:
    """A sink that sends to the caller's queue, by the rules of some settings."""
    options = options or settings.options
    parsed = dispatching(settings)
    if parsed.dispatch is None:
        raise ChangefeedError(URI_INVALID, f"{settings.uri} names no topic")
    return QueueSink(queue, parsed.dispatch, options, Resources.of(options), settings.bootstrap, parsed.projection)


def _kafka(settings: Settings, _: int) -> Sink:
    from tidewire.changefeed.sink.kafka import KafkaQueue

    assert settings.kafka is not None
    queue = KafkaQueue(settings.kafka, settings.topic)
    try:
        return queue_sink(settings, queue, replace(settings.options, max_message_bytes=queue.message_limit))
    except Exception:
        queue.close()
        raise


def _file_topic(settings: Settings, _: int) -> Sink:
    try:
        from tidewire.changefeed.sink.files import FileQueue
    except ImportError as error:
        raise MissingExtra("pyarrow", "arrow") from error
    assert settings.file_topic is not None
    queue = FileQueue(settings.file_topic.folder, settings.topic, settings.file_topic.partition_num)
    return queue_sink(settings, queue)


def _storage(settings: Settings, start_ts: int) -> Sink:
    from tidewire.changefeed.sink.storage import StorageSink, records_for

    files = settings.storage
    assert files is not None
    records = records_for(settings.protocol, files, settings.options, Resources.of(settings.options))
    return StorageSink(_store(settings.uri, files.folder), records, files, start_ts, dispatching(settings).projection)


def _store(uri: SinkURI, folder: str) -> Storage:
    """The folder or the prefix that a URI names; in an object store the folder begins with the bucket."""
    if uri.scheme == "file":
        return open_storage(Path(folder), "sink-uri")
    known = known_parameters(uri.scheme)
    query = urlencode({name: value for name, value in uri.parameters.items() if name in known})
    return open_storage(f"{uri.scheme}://{folder.lstrip('/')}?{query}", "sink-uri")


_SINKS: Mapping[SinkKind, Callable[[Settings, int], Sink]] = {
    SinkKind.KAFKA: _kafka,
    SinkKind.FILE_TOPIC: _file_topic,
    SinkKind.STORAGE: _storage,
    SinkKind.BLACKHOLE: lambda *_: BlackholeSink(),
}
