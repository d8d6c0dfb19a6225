"""Simple's Avro encoding: one union of twelve records, of which only ``Message`` is ever sent.

Values and optional records have fastavro's notation, a pair of the branch's name and what is in it. The names of a
column's branches are those of the wire schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any, Final, TypeAlias

from tidewire.codec.simple import json_format
from tidewire.codec.simple.avro_wire import read, write
from tidewire.codec.simple.json_format import finite, read_timestamp, textual, write_timestamp
from tidewire.codec.simple.wire import BOOTSTRAP, OP_WORDS, PROTOCOL, WATERMARK, Wire
from tidewire.errors import DecodeError
from tidewire.model import Column, MySQLType, Value, grammar
from tidewire.model.grammar import shown
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS
from tidewire.model.values import float32

Branch: TypeAlias = tuple[str, Wire]
"""A column's value: the record's name and its fields."""

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

_TEXTS: Final = TEXTS | {MySQLType.DECIMAL} | TEMPORAL - {MySQLType.TIMESTAMP}
"""Types whose values are text in both encodings."""

_TIMES: Final = ("commitTs", "schemaVersion")
"""Unsigned in the model, signed in Avro, with the same 64 bits."""

_IMAGES: Final = ("data", "old")
_TABLES: Final = ("tableSchema", "preTableSchema")


def dump(message: Wire) -> bytes:
    """A wire message as Avro, columns sorted by name."""
    kind = _message_type(message["type"])
    payload: Wire = {
        **message,
        **{name: _to_signed(message[name]) for name in _TIMES if name in message},
        **{name: ("array", _entries(message[name])) for name in _IMAGES if name in message},
        **{name: _table(message[name], optional=kind == "DDL") for name in _TABLES if name in message},
    }
    payload = _to_bytes(payload) | {"type": message["type"]}
    return write(_MESSAGE, {"type": kind, "payload": (_PAYLOADS[kind], payload)})


def _message_type(word: str) -> str:
    if word in (WATERMARK, BOOTSTRAP):
        return word
    return "DML" if word in OP_WORDS.values() else "DDL"


def _entries(image: Wire) -> list[Wire]:
    return [{"name": name, "value": value} for name, value in sorted(image.items())]


def _table(table: Wire, *, optional: bool) -> Wire | Branch:
    columns = [column | {"dataType": _data_type(column["dataType"])} for column in table["columns"]]
    record = table | {"database": table["schema"], "version": _to_signed(table["version"]), "columns": columns}
    return ("TableSchema", record) if optional else record


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
    record, fields = read(data, part)
    if record != _MESSAGE:
        raise DecodeError(PROTOCOL, f"a bare {record}, a {_MESSAGE} was expected", 0, part)
    kind, (branch, payload) = fields["type"], fields["payload"]
    if branch != _PAYLOADS[kind]:
        raise DecodeError(PROTOCOL, f"a message of type {kind} with a payload of {branch}", 1, part)
    images = {name: _image(payload.pop(name), name, part) for name in _IMAGES if payload.get(name) is not None}
    payload = {name: _to_text(value) for name, value in payload.items() if value is not None}
    return {
        "type": kind,
        **payload,
        **images,
        **{name: _to_unsigned(payload[name]) for name in _TIMES if name in payload},
        **{name: _loaded(payload[name]) for name in _TABLES if name in payload},
    }


def _image(entries: list[Wire], member: str, part: str) -> Wire:
    image: Wire = {}
    for entry in entries:
        name = _to_text(entry["name"])
        if name in image:
            raise DecodeError(PROTOCOL, f"{shown(name)} is there twice", f"$.{member}", part)
        image[name] = _to_text(entry["value"])
    return image


def _loaded(table: Wire) -> Wire:
    columns = [
        column | {"dataType": {name: value for name, value in column["dataType"].items() if value is not None}}
        for column in table["columns"]
    ]
    return table | {"schema": table["database"], "version": _to_unsigned(table["version"]), "columns": columns}


def _to_bytes(value: Any) -> Any:
    """All text in a message as the wire schema has it."""
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape")
        case dict():
            return {name: _to_bytes(item) for name, item in value.items()}
        case list():
            return [_to_bytes(item) for item in value]
        case (branch, inner):
            return branch, _to_bytes(inner)
    return value


def _to_text(value: Any) -> Any:
    """All text in a message as text; what is not UTF-8 comes out as lone surrogates."""
    match value:
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case dict():
            return {name: _to_text(item) for name, item in value.items()}
        case list():
            return [_to_text(item) for item in value]
        case (branch, inner) if branch != "Bytes":
            return branch, _to_text(inner)
    return value


def _to_signed(number: int) -> int:
    return number - _UINT64 if 1 << 63 <= number < _UINT64 else number


def _to_unsigned(number: int) -> int:
    return number % _UINT64


def write_value(column: Column, value: Any, zone: str) -> Branch:
    """A value that is not NULL, with its branch."""
    return _WRITERS[column.type](column, value, zone)


def read_value(column: Column, raw: Branch) -> Value:
    """The value behind a branch."""
    record, fields = raw
    read = _READERS[column.type].get(record)
    if read is None:
        raise ValueError(f"{shown(fields['value'])} is a {record}")
    return read(column, **fields)


def _boxed(record: str, value: Any) -> Branch:
    return record, {"value": value}


def _long(value: int, record: str = "Long") -> Branch:
    if not -1 << 63 <= index(value) < 1 << 63:
        raise ValueError(f"{value} does not fit 64 bits")
    return _boxed(record, value)


def _write_integer(column: Column, value: int, _: str) -> Branch:
    if column.type is MySQLType.BIGINT and column.unsigned:
        return _long(_to_signed(value), "UnsignedBigint")
    return _long(value)


def _write_string(column: Column, value: str | bytes, _: str) -> Branch:
    if not column.is_binary:
        return _boxed("String", textual(value))
    return _boxed("Bytes", value.encode() if isinstance(value, str) else textual(value))


def _write_text(column: Column, value: Any, zone: str) -> Branch:
    return _boxed("String", json_format.write_value(column, value, zone))


_WRITERS: Mapping[MySQLType, Callable[[Column, Any, str], Branch]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _write_integer),
    **dict.fromkeys(ENUM_SET, lambda _, value, zone: _long(_to_signed(value.index))),
    **dict.fromkeys(STRINGS, _write_string),
    **dict.fromkeys(_TEXTS | {MySQLType.BIT}, _write_text),
    MySQLType.FLOAT: lambda _, value, zone: _boxed("Float", float32(finite(value))),
    MySQLType.DOUBLE: lambda _, value, zone: _boxed("Double", finite(value)),
    MySQLType.TIMESTAMP: lambda _, value, zone: ("Timestamp", write_timestamp(value, zone)),
}


def _integer(column: Column, value: int) -> int:
    return grammar.integer(column, value)


def _unsigned_bigint(column: Column, value: int) -> int:
    if not column.unsigned:
        raise ValueError("an unsigned value in a signed column")
    return grammar.integer(column, _to_unsigned(value))


def _float(column: Column, value: float) -> float:
    return grammar.floating(column, value)


def _string(column: Column, value: str) -> Value:
    if column.is_binary:
        raise ValueError("text in a binary column")
    return json_format.READERS[column.type](column, value)


def _bytes(column: Column, value: bytes) -> bytes:
    if not column.is_binary:
        raise ValueError("bytes in a text column")
    return value


_Readers = Mapping[str, Callable[..., Value]]
"""By record; a reader takes the column and the record's fields by name."""

_TEXT: _Readers = {"String": lambda column, value: json_format.READERS[column.type](column, value)}
# The document has unsigned integers above 2^63-1 as text; servers do not send that.
_INTEGER: _Readers = {"Long": _integer, "UnsignedBigint": _unsigned_bigint, **_TEXT}
_FLOAT: _Readers = {"Float": _float, "Double": _float}
_STRING: _Readers = {"String": _string, "Bytes": _bytes}

_READERS: Mapping[MySQLType, _Readers] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _INTEGER),
    **dict.fromkeys(FLOATS, _FLOAT),
    **dict.fromkeys(STRINGS, _STRING),
    **dict.fromkeys(_TEXTS | {MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY}, _TEXT),
    MySQLType.TIMESTAMP: {"Timestamp": lambda _, **fields: read_timestamp(fields), **_TEXT},
    # A number from the classic server, text from the new one.
    MySQLType.BIT: {"Long": lambda _, value: _to_unsigned(value), **_TEXT},
    MySQLType.ENUM: {"Long": lambda column, value: grammar.enum_value(column, _to_unsigned(value))},
    MySQLType.SET: {"Long": lambda column, value: grammar.set_value(column, _to_unsigned(value))},
}
"""How a value is read, per type and branch."""
