"""Canal-JSON rows straight into columns.

TiCDC writes the members of a row change in one order. What stands before ``es`` says table, key and kind and is the
same bytes for all rows of a kind, so it is looked up. What stands between ``ts`` and ``old`` tells the types of the
columns and is compared with what it was. For what follows there is a parser made for that shape.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from tidewire.arrow.convert import text_reader
from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.plan import BufferedRow, Groups, OpCode
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.records import Partial, Record, TuplePlan, keep, record
from tidewire.codec.base import Decoder
from tidewire.codec.compression import decompress
from tidewire.codec.options import Compression, Options
from tidewire.model import Column, MySQLType, TableName, TableSchema
from tidewire.model.types import ENUM_SET

Texts = dict[str, str | None]

_OPS: Final = {"INSERT": OpCode.INSERT, "UPDATE": OpCode.UPDATE, "DELETE": OpCode.DELETE}
_AFTER_HEAD: Final = b',"es":'
_TIMES: Final = re.compile(rb',"es":(?:0|[1-9][0-9]*),"ts":(?:0|[1-9][0-9]*)')
_TYPES: Final = re.compile(rb',"sql":"","sqlType":\{[^{}]*\},"mysqlType":\{[^{}]*\}(?=,"old":)')
"""The columns' types; no brace is in them but in the elements of an odd ENUM."""

_MEMBERS_OF_TYPES: Final = 3
_ESCAPED_COMMAS: Final = (b"\\u002c", b"\\u002C")


class _Head(Record):
    """What a message begins with."""

    id: int
    database: str
    table: str
    pkNames: list[str]  # noqa: N815 - the wire's name
    isDdl: bool  # noqa: N815
    type: str


class _Extension(msgspec.Struct, frozen=True, gc=False, eq=False, forbid_unknown_fields=True):
    commitTs: Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)] | UnsetType = UNSET  # noqa: N815
    onlyHandleKey: bool | UnsetType = UNSET  # noqa: N815
    rowkey: str | UnsetType = UNSET


_NO_EXTENSION: Final = _Extension()
_EXTENSIONS: Final = len(_Extension.__struct_fields__)


class _Rest(Record):
    """What follows the head of a message, of any table."""

    es: int
    ts: int
    sql: str
    sqlType: dict[str, int]  # noqa: N815
    mysqlType: dict[str, str]  # noqa: N815
    old: tuple[Texts] | None
    data: tuple[Texts]
    tidb: _Extension = msgspec.field(name="_tidb", default=_NO_EXTENSION)


_read_head = msgspec.json.Decoder(_Head).decode
_read_rest = msgspec.json.Decoder(_Rest).decode


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Messages of one kind and one set of columns: how what follows the types is read."""

    op: OpCode
    plan: TuplePlan
    types: bytes
    read: Callable[[bytes], Any]
    commas: int
    """How many follow the types, without those in the old row, in TiDB's members and in texts."""

    numbered: Sequence[tuple[int, Callable[[str], bool]]]
    """The ENUM and SET columns whose names are known, and what a number of theirs is."""


