"""Of what a Simple message in JSON is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    escaped,
    format_of,
    listed,
)
from tidewire.codec import Options, Resources
from tidewire.codec.gotext import STANDARD
from tidewire.codec.options import IntegrityCheck
from tidewire.codec.simple.wire import OP_WORDS, VERSION
from tidewire.model import Column, MySQLType, Op, TableSchema
from tidewire.model.types import STRINGS

_quote = STANDARD.quote

IMAGES: Mapping[Op, Mapping[str, str]] = {
    Op.INSERT: {"data": "after"},
    Op.UPDATE: {"data": "after", "old": "before"},
    Op.DELETE: {"old": "before"},
}
"""What a message calls the rows."""


class Template(RowTemplate):
    """The messages of one table, one for each row."""

    facts = ("table id", "commit ts", "built")

    def __init__(self, table: TableSchema, options: Options, _: Resources) -> None:
        columns = sorted(Columns(table).all, key=lambda each: each[1].name)
        # Empty members are left out, here as everywhere in this encoding.
        if not columns or table.version is None or options.integrity_check_level is not IntegrityCheck.NONE:
            raise NotOnFastPath
        self._columns, self._zone = columns, options.time_zone
        self._frame = Frame(row_size(options))
        names = zip((b"database", b"table"), table.name, strict=True)
        self._head = b'{"version":%d' % VERSION
        self._head += b"".join(b',"%s":%s' % (word, _quote(name)) for word, name in names if name)
        self._version = b',"schemaVersion":%d' % table.version if table.version else b""

    def _shape(self, op: Op) -> Shape:
        return None, self._value(op)

    def _value(self, op: Op) -> Iterator[Part]:
        yield self._head
        yield fact(self.facts, "table id", Around(b',"tableID":', b""))
        yield b',"type":%s,"commitTs":' % _quote(OP_WORDS[op])
        yield fact(self.facts, "commit ts")
        yield b',"buildTs":'
        yield fact(self.facts, "built")
        yield self._version
        for word, row in IMAGES[op].items():
            yield b',"%s":{' % word.encode()
            yield from listed(
                [_quote(column.name) + b":", Value((row, number), format_of(column, _FORMATS), self._around(column))]
                for number, column in self._columns
            )
            yield b"}"
        yield b"}"

    def _around(self, column: Column) -> Around:
        if column.type is MySQLType.TIMESTAMP:
            return Around(b'{"location":%s,"value":"' % _quote(self._zone), b"null", b'"}')
        return QUOTED


def _string(column: Column) -> Format:
    return Format("base64") if column.is_binary else escaped(STANDARD)


_FORMATS: Mapping[MySQLType, FormatOf] = {
    **PLAIN,
    **dict.fromkeys(STRINGS, _string),
    MySQLType.JSON: lambda _: escaped(STANDARD),
}
