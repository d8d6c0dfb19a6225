"""The schemas of a table's keys and values, in the very text TiCDC registers.

A registry compares text, so the order of members, the escapes and the notation of numbers are part of the format.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidewire.codec.avro.names import (
    BEFORE,
    CHECKSUM,
    CHECKSUM_VERSION,
    COMMIT_TS,
    CORRUPTED,
    OP,
    PHYSICAL_TIME,
    namespace,
    sanitized,
)
from tidewire.codec.avro.wire import PROTOCOL, AvroType, signed
from tidewire.codec.gotext import STANDARD, json_number
from tidewire.codec.options import DecimalMode, IntegrityCheck, Options, UnsignedBigintMode
from tidewire.errors import EncodeError
from tidewire.model import Column, MySQLType, TableSchema
from tidewire.model.types import ENUM_SET, FACTS, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS
from tidewire.model.values import float32

ENCODE_FAILED = "CDC:ErrAvroEncodeFailed"
SCHEMA_REFUSED = "CDC:ErrAvroSchemaAPIError"


class AvroField(NamedTuple):
    """One column in a record: its Avro type, and where ``null`` is in its union (``None``: it is no union)."""

    column: Column
    type: AvroType
    null_at: int | None


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A schema to register, and its columns in order."""

    text: str
    fields: tuple[AvroField, ...]


def key_schema(table: TableSchema, options: Options) -> RecordSchema | None:
    """The schema of a table's keys; ``None`` if the table has no primary key."""
    columns = [column for column in table.columns if column.primary_key]
    return _record(table, columns, (), options, lambda fields: fields) if columns else None


def value_schema(table: TableSchema, options: Options) -> RecordSchema:
    """The schema of a table's values: all columns, the row before if wanted, then what TiDB knows of the change."""
    extension = extension_fields(options)

    def with_extension(fields: Sequence[bytes]) -> Sequence[bytes]:
        nested = _record_text(table, "_before", fields, options) if BEFORE in extension else b""
        before = b'{"default":null,"name":"%s","type":["null",%s]}' % (BEFORE.encode(), nested)
        return [*fields, *(_EXTENSION.get(name, before) for name in extension)]

    columns = table.columns
    if options.integrity_check_level is IntegrityCheck.CORRECTNESS:
        columns = tuple(sorted(columns, key=lambda column: column.id or 0))  # the order the checksum is made in
    return _record(table, columns, extension, options, with_extension)


def extension_fields(options: Options) -> Sequence[str]:
    """The names of the fields after the columns, in order."""
    before = options.avro_include_before_value
    checksum = options.integrity_check_level is IntegrityCheck.CORRECTNESS
    wanted = {
        BEFORE: before,
        OP: before or options.enable_tidb_extension,
        **dict.fromkeys((COMMIT_TS, PHYSICAL_TIME), options.enable_tidb_extension),
        **dict.fromkeys((CHECKSUM, CORRUPTED, CHECKSUM_VERSION), options.enable_tidb_extension and checksum),
    }
    return tuple(name for name, is_wanted in wanted.items() if is_wanted)


EXTENSION_TYPES: Mapping[str, AvroType] = {
    OP: "string",
    COMMIT_TS: "long",
    PHYSICAL_TIME: "long",
    CHECKSUM: "string",
    CORRUPTED: "boolean",
    CHECKSUM_VERSION: "int",
}
"""The types of the fields about a change."""

_ZEROS: Mapping[AvroType, bytes] = {"string": b'""', "long": b"0", "int": b"0", "boolean": b"false"}
_EXTENSION: Mapping[str, bytes] = {
    name: b'{"default":%s,"name":"%s","type":"%s"}' % (_ZEROS[type_], name.encode(), type_.encode())
    for name, type_ in EXTENSION_TYPES.items()
}


def _record(
    table: TableSchema,
    columns: Iterable[Column],
    extension: Iterable[str],
    options: Options,
    complete: Callable[[Sequence[bytes]], Sequence[bytes]],
) -> RecordSchema:
    fields, texts = [], []
    taken = set(extension)
    for column in columns:
        name = sanitized(column.name)
        if name in taken:
            raise EncodeError(PROTOCOL, f"{table.name} has two fields called {name}", SCHEMA_REFUSED)
        taken.add(name)
        field, text = _field(column, name, options)
        fields.append(field)
        texts.append(text)
    return RecordSchema(_record_text(table, "", complete(texts), options).decode(), tuple(fields))


def _record_text(table: TableSchema, suffix: str, fields: Iterable[bytes], options: Options) -> bytes:
    space = namespace(options.namespace, table.name.schema)
    if space.startswith("."):
        raise EncodeError(PROTOCOL, f"{space!r} is no namespace: the option namespace is empty", SCHEMA_REFUSED)
    names = STANDARD.quote(sanitized(table.name.table) + suffix), STANDARD.quote(space)
    return b'{"type":"record","name":%s,"namespace":%s,"fields":[%s]}' % (*names, b",".join(fields))


