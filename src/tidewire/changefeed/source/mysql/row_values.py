"""Row images of a binary log as exact values: one reader per type on the wire.

The log's description of a table is compared with the known table first; otherwise values would get wrong columns.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from tidewire.changefeed.source.mysql.binlog import Rows, TableMap, WireColumn
from tidewire.changefeed.source.mysql.stored_values import (
    Decode,
    date_of,
    datetime_of,
    decimal_of,
    decimal_size,
    decoder,
    json_text,
    time_of,
    timestamp_of,
)
from tidewire.errors import ChangefeedError
from tidewire.model import Column, DateTime, EnumValue, Generated, MySQLType, Row, SetValue, TableSchema, Time, Value
from tidewire.model.types import BLOBS, FLOATS, INTEGERS
from tidewire.model.values import enum_text, set_text

Read: TypeAlias = Callable[[bytes, int], tuple[Value, int]]
"""Reads the value at an offset; returns the offset of the next value too."""

_Type = MySQLType
_BIGINT = 8
_WITHOUT_FRACTION = frozenset({7, 11, 12})

_HIDDEN = ("DB_ROW_HASH_", "!hidden!")
"""Prefixes of hidden columns, which come last: for hash indexes in MariaDB, for expressions in MySQL."""


class Field(NamedTuple):
    """A column of a packed image: its name, ``None`` if the value is skipped, and how to read it."""

    name: str | None
    read: Read


def rows_of(event: Rows, fields: Sequence[Field]) -> Iterator[tuple[Row | None, Row | None]]:
    """The rows of an event, before and after each change."""
    before, after = _present(event.before, fields), _present(event.after, fields)
    at = 0
    while at < len(event.data):
        old: Row | None = None
        new: Row | None = None
        if before is not None:
            old, at = _image(event.data, at, before)
        if after is not None:
            new, at = _image(event.data, at, after)
        yield old, new


def _present(bitmap: bytes | None, fields: Sequence[Field]) -> list[Field] | None:
    if bitmap is None:
        return None
    return [field for number, field in enumerate(fields) if bitmap[number // 8] >> number % 8 & 1]


def _image(data: bytes, at: int, fields: Sequence[Field]) -> tuple[Row, int]:
    nulls = at
    at += (len(fields) + 7) // 8
    row: dict[str, Value] = {}
    for number, field in enumerate(fields):
        value: Value = None
        if not data[nulls + number // 8] >> number % 8 & 1:
            value, at = field.read(data, at)
        if field.name is not None:
            row[field.name] = value
    return row, at


def field_of(wire: WireColumn, column: Column | None, zone: tzinfo) -> Field:
    """How to read a column; a hidden one, whose ``column`` is ``None``, is read and skipped."""
    make = READERS[wire.type]
    if column is None or column.generated is Generated.VIRTUAL:
        return Field(None, make(wire, column or Column("", MySQLType.BLOB, charset="binary"), zone))
    return Field(column.name, make(wire, column, zone))


Make: TypeAlias = Callable[[WireColumn, Column, tzinfo], Read]


def _number(signed: str, unsigned: str) -> Make:
    def make(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
        packed = struct.Struct(unsigned if column.unsigned else signed)

        def read(data: bytes, at: int) -> tuple[Value, int]:
            return packed.unpack_from(data, at)[0], at + packed.size

        return read

    return make


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _mediumint(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    signed = not column.unsigned
    return lambda data, at: (int.from_bytes(data[at : at + 3], "little", signed=signed), at + 3)


def _decimal(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    size = decimal_size(wire.precision, wire.scale)
    return lambda data, at: (decimal_of(data[at : at + size], wire.precision, wire.scale), at + size)


def _year(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return lambda data, at: (data[at] and 1900 + data[at], at + 1)


def _bit(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return lambda data, at: (_big(data, at, wire.size), at + wire.size)


def _enum(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        index = _little(data, at, wire.size)
        return EnumValue(index, enum_text(index, column.elements)), at + wire.size

    return read


def _set(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        mask = _little(data, at, wire.size)
        return SetValue(mask, set_text(mask, column.elements)), at + wire.size

    return read


def _sized(width: int, form: Callable[[bytes], Value]) -> Read:
    """Bytes after their length."""

    def read(data: bytes, at: int) -> tuple[Value, int]:
        start = at + width
        end = start + _little(data, at, width)
        return form(data[start:end]), end

    return read


def _text(wire: WireColumn, column: Column) -> Decode:
    """The decoder of text: by the logged charset, or else by the column's."""
    if column.charset == "binary":
        return bytes
    return decoder(wire.charset or column.charset or "utf8mb4")


