"""Of what an Open Protocol message is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from tidewire.arrow import kernel
from tidewire.arrow.encode.native import Frame, RowTemplate, Shape, fact, row_size
from tidewire.arrow.encode.parts import (
    PLAIN,
    QUOTED,
    Around,
    Columns,
    Format,
    FormatOf,
    NotOnFastPath,
    Part,
    Value,
    always,
    escaped,
    format_of,
    listed,
)
from tidewire.codec import Options, Resources
from tidewire.codec.gotext import JSONITER, is_printable
from tidewire.codec.open_protocol.wire import LENGTH, VERSION, MessageType, go_quote
from tidewire.codec.size_limits import RECORD_OVERHEAD
from tidewire.model import Column, MySQLType, Op, TableSchema
from tidewire.model.types import BLOBS, CHARS, ENUM_SET, FLOATS, INTEGERS

_MESSAGE_OVERHEAD = RECORD_OVERHEAD + len(VERSION)
_BARE = FLOATS | INTEGERS | ENUM_SET | {MySQLType.YEAR, MySQLType.BIT}
"""Types whose values stand without quotes."""

_quote = JSONITER.quote
_Columns = Iterable[tuple[int, Column]]


class Template(RowTemplate):
    """The messages of one table, several rows in each."""

    facts = ("commit ts", "partition")

    def __init__(self, table: TableSchema, options: Options, _: Resources) -> None:
        self._options, self._columns = options, Columns(table)
        self._frame = Frame(
            row_size(options, _MESSAGE_OVERHEAD),
            version=VERSION,
            overhead=_MESSAGE_OVERHEAD,
            row_overhead=2 * LENGTH.size,
            limit=options.batch_limit,
            rows=options.max_batch_size,
        )
        schema, name = map(_quote, table.name)
        self._table = b',"scm":%s,"tbl":%s,"t":%d' % (schema, name, MessageType.ROW)

    def _shape(self, op: Op) -> Shape:
        if op is Op.UPDATE and self._options.output_old_value and self._options.only_output_updated_columns:
            raise NotOnFastPath
        return self._key(), self._value(op)

    def _key(self) -> Iterator[Part]:
        yield b'{"ts":'
        yield fact(self.facts, "commit ts")
        yield self._table
        yield fact(self.facts, "partition", Around(b',"ptn":', b""))
        yield b"}"

    def _value(self, op: Op) -> Iterator[Part]:
        if op is Op.DELETE:
            only_keys = self._options.delete_only_output_handle_key_columns
            yield b'{"d":{'
            yield from _image("before", self._columns.of_deleted(only_keys=only_keys))
        else:
            yield b'{"u":{'
            yield from _image("after", self._columns.all)
        if op is Op.UPDATE and self._options.output_old_value:
            yield b'},"p":{'
            yield from _image("before", self._columns.all)
        yield b"}}"


def _image(row: str, columns: _Columns) -> Iterable[Part]:
    return listed(_member(row, number, column) for number, column in columns)


def _member(row: str, number: int, column: Column) -> Iterator[Part]:
    handle = b',"h":true' if column.handle_key else b""
    yield b'%s:{"t":%d%s,"f":%d,"v":' % (_quote(column.name), column.type, handle, column.effective_flags)
    around = Around(null=b"null") if column.type in _BARE else QUOTED
    yield Value((row, number), format_of(column, _FORMATS), around)
    yield b"}"


def _chars(column: Column) -> Format:
    return _go_quoted() if column.is_binary else escaped(JSONITER)


@cache
def _go_quoted() -> Format:
    """Bytes that Go quotes and JSON quotes once more."""
    table = [_quote(go_quote(bytes([code])))[1:-1] for code in range(0x100)]
    return Format("escaped", escapes=kernel.native().Escapes(table, [], _printable()))


def _printable() -> list[tuple[int, int]]:
    """The ranges of characters beyond ASCII that Go leaves as they are."""
    ranges: list[tuple[int, int]] = []
    for code in range(0x80, 0x110000):
        if is_printable(chr(code)):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = ranges[-1][0], code
            else:
                ranges.append((code, code))
    return ranges


_FORMATS: Mapping[MySQLType, FormatOf] = {
    **PLAIN,
    **dict.fromkeys(FLOATS, always("json float")),
    **dict.fromkeys(CHARS, _chars),
    # A TEXT is a string in Arrow; its bytes are the same.
    **dict.fromkeys(BLOBS, always("base64")),
    MySQLType.JSON: lambda _: escaped(JSONITER),
}
