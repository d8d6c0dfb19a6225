"""Simple's JSON encoding, as Go's ``encoding/json`` writes it."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidewire.codec.gotext import STANDARD, plain_decimal, plain_number
from tidewire.codec.jsontext import Reader, once, read_json, text
from tidewire.codec.simple.wire import PROTOCOL, Wire
from tidewire.model import Column, MySQLType, Timestamp, Value, grammar
from tidewire.model.grammar import shown
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS

_ORDER: Final = (
    "version", "database", "table", "tableID", "type", "sql", "commitTs", "buildTs", "schemaVersion",
    "claimCheckLocation", "handleKeyOnly", "checksum", "data", "old", "tableSchema", "preTableSchema",
)  # fmt: skip
_ALWAYS: Final = frozenset({"version", "type", "commitTs", "buildTs"})
_DATA_TYPE_ALWAYS: Final = frozenset({"mysqlType", "charset", "collate"})


def dump(message: Wire) -> bytes:
    """A wire message as JSON: empty members left out, columns sorted by name."""
    members = {name: message.get(name, 0) for name in _ORDER if name in _ALWAYS or message.get(name)}
    for name in ("data", "old"):
        if name in members:
            members[name] = dict(sorted(members[name].items()))
    for name in ("tableSchema", "preTableSchema"):
        if name in members:
            columns = [_column(column) for column in members[name]["columns"]]
            members[name] = members[name] | {"columns": columns}
    return _json(members)


def _column(column: Wire) -> Wire:
    data_type = {name: value for name, value in column["dataType"].items() if value or name in _DATA_TYPE_ALWAYS}
    default = column["default"]
    if data_type["mysqlType"] == "bit" and isinstance(default, bytes):
        default = int.from_bytes(default)
    return column | {"dataType": data_type, "default": default}


def _json(value: Any) -> bytes:
    match value:
        case dict():
            return b"{%s}" % b",".join(b"%s:%s" % (STANDARD.quote(name), _json(item)) for name, item in value.items())
        case list():
            return b"[%s]" % b",".join(map(_json, value))
        case str() | bytes():
            return STANDARD.quote(value)
        case None:
            return b"null"
        case bool():
            return b"true" if value else b"false"
        case int():
            return b"%d" % value
        case _:
            raise TypeError(f"{shown(value)} has no place in a message")


def load(data: bytes, part: str) -> Wire:
    """A wire message from JSON; members that are ``null`` count as absent."""
    reader = Reader(read_json(data, PROTOCOL, part, objects=once), PROTOCOL, part)
    return {name: value for name, value in reader.members.items() if value is not None}


def write_value(column: Column, value: Any, zone: str) -> str | bytes | Wire:
    """A value that is not NULL: a string, and an object for a TIMESTAMP."""
    return _WRITERS[column.type](column, value, zone)


def read_value(column: Column, raw: Any) -> Value:
    """The value behind a string, or behind a TIMESTAMP's object."""
    if isinstance(raw, dict) and column.type is MySQLType.TIMESTAMP:
        return read_timestamp(raw)
    if not isinstance(raw, str):
        raise ValueError(f"{shown(raw)} is not text")
    return READERS[column.type](column, raw)


def read_timestamp(raw: Wire) -> Timestamp:
    """A TIMESTAMP with the zone its text is in."""
    location, value = raw.get("location", ""), raw.get("value")
    if not isinstance(location, str) or not isinstance(value, str):
        raise ValueError("a timestamp is a value and a location, both text")
    return Timestamp(grammar.DATETIME.check(value), zone=grammar.utf8(location) or None)


def write_timestamp(value: Timestamp, zone: str) -> Wire:
    """A TIMESTAMP with the zone its text is in: its own, or else the server's."""
    return {"location": value.zone or zone, "value": value.text}


def textual(value: Any) -> str | bytes:
    """A value that can be text."""
    if not isinstance(value, str | bytes):
        raise TypeError("neither text nor bytes")
    return value


def finite(value: float) -> float:
    """A number MySQL has."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number MySQL has")
    return value


def _write_string(column: Column, value: str | bytes, _: str) -> str | bytes:
    if not column.is_binary:
        return textual(value)
    return base64.b64encode(value.encode() if isinstance(value, str) else value)


_Writer = Callable[[Column, Any, str], str | bytes | Wire]

_WRITERS: Mapping[MySQLType, _Writer] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, lambda _, value, zone: f"{value:d}"),
    **dict.fromkeys(FLOATS, lambda column, value, _: plain_number(value, single=column.type is MySQLType.FLOAT)),
    **dict.fromkeys(ENUM_SET, lambda _, value, zone: f"{value.index:d}"),
    **dict.fromkeys(TEMPORAL, lambda _, value, zone: value.text),
    **dict.fromkeys(TEXTS, lambda _, value, zone: textual(value)),
    **dict.fromkeys(STRINGS, _write_string),
    MySQLType.DECIMAL: lambda _, value, zone: plain_decimal(value),
    MySQLType.TIMESTAMP: lambda _, value, zone: write_timestamp(value, zone),
}


def _string(column: Column, raw: str) -> str | bytes:
    return base64.b64decode(grammar.utf8(raw), validate=True) if column.is_binary else text(raw)


READERS: Mapping[MySQLType, Callable[[Column, str], Value]] = {
    **grammar.READERS,
    **dict.fromkeys(STRINGS, _string),
}
"""How a value is read from text, per type; Avro shares those it writes as text too."""
