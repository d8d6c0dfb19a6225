"""Of what a Simple message in Avro is made.

A message is a fixed head, a few numbers, and one map for each image of the row. A map's entries are the columns sorted
by name; each has its name, which is the same in all rows, the branch of its value, and the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tidewire.arrow.encode.native import Frame, RowTemplate, Shape, fact, row_size
from tidewire.arrow.encode.parts import (
    PLAIN,
    Around,
    Columns,
    Format,
    NotOnFastPath,
    Part,
    Value,
    format_of,
    numbered,
)
from tidewire.codec import Options, Resources
from tidewire.codec.avro.wire import signed
from tidewire.codec.craft.varint import varint
from tidewire.codec.options import IntegrityCheck
from tidewire.codec.simple.avro_wire import message_schema
from tidewire.codec.simple.wire import OP_WORDS, VERSION
from tidewire.model import Column, MySQLType, Op, TableSchema
from tidewire.model.types import ENUM_SET, INTEGERS, STRINGS, TEMPORAL


class _Entry(NamedTuple):
    """How a column's values are written: the branch of the union they have, and what stands in it."""

    branch: str
    format: Format
    counted: bool = False


def _numbers(words: Iterable[str]) -> Mapping[str, bytes]:
    """The bytes of each symbol of an enum, or of each branch of a union."""
    return {word: varint(number) for number, word in enumerate(words)}


_FIELDS: Mapping[str, Mapping[str, Any]] = {
    record["name"]: {field["name"]: field["type"] for field in record["fields"]} for record in message_schema()
}
_HEAD = b"".join(
    (
        _numbers(_FIELDS)["Message"],
        _numbers(_FIELDS["Message"]["type"]["symbols"])["DML"],
        _numbers(_FIELDS["Message"]["payload"])["DML"],
        varint(VERSION),
    )
)
_OPS = _numbers(_FIELDS["DML"]["type"]["symbols"])
_BRANCHES = _numbers(_FIELDS["DML"]["data"][1]["values"])
_ABSENT, _PRESENT = varint(0), varint(1)
"""The branches of a field that may be null."""

_OPTIONAL = 3
"""The fields between a row's numbers and its images, null in a plain message: claim check, key only, checksum."""

_LONG = Format("zigzag")


class Template(RowTemplate):
    """The messages of one table, one for each row."""

    facts = ("table id", "unsigned commit ts", "built")

    def __init__(self, table: TableSchema, options: Options, _: Resources) -> None:
        if table.version is None or options.integrity_check_level is not IntegrityCheck.NONE:
            raise NotOnFastPath
        self._columns = sorted(Columns(table).all, key=lambda each: each[1].name)
        self._zone = _text(options.time_zone)
        self._frame = Frame(row_size(options))
        self._head = _HEAD + b"".join(map(_text, table.name))
        self._version = varint(signed(table.version))

    def _shape(self, op: Op) -> Shape:
        return None, self._value(op)

    def _value(self, op: Op) -> Iterator[Part]:
        yield self._head
        yield fact(self.facts, "table id", Around(null=varint(0)), _LONG)
        yield _OPS[OP_WORDS[op]]
        yield fact(self.facts, "unsigned commit ts", format_=_LONG)
        yield fact(self.facts, "built", format_=_LONG)
        yield self._version + _ABSENT * _OPTIONAL
        yield from self._image("after" if op is not Op.DELETE else None)
        yield from self._image("before" if op is not Op.INSERT else None)

    def _image(self, row: str | None) -> Iterator[Part]:
        """A map of the columns, sorted by name: one block of all entries, and one of none."""
        if row is None:
            yield _ABSENT
            return
        yield _PRESENT + (varint(len(self._columns)) if self._columns else b"")
        for number, column in self._columns:
            yield _text(column.name)
            entry = _entry(column)
            before = _BRANCHES[entry.branch] + (self._zone if entry.branch == "Timestamp" else b"")
            yield Value((row, number), entry.format, Around(before, _BRANCHES["null"]), entry.counted)
        yield varint(0)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return varint(len(data)) + data


def _entry(column: Column) -> _Entry:
    entry_of = _ENTRIES.get(column.type)
    if entry_of is None:
        raise NotOnFastPath
    return entry_of(column)


def _integer(column: Column) -> _Entry:
    unsigned = column.type is MySQLType.BIGINT and column.unsigned
    return _Entry("UnsignedBigint" if unsigned else "long", _LONG)


def _numbered(column: Column) -> _Entry:
    return _Entry("long", numbered("zigzag")(column))


def _string(column: Column) -> _Entry:
    return _Entry("bytes" if column.is_binary else "string", Format("raw"), counted=True)


def _plain(branch: str) -> Callable[[Column], _Entry]:
    return lambda column: _Entry(branch, format_of(column, PLAIN), counted=True)


def _always(branch: str, format_: str, *, counted: bool = False) -> Callable[[Column], _Entry]:
    return lambda _: _Entry(branch, Format(format_), counted)


_ENTRIES: Mapping[MySQLType, Callable[[Column], _Entry]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _integer),
    **dict.fromkeys(ENUM_SET, _numbered),
    **dict.fromkeys(STRINGS, _string),
    **dict.fromkeys(TEMPORAL | {MySQLType.DECIMAL, MySQLType.VECTOR, MySQLType.BIT}, _plain("string")),
    MySQLType.TIMESTAMP: _plain("Timestamp"),
    MySQLType.FLOAT: _always("float", "float bits"),
    MySQLType.DOUBLE: _always("double", "double bits"),
    MySQLType.JSON: _always("string", "raw", counted=True),
}
