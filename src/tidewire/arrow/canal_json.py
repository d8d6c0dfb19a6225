"""Canal-JSON rows straight into columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tidewire.arrow.convert import Policy, Reader, text_reader
from tidewire.arrow.decode import Groups
from tidewire.arrow.plan import OpCode, Plan
from tidewire.codec.base import Decoder
from tidewire.codec.compression import decompress
from tidewire.codec.options import Compression, Options
from tidewire.model import Column, TableName, TableSchema

Texts = dict[str, str | None]


class _Extension(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    commitTs: int | None = None  # noqa: N815 - the wire's name
    onlyHandleKey: bool = False  # noqa: N815
    rowkey: str | None = None


class _Message(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A row change as TiCDC writes it; a message with any other member is left to the readable codec."""

    id: int
    database: str
    table: str
    pkNames: list[str]  # noqa: N815
    isDdl: bool  # noqa: N815
    type: str
    es: int
    ts: int
    sql: str
    sqlType: dict[str, int]  # noqa: N815
    mysqlType: dict[str, str]  # noqa: N815
    old: list[Texts] | None
    data: list[Texts]
    tidb: _Extension | None = msgspec.field(name="_tidb", default=None)


_MEMBERS: Final = 13
_OPS: Final = {"INSERT": OpCode.INSERT, "UPDATE": OpCode.UPDATE, "DELETE": OpCode.DELETE}
_NO_EXTENSION: Final = _Extension()


class Scanner:
    """Takes rows out of Canal-JSON messages of one row each."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._compression = options.large_message_handle_compression
        self._policy = policy
        self._parse = msgspec.json.Decoder(_Message).decode
        self._plans: dict[tuple[Any, ...], tuple[Plan, dict[str, str]]] = {}

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, value in enumerate(values):
            try:
                added = value is not None and self._add(pos, value, groups)
            except (ValueError, KeyError):
                added = False
            if not added:
                left.append(pos)
        return left

    def _add(self, pos: int, value: bytes, groups: Groups) -> bool:
        if self._compression is not Compression.NONE:
            value = decompress(value, self._compression)
        message = self._parse(value)
        op, images, old = _OPS[message.type], message.data, message.old
        if len(images) != 1 or (old is not None) != (op is OpCode.UPDATE) or (old is not None and len(old) != 1):
            return False
        row = images[0]
        before = None if old is None else old[0]
        if _repeats(value, message, row, before):
            return False
        extension = message.tidb or _NO_EXTENSION
        rows = groups.of(self._plan(message, row))
        rows.positions.append(pos)
        rows.subs.append(0)
        rows.ops.append(op)
        rows.commit_ts.append(extension.commitTs)
        rows.partitions.append(None)
        rows.key_only.append(extension.onlyHandleKey)
        rows.after.append(None if op is OpCode.DELETE else row)
        rows.before.append(row if op is OpCode.DELETE else before)
        return True

    def _plan(self, message: _Message, row: Texts) -> Plan:
        key = (message.database, message.table, tuple(row), tuple(message.pkNames))
        known = self._plans.get(key)
        if known is None or known[1] != message.mysqlType:
            types, keys = message.mysqlType, message.pkNames
            columns = tuple(Column.of(name, types[name], primary_key=name in keys) for name in row)
            table = TableSchema(TableName(message.database, message.table), columns)
            known = self._plans[key] = Plan(table, self._reader), types
        return known[0]

    def _reader(self, column: Column) -> Reader:
        read = text_reader(column, self._policy)
        return _latin1(read) if column.is_binary else read


def _repeats(text: bytes, message: _Message, row: Texts, before: Texts | None) -> bool:
    """Might a member be there twice? The parser keeps the last one and does not tell.

    In JSON only a member's name ends in a quote before a colon, unless the quote is escaped; so names can be counted.
    """
    there = text.count(b'":') - text.count(b'\\":')
    extension = (
        0
        if message.tidb is None
        else 1 + text.count(b'"commitTs":') + text.count(b'"onlyHandleKey":') + text.count(b'"rowkey":')
    )
    olds = 0 if before is None else len(before)
    return there != _MEMBERS + len(message.sqlType) + len(message.mysqlType) + len(row) + olds + extension


def _latin1(read: Reader) -> Reader:
    """Reads bytes that the wire has as characters of the same number."""
    return lambda values: read([None if value is None else value.encode("latin-1") for value in values])
