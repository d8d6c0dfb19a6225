"""Canal-JSON messages to events: TiCDC's of any version, and official Canal's."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tidewire.codec.base import Resources
from tidewire.codec.canal_json.types import PROTOCOL, WATERMARK_TYPE
from tidewire.codec.jsontext import Pairs, Reader, member_path, read_json, text
from tidewire.codec.large import Packing
from tidewire.codec.options import Options
from tidewire.errors import DecodeError
from tidewire.model import (
    Column,
    Date,
    DateTime,
    Ddl,
    DdlKind,
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
from tidewire.model.ddl import TYPE_OF_KIND
from tidewire.model.types import FLOATS, INTEGERS, STRINGS
from tidewire.model.values import enum_text, float32, set_text


class _Members(dict[str, Any]):
    """A JSON object that remembers whether a member was there twice: a header may be, a column must not."""

    __slots__ = ("repeated",)

    def __init__(self, members: Pairs) -> None:
        super().__init__(members)
        self.repeated = len(self) < len(members)


class Decoder:
    """Messages to events. It remembers nothing between messages, so one can be shared."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources
        self._packing = Packing(PROTOCOL, options, resources)

    def decode(self, message: Message) -> Iterator[Event]:
        """The events in one message: one, or one for each row where official Canal wrote it."""
        yield from self._events(message)

    def _events(self, message: Message, *, whole: bool = False) -> Iterator[Event]:
        if not message.value:
            raise DecodeError(PROTOCOL, "no value", 0, "value")
        data = self._packing.unpack(message.value)
        reader = Reader(read_json(data, PROTOCOL, objects=_Members), PROTOCOL, "value")
        extension = Reader(reader.members.get("_tidb") or {}, PROTOCOL, "value", "$._tidb")
        if reader.boolean("isDdl"):
            return iter([_ddl(reader, extension)])
        if reader.members.get("type") == WATERMARK_TYPE:
            # The server leaves a watermark of 0 out, but not the object it would stand in.
            return iter([Watermark(reader.object("_tidb").integer("watermarkTs", default=0))])
        location = extension.string("claimCheckLocation", "")
        if location and not whole:
            kept = self._packing.check_out(location, "$._tidb.claimCheckLocation", "value")
            return self._events(kept, whole=True)
        return _rows(reader, extension)


def _commit_ts(extension: Reader) -> int | None:
    return extension.integer("commitTs") if "commitTs" in extension.members else None


def _ddl(reader: Reader, extension: Reader) -> Ddl:
    word = reader.string("type")
    kind = DdlKind(word) if word in set(DdlKind) else DdlKind.QUERY
    name = TableName(reader.string("database", ""), reader.string("table", ""))
    return Ddl(name, _commit_ts(extension), reader.string("sql"), TYPE_OF_KIND.get(kind), kind)


def _rows(reader: Reader, extension: Reader) -> Iterator[RowChange]:
    op = reader.string("type")
    if op not in _IMAGES:
        raise reader.refuse(f"{op!r} is no row change", "type")
    data = _list(reader, "data")
    if not data:
        raise reader.refuse("no row is there", "data")
    # Before v5.4 a DELETE repeated its row in `old`, and some versions wrote [null] there.
    old = _list(reader, "old") if op == "UPDATE" else []
    if old and len(old) != len(data):
        raise reader.refuse(f"{len(old)} old rows for {len(data)} new ones", "old")
    columns = _columns(reader, [*data, *old])
    table = TableSchema(TableName(reader.string("database"), reader.string("table")), tuple(columns.values()))
    row_key = extension.members.get("rowkey")
    for number, image in enumerate(data):
        row = _row(reader, "data", number, image, columns)
        before = _row(reader, "old", number, old[number], columns) if old else {}
        yield RowChange(
            table,
            _commit_ts(extension),
            **_IMAGES[op](row, before),
            handle_key_only=extension.boolean("onlyHandleKey"),
            row_key=None if row_key is None else _base64(extension, "rowkey"),
        )


_IMAGES: Mapping[str, Callable[[Row, Row], dict[str, Any]]] = {
    "INSERT": lambda row, _: {"after": row},
    "UPDATE": lambda row, before: {"before": before, "after": row},
    "DELETE": lambda row, _: {"before": row},
}


def _base64(reader: Reader, name: str) -> bytes:
    encoded = reader.string(name)
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise reader.refuse(f"not Base64: {error}", name) from None


def _list(reader: Reader, name: str) -> list[Any]:
    found = reader.members.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise reader.refuse("a list of rows was expected", name)
    return found


