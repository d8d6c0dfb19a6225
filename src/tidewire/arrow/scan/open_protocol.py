"""Open Protocol rows straight into columns.

A row's columns each come with type and flags. For rows of one table these are always the same, so a parser is made
that has them built in: it reads the values, and a row with another type or flag does not parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from tidewire.arrow.convert import integers_in_range, plain, text_reader, value_reader
from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.plan import BufferedRow, Groups, OpCode
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.records import Partial, Record, TuplePlan, keep, only, record
from tidewire.codec.base import Decoder
from tidewire.codec.columns import described_column
from tidewire.codec.compression import decompress
from tidewire.codec.open_protocol.wire import LENGTH, VERSION, go_unquote
from tidewire.codec.options import Compression, Options
from tidewire.model import Column, ColumnFlag, MySQLType, TableName, TableSchema
from tidewire.model.types import BLOBS, CHARS, ENUM_SET, FLOATS, INTEGERS, TEMPORAL, TEXTS

_LENGTH: Final = LENGTH.size
_MINUS_ZERO: Final = re.compile(rb"-0(?![.\deE])").search
_MINUS_ZERO_VALUE: Final = re.compile(rb"[:\s]-0(?![.\deE])").search

_Positive = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
_Signed = Annotated[int, msgspec.Meta(ge=-1 << 63, le=(1 << 63) - 1)]


class _Key(Record):
    """An event key of a row that is in the message itself."""

    ts: _Positive
    scm: str
    tbl: str
    t: Literal[1]
    ptn: _Positive | None = None
    rid: _Signed | None = None
    ohk: bool = False


class _Column(Record):
    t: int
    f: int
    v: int | float | str | None
    h: bool = False


class _Value(Record):
    """The event value of a row of any table."""

    u: dict[str, _Column] | UnsetType = UNSET
    p: dict[str, _Column] | UnsetType = UNSET
    d: dict[str, _Column] | UnsetType = UNSET


class _Gap(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What an old row has for a column that it leaves out."""

    v: UnsetType = UNSET


_GAP: Final = _Gap()
_read_key = msgspec.json.Decoder(_Key).decode
_read_value = msgspec.json.Decoder(_Value).decode


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """Rows with one set of columns: how an event value is read, and what is then still to be checked."""

    plan: TuplePlan
    deleted: bool
    read: Callable[[bytes], Any]
    marks: Callable[[Any], tuple[bool, ...]]
    values: Callable[[Any], tuple[Any, ...]]


class Scanner:
    """Takes rows out of messages in which every event is a row."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._compression = options.large_message_handle_compression
        self._policy = policy
        self._plans: dict[TableSchema, TuplePlan] = {}
        self._shapes: dict[tuple[TableSchema, bool], _Shape] = {}
        self._last: dict[tuple[str, str, bytes], _Shape] = {}
        self._last_key: tuple[bytes, _Key] | None = None

    def scan(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups, start: int = 0
    ) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, (key, value) in enumerate(zip(keys, values, strict=True), start):
            try:
                found = self._rows(pos, key or b"", value or b"")
            except (ValueError, KeyError):
                left.append(pos)
                continue
            for plan, row in found:
                groups[plan].append(row)
        return left

    def _rows(self, pos: int, key: bytes, value: bytes) -> list[tuple[TuplePlan, BufferedRow]]:
        """All rows of a message; raises ``ValueError`` if anything in it is not a row that can be taken."""
        if not key.startswith(VERSION):
            raise ValueError("another version")
        keys, values = _frames(key, len(VERSION)), _frames(value, 0)
        if not len(keys) == len(values) > 0:
            raise ValueError("not as many values as keys, or none")
        return [self._row(pos, sub, self._key(one), values[sub]) for sub, one in enumerate(keys)]

    def _key(self, data: bytes) -> _Key:
        """An event key; the events of a message often have the same one."""
        if self._last_key is None or self._last_key[0] != data:
            key = _read_key(data)
            if key.rid == 0:
                raise ValueError("perhaps a minus zero")
            self._last_key = data, key
        return self._last_key[1]

    def _row(self, pos: int, sub: int, key: _Key, value: bytes) -> tuple[TuplePlan, BufferedRow]:
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
        found = message.d if shape.deleted else message.u
        if False in shape.marks(found):
            raise ValueError("another handle key")
        row, before = shape.values(found), None
        if not shape.deleted and message.p is not UNSET:
            before = shape.values(message.p)
            before = Partial(before) if UNSET in before else before
        if _repeats(value, row, before):
            raise ValueError("a column is there twice")
        if shape.deleted:
            return shape.plan, (pos, sub, OpCode.DELETE, key.ts, key.ptn, key.ohk, None, row)
        op = OpCode.INSERT if before is None else OpCode.UPDATE
        return shape.plan, (pos, sub, op, key.ts, key.ptn, key.ohk, row, before)

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
                plan = keep(self._plans, table, TuplePlan(table, _reader, self._policy))
            shape = keep(self._shapes, (table, deleted), _shape(plan, deleted=deleted))
        return keep(self._last, where, shape)


def _reader(column: Column, policy: Policy) -> Reader:
    return _READERS[column.type](column, policy)


def _frames(data: bytes, at: int) -> list[bytes]:
    """Each payload behind its length."""
    found, end = [], len(data)
    start = at + _LENGTH
    if start + int.from_bytes(data[at:start], "big") == end:
        return [data[start:]]
    while at < end:
        start = at + _LENGTH
        at = start + int.from_bytes(data[at:start], "big")
        found.append(data[start:at])
    if at != end:
        raise ValueError("truncated")
    return found


def _described(name: str, found: _Column) -> Column:
    if not 0 <= found.f < 1 << 8:
        raise ValueError("not flags")
    return described_column(name, MySQLType(found.t), ColumnFlag(found.f), found.h)


def _shape(plan: TuplePlan, *, deleted: bool) -> _Shape:
    columns = plan.table.columns
    wire_types = [(column.name, _wire_class(column.type, column.flags, column.handle_key)) for column in columns]
    row, old = record(wire_types), record(wire_types, _GAP)
    fields: list[Any] = [("d", row)] if deleted else [("u", row), ("p", old | UnsetType, UNSET)]
    return _Shape(
        plan,
        deleted,
        msgspec.json.Decoder(msgspec.defstruct("Value", fields, bases=(Record,))).decode,
        _all_of(f"c{number}.h" for number, column in enumerate(columns) if column.handle_key),
        _all_of(f"c{number}.v" for number in range(len(columns))),
    )


def _all_of(paths: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Gets what is behind each path, as a tuple however many there are."""
    match list(paths):
        case []:
            return lambda _: ()
        case [path]:
            get = attrgetter(path)
            return lambda found: (get(found),)
        case several:
            return attrgetter(*several)


