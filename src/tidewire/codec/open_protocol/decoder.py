"""Open Protocol messages to events, of either server generation and of the document."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from tidewire.codec.base import Resources
from tidewire.codec.columns import described_column
from tidewire.codec.jsontext import Pairs, Reader, once, read_json, text
from tidewire.codec.open_protocol.wire import PROTOCOL, Frame, MessageType, go_unquote, pairs
from tidewire.codec.options import Options
from tidewire.codec.size_limits import Packing
from tidewire.errors import DecodeError
from tidewire.model import (
    Column,
    ColumnFlag,
    Ddl,
    Event,
    Message,
    MySQLType,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Value,
    Watermark,
    grammar,
)
from tidewire.model.grammar import shown
from tidewire.model.types import BLOBS, CHARS, FLOATS, INTEGERS


class Decoder:
    """Messages to events. It remembers nothing between messages, so one can be shared."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources
        self._packing = Packing(PROTOCOL, options, resources)

    def decode(self, message: Message) -> list[Event]:
        """The events in one message: all of them, or ``DecodeError``."""
        return list(self._events(message))

    def _events(self, message: Message) -> Iterator[Event]:
        for key, value in pairs(message.key, message.value):
            yield self._event(key, value)

    def _event(self, key: Frame, value: Frame) -> Event:
        reader = _key(key)
        kind = reader.integer("t", bits=8)
        if kind == MessageType.RESOLVED:
            if value.payload:
                raise DecodeError(PROTOCOL, "a resolved event with a value", value.start, "value")
            return Watermark(reader.integer("ts"))
        if kind == MessageType.DDL:
            return self._ddl(reader, value)
        if kind != MessageType.ROW:
            raise reader.refuse(f"{kind} is no event type", "t")
        location = reader.string("ccl", "")
        return self._checked_out(reader, location) if location else self._row(reader, value)

    def _ddl(self, key: Reader, value: Frame) -> Ddl:
        reader = self._value(value, dict)
        # The document calls the type a string; servers send a number.
        type_ = reader.members.get("t")
        if isinstance(type_, str) and _CODE.fullmatch(type_):
            reader.members["t"] = int(type_)
        return Ddl(_table_name(key), key.integer("ts"), reader.string("q"), reader.integer("t", bits=8))

    def _checked_out(self, outer: Reader, location: str) -> RowChange:
        """The whole row behind a claim check: the same change, not another one."""
        message = self._packing.check_out(location, "$.ccl", outer.part)
        found = list(pairs(message.key, message.value, within=_KEPT))
        if len(found) != 1:
            raise DecodeError(PROTOCOL, f"{len(found)} events, one was expected", 0, f"{_KEPT}key")
        ((key, value),) = found
        reader = _key(key, within=_KEPT)
        for name in ("t", "ts", "scm", "tbl", "ptn"):
            if reader.members.get(name) != outer.members.get(name):
                raise reader.refuse(f"not the change it was kept for, which has {shown(outer.members.get(name))}", name)
        if "ccl" in reader.members:
            raise reader.refuse("a claim check behind a claim check", "ccl")
        return self._row(reader, value, within=_KEPT)

    def _row(self, key: Reader, value: Frame, *, within: str = "") -> RowChange:
        reader = self._value(value, _members, within)
        columns: dict[str, Column] = {}
        after, before, deleted = (_image(reader, member, columns) for member in ("u", "p", "d"))
        if (after is None) == (deleted is None):
            raise reader.refuse("neither u nor d is there" if after is None else "both u and d are there")
        if deleted is not None and before is not None:
            raise reader.refuse("a deleted row has no other old values", "p")
        partition, row_id = _signed(key, "ptn"), _signed(key, "rid")
        return RowChange(
            TableSchema(_table_name(key), tuple(columns.values())),
            key.integer("ts"),
            before=before if deleted is None else deleted,
            after=after,
            table_id=partition,
            partitioned=partition is not None,
            handle_key_only=key.boolean("ohk"),
            row_id=row_id,
        )

    def _value(self, value: Frame, objects: Callable[[Pairs], Any], within: str = "") -> Reader:
        part = f"{within}value"
        data = self._packing.unpack(value.payload, part, value.start)
        return Reader(read_json(data, PROTOCOL, part, base=value.start, objects=objects), PROTOCOL, part)


_KEPT = "claim check "
"""Before the part of a message that was kept in a claim-check store."""

_CODE = re.compile(r"\d{1,3}", re.ASCII)


def _key(key: Frame, within: str = "") -> Reader:
    part = f"{within}key"
    return Reader(read_json(key.payload, PROTOCOL, part, base=key.start), PROTOCOL, part)


def _table_name(key: Reader) -> TableName:
    return TableName(key.string("scm", ""), key.string("tbl", ""))


def _signed(key: Reader, name: str) -> int | None:
    number = key.members.get(name)
    if number is not None and (type(number) is not int or not -1 << 63 <= number < 1 << 63):
        raise key.refuse("a signed 64-bit integer was expected", name)
    return number


_COLUMN_MEMBERS: Final = frozenset({"t", "h", "f", "v"})


def _members(pairs: Pairs) -> dict[str, Any]:
    """A JSON object in which no column may be there twice.

    A column is an object. Its scalar members may repeat in ``p``: in only-updated mode the new server writes the old
    value of a column that becomes NULL without the column's name, ``"p":{"t":3,"f":65,"v":1}``, one after the other.
    """
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    columns = once([(name, value) for name, value in pairs if isinstance(value, dict)])
    once([(name, value) for name, value in pairs if name not in _COLUMN_MEMBERS])
    return found | columns


def _image(value: Reader, member: str, columns: dict[str, Column]) -> Row | None:
    """A row image; its columns join ``columns``."""
    if value.members.get(member) is None:
        return None
    image = value.object(member)
    row: dict[str, Value] = {}
    for name, found in image.members.items():
        if member == "p" and name in _COLUMN_MEMBERS and not isinstance(found, dict):
            continue  # part of an old value without its column's name: whose it was is not told
        column, row[name] = _column(image.object(name), name)
        columns.setdefault(name, column)
    return row


def _column(reader: Reader, name: str) -> tuple[Column, Value]:
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
    except (ValueError, OverflowError) as error:
        raise reader.refuse(f"column {name} ({column.mysql_type}): {error}", "v") from None


def _integer(column: Column, raw: Any) -> int:
    if column.flags is None and type(raw) is int:
        column = replace(column, unsigned=raw >= 0)  # whether it is unsigned was not told
    return grammar.integer(column, raw)


def _float(column: Column, raw: Any) -> float:
    if type(raw) not in (int, float):
        raise ValueError(f"{shown(raw)} is not a number")
    return grammar.floating(column, float(raw))


def _text(raw: Any) -> str:
    found = text(raw) if isinstance(raw, str) else None
    if not isinstance(found, str):
        raise ValueError(f"{shown(raw)} is not text")
    return found


def _string(column: Column, raw: Any) -> str | bytes:
    if not isinstance(raw, str):
        raise ValueError(f"{shown(raw)} is not text")
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
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"{shown(raw)} is no column value")
    return text(raw) if isinstance(raw, str) else raw


def _of_text(column: Column, raw: Any) -> Value:
    return grammar.read_text(column, _text(raw))


_READERS: Mapping[MySQLType, Callable[[Column, Any], Value]] = {
    **dict.fromkeys(MySQLType, _of_text),
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(CHARS, _string),
    **dict.fromkeys(BLOBS, _base64),
    **dict.fromkeys((MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY), _as_is),
    MySQLType.ENUM: grammar.enum_value,
    MySQLType.SET: grammar.set_value,
}
