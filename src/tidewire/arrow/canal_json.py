"""Canal-JSON rows straight into columns.

TiCDC writes the members of a row change in one order. What stands before ``es`` says table, key and kind and is the
same bytes for all rows of a kind, so it is looked up; for what follows there is a parser made for that shape.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from tidewire.arrow.convert import Policy, Reader, text_reader
from tidewire.arrow.decode import Groups
from tidewire.arrow.plan import OpCode
from tidewire.arrow.records import STRICT, RecordPlan, keep, only, record
from tidewire.codec.base import Decoder
from tidewire.codec.compression import decompress
from tidewire.codec.options import Compression, Options
from tidewire.model import Column, TableName, TableSchema

Texts = dict[str, str | None]

_OPS: Final = {"INSERT": OpCode.INSERT, "UPDATE": OpCode.UPDATE, "DELETE": OpCode.DELETE}
_AFTER_HEAD: Final = b',"es":'


class _Head(msgspec.Struct, **STRICT):
    """What a message begins with."""

    id: int
    database: str
    table: str
    pkNames: list[str]  # noqa: N815 - the wire's name
    isDdl: bool  # noqa: N815
    type: str


class _Extension(msgspec.Struct, **STRICT):
    commitTs: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] | UnsetType = UNSET  # noqa: N815
    onlyHandleKey: bool | UnsetType = UNSET  # noqa: N815
    rowkey: str | UnsetType = UNSET


class _Rest(msgspec.Struct, **STRICT):
    """What follows the head of a message, of any table."""

    es: int
    ts: int
    sql: str
    sqlType: dict[str, int]  # noqa: N815
    mysqlType: dict[str, str]  # noqa: N815
    old: tuple[Texts] | None
    data: tuple[Texts]
    tidb: _Extension | UnsetType = msgspec.field(name="_tidb", default=UNSET)


_read_head = msgspec.json.Decoder(_Head).decode
_read_rest = msgspec.json.Decoder(_Rest).decode


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Messages of one kind and one set of columns: how what follows the head is read."""

    op: OpCode
    plan: RecordPlan
    width: int
    read: Callable[[bytes], Any]


class Scanner:
    """Takes rows out of messages as TiCDC writes them, of one row each."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._compression = options.large_message_handle_compression
        self._policy = policy
        self._plans: dict[TableSchema, RecordPlan] = {}
        self._shapes: dict[tuple[Any, ...], _Shape] = {}
        self._heads: dict[bytes, _Shape] = {}

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, value in enumerate(values):
            try:
                taken = value is not None and self._take(pos, value, groups)
            except (ValueError, KeyError):
                taken = False
            if not taken:
                left.append(pos)
        for rows in groups.rows.values():
            rows.subs += [0] * (len(rows.positions) - len(rows.subs))
            rows.partitions += [None] * (len(rows.positions) - len(rows.partitions))
        return left

    def _take(self, pos: int, value: bytes, groups: Groups) -> bool:
        if self._compression is not Compression.NONE:
            value = decompress(value, self._compression)
        border = value.find(_AFTER_HEAD)
        head, rest = value[:border], b"{" + value[border + 1 :]
        shape = self._heads.get(head) or self._learn(head, rest)
        try:
            message = shape.read(rest)
        except msgspec.ValidationError:
            shape = self._learn(head, rest)
            message = shape.read(rest)
        (row,), before = message.data, None if message.old is None else message.old[0]
        extension = message.tidb
        if extension is not UNSET and extension.rowkey is not UNSET:
            base64.b64decode(extension.rowkey, validate=True)
        if _repeats(rest, shape.width, row, before, extension):
            return False
        rows = groups.of(shape.plan)
        rows.positions.append(pos)
        rows.ops.append(shape.op)
        rows.commit_ts.append(None if extension is UNSET or extension.commitTs is UNSET else extension.commitTs)
        rows.key_only.append(extension is not UNSET and extension.onlyHandleKey is True)
        deleted = shape.op is OpCode.DELETE
        rows.after.append(None if deleted else row)
        rows.before.append(row if deleted else before)
        return True

    def _learn(self, head: bytes, rest: bytes) -> _Shape:
        """The shape of a message that does not have the last one seen after its head; ``ValueError`` if it has none."""
        front, back = _read_head(head + b"}"), _read_rest(rest)
        types, sql_types, (row,) = back.mysqlType, back.sqlType, back.data
        key = (head, tuple(row), frozenset(types.items()), frozenset(sql_types))
        shape = self._shapes.get(key)
        if shape is None:
            if front.isDdl or not row or any("," in name for name in row):
                raise ValueError("not a row that can be taken")
            columns = tuple(Column.of(name, types[name], primary_key=name in front.pkNames) for name in row)
            table = TableSchema(TableName(front.database, front.table), columns)
            plan = self._plans.get(table) or keep(
                self._plans, table, RecordPlan(table, self._reader, gap=UNSET)
            )
            op = _OPS[front.type]
            shape = keep(self._shapes, key, _Shape(op, plan, len(row), _parser(op, row, types, sql_types)))
        return keep(self._heads, head, shape)

    def _reader(self, column: Column) -> Reader:
        read = text_reader(column, self._policy)
        return _latin1(read) if column.is_binary else read


def _parser(op: OpCode, row: Texts, types: dict[str, str], sql_types: dict[str, int]) -> Callable[[bytes], Any]:
    """A parser for what follows the head. The columns' types are part of it: with others a message does not parse."""
    wire_types = [(name, str | None) for name in row]
    fields: list[Any] = [
        ("es", int),
        ("ts", int),
        ("sql", str),
        ("sqlType", record((name, int) for name in sql_types)),
        ("mysqlType", record((name, only(type_)) for name, type_ in types.items())),
        ("old", tuple[record(wire_types, UNSET)] if op is OpCode.UPDATE else None),  # type: ignore[misc]
        ("data", tuple[record(wire_types)]),  # type: ignore[misc]
        ("tidb", _Extension | UnsetType, UNSET),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Message", fields, rename={"tidb": "_tidb"}, **STRICT)).decode


def _repeats(rest: bytes, width: int, row: Any, before: Any, extension: Any) -> bool:
    """Might a column be there twice? The parser keeps the last one and does not tell.

    What is there twice makes one comma more than the record needs, from where the images begin to the end; commas in
    texts are the only others.
    """
    start = rest.find(b'"data":[{')
    commas, images = width - 1, (row,)
    if before is not None:
        old = rest.find(b'"old":[{')
        start = min(start, old)
        commas += 1 + max(0, width - astuple(before).count(UNSET) - 1)
        images = (row, before)
    if extension is not UNSET:
        there = 3 - astuple(extension).count(UNSET)
        commas += 1 + max(0, there - 1)
    if start < 0:
        return True
    more = rest.count(b",", start) - commas
    if not more:
        return False
    in_texts = sum("".join(filter(None, astuple(image))).count(",") for image in images)
    return more != in_texts or b"\\u002c" in rest or b"\\u002C" in rest


def _latin1(read: Reader) -> Reader:
    """Reads bytes that the wire has as characters of the same number."""
    return lambda values: read([None if value is None else value.encode("latin-1") for value in values])
