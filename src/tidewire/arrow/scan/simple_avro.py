"""Simple rows in Avro straight into columns.

All messages are of one schema, and columns are a map in any order. So the code for the fields before the map is made
once, and what stands before a value, its column's name and the branch of its union, is looked up as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tidewire.arrow.convert import value_reader
from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.plan import BufferedRow, OpCode, Plan
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.avro_code import MISREADS, Field, RecordReader, compile_reader, varint
from tidewire.arrow.scan.avro_values import wire_reader
from tidewire.arrow.scan.simple import Shape, SimpleScanner, Table
from tidewire.codec.simple.avro_format import read_value
from tidewire.model import Column, MySQLType, TableName, TableSchema, Value
from tidewire.model.types import ENUM_SET, INTEGERS, STRINGS, TEMPORAL, TEXTS

_START: Final = b"\x16\x06\x06\x02"
"""The branch Message, the type DML, the branch DML, the version 1."""

_HEAD: Final = (
    Field("string"),  # database
    Field("string"),  # table
    Field("long"),  # tableID
    Field("int"),  # type
    Field("long"),  # commitTs
    Field("long"),  # buildTs
    Field("long"),  # schemaVersion
    Field("string", 0),  # claimCheckLocation
    Field("boolean", 0),  # handleKeyOnly
    Field("record", 0, [Field("int"), Field("boolean"), Field("long"), Field("long")]),  # checksum
)
_read_head: Final = compile_reader(_HEAD, "(v0, v1, v6, v2), v3, v4, v7, v8, v9, at", to_end=False)

_OPS: Final = {
    (0, True, False): OpCode.INSERT,
    (1, True, True): OpCode.UPDATE,
    (2, False, True): OpCode.DELETE,
}
"""By the message's type and whether it has new and old values."""

_Slots = Mapping[bytes, tuple[str, RecordReader]]
"""What stands before a value, to the column's name and the reader of the value and of the place behind it."""


class _Shape(Shape):
    """A schema's plan, and its columns as they are found in messages."""

    def __init__(self, schema: TableSchema, policy: Policy) -> None:
        super().__init__(schema, Plan(schema, _reader, policy))
        self.slots: dict[bytes, tuple[str, RecordReader]] = {}
        for column in schema.columns:
            name = column.name.encode("utf-8", "surrogateescape")
            for branch in (_NULL, *_branches(column)):
                self.slots[_zigzag(len(name)) + name + _zigzag(branch.number)] = column.name, branch.read


class Scanner(SimpleScanner[tuple[bytes, bytes, int, int], _Shape]):
    """Takes rows out of Simple messages in Avro."""

    unread = MISREADS

    def new_shape(self, schema: TableSchema) -> _Shape:
        """A schema as its rows need it."""
        return _Shape(schema, self.policy)

    def row(self, pos: int, value: bytes) -> tuple[Plan, BufferedRow] | None:
        """The row of a message and its plan; ``None`` if the message is left alone."""
        if not value.startswith(_START):
            return None
        key, word, commit_ts, location, key_only, checksum, at = _read_head(value, len(_START))
        table = self.tables.get(key) or self._table(key)
        if table is None or location is not None or commit_ts < 0:
            return None
        if checksum is not None and (self.verifies or not _plausible(*checksum)):
            return None
        shape = table.shape
        after, at = _read_image(value, at, shape.slots)
        before, at = _read_image(value, at, shape.slots)
        op = _OPS[word, after is not None, before is not None]
        if at != len(value):
            return None
        return shape.plan, (pos, 0, op, commit_ts, table.partition, key_only is True, after, before)

    def _table(self, key: tuple[bytes, bytes, int, int]) -> Table[_Shape] | None:
        """The table of a row, ``None`` if its schema has not come by or it names none for sure."""
        database, name, version, table_id = key
        if version < 0:
            return None
        return self.find(key, TableName(database.decode(), name.decode()), version, table_id)


def _plausible(version: int, _: bool, current: int, previous: int) -> bool:
    """Is this a checksum, be it right or wrong?"""
    return version >= 0 and 0 <= current < 1 << 32 and 0 <= previous < 1 << 32


