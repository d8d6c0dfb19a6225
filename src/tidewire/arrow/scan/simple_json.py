"""Simple rows in JSON straight into columns."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
from msgspec import Meta

from tidewire.arrow.convert import text_reader, value_reader
from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.plan import BufferedRow, OpCode, Plan
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.simple import Shape, SimpleScanner, Table
from tidewire.codec.simple.wire import VERSION
from tidewire.model import Column, MySQLType, TableName, TableSchema, Timestamp

_UNSIGNED_31 = Annotated[int, Meta(ge=0, lt=1 << 31)]
_UNSIGNED_32 = Annotated[int, Meta(ge=0, lt=1 << 32)]


class WireTimestamp(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A TIMESTAMP with the zone its text is in."""

    zone: str = msgspec.field(name="location")
    text: str = msgspec.field(name="value")


_Image = dict[str, str | WireTimestamp | None]


class _Checksum(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    version: _UNSIGNED_31
    corrupted: bool
    current: _UNSIGNED_32
    previous: _UNSIGNED_32


class _Message(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A row change as TiCDC writes it; a message with any other member is left to the readable codec."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    database: str
    table: str
    tableID: int  # noqa: N815 - the wire's name
    type: str
    commitTs: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]  # noqa: N815
    buildTs: int  # noqa: N815
    schemaVersion: int  # noqa: N815
    handleKeyOnly: bool | None = None  # noqa: N815
    checksum: _Checksum | None = None
    data: _Image | None = None
    old: _Image | None = None


_parse = msgspec.json.Decoder(_Message).decode

_MEMBERS: Final = 8
_CHECKSUM_MEMBERS: Final = 1 + len(_Checksum.__struct_fields__)
_OPS: Final = {
    ("INSERT", True, False): OpCode.INSERT,
    ("UPDATE", True, True): OpCode.UPDATE,
    ("DELETE", False, True): OpCode.DELETE,
}
"""By the message's type and whether it has new and old values."""

_MINUS_ZERO: Final = re.compile(rb":\s*-0")


class _Shape(Shape):
    """A schema's plan, and the names of its columns."""

    def __init__(self, schema: TableSchema, policy: Policy) -> None:
        super().__init__(schema, Plan(schema, _reader, policy))
        self.names = frozenset(column.name for column in schema.columns)
        self.timestamps = [column.name for column in schema.columns if column.type is MySQLType.TIMESTAMP]


class Scanner(SimpleScanner[tuple[str, str, int, int], _Shape]):
    """Takes rows out of Simple messages in JSON."""

    unread = (ValueError, KeyError)

    def new_shape(self, schema: TableSchema) -> _Shape:
        """A schema as its rows need it."""
        return _Shape(schema, self.policy)

    def row(self, pos: int, value: bytes) -> tuple[Plan, BufferedRow] | None:
        """The row of a message and its plan; ``None`` if the message is left alone."""
        message = _parse(value)
        after, before, commit_ts = message.data, message.old, message.commitTs
        op = _OPS[message.type, after is not None, before is not None]
        key = message.database, message.table, message.schemaVersion, message.tableID
        table = self.tables.get(key) or self._table(key)
        if table is None:
            return None
        shape, members = table.shape, _MEMBERS
        if message.handleKeyOnly is not None:
            members += 1
        if message.checksum is not None:
            if self.verifies or _MINUS_ZERO.search(value):
                return None
            members += _CHECKSUM_MEMBERS
        for image in (after, before):
            if image is not None:
                if not shape.names.issuperset(image):
                    return None
                members += 1 + len(image)
                for name in shape.timestamps:
                    if type(image.get(name)) is WireTimestamp:
                        members += 2
        if _members(value) != members:
            return None
        return shape.plan, (pos, 0, op, commit_ts, table.partition, message.handleKeyOnly is True, after, before)

    def _table(self, key: tuple[str, str, int, int]) -> Table[_Shape] | None:
        """The table of a row, ``None`` if its schema has not come by or it names none for sure."""
        database, name, version, table_id = key
        # The codec tells 0 from -0; this parser does not.
        if not 0 < version < 1 << 64 or not table_id or not -1 << 63 <= table_id < 1 << 63:
            return None
        return self.find(key, TableName(database, name), version, table_id)


def _members(text: bytes) -> int:
    """How many members all objects have together; raises ``ValueError`` if that is hard to tell.

    In JSON only a member's name ends in a quote before a colon, unless the quote is escaped. The parser keeps the last
    of several members of one name and does not tell, so what it found is compared with what is there.
    """
    found = text.count(b'":')
    if b"\\" in text:
        if b'\\\\":' in text:
            raise ValueError("a backslash, or a quote, before a quote")
        found -= text.count(b'\\":')
    return found


def _reader(column: Column, policy: Policy) -> Reader:
    """Reads a column's values as they stand in ``data`` and ``old``."""
    if column.type is MySQLType.TIMESTAMP:
        read = value_reader(column, policy)
        return lambda values: read([None if value is None else _timestamp(value) for value in values])
    if column.is_binary:
        return lambda values: pa.array([None if value is None else _unpacked(value) for value in values], pa.binary())
    return text_reader(column, policy)


def _timestamp(value: Any) -> Timestamp:
    # The document has the text alone.
    text, zone = (value, None) if isinstance(value, str) else (value.text, value.zone)
    return Timestamp(text, zone)


def _unpacked(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return base64.b64decode(text, validate=True)  # which is the codec's, slower, and bears more
