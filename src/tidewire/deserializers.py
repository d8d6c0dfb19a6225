"""Deserializers for the consumers of other libraries: the value of a message to its events.

They see values alone. So Open Protocol, whose keys say what its values mean, needs a consumer of whole messages and
``Message.of``; so do Avro's deletes, which are keys without a value.
"""

from __future__ import annotations

from typing import Any, Unpack

from tidewire.codec import Options, Resources, protocol
from tidewire.codec.options import OptionWords, options_of
from tidewire.codec.parking import Parking
from tidewire.errors import DecodeError, MissingExtra, OptionError
from tidewire.model import Event, Message
from tidewire.plain import event_to_plain
from tidewire.plain.event import PlainDict


class Deserializer:
    """The value of a message to its events: ``value.deserializer`` of confluent-kafka's ``DeserializingConsumer``.

    A row of Simple that comes before its table's schema waits, and is among the events of the message that brings it.
    Raises ``DecodeError`` for a message that breaks the rules of the protocol.

    >>> from tidewire import Watermark
    >>> (message,) = protocol("canal-json").encode([Watermark(5)], enable_tidb_extension=True)
    >>> Deserializer("canal-json")(message.value)
    [Watermark(ts=5)]
    """

    def __init__(self, protocol_name: str, **options: Unpack[OptionWords]) -> None:
        self._name = protocol_name
        self._options: Options = options_of(options)
        codec = protocol(protocol_name)
        if codec.name == "open-protocol":
            reason = "its keys say what its values mean; decode Message.of(message) from a consumer of whole messages"
            raise OptionError("protocol", f"a deserializer cannot read open-protocol: {reason}")
        self._decoder: Parking[None] = Parking(codec.Decoder(self._options, Resources.of(self._options)))

    def __call__(self, value: bytes | None, ctx: Any = None) -> list[Event]:
        """The events in a value; ``ctx`` is what the consumer says of the message."""
        if value is None:
            reason = "no value: what happened is in the key; decode Message.of(message)"
            raise DecodeError(self._name, reason, part="value")
        return [event for _, event in self._decoder.decode(Message(None, value), None)]


def quix_deserializer(protocol_name: str, **options: Unpack[OptionWords]) -> Any:
    """A ``value_deserializer`` for topics of Quix Streams: each event is a row of the stream, as in plain form.

    It is an instance of Quix Streams' own ``Deserializer``, so that library has to be installed.
    """
    try:
        from quixstreams.models import Deserializer as Base
    except ImportError:
        raise MissingExtra("quixstreams", "quix") from None
    read = Deserializer(protocol_name, **options)

    class EventDeserializer(Base):  # type: ignore[misc]
        """Values to lists of events in plain form, of which each is a row."""

        @property
        def split_values(self) -> bool:
            return True

        def __call__(self, value: bytes, ctx: Any) -> list[PlainDict]:
            return [event_to_plain(event) for event in read(value, ctx)]

    return EventDeserializer()
