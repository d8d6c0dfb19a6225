"""From a URI to topics as a source: the sink URI of the changefeed that fills them is the source URI as well.

``kafka://broker:9092/topic,other?protocol=simple``, ``file-topic:///folder/topic?protocol=avro&schema-registry=…``, and
``file:///folder?protocol=…`` for all topics in a folder. ``follow=false`` ends where the topics end now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidewire.changefeed.config.parameters import overlaid
from tidewire.changefeed.config.replica import DEFAULT
from tidewire.changefeed.config.resolve import resolved
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import SinkKind, SinkURI
from tidewire.changefeed.source.topic.reader import Reader
from tidewire.changefeed.source.topic.source import TopicSource
from tidewire.codec import PROTOCOLS, Resources
from tidewire.errors import ChangefeedError, MissingExtra

INVALID = "CDC:ErrSinkURIInvalid"
UNKNOWN = "CDC:ErrSinkUnknownProtocol"
_CLIENT = "source"
_FOLLOW: Mapping[str, bool] = {"true": True, "false": False}


def open_topics(uri: str) -> TopicSource:
    """The source behind a URI of topics."""
    parsed = SinkURI.parse(uri)
    follow = _FOLLOW.get(parsed.parameters.get("follow", "true").lower())
    if follow is None:
        raise ChangefeedError(INVALID, f"{parsed}: follow is true or false")
    config = overlaid(parsed, DEFAULT).config
    settings = resolved(parsed, config, config, _CLIENT)
    if settings.protocol not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise ChangefeedError(UNKNOWN, f"{parsed}: the topics' protocol must be given, as in ?protocol=simple: {known}")
    reader = _READERS[settings.kind](settings)
    options = settings.options
    return TopicSource(reader, settings.protocol, options, Resources.of(options), follow=follow)


def _files(settings: Settings) -> Reader:
    try:
        from tidewire.changefeed.source.topic.reader import FileReader
        from tidewire.topic.files import FileTopics
    except ImportError as error:
        raise MissingExtra("pyarrow", "arrow") from error
    return FileReader(FileTopics(settings.uri.folder), _names(settings))


def _kafka(settings: Settings) -> Reader:
    from tidewire.changefeed.source.topic.kafka_reader import KafkaReader

    assert settings.kafka is not None
    names = _names(settings)
    if not names:
        raise ChangefeedError(INVALID, f"{settings.uri} names no topic: kafka://broker:9092/topic")
    return KafkaReader(settings.kafka, names)


def _names(settings: Settings) -> tuple[str, ...]:
    return tuple(name for name in settings.topic.split(",") if name)


_READERS: Mapping[SinkKind, Callable[[Settings], Reader]] = {
    SinkKind.KAFKA: _kafka,
    SinkKind.FILE_TOPIC: _files,
    SinkKind.STORAGE: _files,
}
