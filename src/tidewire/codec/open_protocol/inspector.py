"""One Open Protocol message, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from tidewire.codec.base import Field, Resources
from tidewire.codec.open_protocol.wire import LENGTH, PROTOCOL, VERSION, Frame, MessageType, frames
from tidewire.codec.options import Options
from tidewire.codec.size_limits import Packing
from tidewire.codec.spans import json_fields, moment, name_of
from tidewire.errors import DecodeError
from tidewire.model import ColumnFlag, DdlType, Message, MySQLType


def inspect(message: Message, options: Options = Options(), resources: Resources = Resources()) -> Iterator[Field]:
    """Every byte of a message in order, with its meaning; a broken one as far as it can be read."""
    key, value = message.key or b"", message.value or b""
    if key:
        version = key[: len(VERSION)]
        yield Field("key", 0, version, "version", str(int.from_bytes(version)))
    packing = Packing(PROTOCOL, options, resources)
    sides = (_part(key, "key", len(VERSION)), _part(value, "value", 0))
    for number, (key_fields, value_fields) in enumerate(zip_longest(*sides, fillvalue=None)):
        for payload in (key_fields, value_fields):
            match payload:
                case None:
                    continue
                case Field():
                    yield payload
                case (part, Frame(start, data)):
                    length = LENGTH.pack(len(data))
                    yield Field(part, start - LENGTH.size, length, f"length of event {number}", f"{len(data)} bytes")
                    yield from _payload(part, start, data, packing)


def _part(data: bytes, part: str, at: int) -> Iterator[tuple[str, Frame] | Field]:
    try:
        for found in frames(data, part, at):
            yield part, found
            at = found.start + len(found.payload)
    except DecodeError as error:
        yield Field(part, at, data[at:], "?", error.reason)


def _payload(part: str, start: int, data: bytes, packing: Packing) -> Iterator[Field]:
    if part == "key":
        yield from json_fields(data, part, start, _explain_key)
    elif data:
        yield from packing.inspect(data, start, lambda data, part, at: json_fields(data, part, at, _explain_value))


def _explain_key(path: str, value: Any) -> str:
    match path.removeprefix("$."), value:
        case "ts", int():
            return f"commit ts, {moment(value)}"
        case "t", int():
            return f"event type {name_of(MessageType, value)}"
        case name, _:
            return f"{_WORDS.get(name, 'unknown')}: {value}"


def _explain_value(path: str, value: Any) -> str:
    if path == "$.q":
        return f"query: {value}"
    if path == "$.t":
        return f"DDL type {name_of(DdlType, value)}"
    match path.rpartition(".")[2], value:
        case "t", int():
            return f"column type {name_of(MySQLType, value)}"
        case "f", int():
            return "flags " + (" ".join(str(flag.name) for flag in ColumnFlag(value & 0xFF)) or "none")
        case "h", _:
            return f"handle key: {value}"
        case "v", None:
            return "NULL"
    return f"value {value!r}"


_WORDS = {
    "scm": "schema",
    "tbl": "table",
    "ptn": "physical partition id",
    "rid": "row id",
    "ohk": "handle key only",
    "ccl": "claim check location",
}