def _read_image(data: bytes, at: int, slots: _Slots) -> tuple[dict[str, Any] | None, int]:
    """The map of columns at a place, if one is there, and the place behind it."""
    if data[at] == 0:
        return None, at + 1
    if data[at] != 2:
        raise ValueError("no branch of the union")
    image: dict[str, Any] = {}
    at, total = at + 1, 0
    while count := data[at]:
        at += 1
        if count > 127:
            count, at = varint(data, at, count)
        if count & 1:
            raise ValueError("a block that tells its size, which no server writes")
        total += count >> 1
        for _ in range(count >> 1):
            size = data[at]
            end = at + 2 + (size >> 1)
            if size > 127:
                size, end = varint(data, at + 1, size)
                end += 1 + (size >> 1)
            name, read = slots[data[at:end]]
            image[name], at = read(data, end)
    if len(image) != total:
        raise ValueError("a column is there twice")
    return image, at + 1


def _zigzag(number: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    number <<= 1
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


class _Branch(NamedTuple):
    """One branch of a value's union: its number, the Avro type of what is read, and who reads it."""

    number: int
    type: str
    read: RecordReader


def _branch(number: int, type_: str) -> _Branch:
    return _Branch(number, type_, compile_reader([Field(type_)], "v0, at", to_end=False))


_PAIR: Final = compile_reader([Field("string"), Field("string")], "(v0, v1), at", to_end=False)
_NULL: Final = _Branch(0, "null", lambda _, at: (None, at))
_LONG: Final = _branch(1, "long")
_FLOAT: Final = _branch(2, "float")
_DOUBLE: Final = _branch(3, "double")
_STRING: Final = _branch(4, "string")
_BYTES: Final = _branch(5, "bytes")
_TIMESTAMP: Final = _Branch(6, "string", _PAIR)
_UNSIGNED_BIGINT: Final = _branch(7, "long")


def _branches(column: Column) -> Sequence[_Branch]:
    """The branches in which servers send a column's values; others that the codec knows are left to it."""
    if column.type is MySQLType.BIGINT and column.unsigned:
        return (_UNSIGNED_BIGINT,)
    if column.type in STRINGS:
        return (_BYTES,) if column.is_binary else (_STRING,)
    return _SENT.get(column.type, ())


_SENT: Mapping[MySQLType, Sequence[_Branch]] = {
    **dict.fromkeys(INTEGERS | ENUM_SET | {MySQLType.YEAR}, (_LONG,)),
    MySQLType.FLOAT: (_FLOAT,),
    MySQLType.DOUBLE: (_DOUBLE,),
    **dict.fromkeys(TEMPORAL | TEXTS | {MySQLType.DECIMAL}, (_STRING,)),
    MySQLType.TIMESTAMP: (_TIMESTAMP,),
    # A number from the classic server, text from the new one.
    MySQLType.BIT: (_STRING, _LONG),
}


def _reader(column: Column, policy: Policy) -> Reader:
    type_ = next((branch.type for branch in _branches(column)), "null")
    read = wire_reader(column, type_, lambda raw: _interpreted(column, raw), policy)
    return _zoned(column, read, policy) if column.type is MySQLType.TIMESTAMP else read


def _interpreted(column: Column, raw: int | bytes) -> Value:
    """One raw value as the codec reads it."""
    if isinstance(raw, int):
        return read_value(column, ("Long", {"value": raw}))
    return read_value(column, ("String", {"value": _text(raw)}))


def _zoned(column: Column, read: Reader, policy: Policy) -> Reader:
    """Reads pairs of zone and text: with ``read`` where the zone is the usual one."""
    usual = policy.time_zone.encode()
    read_values = value_reader(column, policy)

    def read_pairs(pairs: Sequence[tuple[bytes, bytes] | None]) -> pa.Array:
        if all(pair is None or pair[0] == usual for pair in pairs):
            return read([None if pair is None else pair[1] for pair in pairs])
        fields = [None if pair is None else {"location": _text(pair[0]), "value": _text(pair[1])} for pair in pairs]
        return read_values([None if found is None else read_value(column, ("Timestamp", found)) for found in fields])

    return read_pairs


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
