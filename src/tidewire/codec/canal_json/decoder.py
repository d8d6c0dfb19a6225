"""Canal-JSON messages to events: TiCDC's of any version, and official Canal's."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tidewire.codec.base import Resources
from tidewire.codec.canal_json.types import PROTOCOL, WATERMARK_TYPE
from tidewire.codec.jsontext import Pairs, Reader, read_json, repeated, text
from tidewire.codec.options import Options
from tidewire.codec.size_limits import Packing
from tidewire.errors import DecodeError
from tidewire.model import (
    Column,
    Ddl,
    DdlKind,
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
from tidewire.model.ddl import TYPE_OF_KIND
from tidewire.model.grammar import shown
from tidewire.model.types import STRINGS


class _Repeating(dict[str, Any]):
    """A JSON object with a member that is there twice: a header may be, a column must not."""

    __slots__ = ("repeated",)

    def __init__(self, members: Pairs) -> None:
        super().__init__(members)
        self.repeated = repeated(members)


def _members(members: Pairs) -> dict[str, Any]:
    found = dict(members)
    return found if len(found) == len(members) else _Repeating(members)


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
        reader = self._load(message, "value")
        if reader.boolean("isDdl"):
            yield _ddl(reader)
        elif reader.members.get("type") == WATERMARK_TYPE:
            # The server leaves a watermark of 0 out, but not the object it would stand in.
            yield Watermark(reader.object("_tidb").integer("watermarkTs", default=0))
        else:
            location = _extension(reader).string("claimCheckLocation", "")
            yield from _rows(self._checked_out(reader, location) if location else reader)

    def _load(self, message: Message, part: str) -> Reader:
        if not message.value:
            raise DecodeError(PROTOCOL, "no value", 0, part)
        data = self._packing.unpack(message.value, part)
        return Reader(read_json(data, PROTOCOL, part, objects=_members), PROTOCOL, part)

    def _checked_out(self, outer: Reader, location: str) -> Reader:
        """The whole row behind a claim check: the same change, not another one."""
        reader = self._load(
            self._packing.check_out(location, "$._tidb.claimCheckLocation", outer.part), "claim check value"
        )
        for name in ("isDdl", "type", "database", "table", "es"):
            if reader.members.get(name) != outer.members.get(name):
                raise reader.refuse(f"not the change it was kept for, which has {shown(outer.members.get(name))}", name)
        extension = _extension(reader)
        if "claimCheckLocation" in extension.members:
            raise extension.refuse("a claim check behind a claim check", "claimCheckLocation")
        return reader


def _extension(reader: Reader) -> Reader:
    """TiDB's members; without the extension there are none."""
    found = reader.members.get("_tidb")
    return Reader({} if found is None else found, PROTOCOL, reader.part, "$._tidb")


def _commit_ts(extension: Reader) -> int | None:
    return extension.integer("commitTs") if "commitTs" in extension.members else None


def _ddl(reader: Reader) -> Ddl:
    word = reader.string("type")
    kind = DdlKind(word) if word in set(DdlKind) else DdlKind.QUERY
    name = TableName(reader.string("database", ""), reader.string("table", ""))
    return Ddl(name, _commit_ts(_extension(reader)), reader.string("sql"), TYPE_OF_KIND.get(kind), kind)


def _rows(reader: Reader) -> Iterator[RowChange]:
    op = reader.string("type")
    if op not in _IMAGES:
        raise reader.refuse(f"{op!r} is no row change", "type")
    data = _list(reader, "data")
    if not data:
        raise reader.refuse("no row is there", "data")
    # Before v5.4 a DELETE repeated its row in `old`, and some versions wrote [null] there.
    old = [{} if image is None else image for image in _list(reader, "old")] if op == "UPDATE" else []
    if old and len(old) != len(data):
        raise reader.refuse(f"{len(old)} old rows for {len(data)} new ones", "old")
    columns = _columns(reader, [*data, *old])
    table = TableSchema(TableName(reader.string("database"), reader.string("table")), tuple(columns.values()))
    extension = _extension(reader)
    row_key = None if extension.members.get("rowkey") is None else _base64(extension, "rowkey")
    for number, image in enumerate(data):
        row = _row(reader, "data", number, image, columns)
        before = _row(reader, "old", number, old[number], columns) if old else {}
        yield RowChange(
            table,
            _commit_ts(extension),
            **_IMAGES[op](row, before),
            handle_key_only=extension.boolean("onlyHandleKey"),
            row_key=row_key,
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
    names = reader.members.get("pkNames")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise reader.refuse("a list of names was expected", "pkNames")
    keys = set(names or ())
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
    values = Reader(image, PROTOCOL, reader.part, f"$.{member}[{number}]")
    if isinstance(image, _Repeating):
        raise values.refuse("the column is there twice", image.repeated)
    return {name: _value(columns[name], raw, values) for name, raw in values.members.items()}


def _value(column: Column, raw: Any, image: Reader) -> Value:
    if raw is None:
        return None
    try:
        if not isinstance(raw, str):
            raise ValueError(f"{shown(raw)} is not text")
        return _READERS[column.type](column, raw)
    except (ValueError, OverflowError) as error:
        raise image.refuse(f"column {column.name} ({column.mysql_type}): {error}", column.name) from None


def _string(column: Column, raw: str) -> str | bytes:
    if not column.is_binary:
        return text(raw)
    try:
        return raw.encode("latin-1")
    except UnicodeEncodeError as error:
        raise ValueError(f"{raw[error.start]!r} stands for no byte") from None


def _enum(column: Column, raw: str) -> Value:
    names = ("", *column.elements)
    if column.elements and raw in names and not _is_number(raw, len(column.elements)):
        return grammar.enum_value(column, names.index(raw))
    return grammar.read_text(column, raw)


def _set(column: Column, raw: str) -> Value:
    elements = column.elements[:64]
    if elements and not _is_number(raw, (1 << len(elements)) - 1):
        names = set(raw.split(",")) - {""}
        if names <= set(elements):
            return grammar.set_value(column, sum(1 << bit for bit, name in enumerate(elements) if name in names))
    return grammar.read_text(column, raw)


def _is_number(raw: str, largest: int) -> bool:
    """Is this the number of an ENUM or SET value, as TiCDC writes it? A name may look like one.

    A number that is not possible may be a name: official Canal can write those.
    """
    try:
        return 0 <= int(grammar.INTEGER.check(raw)) <= largest
    except ValueError:
        return False


_READERS: Mapping[MySQLType, Callable[[Column, str], Value]] = {
    **grammar.READERS,
    **dict.fromkeys(STRINGS, _string),
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
}
"""How a value is read where Canal-JSON differs from the grammar: bytes are characters, ENUM and SET may be names."""
