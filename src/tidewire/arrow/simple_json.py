"""Simple rows in JSON straight into columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tidewire.arrow.convert import Policy
from tidewire.arrow.decode import Groups
from tidewire.arrow.plan import OpCode, Plan
from tidewire.arrow.simple_values import wire_reader
from tidewire.codec.compression import decompress
from tidewire.codec.options import Compression, IntegrityCheck, Options
from tidewire.codec.simple.decoder import Decoder
from tidewire.codec.simple.wire import VERSION
from tidewire.model import MySQLType, TableName, TableSchema

_MOST_KNOWN: Final = 512
"""Plans that are kept; more begin anew."""

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

    version: int
    database: str
    table: str
    tableID: int  # noqa: N815 - the wire's name
    type: str
    commitTs: int  # noqa: N815
    buildTs: int  # noqa: N815
    schemaVersion: int  # noqa: N815
    handleKeyOnly: bool | None = None  # noqa: N815
    checksum: _Checksum | None = None
    data: _Image | None = None
    old: _Image | None = None


_MEMBERS: Final = 8
_CHECKSUM_MEMBERS: Final = 1 + len(_Checksum.__struct_fields__)
_OPS: Final = {
    ("INSERT", True, False): OpCode.INSERT,
    ("UPDATE", True, True): OpCode.UPDATE,
    ("DELETE", False, True): OpCode.DELETE,
}
"""By the message's type and whether it has new and old values."""

_MINUS_ZERO: Final = re.compile(rb":\s*-0")


class _Table:
    """A table as the rows of one physical id and schema version need it."""

    def __init__(self, schema: TableSchema, plan: Plan, table_id: int) -> None:
        self.plan = plan
        self.names = frozenset(column.name for column in schema.columns)
        self.timestamps = [column.name for column in schema.columns if column.type is MySQLType.TIMESTAMP]
        self.partition = None if table_id == schema.table_id else table_id


class Scanner:
    """Takes rows out of Simple messages. What their columns are it asks the decoder's memory of schemas."""

    def __init__(self, options: Options, policy: Policy, decoder: Decoder) -> None:
        self._compression = options.large_message_handle_compression
        self._verify = options.integrity_check_level is not IntegrityCheck.NONE
        self._policy = policy
        self._schemas = decoder.schemas
        self._parse = msgspec.json.Decoder(_Message).decode
        self._tables: dict[tuple[str, str, int, int], _Table] = {}
        self._plans: dict[int, tuple[TableSchema, Plan]] = {}

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> Iterator[int]:
        """Put rows into groups; the places of the messages that were left alone.

        Any message that is left may bring a schema, so tables are looked up anew behind it.
        """
        self._tables.clear()
        for pos, value in enumerate(values):
            try:
                added = bool(value) and self._add(pos, value, groups)
            except (ValueError, KeyError):
                added = False
            if not added:
                yield pos
                self._tables.clear()

    def _add(self, pos: int, value: Any, groups: Groups) -> bool:
        if self._compression is not Compression.NONE:
            value = decompress(value, self._compression)
        message = self._parse(value)
        after, before, commit_ts = message.data, message.old, message.commitTs
        op = _OPS[message.type, after is not None, before is not None]
        table = self._table(message)
        if table is None or message.version != VERSION or not 0 < commit_ts < 1 << 63:
            return False
        if message.checksum is not None and (self._verify or _MINUS_ZERO.search(value)):
            return False
        members = _MEMBERS
        for image in (after, before):
            if image is not None:
                if not image.keys() <= table.names:
                    return False
                members += 1 + len(image)
                for name in table.timestamps:
                    if type(image.get(name)) is WireTimestamp:
                        members += 2
        if _members(value) != members + _optional_members(message):
            return False
        groups.of(table.plan).add(pos, 0, op, commit_ts, table.partition, message.handleKeyOnly is True, after, before)
        return True

    def _table(self, message: _Message) -> _Table | None:
        """The table of a row, ``None`` where its schema has not come by or it names none for sure."""
        key = message.database, message.table, message.schemaVersion, message.tableID
        known = self._tables.get(key)
        if known is None:
            _, _, version, table_id = key
            # The codec tells 0 from -0; this parser does not.
            if not 0 < version < 1 << 64 or not table_id or not -1 << 63 <= table_id < 1 << 63:
                return None
            schema = self._schemas.find(TableName(message.database, message.table), version, table_id)
            if schema is None:
                return None
            known = self._tables[key] = _Table(schema, self._plan(schema), table_id)
        return known

    def _plan(self, schema: TableSchema) -> Plan:
        # By identity, because a schema takes long to hash; that it is kept here keeps the number its own.
        known = self._plans.get(id(schema))
        if known is None:
            if len(self._plans) == _MOST_KNOWN:
                self._plans.clear()
            plan = Plan(schema, lambda column: wire_reader(column, self._policy))
            known = self._plans[id(schema)] = schema, plan
        return known[1]


def _members(text: bytes) -> int:
    """How many members all objects have together; ``ValueError`` where that is hard to tell.

    In JSON only a member's name ends in a quote before a colon, unless the quote is escaped. The parser keeps the last
    of several members of one name and does not tell, so what it found is compared with what is there.
    """
    escaped = text.count(b'\\":')
    if escaped and b'\\\\":' in text:
        raise ValueError("a backslash, or a quote, before a quote")
    return text.count(b'":') - escaped


def _optional_members(message: _Message) -> int:
    return (message.handleKeyOnly is not None) + (message.checksum is not None) * _CHECKSUM_MEMBERS
