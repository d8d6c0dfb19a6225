"""Of what a Craft message is made.

All rows of a table have the same names, types and flags in front of their values, and all messages the same names in
their dictionary. What is left to each row are its values and their lengths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tidewire.arrow import kernel
from tidewire.arrow.encode.parts import (
    PLAIN,
    Columns,
    Format,
    FormatOf,
    NotOnFastPath,
    Value,
    always,
    format_of,
    numbered,
)
from tidewire.codec import Options, Resources
from tidewire.codec.craft.chunks import TermDictionary
from tidewire.codec.craft.encoder import COLUMN_OVERHEAD, ROW_OVERHEAD, group_head
from tidewire.codec.craft.layout import NO_PARTITION, VERSION, EventType, GroupType
from tidewire.codec.craft.varint import uvarint
from tidewire.model import Column, ColumnFlag, MySQLType, Op, TableSchema
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS

_GROUPS: Mapping[Op, Mapping[GroupType, str]] = {
    Op.INSERT: {GroupType.NEW: "after"},
    Op.UPDATE: {GroupType.NEW: "after", GroupType.OLD: "before"},
    Op.DELETE: {GroupType.OLD: "before"},
}


class Template:
    """The messages of one table, several rows in each."""

    facts = ("unsigned commit ts", "partition")

    def __init__(self, table: TableSchema, options: Options, _: Resources) -> None:
        self._options, self._columns = options, Columns(table).all
        if not self._columns or not all(table.name):
            raise NotOnFastPath
        cells = [(column.name.encode(), column.type, column.effective_flags) for _, column in self._columns]
        terms, parts = TermDictionary(), [part.encode() for part in table.name]
        schema, name = map(terms.id, parts)
        self._heads = {kind: group_head(kind, cells, terms) for kind in GroupType}
        self._frame = {
            "version": uvarint(VERSION),
            "row_type": uvarint(EventType.ROW),
            "schema": schema,
            "table": name,
            "dictionary": bytes(terms),
            "no_partition": NO_PARTITION,
            "row_overhead": ROW_OVERHEAD + sum(map(len, parts)),
            "group_overhead": sum(len(name) + COLUMN_OVERHEAD for name, *_ in cells),
            "limit": options.batch_limit,
            "rows": options.max_batch_size,
        }

    def encoder(self, ops: Collection[Op]) -> Any:
        """The kernel's encoder for rows to which these happened."""
        if Op.DELETE in ops and self._options.delete_only_output_handle_key_columns:
            raise NotOnFastPath  # Other columns, and so another dictionary in every message.
        shapes = [
            [(self._heads[kind], self._values(row)) for kind, row in _GROUPS[op].items()] if op in ops else None
            for op in Op
        ]
        return kernel.native().CraftEncoder(shapes, self._frame)

    def _values(self, row: str) -> list[Value]:
        return [Value((row, number), format_of(column, _FORMATS)) for number, column in self._columns]


def _integer(column: Column) -> Format:
    unsigned = ColumnFlag.UNSIGNED in column.effective_flags
    if column.unsigned and not unsigned:
        raise NotOnFastPath
    return Format("uvarint" if unsigned else "zigzag")


_FORMATS: Mapping[MySQLType, FormatOf] = {
    **PLAIN,
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, always("double bits")),
    **dict.fromkeys(STRINGS | {MySQLType.JSON}, always("raw")),
    **dict.fromkeys(ENUM_SET, numbered("uvarint")),
    MySQLType.YEAR: always("zigzag"),
    MySQLType.BIT: always("uvarint"),
}
