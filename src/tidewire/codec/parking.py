"""Messages that came before the schema they need.

Simple sends a table's schema apart from its rows, and a reader that starts in the middle meets rows first. They wait
here, in order, until the schema arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from tidewire.codec.base import Decoder
from tidewire.errors import SchemaUnknown
from tidewire.model import Bootstrap, Ddl, Event, Message

Origin = TypeVar("Origin")


class Parking(Generic[Origin]):
    """Decodes messages and holds back those whose schema is not known yet.

    ``origin`` is whatever tells the caller where a message came from; it comes back with each of its events.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.parked: list[tuple[Origin, Message, SchemaUnknown]] = []

    def decode(self, message: Message, origin: Origin) -> Iterator[tuple[Origin, Event]]:
        """The message's events, then those of parked messages it released, in the order they came in."""
        schema_came = False
        try:
            for event in self._decoder.decode(message):
                schema_came = schema_came or isinstance(event, Bootstrap | Ddl)
                yield origin, event
        except SchemaUnknown as missing:
            self.parked.append((origin, message, missing))
        if schema_came and self.parked:
            waiting, self.parked = self.parked, []
            for its_origin, parked, _ in waiting:
                yield from self.decode(parked, its_origin)
