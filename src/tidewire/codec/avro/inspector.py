"""One Avro message, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidewire.codec.avro import names
from tidewire.codec.avro.binary import Cursor
from tidewire.codec.avro.layout import Layout, Slot, read_layout
from tidewire.codec.avro.wire import CONTROL, HEADER, Kind
from tidewire.codec.base import Field, Resources
from tidewire.codec.options import Options
from tidewire.codec.spans import json_fields, name_of
from tidewire.errors import DecodeError, RegistryError
from tidewire.model import DdlType, Message
from tidewire.model.tso import to_datetime


def inspect(message: Message, options: Options = Options(), resources: Resources = Resources()) -> Iterator[Field]:
    """Every byte of a message in order, with its meaning; a broken one as far as it can be read.

    Without a registry a record is one field: its bytes do not say what they are.
    """
    if message.key is not None:
        yield from _record(message.key, "key", resources)
    value = message.value
    if not value:
        return
    match value[0]:
        case Kind.DDL if message.key is None:
            yield Field("value", 0, value[:1], "kind", "DDL")
            yield from json_fields(value[1:], "value", 1, _explain_ddl)
        case Kind.WATERMARK | Kind.DELETE as kind:
            yield Field("value", 0, value[:1], "kind", "watermark" if kind == Kind.WATERMARK else "delete")
            known = len(value) == CONTROL.size
            yield Field("value", 1, value[1:], "ts", _moment(CONTROL.unpack(value)[1]) if known else "not 8 bytes")
        case _:
            yield from _record(value, "value", resources)


def _record(data: bytes, part: str, resources: Resources) -> Iterator[Field]:
    cursor = Cursor(data, part)
    try:
        schema_id = cursor.header()
        yield Field(part, 0, data[:1], "magic", "Confluent framing")
        yield Field(part, 1, data[1 : HEADER.size], "schema id", str(schema_id))
        if resources.registry is None:
            if cursor.at < len(data):
                yield Field(part, cursor.at, data[cursor.at :], "record", "only its schema tells what this is")
            return
        yield from _slots(read_layout(resources.registry.schema(schema_id), schema_id), cursor, "")
        cursor.end()
    except (DecodeError, RegistryError) as error:
        if cursor.at < len(data):
            reason = error.reason if isinstance(error, DecodeError) else str(error)
            yield Field(part, cursor.at, data[cursor.at :], "?", reason)


def _slots(layout: Layout, cursor: Cursor, path: str) -> Iterator[Field]:
    for slot in layout.slots:
        start = cursor.at
        try:
            value = slot.read(cursor)
        except DecodeError:
            cursor.at = start  # the caller shows the rest, this field included
            raise
        yield Field(cursor.part, start, cursor.data[start : cursor.at], path + slot.name, _meaning(slot, value))
        if slot.record is not None and value is not None:
            yield from _slots(slot.record, cursor, f"{path}{slot.name}.")


def _meaning(slot: Slot, value: Any) -> str:
    if slot.record is not None:
        return "NULL" if value is None else "record"
    if slot.column is not None:
        return "NULL" if value is None else f"{slot.column.mysql_type}: {value!r}"
    match slot.name:
        case names.COMMIT_TS:
            return f"commit ts {_moment(value)}"
        case names.PHYSICAL_TIME:
            return f"{value} ms since the epoch"
    return str(value)


def _moment(ts: int) -> str:
    try:
        return f"{ts}, {to_datetime(ts):%Y-%m-%d %H:%M:%S.%f} UTC"
    except OverflowError:
        return f"{ts}, beyond the calendar"


def _explain_ddl(path: str, value: Any) -> str:
    if path == "$.type":
        return f"DDL type {name_of(DdlType, value)}"
    if path == "$.commitTs" and isinstance(value, int):
        return f"commit ts {_moment(value)}"
    return str(value)
