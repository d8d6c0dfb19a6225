"""Simple's Avro schema, and fastavro reading and writing it.

fastavro is given a *wire schema*: other types than TiCDC's schema has, with the same bytes. Three things make it fit:

- ``string`` is ``bytes``, because TiDB's text need not be UTF-8, and the default of a BIT column never is.
- Where a union has several values to choose from, a primitive type is a record of one field: its bytes are those of
  the field, and records have names that fastavro takes and tells, so that ``("String", {"value": b"x"})`` and
  ``("Bytes", {"value": b"x"})`` stay apart.
- A map is an array of records of a name and a value, so that a name can be seen twice.

In it names are short; the namespace is not on the wire.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import Any, Final

from tidewire.codec.simple.wire import PROTOCOL, Wire
from tidewire.errors import DecodeError, MissingExtra

_BOXES: Mapping[str, str] = {
    "long": "Long",
    "float": "Float",
    "double": "Double",
    "string": "String",
    "bytes": "Bytes",
}
"""Primitive types to the records that stand for them in a union."""

_ENTRY: Final = "Entry"
_ENVELOPE: Final = "Envelope"

_FAULTS: Final = (
    EOFError,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    struct.error,
    MemoryError,
    RecursionError,
)
"""Whatever fastavro raises on bytes that are no message."""

_REASONS: Mapping[type[BaseException], str] = {
    EOFError: "more was expected than is left",
    IndexError: "a branch or a word that the schema does not have, or an integer cut short",
}
"""In plain words, where fastavro has none."""


@cache
def message_schema() -> list[Any]:
    """The union every message is of, as TiCDC has it."""
    found: list[Any] = json.loads(files(__package__).joinpath("message.avsc").read_text("utf-8"))
    return found


def read(data: bytes, part: str) -> tuple[str, Wire]:
    """The record that fills a message, and its name. Text is bytes, a map is a list of entries."""
    fastavro, schema, stream = _fastavro(), _wire_schema(), BytesIO(data)
    try:
        envelope = fastavro.schemaless_reader(
            stream, schema, None, return_record_name=True, return_record_name_override=True
        )
    except _FAULTS as error:
        reason = _REASONS.get(type(error)) or str(error)
        raise DecodeError(PROTOCOL, f"not Avro: {reason}", stream.tell(), part) from error
    if stream.tell() < len(data):
        left = len(data) - stream.tell()
        raise DecodeError(PROTOCOL, f"not Avro: {left} bytes after the end of the message", stream.tell(), part)
    name, record = envelope["message"]
    return name, record


def write(name: str, record: Wire) -> bytes:
    """A message with this record; raises ``ValueError`` or a similar error if it does not fit the schema."""
    stream = BytesIO()
    _fastavro().schemaless_writer(stream, _wire_schema(), {"message": (name, record)})
    return stream.getvalue()


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise MissingExtra("fastavro", "avro") from None
    return fastavro


@cache
def _wire_schema() -> Any:
    """The wire schema as fastavro wants it: in one record, or else it would go over the union for every message."""
    union = _on_the_wire(message_schema(), set())
    return _fastavro().parse_schema(_record(_ENVELOPE, {"message": union}))


def _on_the_wire(schema: Any, defined: set[str]) -> Any:
    match schema:
        case str():
            return "bytes" if schema == "string" else schema
        case list():
            boxes = _BOXES if len(schema) > 2 else {}
            return [
                _record(boxes[branch], {"value": _on_the_wire(branch, defined)})
                if isinstance(branch, str) and branch in boxes
                else _on_the_wire(branch, defined)
                for branch in schema
            ]
        case {"type": "map", "values": values}:
            if _ENTRY in defined:
                return {"type": "array", "items": _ENTRY}
            defined.add(_ENTRY)
            entry = _record(_ENTRY, {"name": "bytes", "value": _on_the_wire(values, defined)})
            return {"type": "array", "items": entry}
        case {"type": "array", "items": items}:
            return {"type": "array", "items": _on_the_wire(items, defined)}
        case {"type": "record", "name": name, "fields": fields}:
            fields = [field | {"type": _on_the_wire(field["type"], defined)} for field in fields]
            return {"type": "record", "name": name, "fields": fields}
        case _:
            return schema


def _record(name: str, fields: Mapping[str, Any]) -> Wire:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields.items()],
    }
