"""Open Protocol rows straight into columns.

A row's columns each come with type and flags. For rows of one table these are always the same, so a parser is made
that has them built in: it reads the values, and a row with another type or flag does not parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from tidewire.arrow.convert import Policy, Reader, text_reader, value_reader
from tidewire.arrow.decode import Groups
from tidewire.arrow.plan import OpCode
from tidewire.arrow.records import STRICT, RecordPlan, keep, only, record
from tidewire.arrow.types import arrow_type
from tidewire.codec.base import Decoder
from tidewire.codec.columns import described_column
from tidewire.codec.compression import decompress
from tidewire.codec.open_protocol.wire import LENGTH, VERSION, go_unquote
from tidewire.codec.options import Compression, Options
from tidewire.model import Column, ColumnFlag, MySQLType, TableName, TableSchema
from tidewire.model.types import BLOBS, CHARS, FLOATS, INTEGERS, NUMBERED, TEMPORAL

_MINUS_ZERO: Final = re.compile(rb"-0(?![.\deE])").search
_MINUS_ZERO_VALUE: Final = re.compile(rb"[:\s]-0(?![.\deE])").search

_Positive = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
_Signed = Annotated[int, msgspec.Meta(ge=-1 << 63, le=(1 << 63) - 1)]


class _Key(msgspec.Struct, **STRICT):
    """An event key of a row that is in the message itself."""

    ts: _Positive
    scm: str
    tbl: str
    t: Literal[1]
    ptn: _Positive | None = None
    rid: _Signed | None = None
    ohk: bool = False


class _Column(msgspec.Struct, **STRICT):
    t: int
    f: int
    v: int | float | str | None
    h: bool = False


class _Value(msgspec.Struct, **STRICT):
    """The event value of a row of any table."""

    u: dict[str, _Column] | UnsetType = UNSET
    p: dict[str, _Column] | UnsetType = UNSET
    d: dict[str, _Column] | UnsetType = UNSET


class _Gap(msgspec.Struct, frozen=True, **STRICT):
    """What an old row has for a column that it leaves out."""

    v: None = None


_GAP: Final = _Gap()
_read_key = msgspec.json.Decoder(_Key).decode
_read_value = msgspec.json.Decoder(_Value).decode


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Rows with one set of columns: how an event value is read, and what is then still to be checked."""

    plan: RecordPlan
    deleted: bool
    read: Callable[[bytes], Any]
    handles: Sequence[attrgetter[Any]]
    texts: Sequence[attrgetter[Any]]


class _Row(NamedTuple):
    plan: RecordPlan
    key: _Key
    op: OpCode
    after: Any
    before: Any


