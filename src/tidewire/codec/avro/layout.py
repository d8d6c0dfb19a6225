"""Registered schemas, read: which fields a record has and what columns they stand for.

The layout of a schema is worked out once and kept, so a message costs only the walk along it.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast, get_args

from tidewire.codec.avro import values
from tidewire.codec.avro.binary import Cursor, FieldReader, field_reader
from tidewire.codec.avro.names import BEFORE, CHECKSUM, COMMIT_TS, OP
from tidewire.codec.avro.schema import EXTENSION_TYPES
from tidewire.codec.avro.wire import PROTOCOL, AvroType, unsigned
from tidewire.codec.gotext import json_number
from tidewire.codec.jsontext import Reader, read_json
from tidewire.errors import DecodeError
from tidewire.model import Column, MySQLType, Op, Row, TableName
from tidewire.model.types import FACTS, TEXTUAL


class Record(NamedTuple):
    """What a record says: the row, the row before where it brings one, and the fields about the change."""

    row: Row
    before: Row | None
    extension: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One field of a record: how to read it, and the column it stands for.

    A field about the change has no column, the row before has a ``record``.
    """

    name: str
    reader: FieldReader
    interpret: Callable[[Any], Any]
    column: Column | None = None
    record: Layout | None = None

    def read(self, cursor: Cursor, within: str = "") -> Any:
        """The field's value, of a record whether it is there; an error names the field, and what it is within."""
        start = cursor.at
        try:
            raw = self.reader.read(cursor)
            return None if raw is None else self.interpret(raw)
        except (ValueError, OverflowError) as error:
            reason = error.reason if isinstance(error, DecodeError) else str(error)
            raise cursor.refuse(f"{within}{self.described}: {reason}", start) from error

    @property
    def described(self) -> str:
        """What errors call it."""
        return f"field {self.name}" if self.column is None else f"column {self.name} ({self.column.mysql_type})"


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The fields of a record in order."""

    table: TableName
    slots: tuple[Slot, ...]
    columns: tuple[Column, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(slot.column for slot in self.slots if slot.column is not None))

    def read(self, cursor: Cursor, within: str = "") -> Record:
        """The record at a place."""
        row, before, extension = {}, None, {}
        for slot in self.slots:
            found = slot.read(cursor, within)
            if slot.column is not None:
                row[slot.name] = found
            elif slot.record is not None:
                before = None if found is None else slot.record.read(cursor, f"{slot.described}: ").row
            else:
                extension[slot.name] = found
        return Record(row, before, extension)


def read_layout(schema: str, schema_id: int) -> Layout:
    """The layout of a registered schema; raises ``DecodeError`` if TiCDC does not make such a schema."""
    part = f"schema {schema_id}"
    text = schema.encode("utf-8", "surrogatepass")
    return _layout(Reader(read_json(text, PROTOCOL, part), PROTOCOL, part), may_nest=True)


def _layout(reader: Reader, *, may_nest: bool) -> Layout:
    if reader.members.get("type") != "record":
        raise reader.refuse("a record was expected", "type")
    space, _, name = f"{reader.string('namespace', '')}.{reader.string('name')}".rpartition(".")
    fields = reader.members.get("fields")
    if not isinstance(fields, list):
        raise reader.refuse("a list of fields was expected", "fields")
    slots: dict[str, Slot] = {}
    for index, members in enumerate(fields):
        member = Reader(members, PROTOCOL, reader.part, f"{reader.path}.fields[{index}]")
        slot = _slot(member, may_nest=may_nest)
        if slot.name in slots:
            raise member.refuse(f"a second field called {slot.name}", "name")
        slots[slot.name] = slot
    # The first part is the changefeed's keyspace; the new server may leave it empty, as in ".test".
    return Layout(TableName(space.partition(".")[2], name), tuple(slots.values()))


def _slot(reader: Reader, *, may_nest: bool) -> Slot:
    name = reader.string("name")
    type_, null_at = reader.members.get("type"), None
    if isinstance(type_, list):
        if len(type_) != 2 or type_.count("null") != 1:
            raise reader.refuse("a union of null and one other type was expected", "type")
        null_at = type_.index("null")
        type_ = type_[1 - null_at]
    at = Reader(type_ if isinstance(type_, dict) else {"type": type_}, PROTOCOL, reader.part, f"{reader.path}.type")
    word = at.members.get("type")
    if name == BEFORE and word == "record" and may_nest:
        return Slot(name, field_reader("record", null_at), _as_is, record=_layout(at, may_nest=False))
    if not isinstance(word, str) or word not in get_args(AvroType):
        raise at.refuse(f"{word!r} is no type of a column", "type")
    avro = cast("AvroType", word)
    if "connect.parameters" not in at.members and name in EXTENSION_TYPES:
        if avro != EXTENSION_TYPES[name] or null_at is not None:
            raise at.refuse(f"{name} is of type {EXTENSION_TYPES[name]}", "type")
        return Slot(name, field_reader(avro, null_at), _EXTENSION.get(name, _as_is))
    column = _column(name, at, null_at is not None, reader.members.get("default"), avro)
    read = values.READERS.get((column.type, avro))
    if read is None:
        raise at.refuse(f"column {name} ({column.mysql_type}) as {avro}", "type")
    return Slot(name, field_reader(avro, null_at), lambda raw: read(column, raw), column)


def _op(raw: bytes) -> Op:
    if raw not in _OPS:
        raise ValueError(f"{raw[:20]!r} is not one of c, u and d")
    return _OPS[raw]


_OPS: Mapping[bytes, Op] = {b"c": Op.INSERT, b"u": Op.UPDATE, b"d": Op.DELETE}


def _checksum(raw: bytes) -> int | None:
    """An empty text: the row has none."""
    if not raw:
        return None
    if re.fullmatch(rb"\d{1,10}", raw) is None or int(raw) >> 32:
        raise ValueError(f"{raw[:20]!r} is no unsigned 32-bit integer")
    return int(raw)


def _as_is(raw: Any) -> Any:
    return raw


_EXTENSION: Mapping[str, Callable[[Any], Any]] = {OP: _op, COMMIT_TS: unsigned, CHECKSUM: _checksum}

_TYPES: Mapping[str, MySQLType] = {facts.avro: type_ for type_, facts in FACTS.items() if facts.avro}
"""``tidb_type`` to a column type. Widths are lost on the way, so each is the widest of its kind."""


def _column(name: str, type_: Reader, nullable: bool, default: Any, avro: AvroType) -> Column:
    parameters = type_.object("connect.parameters")
    word = parameters.string("tidb_type")
    known = _TYPES.get(word.removesuffix(" UNSIGNED"))
    if known is None:
        raise parameters.refuse(f"{word!r} is no type of TiDB's", "tidb_type")
    length = decimal = None
    if known is MySQLType.BIT:
        length = _number(parameters, parameters.string("length", "1"), "length", 64)
    if known is MySQLType.DECIMAL and avro == "bytes":
        if type_.members.get("logicalType") != "decimal":
            raise type_.refuse("a decimal was expected", "logicalType")
        length = _number(type_, type_.members.get("precision"), "precision", values.MAX_DIGITS)
        decimal = _number(type_, type_.members.get("scale", 0), "scale", length)
    is_unsigned = word.endswith(" UNSIGNED") or known in (MySQLType.YEAR, MySQLType.BIT)
    return Column(
        name,
        known,
        nullable=nullable,
        unsigned=is_unsigned,
        zerofill=known is MySQLType.YEAR,
        charset="binary" if known not in TEXTUAL or known is MySQLType.LONGBLOB else None,
        length=length,
        decimal=decimal,
        elements=_ELEMENTS[known](parameters.string("allowed")) if known in _ELEMENTS else (),
        default=_default(default, known, avro, is_unsigned),
    )


def _number(reader: Reader, number: Any, name: str, highest: int) -> int:
    if isinstance(number, str) and re.fullmatch(r"\d{1,3}", number, re.ASCII):
        number = int(number)
    if type(number) is not int or not 0 <= number <= highest:
        raise reader.refuse(f"a number up to {highest} was expected", name)
    return number


_COMMA = re.compile(r"(?<!\\),")
_ELEMENTS: Mapping[MySQLType, Callable[[str], tuple[str, ...]]] = {
    MySQLType.ENUM: lambda allowed: tuple(name.replace(r"\,", ",") for name in _COMMA.split(allowed)),
    MySQLType.SET: lambda allowed: tuple(allowed.split(",")),  # no name of a SET has a comma
}


def _default(default: Any, type_: MySQLType, avro: AvroType, is_unsigned: bool) -> str | bytes | None:
    """The column's default as TiDB has it; ``None`` also where a server wrote one that its type cannot have."""
    match avro, default:
        case "string", str():
            return default
        case "bytes", str():
            try:
                return base64.b64decode(default, validate=True)
            except ValueError:
                return None
        case "int" | "long", int():
            return str(unsigned(default) if is_unsigned else default)
        case "float" | "double", int() | float() if math.isfinite(default):
            return json_number(default, single=type_ is MySQLType.FLOAT)
    return None
