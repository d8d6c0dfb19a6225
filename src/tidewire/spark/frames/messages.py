"""Messages on their way in: which columns are needed, and how many are read at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewire.arrow import BatchDecoder, Decoded
from tidewire.codec import Options
from tidewire.errors import DecodeError
from tidewire.model import Message, TableName
from tidewire.spark.decoding import decoder_for, resources_of
from tidewire.spark.frames.schemas import Schemas
from tidewire.spark.peek import MessageHeader, peek
from tidewire.spark.source.detect import completed

_TYPES: Final = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
}
"""The columns of messages, as Spark's own Kafka source names them."""

_BYTES_AT_ONCE: Final = 8 << 20
"""Spark cuts its batches by rows, ten thousand in one, whatever their size. Larger ones are read in parts."""

_SAMPLE: Final = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """How messages are read, as it travels to executors."""

    protocol: str
    options: Mapping[str, str] = field(default_factory=dict)
    schemas: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Reading:
        """The reading that some settings hold."""
        return cls(settings["protocol"], settings["options"], settings["schemas"])

    def decoder(self, options: Mapping[str, str]) -> BatchDecoder:
        """A decoder for one task."""
        known = Schemas() if self.schemas is None else _parsed(self.schemas)
        return decoder_for(self.protocol, options, schemas=known.tables, texts=known.texts)

    def completed(self, first: pa.RecordBatch) -> dict[str, str]:
        """The options, with the encoding of Simple that the first messages show."""
        if self.protocol != "simple":
            return dict(self.options)
        sample = first.column("value").slice(0, _SAMPLE).to_pylist()
        return completed(self.protocol, self.options, [Message(None, value) for value in sample])


@lru_cache(maxsize=4)
def _parsed(text: str) -> Schemas:
    return Schemas.from_json(text)


class Decoding:
    """The decoder of a task, made when the first messages are there."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.reading = Reading.of(settings)
        self._decoder: BatchDecoder | None = None
        self._options: dict[str, str] = {}

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, BatchDecoder]]:
        """The messages, a few megabytes at once, each part with the decoder."""
        for batch in batches:
            if batch.num_rows:
                messages = _typed(batch)
                if self._decoder is None:
                    self._options = self.reading.completed(messages)
                    self._decoder = self.reading.decoder(self._options)
                for part in sliced(messages):
                    yield part, self._decoder

    @property
    def is_packed(self) -> bool:
        """Whether messages are not JSON text as they are: in Avro, or compressed."""
        options = Options.parse(self._options)
        return str(options.encoding_format) != "json" or str(options.large_message_handle_compression) != "none"

    def peek(self, messages: pa.RecordBatch, pos: int) -> MessageHeader:
        """What a message that cannot be read tells of itself."""
        known = Schemas() if self.reading.schemas is None else _parsed(self.reading.schemas)
        options = Options.parse(self._options)
        message = Message(messages.column("key")[pos].as_py(), messages.column("value")[pos].as_py())
        return peek(self.reading.protocol, message, options, resources_of(options, known.texts))


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of messages in the types the decoder takes; Spark can be told to use wider ones."""
    return pa.RecordBatch.from_pydict(
        {name: _cast(batch.column(name), type_) for name, type_ in _TYPES.items() if name in batch.schema.names}
    )


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return values if values.type == type_ else values.cast(type_)


def sliced(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The messages in order, in parts of at most a few megabytes or one message."""
    if messages.num_rows == 1 or messages.nbytes <= _BYTES_AT_ONCE:
        yield messages
        return
    middle = messages.num_rows // 2
    yield from sliced(messages.slice(0, middle))
    yield from sliced(messages.slice(middle))


def unreadable(
    protocol: str, messages: pa.RecordBatch, pos: int, what: str, at: Any, part: str | None, advice: str = ""
) -> DecodeError:
    """The error of a message. It has the position and no value: errors end in logs that many people read."""
    topic, partition, offset = (messages.column(name)[pos].as_py() for name in ("topic", "partition", "offset"))
    place = DecodeError(protocol, f"the message at offset {offset} of {topic}, partition {partition}, {what}", at, part)
    return DecodeError(protocol, f"{place.reason}{place.place}; {advice}") if advice else place


EMPTY: Final = "the message is empty"
"""The reason of a message that holds nothing at all: a tombstone, or a delete that does not say of which row."""


def empty_messages(decoded: Decoded, count: int) -> list[int]:
    """The positions of the messages that were read and hold no event; ``count`` is the number of all messages."""
    seen = np.zeros(count, bool)
    for _, rows in decoded.batches:
        seen[rows.column("_pos").to_numpy()] = True
    others = [
        *(pos for pos, _, _ in decoded.controls),
        *(pos for pos, _ in decoded.parked),
        *(reject.pos for reject in decoded.rejects),
    ]
    seen[others] = True
    return [int(pos) for pos in np.flatnonzero(~seen)]


def table_name(text: str) -> TableName:
    """A table of the form ``schema.table``."""
    schema, _, table = text.partition(".")
    return TableName(schema, table)
