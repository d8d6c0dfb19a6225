"""Simple's Avro encoding: one union of twelve records, of which only ``Message`` is ever sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tidewire.codec.jsontext import shown
from tidewire.codec.simple import json_format
from tidewire.codec.simple.avro_binary import Branch, Primitive, Reader, Union, parse, write
from tidewire.codec.simple.json_format import enum_value, finite, read_timestamp, set_value, textual, write_timestamp
from tidewire.codec.simple.wire import BOOTSTRAP, OP_WORDS, PROTOCOL, WATERMARK, Wire
from tidewire.errors import DecodeError
from tidewire.model import Column, MySQLType, Value
from tidewire.model.types import FLOATS, INTEGERS, NUMBERED, STRINGS, TEMPORAL
from tidewire.model.values import float32

_UINT64: Final = 1 << 64
_MESSAGE: Final = "Message"
_PAYLOADS: Mapping[str, str] = {"WATERMARK": "Watermark", "BOOTSTRAP": "Bootstrap", "DDL": "DDL", "DML": "DML"}
"""``type`` of a message to the branch its payload has."""

_SIGNED: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "bit", "year", "decimal"}
)
"""Types that tell whether they are unsigned and zerofill; for all others both are null."""

_SCALED: Final = frozenset({"decimal", "timestamp"})
"""Types that tell their scale. The classic server leaves out that of TIMESTAMP."""

_TEXTS: Final = frozenset({MySQLType.DECIMAL, MySQLType.JSON, MySQLType.VECTOR}) | TEMPORAL - {MySQLType.TIMESTAMP}
"""Types whose values are text in both encodings."""

_TIMES: Final = ("commitTs", "schemaVersion")
"""Unsigned in the model, signed in Avro, with the same 64 bits."""


@cache
def schema() -> Union:
    """The union every message is of."""
    found = parse(json.loads(files(__package__).joinpath("message.avsc").read_text("utf-8")))
    assert isinstance(found, Union)
    return found


def dump(message: Wire) -> bytes:
    """A wire message as Avro, columns sorted by name."""
    kind = _message_type(message["type"])
    payload: Wire = {
        **message,
        **{name: _to_signed(message[name]) for name in _TIMES if name in message},
        **{name: dict(sorted(message[name].items())) for name in ("data", "old") if name in message},
        **{name: _table(message[name]) for name in ("tableSchema", "preTableSchema") if name in message},
    }
    return write(schema(), Branch(_MESSAGE, {"type": kind, "payload": Branch(_PAYLOADS[kind], payload)}))


def _message_type(word: str) -> str:
    if word in (WATERMARK, BOOTSTRAP):
        return word
    return "DML" if word in OP_WORDS.values() else "DDL"


def _table(table: Wire) -> Wire:
    columns = [column | {"dataType": _data_type(column["dataType"])} for column in table["columns"]]
    return table | {"database": table["schema"], "version": _to_signed(table["version"]), "columns": columns}


def _data_type(data_type: Wire) -> Wire:
    word = data_type["mysqlType"]
    return data_type | {
        "decimal": data_type["decimal"] if word in _SCALED else None,
        "elements": data_type["elements"] or None,
        "unsigned": data_type["unsigned"] if word in _SIGNED else None,
        "zerofill": data_type["zerofill"] if word in _SIGNED else None,
    }


def load(data: bytes, part: str) -> Wire:
    """A wire message from Avro; what is null is left out."""
    reader = Reader(data, part)
    record, fields = reader.whole(schema())
    if record != _MESSAGE:
        raise DecodeError(PROTOCOL, f"a bare {record}, a {_MESSAGE} was expected", 0, part)
    kind, (branch, payload) = fields["type"], fields["payload"]
    if branch != _PAYLOADS[kind]:
        raise DecodeError(PROTOCOL, f"a message of type {kind} with a payload of {branch}", 1, part)
    return {
        "type": kind,
        **{name: value for name, value in payload.items() if value is not None},
        **{name: _to_unsigned(payload[name]) for name in _TIMES if name in payload},
        **{name: _image(payload[name]) for name in ("data", "old") if payload.get(name) is not None},
        **{name: _loaded(payload[name]) for name in ("tableSchema", "preTableSchema") if payload.get(name)},
    }


def _image(columns: Mapping[str, Branch]) -> Wire:
    return {name: None if branch.name == Primitive.NULL else branch for name, branch in columns.items()}


def _loaded(table: Wire) -> Wire:
    columns = [
        column | {"dataType": {name: value for name, value in column["dataType"].items() if value is not None}}
        for column in table["columns"]
    ]
    return table | {"schema": table["database"], "version": _to_unsigned(table["version"]), "columns": columns}


def _to_signed(number: int) -> int:
    return number - _UINT64 if 1 << 63 <= number < _UINT64 else number


def _to_unsigned(number: int) -> int:
    return number % _UINT64


def write_value(column: Column, value: Any, zone: str) -> Branch:
    """A value that is not NULL, with its branch."""
    return _WRITERS[column.type](column, value, zone)


def read_value(column: Column, raw: Branch) -> Value:
    """The value behind a branch."""
    read = _READERS[column.type].get(raw.name)
    if read is None:
        raise ValueError(f"{shown(raw.value)} is a {raw.name}")
    return read(column, raw.value)


def _write_integer(column: Column, value: int, _: str) -> Branch:
    if column.type is MySQLType.BIGINT and column.unsigned:
        return Branch("UnsignedBigint", {"value": _to_signed(value)})
    return Branch("long", value)


def _write_string(column: Column, value: str | bytes, _: str) -> Branch:
    if not column.is_binary:
        return Branch("string", textual(value))
    return Branch("bytes", value.encode() if isinstance(value, str) else value)


def _write_text(column: Column, value: Any, zone: str) -> Branch:
    return Branch("string", json_format.write_value(column, value, zone))


_WRITERS: Mapping[MySQLType, Callable[[Column, Any, str], Branch]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _write_integer),
    **dict.fromkeys(NUMBERED, lambda _, value, zone: Branch("long", _to_signed(value.index))),
    **dict.fromkeys(STRINGS, _write_string),
    **dict.fromkeys(_TEXTS | {MySQLType.BIT}, _write_text),
    MySQLType.FLOAT: lambda _, value, zone: Branch("float", finite(value)),
    MySQLType.DOUBLE: lambda _, value, zone: Branch("double", finite(value)),
    MySQLType.TIMESTAMP: lambda _, value, zone: Branch("Timestamp", write_timestamp(value, zone)),
}


def _integer(column: Column, value: int) -> int:
    if column.unsigned and value < 0:
        raise ValueError(f"{value} is below zero")
    return value


def _unsigned_bigint(column: Column, value: Wire) -> int:
    if not column.unsigned:
        raise ValueError("an unsigned value in a signed column")
    return _to_unsigned(value["value"])


def _float(column: Column, value: float) -> float:
    return float32(finite(value)) if column.type is MySQLType.FLOAT else finite(value)


def _string(column: Column, value: str) -> Value:
    if column.is_binary:
        raise ValueError("text in a binary column")
    return json_format.READERS[column.type](column, value)


def _bytes(column: Column, value: bytes) -> bytes:
    if not column.is_binary:
        raise ValueError("bytes in a text column")
    return value


_Reader = Callable[[Column, Any], Value]
_Readers = Mapping[str, _Reader]

_TEXT: _Readers = {"string": lambda column, value: json_format.READERS[column.type](column, value)}
# The document has unsigned integers above 2^63-1 as text; servers do not send that.
_INTEGER: _Readers = {"long": _integer, "UnsignedBigint": _unsigned_bigint, **_TEXT}
_FLOAT: _Readers = {"float": _float, "double": _float}
_STRING: _Readers = {"string": _string, "bytes": _bytes}

_READERS: Mapping[MySQLType, _Readers] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _INTEGER),
    **dict.fromkeys(FLOATS, _FLOAT),
    **dict.fromkeys(STRINGS, _STRING),
    **dict.fromkeys(_TEXTS | {MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY}, _TEXT),
    MySQLType.TIMESTAMP: {"Timestamp": lambda _, value: read_timestamp(value), **_TEXT},
    # A number from the classic server, text from the new one.
    MySQLType.BIT: {"long": lambda _, value: _to_unsigned(value), **_TEXT},
    MySQLType.ENUM: {"long": lambda column, value: enum_value(column, _to_unsigned(value))},
    MySQLType.SET: {"long": lambda column, value: set_value(column, _to_unsigned(value))},
}
"""How a value is read, per type and branch."""