def _varchar(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return _sized(2 if wire.size > 255 else 1, _text(wire, column))


def _string(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    width = 2 if wire.size > 255 else 1
    if column.type is MySQLType.VARCHAR:
        return _sized(width, _UNKNOWN_TO_TIDB[column.length or 0])
    if column.is_binary:
        # The log leaves out zero bytes at the end of a BINARY value.
        return _sized(width, lambda raw: raw.ljust(column.length or 0, b"\0"))
    return _sized(width, _text(wire, column))


def _inet4(raw: bytes) -> str:
    return str(ipaddress.IPv4Address(raw.ljust(4, b"\0")))


def _inet6(raw: bytes) -> str:
    address = ipaddress.IPv6Address(raw.ljust(16, b"\0"))
    mapped = address.ipv4_mapped
    return f"::ffff:{mapped}" if mapped else str(address)


def _uuid(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw.ljust(16, b"\0")))


_UNKNOWN_TO_TIDB: Mapping[int, Callable[[bytes], Value]] = {15: _inet4, 36: _uuid, 39: _inet6}
"""MariaDB's types that a changefeed sends as VARCHAR, with the length of their longest text."""


def _blob(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return _sized(wire.size, _text(wire, column))


def _geometry(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return _sized(wire.size, bytes)


def _json(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return _sized(wire.size, json_text)


def _date(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return lambda data, at: (date_of(_little(data, at, 3)), at + 3)


def _micros(data: bytes, at: int, digits: int) -> tuple[int, int]:
    """The fraction of a second: two digits to a byte."""
    size = (digits + 1) // 2
    return _big(data, at, size) * 100 ** (3 - size), at + size


def _datetime(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        micros, end = _micros(data, at + 5, wire.size)
        return datetime_of(_big(data, at, 5) - (1 << 39), micros, wire.size), end

    return read


def _timestamp(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        micros, end = _micros(data, at + 4, wire.size)
        return timestamp_of(_big(data, at, 4), micros, wire.size, zone), end

    return read


def _time(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    """A negative TIME is the complement of the whole, fraction included."""
    size = (wire.size + 1) // 2

    def read(data: bytes, at: int) -> tuple[Value, int]:
        whole = _big(data, at, 3 + size) - (1 << 23 + 8 * size)
        packed, part = divmod(abs(whole), 1 << 8 * size)
        return time_of(whole < 0, packed, part * 100 ** (3 - size), wire.size), at + 3 + size

    return read


def _old_date_time(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        text = f"{_little(data, at, 8):014d}"
        date, time = text[:8], text[8:]
        return DateTime(f"{date[:4]}-{date[4:6]}-{date[6:]} {time[:2]}:{time[2:4]}:{time[4:]}"), at + 8

    return read


def _old_timestamp(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    return lambda data, at: (timestamp_of(_little(data, at, 4), 0, 0, zone), at + 4)


def _old_time(wire: WireColumn, column: Column, zone: tzinfo) -> Read:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        number = int.from_bytes(data[at : at + 3], "little", signed=True)
        text = f"{abs(number):06d}"
        return Time(f"{'-' * (number < 0)}{text[:-4]}:{text[-4:-2]}:{text[-2:]}"), at + 3

    return read


READERS: Mapping[int, Make] = {
    1: _number("<b", "<B"),
    2: _number("<h", "<H"),
    3: _number("<i", "<I"),
    4: _number("<f", "<f"),
    5: _number("<d", "<d"),
    7: _old_timestamp,
    8: _number("<q", "<Q"),
    9: _mediumint,
    10: _date,
    11: _old_time,
    12: _old_date_time,
    13: _year,
    15: _varchar,
    16: _bit,
    17: _timestamp,
    18: _datetime,
    19: _time,
    245: _json,
    246: _decimal,
    247: _enum,
    248: _set,
    252: _blob,
    253: _varchar,
    254: _string,
    255: _geometry,
}
"""How to read a type, by its number in a table map."""


_TYPES: Mapping[int, frozenset[MySQLType]] = {
    1: frozenset({_Type.TINYINT}),
    2: frozenset({_Type.SMALLINT}),
    3: frozenset({_Type.INT}),
    4: frozenset({_Type.FLOAT}),
    5: frozenset({_Type.DOUBLE}),
    8: frozenset({_Type.BIGINT}),
    9: frozenset({_Type.MEDIUMINT}),
    10: frozenset({_Type.DATE}),
    **dict.fromkeys((7, 17), frozenset({_Type.TIMESTAMP})),
    **dict.fromkeys((11, 19), frozenset({_Type.TIME})),
    **dict.fromkeys((12, 18), frozenset({_Type.DATETIME})),
    13: frozenset({_Type.YEAR}),
    **dict.fromkeys((15, 253), frozenset({_Type.VARCHAR})),
    16: frozenset({_Type.BIT}),
    245: frozenset({_Type.JSON}),
    246: frozenset({_Type.DECIMAL}),
    247: frozenset({_Type.ENUM}),
    248: frozenset({_Type.SET}),
    252: BLOBS,
    254: frozenset({_Type.CHAR, _Type.VARCHAR}),
    255: frozenset({_Type.LONGBLOB}),
}
"""The column types of a type number; types that TiDB does not have appear as VARCHAR or LONGBLOB."""

_SIGNED = INTEGERS | FLOATS | {_Type.DECIMAL}


def check_fit(table: TableSchema, described: TableMap) -> None:
    """Raise ``ChangefeedError`` if the binlog's table differs from the known one."""
    for reason in _differences(table, described):
        raise ChangefeedError(
            "CDC:ErrSchemaSnapshotNotFound",
            f"{table.name} in the binary log is not the table the changefeed knows: {reason}; "
            "begin with a new snapshot",
        )


def _differences(table: TableSchema, described: TableMap) -> Iterator[str]:
    for number, (wire, column) in enumerate(zip_longest(described.columns, table.columns), 1):
        if wire is None:
            yield f"column {number}, {column.name!r}, is missing"
        elif column is None:
            if not (wire.name.startswith(_HIDDEN) if wire.name else wire.type == _BIGINT):
                yield f"column {number}, {wire.name or 'without a name'}, is new"
        else:
            yield from _column_differences(wire, column)


def _column_differences(wire: WireColumn, column: Column) -> Iterator[str]:
    if wire.type not in _TYPES:
        yield f"{column.name!r} has type {wire.type}, which cannot be read, as for a compressed column"
    elif wire.name is not None and wire.name != column.name:
        yield f"{column.name!r} is called {wire.name!r}"
    elif column.type not in _TYPES[wire.type]:
        yield f"{column.name!r} is {column.mysql_type} here and has type {wire.type} there"
    elif wire.unsigned is not None and column.type in _SIGNED and wire.unsigned != column.unsigned:
        yield f"{column.name!r} is {column.mysql_type} here and {'unsigned' if wire.unsigned else 'signed'} there"
    elif wire.type in _WITHOUT_FRACTION and column.decimal:
        yield f"{column.name!r} is in the format of old servers; run ALTER TABLE … FORCE to renew it"
    elif wire.type in (15, 252) and wire.charset and (wire.charset == "binary") != column.is_binary:
        yield f"{column.name!r} is {column.mysql_type} here and in the charset {wire.charset} there"