class Scanner:
    """Takes rows out of messages as TiCDC writes them, of one row each."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._compression = options.large_message_handle_compression
        self._policy = policy
        self._plans: dict[TableSchema, TuplePlan] = {}
        self._shapes: dict[tuple[Any, ...], _Shape] = {}
        self._heads: dict[bytes, _Shape] = {}

    def scan(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups, start: int = 0
    ) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, value in enumerate(values, start):
            try:
                plan, row = self._row(pos, value or b"")
            except (ValueError, KeyError):
                left.append(pos)
            else:
                groups[plan].append(row)
        return left

    def _row(self, pos: int, value: bytes) -> tuple[TuplePlan, BufferedRow]:
        """The row of a message; ``ValueError`` or ``KeyError`` where it has none that can be taken."""
        if self._compression is not Compression.NONE:
            value = decompress(value, self._compression)
        border = value.find(_AFTER_HEAD)
        times = _TIMES.match(value, max(border, 0))
        if times is None:
            raise ValueError("not a row as TiCDC writes it")
        head, end = value[:border], times.end()
        shape = self._heads.get(head)
        if shape is None or not value.startswith(shape.types, end):
            shape = self._learn(head, value, end)
        try:
            message = shape.read(b"{" + value[end + len(shape.types) :])
        except msgspec.ValidationError:
            shape = self._learn(head, value, end)
            message = shape.read(b"{" + value[end + len(shape.types) :])
        row, before, extension = astuple(message.data[0]), None, message.tidb
        if extension.rowkey is not UNSET:
            base64.b64decode(extension.rowkey, validate=True)
        if message.old is not None:
            before = astuple(message.old[0])
            before = Partial(before) if UNSET in before else before
        images = [row] if before is None else [row, before]
        if _repeats(value, end, shape, images, extension):
            raise ValueError("a column is there twice")
        for number, is_number in shape.numbered:
            if not all(is_number(image[number]) for image in images if isinstance(image[number], str)):
                raise ValueError("perhaps a name")
        commit_ts = None if extension.commitTs is UNSET else extension.commitTs
        after, before = (None, row) if shape.op is OpCode.DELETE else (row, before)
        return shape.plan, (pos, 0, shape.op, commit_ts, None, extension.onlyHandleKey is True, after, before)

    def _learn(self, head: bytes, value: bytes, end: int) -> _Shape:
        """The shape of a message that is not like the last one with this head; ``ValueError`` if it has none."""
        types_text = _TYPES.match(value, end)
        if types_text is None:
            raise ValueError("not a row as TiCDC writes it")
        front, back = _read_head(head + b"}"), _read_rest(b"{" + value[len(head) + 1 :])
        types, sql_types, (row,) = back.mysqlType, back.sqlType, back.data
        key = (head, types_text[0], tuple(row))
        shape = self._shapes.get(key)
        if shape is None:
            if (
                front.isDdl
                or not row
                or any("," in name for name in row)
                or _repeat_in_types(types_text[0], types, sql_types)
            ):
                raise ValueError("not a row that can be taken")
            columns = tuple(_column(name, types[name], name in front.pkNames) for name in row)
            table = TableSchema(TableName(front.database, front.table), columns)
            plan = self._plans.get(table) or keep(self._plans, table, TuplePlan(table, _reader, self._policy))
            op = _OPS[front.type]
            shape = _Shape(op, plan, types_text[0] + b",", _parser(op, row), len(row), _numbered(columns))
            keep(self._shapes, key, shape)
        return keep(self._heads, head, shape)


def _reader(column: Column, policy: Policy) -> Reader:
    read = text_reader(column, policy)
    return _latin1(read) if column.is_binary else read


def _column(name: str, mysql_type: str, primary_key: bool) -> Column:
    column = Column.of(name, mysql_type, primary_key=primary_key)
    return column if primary_key else replace(column, nullable=None)


def _parser(op: OpCode, row: Texts) -> Callable[[bytes], Any]:
    """A parser for what follows the types."""
    wire_types = [(name, str | None) for name in row]
    fields: list[Any] = [
        ("old", tuple[record(wire_types, UNSET)] if op is OpCode.UPDATE else None),  # type: ignore[misc]
        ("data", tuple[record(wire_types)]),  # type: ignore[misc]
        ("tidb", _Extension, _NO_EXTENSION),
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Message", fields, rename={"tidb": "_tidb"}, bases=(Record,))).decode


def _numbered(columns: Sequence[Column]) -> list[tuple[int, Callable[[str], bool]]]:
    return [
        (number, _is_index(column) if column.type is MySQLType.ENUM else _is_mask(column))
        for number, column in enumerate(columns)
        if column.type in ENUM_SET and column.elements
    ]


def _is_index(column: Column) -> Callable[[str], bool]:
    return frozenset(map(str, range(len(column.elements) + 1))).__contains__


def _is_mask(column: Column) -> Callable[[str], bool]:
    bits = min(len(column.elements), 64)
    return lambda text: text.isascii() and text.isdecimal() and int(text) < 1 << bits


def _repeat_in_types(text: bytes, types: dict[str, str], sql_types: dict[str, int]) -> bool:
    """Might a column be there twice in the text of the types?"""
    names = [*types, *sql_types]
    commas = _MEMBERS_OF_TYPES + len(names) - 2 + "".join((*names, *types.values())).count(",")
    return text.count(b",") != commas or any(comma in text for comma in _ESCAPED_COMMAS)


def _repeats(value: bytes, end: int, shape: _Shape, images: Sequence[tuple[Any, ...]], extension: _Extension) -> bool:
    """Might a column be there twice? The parser keeps the last one and does not tell.

    A comma is behind every member but the last of an object, so there is one more then. All others are in texts.
    """
    begin = end + len(shape.types)
    more = value.count(b",", begin) - shape.commas
    if len(images) == 2:
        more -= max(len(images[1]) - images[1].count(UNSET) - 1, 0)
    if extension is not _NO_EXTENSION:
        more -= (_EXTENSIONS - astuple(extension).count(UNSET)) or 1
    if not more:
        return False
    in_texts = sum("".join(filter(None, image)).count(",") for image in images)
    return more != in_texts or any(comma in value for comma in _ESCAPED_COMMAS)


def _latin1(read: Reader) -> Reader:
    """Reads bytes that the wire has as characters of the same number."""
    return lambda values: read([None if value is None else value.encode("latin-1") for value in values])
