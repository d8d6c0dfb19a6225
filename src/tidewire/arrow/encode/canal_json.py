"""Of what a Canal-JSON message is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
    latin1_escaped,
    listed,
)
from tidewire.codec import Options, Resources
from tidewire.codec.canal_json.types import WIDER, full_type, java_type
from tidewire.codec.gotext import EASYJSON
from tidewire.model import Column, MySQLType, Op, TableSchema
from tidewire.model.types import STRINGS

_quote = EASYJSON.quote
_Columns = Iterable[tuple[int, Column]]


class Template(RowTemplate):
    """The messages of one table, one for each row."""

    facts = ("physical", "built", "commit ts or 0")

    def __init__(self, table: TableSchema, options: Options, _: Resources) -> None:
        self._options, self._columns = options, Columns(table)
        self._frame = Frame(row_size(options))
        names = b",".join(map(_quote, table.primary_key))
        self._head = b'{"id":0,"database":%s,"table":%s,"pkNames":[%s],"isDdl":false,"type":"' % (
            *map(_quote, table.name), names,
        )  # fmt: skip

    def _shape(self, op: Op) -> Shape:
        if op is Op.UPDATE and self._options.only_updated:
            raise NotOnFastPath
        return None, self._value(op)

    def _value(self, op: Op) -> Iterator[Part]:
        only_keys = op is Op.DELETE and self._options.delete_only_output_handle_key_columns
        columns = self._columns.of_deleted(only_keys=only_keys)
        row = "before" if op is Op.DELETE else "after"
        yield self._head + op.upper().encode() + b'","es":'
        yield fact(self.facts, "physical")
        yield b',"ts":'
        yield fact(self.facts, "built")
        yield b',"sql":"","sqlType":{'
        yield from listed([_name(column), _sql_type(row, number, column)] for number, column in columns)
        yield b'},"mysqlType":{'
        yield b",".join(_name(column) + _quote(self._type_text(column)) for _, column in columns)
        yield b'},"old":'
        if op is Op.UPDATE:
            yield b"["
            yield from _image("before", columns)
            yield b"]"
        else:
            yield b"null"
        yield b',"data":['
        yield from _image(row, columns)
        yield b"]"
        if self._options.enable_tidb_extension:
            yield b',"_tidb":{"commitTs":'
            yield fact(self.facts, "commit ts or 0")
            yield b',"rowkey":null}' if self._options.output_row_key else b"}"
        yield b"}"

    def _type_text(self, column: Column) -> str:
        return full_type(column) if self._options.content_compatible else column.short_type


def _name(column: Column) -> bytes:
    return _quote(column.name) + b":"


def _image(row: str, columns: _Columns) -> Iterator[Part]:
    yield b"{"
    yield from listed(
        [_name(column), Value((row, number), format_of(column, _FORMATS), QUOTED)] for number, column in columns
    )
    yield b"}"


def _sql_type(row: str, number: int, column: Column) -> Part:
    """``sqlType`` of a column; that of an unsigned integer depends on the value."""
    usual = b"%d" % java_type(column, None)
    limit, _ = WIDER.get(column.type, (0, None))
    texts = [b"%d" % java_type(column, number) for number in (limit, limit + 1)]
    if texts == [usual, usual]:
        return usual
    return Value((row, number), Format("above", limit, texts), Around(null=usual))


def _string(column: Column) -> Format:
    return latin1_escaped(EASYJSON) if column.is_binary else escaped(EASYJSON)


_FORMATS: Mapping[MySQLType, FormatOf] = {
    **PLAIN,
    **dict.fromkeys(STRINGS, _string),
    MySQLType.JSON: lambda _: escaped(EASYJSON),
}
