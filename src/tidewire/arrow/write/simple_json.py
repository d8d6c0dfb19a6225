"""Columns to Simple messages in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.policy import Policy
from tidewire.arrow.write.fragments import Cell, base64_texts, escaped, image
from tidewire.arrow.write.operations import without_keys
from tidewire.arrow.write.pieces import NotOnFastPath, Piece, constant, joined
from tidewire.arrow.write.texts import PLAIN, Text, always, integers
from tidewire.codec import Options, Resources
from tidewire.codec.gotext import STANDARD
from tidewire.codec.options import IntegrityCheck
from tidewire.codec.simple.wire import OP_WORDS, VERSION
from tidewire.model import Column, Generated, MySQLType, Op, TableSchema
from tidewire.model.types import STRINGS

_escaped = escaped(STANDARD)


class Writer:
    """Turns the rows of one table into messages, one each."""

    def __init__(self, table: TableSchema, options: Options, policy: Policy, resources: Resources) -> None:
        self._table, self._options, self._clock = table, options, resources.clock
        columns = [column for column in table.columns if column.generated is not Generated.VIRTUAL]
        columns.sort(key=lambda column: column.name)
        self._cells = [_cell(column, policy, options.time_zone) for column in columns]
        names = zip(("database", "table"), table.name, strict=True)
        # Empty members are left out, here as everywhere in this encoding.
        self._head = f'{{"version":{VERSION}' + "".join(f',"{word}":{_quoted(name)}' for word, name in names if name)
        self._version = f',"schemaVersion":{table.version}' if table.version else ""

    def write(self, rows: pa.RecordBatch) -> tuple[Sequence[bytes | None], Sequence[bytes | None]] | None:
        """The keys and values of the messages; ``None`` where the rows are for the codec."""
        return without_keys(rows, self._message, self._options, self._clock)

    def _message(self, op: Op, rows: pa.RecordBatch) -> Iterator[Piece]:
        commit_ts = rows.column("_commit_ts")
        if not self._cells or self._table.version is None or commit_ts.null_count:
            raise NotOnFastPath
        if self._options.integrity_check_level is not IntegrityCheck.NONE:
            raise NotOnFastPath
        yield self._head
        yield self._table_ids(rows.column("_partition"))
        yield f',"type":"{OP_WORDS[op]}","commitTs":'
        yield integers(commit_ts)
        yield ',"buildTs":'
        yield integers(rows.column("_built"))
        yield self._version
        for word, column in _IMAGES[op].items():
            yield f',"{word}":{{'
            yield from image(self._cells, rows.column(column))
            yield "}"
        yield "}"

    def _table_ids(self, partitions: pa.Array) -> Piece:
        own = self._table.table_id or 0
        if partitions.null_count == len(partitions):
            return f',"tableID":{own}' if own else ""
        zero = constant(0)
        known = pc.if_else(pc.fill_null(pc.not_equal(partitions, zero), False), partitions, constant(own))
        return pc.if_else(pc.equal(known, zero), constant(""), joined([',"tableID":', integers(known)], len(known)))


_IMAGES: Mapping[Op, Mapping[str, str]] = {
    Op.INSERT: {"data": "after"},
    Op.UPDATE: {"data": "after", "old": "before"},
    Op.DELETE: {"old": "before"},
}


def _quoted(text: str) -> str:
    return STANDARD.quote(text).decode()


def _cell(column: Column, policy: Policy, zone: str) -> Cell:
    text, head = _TEXTS[column.type](column, policy), f"{_quoted(column.name)}:"
    if column.type is MySQLType.TIMESTAMP:
        return Cell(column, text, head, f'{{"location":{_quoted(zone)},"value":"', '"}')
    return Cell(column, text, head)


def _strings(column: Column, _: Policy) -> Text:
    return base64_texts if column.is_binary else _escaped


_TEXTS: Mapping[MySQLType, Callable[[Column, Policy], Text]] = {
    **PLAIN,
    **dict.fromkeys(STRINGS, _strings),
    MySQLType.JSON: always(_escaped),
}
