"""Open Protocol messages to events, of either server generation and of the document."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from tidewire.codec.base import Resources
from tidewire.codec.columns import described_column
from tidewire.codec.jsontext import Pairs, Reader, once, read_json, text
from tidewire.codec.large import Packing
from tidewire.codec.open_protocol.wire import PROTOCOL, Frame, MessageType, go_unquote, pairs
from tidewire.codec.options import Options
from tidewire.errors import DecodeError
from tidewire.model import (
    Column,
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    EnumValue,
    Event,
    Message,
    MySQLType,
    Row,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from tidewire.model.types import BLOBS, CHARS, INTEGERS
from tidewire.model.values import float32


class Decoder:
    """Messages to events. It remembers nothing between messages, so one can be shared."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources
        self._packing = Packing(PROTOCOL, options, resources)

    def decode(self, message: Message) -> Iterator[Event]:
        """The events in one message."""
        for key, value in pairs(message.key, message.value):
            yield self._event(key, value)

    def _event(self, key: Frame, value: Frame, *, whole: bool = False) -> Event:
        reader = Reader(read_json(key.payload, PROTOCOL, "key", base=key.start), PROTOCOL, "key")
        kind = reader.integer("t", bits=8)
        ts = reader.integer("ts")
        if kind == MessageType.RESOLVED:
            if value.payload:
                raise DecodeError(PROTOCOL, "a resolved event with a value", value.start, "value")
            return Watermark(ts)
        name = TableName(reader.string("scm", ""), reader.string("tbl", ""))
        if kind == MessageType.DDL:
            return self._ddl(name, ts, self._value(value, dict))
        if kind != MessageType.ROW:
            raise reader.refuse(f"{kind} is no event type", "t")
        location = reader.string("ccl", "")
        if location and not whole:
            return self._checked_out(location)
        return self._row(reader, name, ts, self._value(value, _columns_once))

    def _value(self, value: Frame, objects: Callable[[Pairs], Any]) -> Reader:
        data = self._packing.unpack(value.payload, at=value.start)
        return Reader(read_json(data, PROTOCOL, base=value.start, objects=objects), PROTOCOL, "value")

    def _checked_out(self, location: str) -> Event:
        message = self._packing.check_out(location, "$.ccl", "key")
        found = list(pairs(message.key, message.value))
        if len(found) != 1:
            raise DecodeError(PROTOCOL, f"{len(found)} events behind a claim check, one was expected", "$.ccl", "key")
        return self._event(*found[0], whole=True)

    def _ddl(self, name: TableName, ts: int, value: Reader) -> Ddl:
        # The document calls the type a string; servers send a number.
        type_ = value.members.get("t")
        if isinstance(type_, str) and type_.isascii() and type_.isdigit():
            value.members["t"] = int(type_)
        return Ddl(name, ts, value.string("q"), value.integer("t", bits=8))

    def _row(self, key: Reader, name: TableName, ts: int, value: Reader) -> RowChange:
        columns: dict[str, Column] = {}
        after, before, deleted = (_image(value, member, columns) for member in ("u", "p", "d"))
        if after is None and (deleted is None or before is not None):
            raise value.refuse("neither u nor d is there")
        if after is not None and deleted is not None:
            raise value.refuse("both u and d are there")
        partition = key.members.get("ptn")
        row_id = key.members.get("rid")
        for member, number in (("ptn", partition), ("rid", row_id)):
            if number is not None and (type(number) is not int or not -1 << 63 <= number < 1 << 63):
                raise key.refuse("a signed 64-bit integer was expected", member)
        return RowChange(
            TableSchema(name, tuple(columns.values())),
            ts,
            before=before if deleted is None else deleted,
            after=after,
            table_id=partition,
            partitioned=partition is not None,
            handle_key_only=key.boolean("ohk"),
            row_id=row_id,
        )


def _columns_once(members: Pairs) -> dict[str, Any]:
    """An object in which no column may be there twice.

    A column is an object. Scalars may repeat: the new server writes an old value without its column's name when the
    column becomes NULL in only-updated mode, ``"p":{"t":3,"f":65,"v":1}``, several of them one after the other.
    """
    columns = once([(name, value) for name, value in members if isinstance(value, dict)])
    return dict(members) | columns


