"""One Simple message, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from tidewire.codec.base import Field, Resources
from tidewire.codec.options import Compression, EncodingFormat, Options
from tidewire.codec.simple.avro_walk import Walk
from tidewire.codec.simple.avro_wire import message_schema
from tidewire.codec.simple.wire import PROTOCOL
from tidewire.codec.size_limits import Packing
from tidewire.codec.spans import json_fields, moment
from tidewire.errors import DecodeError
from tidewire.model import Message

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def inspect(message: Message, options: Options = Options(), resources: Resources = Resources()) -> Iterator[Field]:
    """Every byte of a message in order, with its meaning; a broken one as far as it can be read."""
    if message.key:
        yield Field("key", 0, message.key, "key", "unknown: Simple sends none")
    value = message.value or b""
    compression = options.large_message_handle_compression
    if not value or compression is Compression.NONE:
        yield from _fields(value, "value", options)
        return
    try:
        unpacked = Packing(PROTOCOL, options, resources).unpack(value)
    except DecodeError as error:
        yield Field("value", 0, value, "?", error.reason)
        return
    yield Field("value", 0, value, "compressed", f"{compression}, {len(unpacked)} bytes unpacked")
    yield from _fields(unpacked, "value unpacked", options)


def _fields(data: bytes, part: str, options: Options) -> Iterator[Field]:
    if options.encoding_format is EncodingFormat.JSON:
        return json_fields(data, part, 0, lambda path, value: _explain(path.removeprefix("$."), value))
    return _avro_fields(data, part)


def _avro_fields(data: bytes, part: str) -> Iterator[Field]:
    walk, rest = Walk(message_schema(), data, part), ""
    try:
        walk.to_the_end()
    except DecodeError as error:
        rest = f"not Avro: {error.reason}"
    read = 0
    for start, read, path, what, value in walk.stretches:
        meaning = _explain(path.removeprefix("payload."), value) if what == "value" else f"{what} {value}"
        yield Field(part, start, data[start:read], path or "message", meaning)
    if rest:
        yield Field(part, read, data[read:], "?", rest)


def _explain(path: str, value: Any) -> str:
    match path, value:
        case "commitTs", int():
            return f"commit ts, {moment(value % 2**64)}"
        case "buildTs", int():
            return f"written at {_written_at(value)}"
        case _, None:
            return "NULL" if path.startswith(("data.", "old.", "data[", "old[")) else "none"
    return f"{_WORDS.get(path, path.rpartition('.')[2])}: {value!r}"


def _written_at(milliseconds: int) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S.%f} UTC"
    except OverflowError:
        return f"{milliseconds} ms, beyond the calendar"


_WORDS = {
    "version": "protocol version",
    "database": "schema",
    "tableID": "physical table id",
    "type": "event type",
    "sql": "query",
    "schemaVersion": "schema version",
    "claimCheckLocation": "claim check location",
    "handleKeyOnly": "handle key only",
}
