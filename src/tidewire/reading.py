"""The events of a topic, one after the other: in Kafka, or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import parse_qsl, unquote, urlsplit

from tidewire.codec import Options, Resources, protocol
from tidewire.codec.options import OptionWords, options_of
from tidewire.codec.parking import Parking
from tidewire.errors import DecodeError, MissingExtra, OptionError
from tidewire.model import Event, Message, Position

if TYPE_CHECKING:
    from tidewire.kafka.uri import KafkaAddress

OnBadMessage = Callable[[Position, Message, DecodeError], None]


def read(
    uri: str,
    protocol_name: str,
    *,
    on_bad_message: OnBadMessage | None = None,
    **options: Unpack[OptionWords],
) -> Iterator[Event]:
    """The events that a topic holds now, partition by partition, in the order of its offsets.

    ``uri`` is ``kafka://host:9092/topic[,topic]``, or ``file:///folder/topic`` for a topic in files. Parameters of the
    URI give credentials, as for a sync, and codec options, which keyword arguments overrule. A message that cannot be
    read is an error unless ``on_bad_message`` takes it. A row of Simple that comes before its schema waits for it.
    """
    for _, event in read_positions(uri, protocol_name, on_bad_message=on_bad_message, **options):
        yield event


def read_positions(
    uri: str,
    protocol_name: str,
    *,
    on_bad_message: OnBadMessage | None = None,
    **options: Unpack[OptionWords],
) -> Iterator[tuple[Position, Event]]:
    """As :func:`read`, each event with the position of its message."""
    options_of(options)  # a name that does not exist is refused first
    words: Mapping[str, Any] = options
    given, messages = _opened(uri)
    settled = replace(Options.parse(given), **words)
    decoder: Parking[Position] = Parking(protocol(protocol_name).Decoder(settled, Resources.of(settled)))
    for at, message in messages:
        try:
            found = list(decoder.decode(message, at))
        except DecodeError as error:
            if on_bad_message is None:
                error.add_note(f"the message is at {at}")
                raise
            on_bad_message(at, message, error)
        else:
            yield from found
    for at, message, missing in decoder.parked:
        if on_bad_message is None:
            missing.add_note(f"the message is at {at}")
            raise missing
        on_bad_message(at, message, missing)


def _opened(uri: str) -> tuple[Mapping[str, str], Iterator[tuple[Position, Message]]]:
    """The codec options in a URI, and the messages behind it."""
    scheme = uri.partition(":")[0].lower()
    if scheme in ("kafka", "kafka+ssl"):
        from tidewire.kafka.uri import KafkaAddress

        address = KafkaAddress.parse(uri)
        return address.options, _in_kafka(address)
    if scheme in ("file", "file-topic"):
        parts = urlsplit(uri)
        return dict(parse_qsl(parts.query)), _in_files(Path(unquote(parts.path)))
    raise OptionError("uri", f"{uri!r} is neither kafka://host:9092/topic nor file:///folder/topic")


def _in_kafka(address: KafkaAddress) -> Iterator[tuple[Position, Message]]:
    from tidewire.kafka.fetch import topic_messages

    return topic_messages(address)


def _in_files(path: Path) -> Iterator[tuple[Position, Message]]:
    """The messages of a topic, or of all topics in a folder."""
    try:
        from tidewire.topic.files import FileTopics, messages_of
    except ImportError:
        raise MissingExtra("pyarrow", "arrow") from None
    topics, names = FileTopics(path.parent), [path.name]
    if path.is_dir() and not topics.partitions(path.name):
        topics = FileTopics(path)
        names = topics.topics()
    for name in names:
        for partition in topics.partitions(name):
            messages = (message for batch in topics.read(name, partition) for message in messages_of(batch))
            for offset, message in enumerate(messages):
                yield Position(name, partition, offset), message