@cache
def _wire_class(type_: MySQLType, flags: int, handle_key: bool) -> type[msgspec.Struct]:
    """The class of a column with this type and these flags."""
    mark: list[Any] = [("h", bool)] if handle_key else []
    fields = [("t", only(int(type_))), *mark, ("f", only(int(flags))), ("v", _WIRE_TYPES[type_] | None)]
    return msgspec.defstruct("Column", fields, bases=(Record,))


def _repeats(value: bytes, row: tuple[Any, ...], before: tuple[Any, ...] | None) -> bool:
    """Might a column be there twice? The parser keeps the last one and does not tell.

    Every column has a brace, so has every image, and so has the whole. All others are in texts.
    """
    more = value.count(b"{") - 2 - len(row)
    if before is not None:
        more -= 1 + len(before) - (before.count(UNSET) if type(before) is Partial else 0)
    if not more:
        return False
    in_texts = sum(text.count("{") for text in (*row, *(before or ())) if isinstance(text, str))
    return more != in_texts or b"\\u007b" in value or b"\\u007B" in value


def _integers(column: Column, _: Policy) -> Reader:
    return integers_in_range(column)


def _strings(column: Column, policy: Policy) -> Reader:
    read = plain(column, policy)
    if column.type in BLOBS or not column.is_binary:
        return read
    return lambda values: read([None if value is None else _unquoted(value) for value in values])


_ONE_BYTE_ESCAPES: Final = re.compile(r"""[^\\]*(?:\\[abfnrtvx\\"'][^\\]*)*""").fullmatch


def _unquoted(text: str) -> bytes:
    """As :func:`go_unquote`; where every escape is for one byte Python's own does the same."""
    if "\\" not in text:
        return text.encode()
    if _ONE_BYTE_ESCAPES(text):
        return text.encode().decode("unicode_escape").encode("latin-1")
    return go_unquote(text)


_WIRE_TYPES: Mapping[MySQLType, Any] = {
    **dict.fromkeys(INTEGERS | ENUM_SET | {MySQLType.YEAR, MySQLType.BIT}, int),
    **dict.fromkeys(FLOATS, float),
    **dict.fromkeys(BLOBS, bytes),
    **dict.fromkeys(CHARS | TEMPORAL | TEXTS | {MySQLType.DECIMAL}, str),
}
"""What a value is in JSON; ``bytes`` are in Base64. Rows with other types are left to the codec."""

_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    **dict.fromkeys(INTEGERS | ENUM_SET | {MySQLType.YEAR, MySQLType.BIT}, _integers),
    **dict.fromkeys(FLOATS, value_reader),
    **dict.fromkeys(BLOBS | CHARS, _strings),
    **dict.fromkeys(TEMPORAL | TEXTS | {MySQLType.DECIMAL}, text_reader),
}