class Scanner:
    """Takes rows out of messages in which every event is a row."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._compression = options.large_message_handle_compression
        self._policy = policy
        self._plans: dict[TableSchema, RecordPlan] = {}
        self._shapes: dict[tuple[TableSchema, bool], _Shape] = {}
        self._last: dict[tuple[str, str, bytes], _Shape] = {}
        self._last_key: tuple[bytes, _Key] | None = None

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                found = [] if key is None or value is None else self._rows(key, value)
            except (ValueError, KeyError):
                found = []
            if not found:
                left.append(pos)
            for sub, row in enumerate(found):
                rows = groups.of(row.plan)
                rows.positions.append(pos)
                rows.subs.append(sub)
                rows.ops.append(row.op)
                rows.commit_ts.append(row.key.ts)
                rows.partitions.append(row.key.ptn)
                rows.key_only.append(row.key.ohk)
                rows.after.append(row.after)
                rows.before.append(row.before)
        return left

    def _rows(self, key: bytes, value: bytes) -> list[_Row]:
        """All rows of a message; ``ValueError`` where anything in it is not a row that can be taken."""
        if not key.startswith(VERSION):
            raise ValueError("another version")
        keys, values = _frames(key, len(VERSION)), _frames(value, 0)
        return [self._row(self._key(one), other) for one, other in zip(keys, values, strict=True)]

    def _key(self, data: bytes) -> _Key:
        """An event key; the events of a message often have the same one."""
        if self._last_key is None or self._last_key[0] != data:
            key = _read_key(data)
            if key.rid == 0:
                raise ValueError("perhaps a minus zero")
            self._last_key = data, key
        return self._last_key[1]

    def _row(self, key: _Key, value: bytes) -> _Row:
        if self._compression is not Compression.NONE:
            value = decompress(value, self._compression)
        # Read as an integer it has lost its sign.
        if _MINUS_ZERO(value) and _MINUS_ZERO_VALUE(value):
            raise ValueError("a minus zero")
        where = (key.scm, key.tbl, value[:4])
        shape = self._last.get(where) or self._learn(where, value)
        try:
            message = shape.read(value)
        except msgspec.ValidationError:
            shape = self._learn(where, value)
            message = shape.read(value)
        if shape.deleted:
            _check(value, shape, message.d)
            return _Row(shape.plan, key, OpCode.DELETE, None, message.d)
        row, old = message.u, message.p
        _check(value, shape, row, old)
        return _Row(shape.plan, key, OpCode.INSERT if old is None else OpCode.UPDATE, row, old)

    def _learn(self, where: tuple[str, str, bytes], value: bytes) -> _Shape:
        """The shape of a row that does not have the last one seen for its table; ``ValueError`` if it has none."""
        found = _read_value(value)
        deleted = found.d is not UNSET
        image = found.d if deleted else found.u
        if not image or any("{" in name for name in image):
            raise ValueError("not a row that can be taken")
        table = TableSchema(TableName(*where[:2]), tuple(_described(name, one) for name, one in image.items()))
        shape = self._shapes.get((table, deleted))
        if shape is None:
            plan = self._plans.get(table)
            if plan is None:
                plan = keep(self._plans, table, RecordPlan(table, self._reader, gap=_GAP, value=".v"))
            shape = keep(self._shapes, (table, deleted), _shape(plan, deleted=deleted))
        return keep(self._last, where, shape)

    def _reader(self, column: Column) -> Reader:
        return _READERS[column.type](column, self._policy)


def _frames(data: bytes, at: int) -> Iterator[bytes]:
    while at < len(data):
        start = at + LENGTH.size
        at = start + int.from_bytes(data[at:start], "big")
        if at > len(data) or start > len(data):
            raise ValueError("truncated")
        yield data[start:at]


def _described(name: str, found: _Column) -> Column:
    if not 0 <= found.f < 1 << 8:
        raise ValueError("not flags")
    return described_column(name, MySQLType(found.t), ColumnFlag(found.f), found.h)


def _shape(plan: RecordPlan, *, deleted: bool) -> _Shape:
    columns = plan.table.columns
    wire_types = [(column.name, _wire_class(column.type, column.flags, column.handle_key)) for column in columns]
    row, old = record(wire_types), record(wire_types, _GAP)
    fields: list[Any] = [("d", row)] if deleted else [("u", row), ("p", old | None, None)]
    return _Shape(
        plan,
        deleted,
        msgspec.json.Decoder(msgspec.defstruct("Value", fields, **STRICT)).decode,
        [attrgetter(f"c{number}.h") for number, column in enumerate(columns) if column.handle_key],
        [attrgetter(f"c{number}.v") for number, column in enumerate(columns) if _WIRE_TYPES[column.type] is str],
    )


@cache
def _wire_class(type_: MySQLType, flags: int, handle_key: bool) -> type[msgspec.Struct]:
    """The class of a column with this type and these flags."""
    mark: list[Any] = [("h", bool)] if handle_key else []
    fields = [("t", only(int(type_))), *mark, ("f", only(int(flags))), ("v", _WIRE_TYPES[type_] | None)]
    return msgspec.defstruct("Column", fields, **STRICT)


def _check(value: bytes, shape: _Shape, row: Any, old: Any = None) -> None:
    """``ValueError`` where a handle key's mark is false, or a column might be there twice.

    The parser keeps the last of two columns and does not tell. But each column has a brace; more than the columns
    need are only in texts.
    """
    if not all(handle(row) for handle in shape.handles):
        raise ValueError("another handle key")
    width = len(shape.plan.columns)
    images = (row,) if old is None else (row, old)
    needed = 2 + width if old is None else 3 + 2 * width - astuple(old).count(_GAP)
    more = value.count(b"{") - needed
    if more:
        texts = [text(image) for image in images for text in shape.texts]
        if more != "".join(filter(None, texts)).count("{") or b"\\u007b" in value or b"\\u007B" in value:
            raise ValueError("a column is there twice")


def _natives(column: Column, _: Policy) -> Reader:
    """Reads numbers that the wire has as such."""
    type_ = arrow_type(column)
    if column.unsigned or column.type not in INTEGERS | {MySQLType.YEAR}:
        return lambda values: pa.array(values, pa.uint64()).cast(type_)
    return lambda values: pa.array(values, type_)


def _strings(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    if column.type in BLOBS or not column.is_binary:
        return lambda values: pa.array(values, type_)
    return lambda values: pa.array([None if value is None else _unquoted(value) for value in values], type_)


_ONE_BYTE_ESCAPES: Final = re.compile(r"""[^\\]*(?:\\[abfnrtvx\\"'][^\\]*)*""").fullmatch


def _unquoted(text: str) -> bytes:
    """As :func:`go_unquote`; where every escape is for one byte Python's own does the same."""
    if "\\" not in text:
        return text.encode()
    if _ONE_BYTE_ESCAPES(text):
        return text.encode().decode("unicode_escape").encode("latin-1")
    return go_unquote(text)


_DECIMAL: Final = r"^-?\d+(\.\d+)?$"
_PLAIN_DECIMAL: Final = r"^-?(0|[1-9]\d*)(\.\d+)?$"


def _decimals(_: Column, __: Policy) -> Reader:
    """Reads decimal numbers of a scale that the wire does not tell: as text, without leading zeros."""

    def read(values: Sequence[Any]) -> pa.Array:
        texts = pa.array(values, pa.string())
        if pc.all(pc.match_substring_regex(texts, _PLAIN_DECIMAL), min_count=0).as_py():
            return texts
        if not pc.all(pc.match_substring_regex(texts, _DECIMAL), min_count=0).as_py():
            raise ValueError("not a decimal number")
        return pa.array([None if value is None else format(Decimal(value), "f") for value in values], pa.string())

    return read


_WIRE_TYPES: Mapping[MySQLType, Any] = {
    **dict.fromkeys(INTEGERS | NUMBERED | {MySQLType.YEAR, MySQLType.BIT}, int),
    **dict.fromkeys(FLOATS, float),
    **dict.fromkeys(BLOBS, bytes),
    **dict.fromkeys(CHARS | TEMPORAL | {MySQLType.JSON, MySQLType.VECTOR, MySQLType.DECIMAL}, str),
}
"""What a value is in JSON; ``bytes`` are in Base64. Rows with other types are left to the codec."""

_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    **dict.fromkeys(INTEGERS | NUMBERED | {MySQLType.YEAR, MySQLType.BIT}, _natives),
    **dict.fromkeys(FLOATS, value_reader),
    **dict.fromkeys(BLOBS | CHARS, _strings),
    **dict.fromkeys(TEMPORAL | {MySQLType.JSON, MySQLType.VECTOR}, text_reader),
    MySQLType.DECIMAL: _decimals,
}