def _field(column: Column, name: str, options: Options) -> tuple[AvroField, bytes]:
    wire = _wire(column, options)
    text = b'{"type":"%s","connect.parameters":%s%s}' % (wire.type.encode(), _parameters(wire), wire.logical)
    default = None
    if column.default is not None and not wire.logical:
        default = _default(column, wire)
    nullable = not column.primary_key if column.nullable is None else column.nullable
    null_at = None
    if nullable:
        # The server reads a schema back, numbers as doubles, before it registers it.
        if wire.type == "long" and default is not None and float(default) >= 1 << 63:
            reason = f"column {column.name} has a default that no double holds: {default.decode()}"
            raise EncodeError(PROTOCOL, reason, SCHEMA_REFUSED)
        null_at = 0 if default is None else 1
        text = b'["null",%s]' % text if default is None else b'[%s,"null"]' % text
        default = default or b"null"
    head = b"" if default is None else b'"default":%s,' % default
    return AvroField(column, wire.type, null_at), b'{%s"name":%s,"type":%s}' % (head, STANDARD.quote(name), text)


class _Wire(NamedTuple):
    """A column type in Avro: ``logical`` is what follows its parameters in the text."""

    type: AvroType
    tidb_type: str
    parameters: tuple[tuple[str, str], ...] = ()
    logical: bytes = b""


def _wire(column: Column, options: Options) -> _Wire:
    choose = _WIRES.get(column.type)
    if choose is None:
        raise EncodeError(
            PROTOCOL, f"column {column.name} ({column.mysql_type}) has a type the protocol does not know", ENCODE_FAILED
        )
    return choose(column, options)


def _parameters(wire: _Wire) -> bytes:
    members = (*wire.parameters, ("tidb_type", wire.tidb_type))
    return b"{%s}" % b",".join(b"%s:%s" % (STANDARD.quote(name), STANDARD.quote(value)) for name, value in members)


def _integer(column: Column, _: Options) -> _Wire:
    wide = column.type is MySQLType.INT and column.unsigned
    return _Wire("long" if wide else "int", "INT UNSIGNED" if column.unsigned else "INT")


def _bigint(column: Column, options: Options) -> _Wire:
    if not column.unsigned:
        return _Wire("long", "BIGINT")
    as_text = options.avro_bigint_unsigned_handling_mode is UnsignedBigintMode.STRING
    return _Wire("string" if as_text else "long", "BIGINT UNSIGNED")


def _decimal(column: Column, options: Options) -> _Wire:
    if options.avro_decimal_handling_mode is DecimalMode.STRING:
        return _Wire("string", "DECIMAL")
    logical = b',"logicalType":"decimal","precision":%d,"scale":%d' % (
        10 if column.length is None else column.length,
        scale(column),
    )
    return _Wire("bytes", "DECIMAL", logical=logical)


def scale(column: Column) -> int:
    """The digits after a DECIMAL's point."""
    return column.decimal or 0


def bit_length(column: Column) -> int:
    """The width of a BIT column."""
    return 1 if column.length is None else column.length


def _numbered(column: Column, _: Options) -> _Wire:
    allowed = ",".join(
        element.replace(",", r"\,").replace(r"\'", "'").replace("''", "'") for element in column.elements
    )
    return _Wire("string", column.type.name, (("allowed", allowed),))


_WIRES: Mapping[MySQLType, Callable[[Column, Options], _Wire]] = {
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(STRINGS, lambda column, _: _Wire("bytes", "BLOB") if column.is_binary else _Wire("string", "TEXT")),
    **dict.fromkeys(ENUM_SET, _numbered),
    **dict.fromkeys(TEMPORAL | TEXTS, lambda column, _: _Wire("string", FACTS[column.type].avro or "")),
    MySQLType.NEWDATE: lambda *_: _Wire("string", "DATE"),
    MySQLType.BIGINT: _bigint,
    MySQLType.FLOAT: lambda *_: _Wire("float", "FLOAT"),
    MySQLType.DOUBLE: lambda *_: _Wire("double", "DOUBLE"),
    MySQLType.DECIMAL: _decimal,
    MySQLType.BIT: lambda column, _: _Wire("bytes", "BIT", (("length", str(bit_length(column))),)),
    MySQLType.YEAR: lambda *_: _Wire("int", "YEAR"),
}


def _default(column: Column, wire: _Wire) -> bytes:
    """The column's default as JSON. Bytes are Base64 and TIMESTAMP is UTC, which Avro's own rules do not foresee."""
    assert column.default is not None
    try:
        if wire.type == "string":
            return STANDARD.quote(column.default)
        return _DEFAULTS[column.type](column)
    except (ValueError, OverflowError) as error:
        raise EncodeError(
            PROTOCOL,
            f"column {column.name} ({column.mysql_type}) cannot have the default {column.default!r}: {error}",
            ENCODE_FAILED,
        ) from error


def _default_integer(column: Column) -> bytes:
    number = int(_text(column))
    return b"%d" % (signed(number) if column.unsigned and column.type is MySQLType.BIGINT else number)


def _default_float(column: Column) -> bytes:
    number = float(_text(column))
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    text = json_number(float32(number) if column.type is MySQLType.FLOAT else number)
    return re.sub("e-0", "e-", text).encode()  # this one of Go's writers has no leading zero there


def _default_bytes(column: Column) -> bytes:
    default = column.default
    data = default.encode() if isinstance(default, str) else default or b""
    if column.type is MySQLType.CHAR:
        data = data.ljust(column.length or 0, b"\0")
    return b'"%s"' % base64.b64encode(data)


def _text(column: Column) -> str:
    return column.default.decode() if isinstance(column.default, bytes) else column.default or ""


_DEFAULTS: Mapping[MySQLType, Callable[[Column], bytes]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _default_integer),
    **dict.fromkeys(FLOATS, _default_float),
    **dict.fromkeys(STRINGS | {MySQLType.BIT}, _default_bytes),
}
