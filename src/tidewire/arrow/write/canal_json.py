"""Columns to Canal-JSON messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.policy import Policy
from tidewire.arrow.texts import contents
from tidewire.arrow.write.fragments import Cell, each, escaped, image, key_cells, listed, values_of
from tidewire.arrow.write.operations import without_keys
from tidewire.arrow.write.pieces import NotOnFastPath, Piece, constant
from tidewire.arrow.write.texts import PLAIN, Text, always, integers
from tidewire.codec import Options, Resources
from tidewire.codec.canal_json.types import full_type, java_type
from tidewire.codec.gotext import EASYJSON
from tidewire.model import Column, Generated, MySQLType, Op, TableSchema
from tidewire.model.tso import LOGICAL_BITS
from tidewire.model.types import INTEGERS, STRINGS

_escaped = escaped(EASYJSON)


class Writer:
    """Turns the rows of one table into messages, one each."""

    def __init__(self, table: TableSchema, options: Options, policy: Policy, resources: Resources) -> None:
        self._options, self._clock = options, resources.clock
        columns = [column for column in table.columns if column.generated is not Generated.VIRTUAL]
        self._cells = [
            Cell(column, _TEXTS[column.type](column, policy), f"{_quoted(column.name)}:") for column in columns
        ]
        schema, name = map(_quoted, table.name)
        keys = ",".join(map(_quoted, table.primary_key))
        self._head = f'{{"id":0,"database":{schema},"table":{name},"pkNames":[{keys}],"isDdl":false,"type":"'

    def write(self, rows: pa.RecordBatch) -> tuple[Sequence[bytes | None], Sequence[bytes | None]] | None:
        """The keys and values of the messages; ``None`` where the rows are for the codec."""
        return without_keys(rows, self._message, self._options, self._clock)

    def _message(self, op: Op, rows: pa.RecordBatch) -> Iterator[Piece]:
        if not self._cells or (op is Op.UPDATE and self._options.only_updated):
            raise NotOnFastPath
        deleted = op is Op.DELETE
        cells = key_cells(self._cells, self._options) if deleted else self._cells
        row = rows.column("before" if deleted else "after")
        commit_ts = pc.fill_null(rows.column("_commit_ts"), 0)
        yield f'{self._head}{op.upper()}","es":'
        yield integers(pc.shift_right(commit_ts, constant(LOGICAL_BITS)))
        yield ',"ts":'
        yield integers(rows.column("_built"))
        yield ',"sql":"","sqlType":{'
        yield from listed(map(_sql_type, cells, values_of(cells, row)))
        yield '},"mysqlType":{'
        yield from listed([cell.head, _quoted(self._type_text(cell.column))] for cell in cells)
        yield '},"old":'
        if op is Op.UPDATE:
            yield "[{"
            yield from image(cells, rows.column("before"))
            yield "}]"
        else:
            yield "null"
        yield ',"data":[{'
        yield from image(cells, row)
        yield "}]"
        if self._options.enable_tidb_extension:
            yield ',"_tidb":{"commitTs":'
            yield integers(commit_ts)
            yield ',"rowkey":null}' if self._options.output_row_key else "}"
        yield "}"

    def _type_text(self, column: Column) -> str:
        return full_type(column) if self._options.content_compatible else column.short_type


def _quoted(text: str) -> str:
    return EASYJSON.quote(text).decode()


def _sql_type(cell: Cell, values: pa.Array) -> list[Piece]:
    """``sqlType`` of a column; that of an unsigned integer depends on the value, so the largest one is asked first."""
    column = cell.column
    usual = java_type(column, None)
    largest = pc.max(values).as_py() if column.unsigned and column.type in INTEGERS else None
    if largest is None or java_type(column, int(largest)) == usual:
        return [cell.head, f"{usual:d}"]
    numbers = (None if value is None else int(value) for value in values.to_pylist())
    return [cell.head, pa.array([f"{java_type(column, number):d}" for number in numbers], pa.string())]


def _strings(column: Column, _: Policy) -> Text:
    return _latin1 if column.is_binary else _escaped


def _latin1(values: pa.Array) -> pa.Array:
    """Bytes as the characters of the same number."""
    if contents(values).isascii():
        return _escaped(pc.cast(values, pa.string()))
    return _escaped(_characters(values))


_characters = each(lambda data: data.decode("latin-1"))

_TEXTS: Mapping[MySQLType, Callable[[Column, Policy], Text]] = {
    **PLAIN,
    **dict.fromkeys(STRINGS, _strings),
    MySQLType.JSON: always(_escaped),
}