def _columns(reader: Reader, images: list[Any]) -> dict[str, Column]:
    """The columns of all images, in the order the first image has them: the table's."""
    types = reader.object("mysqlType") if reader.members.get("mysqlType") is not None else None
    keys = reader.members.get("pkNames") or ()
    if not isinstance(keys, list | tuple):
        raise reader.refuse("a list of names was expected", "pkNames")
    columns: dict[str, Column] = {}
    for image in images:
        for name in image if isinstance(image, dict) else ():
            if name not in columns:
                if types is None:
                    raise reader.refuse("the columns' types are missing", "mysqlType")
                columns[name] = _column(types, name, name in keys)
    return columns


def _column(types: Reader, name: str, primary_key: bool) -> Column:
    if not isinstance(text(name), str):
        raise types.refuse("the column's name is not UTF-8", name)
    mysql_type = types.string(name)
    try:
        column = Column.of(name, mysql_type, primary_key=primary_key)
    except ValueError as error:
        raise types.refuse(str(error), name) from None
    return column if primary_key else replace(column, nullable=None)


def _row(reader: Reader, member: str, number: int, image: Any, columns: Mapping[str, Column]) -> Row:
    path = f"$.{member}[{number}]"
    values = Reader(image, PROTOCOL, "value", path)
    if isinstance(image, _Members) and image.repeated:
        raise values.refuse("a column is there twice")
    return {name: _value(columns[name], raw, path) for name, raw in values.members.items()}


def _value(column: Column, raw: Any, path: str) -> Value:
    if raw is None:
        return None
    try:
        if not isinstance(raw, str):
            raise ValueError(f"{raw!r} is not text")
        return _READERS[column.type](column, raw)
    except (ValueError, OverflowError) as error:
        reason = f"column {column.name} ({column.mysql_type}): {error}"
        raise DecodeError(PROTOCOL, reason, member_path(path, column.name), "value") from None


_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_DECIMAL = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def _integer(column: Column, raw: str) -> int:
    low, high = (0, 1 << 64) if column.unsigned else (-1 << 63, 1 << 63)
    if _INTEGER.fullmatch(raw) is None or not low <= int(raw) < high:
        raise ValueError(f"{raw!r} is not {'an unsigned' if column.unsigned else 'a signed'} 64-bit integer")
    return int(raw)


def _unsigned(raw: str) -> int:
    if _INTEGER.fullmatch(raw) is None or not 0 <= int(raw) < 1 << 64:
        raise ValueError(f"{raw!r} is not an unsigned 64-bit integer")
    return int(raw)


def _float(column: Column, raw: str) -> float:
    if _NUMBER.fullmatch(raw) is None:
        raise ValueError(f"{raw!r} is not a number")
    number = float(raw)
    if number in (float("inf"), float("-inf")):
        raise ValueError("the number is too large")
    return float32(number) if column.type is MySQLType.FLOAT else number


def _decimal(_: Column, raw: str) -> Decimal:
    if _DECIMAL.fullmatch(raw) is None:
        raise ValueError(f"{raw!r} is not a decimal number")
    return Decimal(raw)


def _string(column: Column, raw: str) -> str | bytes:
    if not column.is_binary:
        return text(raw)
    try:
        return raw.encode("latin-1")
    except UnicodeEncodeError as error:
        raise ValueError(f"{raw[error.start]!r} stands for no byte") from None


def _text(raw: str) -> str:
    found = text(raw)
    if not isinstance(found, str):
        raise ValueError("not UTF-8")
    return found


def _enum(column: Column, raw: str) -> EnumValue:
    # Official Canal may write the name; TiCDC writes the index.
    index = column.elements.index(raw) + 1 if raw in column.elements else _unsigned(raw)
    return EnumValue(index, enum_text(index, column.elements) if column.elements else None)


def _set(column: Column, raw: str) -> SetValue:
    names = raw.split(",")
    if column.elements and set(names) <= set(column.elements):
        mask = sum(1 << column.elements.index(name) for name in set(names))
    else:
        mask = _unsigned(raw)
    return SetValue(mask, set_text(mask, column.elements) if column.elements else None)


_READERS: Mapping[MySQLType, Callable[[Column, str], Value]] = {
    **dict.fromkeys(MySQLType, lambda _, raw: _text(raw)),
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(STRINGS, _string),
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), lambda _, raw: Date(_text(raw))),
    MySQLType.DATETIME: lambda _, raw: DateTime(_text(raw)),
    MySQLType.TIMESTAMP: lambda _, raw: Timestamp(_text(raw)),
    MySQLType.TIME: lambda _, raw: Time(_text(raw)),
    MySQLType.BIT: lambda _, raw: _unsigned(raw),
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
    MySQLType.DECIMAL: _decimal,
}
