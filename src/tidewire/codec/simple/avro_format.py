"""Simple's Avro encoding: one union of twelve records, of which only ``Message`` is ever sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tidewire.codec.simple import json_format
from tidewire.codec.simple.avro_binary import Branch, Reader, Union, parse, write
from tidewire.codec.simple.json_format import enum_value, read_timestamp, set_value, write_timestamp
from tidewire.codec.simple.wire import BOOTSTRAP, OP_WORDS, WATERMARK, Wire
from tidewire.errors import DecodeError
from tidewire.model import Column, MySQLType, Value
from tidewire.model.types import FLOATS, INTEGERS, NUMBERED, STRINGS
from tidewire.model.values import float32

_UINT64: Final = 1 << 64
_MESSAGE: Final = "Message"
_PAYLOADS: Mapping[str, str] = {"WATERMARK": "Watermark", "BOOTSTRAP": "Bootstrap", "DDL": "DDL", "DML": "DML"}
"""``type`` of a message to the branch its payload has."""

_SIGNED: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "bit", "year", "decimal"})
"""Types that tell whether they are unsigned and zerofill; for all others both are null."""

_SCALED: Final = frozenset({"decimal", "timestamp"})
"""Types that tell their scale. The classic server leaves out that of TIMESTAMP."""

_TIMES: Final = ("commitTs", "schemaVersion", "version")
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
    payload = message | {
        **{name: _to_signed(message[name]) for name in _TIMES if name in message},
        **{name: dict(sorted(message[name].items())) for name in ("data", "old") if message.get(name) is not None},
        **{name: _table(message[name]) for name in ("tableSchema", "preTableSchema") if message.get(name)},
    }
    payload["handleKeyOnly"] = message.get("handleKeyOnly") or None
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
    """A wire message from Avro."""
    reader = Reader(data, part)
    record = reader.whole(schema())
    kind, payload = record.get("type"), record.get("payload")
    return {}


def _to_signed(number: int) -> int:
    return number - _UINT64 if number >> 63 == 1 else number