def _image(value: Reader, member: str, columns: dict[str, Column]) -> Row | None:
    """A row image; its columns join ``columns``."""
    if value.members.get(member) is None:
        return None
    reader = value.object(member)
    row: dict[str, Value] = {}
    for name, column_value in reader.members.items():
        if member == "p" and name in _UNNAMED and not isinstance(column_value, dict):
            continue  # whose old value this was cannot be told
        column, row[name] = _column(reader, name)
        columns.setdefault(name, column)
    return row


_UNNAMED = frozenset("thfv")


def _column(image: Reader, name: str) -> tuple[Column, Value]:
    reader = image.object(name)
    if not isinstance(text(name), str):
        raise reader.refuse("the column's name is not UTF-8")
    code = reader.integer("t", bits=8)
    try:
        type_ = MySQLType(code)
    except ValueError:
        raise reader.refuse(f"{code} is no column type", "t") from None
    flags = ColumnFlag(reader.integer("f", bits=8)) if "f" in reader.members else None
    column = described_column(name, type_, flags, reader.boolean("h"))
    if "v" not in reader.members:
        raise reader.refuse("the value is missing", "v")
    raw = reader.members["v"]
    if raw is None:
        return column, None
    try:
        return column, _READERS[type_](column, raw)
    except (ValueError, TypeError, OverflowError) as error:
        raise reader.refuse(f"column {name} ({column.base_type}): {error}", "v") from None


def _integer(column: Column, raw: Any) -> int:
    low, high = (0, 1 << 64) if column.unsigned else (-1 << 63, 1 << 63)
    if type(raw) is not int or not low <= raw < high:
        raise ValueError(f"{raw!r} is not {'an unsigned' if column.unsigned else 'a signed'} 64-bit integer")
    return raw


def _unsigned(_: Column, raw: Any) -> int:
    if type(raw) is not int or not 0 <= raw < 1 << 64:
        raise ValueError(f"{raw!r} is not an unsigned 64-bit integer")
    return raw


def _float(column: Column, raw: Any) -> float:
    if type(raw) not in (int, float):
        raise ValueError(f"{raw!r} is not a number")
    number = float(raw)
    if number in (float("inf"), float("-inf")):
        raise ValueError("the number is too large")
    return float32(number) if column.type is MySQLType.FLOAT else number


_DECIMAL = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


def _decimal(_: Column, raw: Any) -> Decimal:
    if _DECIMAL.fullmatch(_text(raw)) is None:
        raise ValueError(f"{raw!r} is not a decimal number")
    return Decimal(raw)


def _text(raw: Any) -> str:
    found = text(raw) if isinstance(raw, str) else None
    if not isinstance(found, str):
        raise ValueError(f"{raw!r} is not text")
    return found


def _string(column: Column, raw: Any) -> str | bytes:
    if not isinstance(raw, str):
        raise ValueError(f"{raw!r} is not text")
    return go_unquote(raw) if column.is_binary else text(raw)


def _base64(column: Column, raw: Any) -> str | bytes:
    data = base64.b64decode(_text(raw), validate=True)
    if column.is_binary:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _as_is(_: Column, raw: Any) -> Value:
    if not isinstance(raw, str | int | float) or isinstance(raw, bool):
        raise ValueError(f"{raw!r} is no column value")
    return raw


_READERS: Mapping[MySQLType, Callable[[Column, Any], Value]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _integer),
    **dict.fromkeys((MySQLType.FLOAT, MySQLType.DOUBLE), _float),
    **dict.fromkeys((MySQLType.JSON, MySQLType.VECTOR), lambda _, raw: _text(raw)),
    **dict.fromkeys(CHARS, _string),
    **dict.fromkeys(BLOBS, _base64),
    **dict.fromkeys((MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY), _as_is),
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), lambda _, raw: Date(_text(raw))),
    MySQLType.DATETIME: lambda _, raw: DateTime(_text(raw)),
    MySQLType.TIMESTAMP: lambda _, raw: Timestamp(_text(raw)),
    MySQLType.TIME: lambda _, raw: Time(_text(raw)),
    MySQLType.BIT: _unsigned,
    MySQLType.ENUM: lambda column, raw: EnumValue(_unsigned(column, raw)),
    MySQLType.SET: lambda column, raw: SetValue(_unsigned(column, raw)),
    MySQLType.DECIMAL: _decimal,
}
