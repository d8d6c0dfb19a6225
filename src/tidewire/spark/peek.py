"""Finds the table and the commit ts of a message that cannot be read.

A guess is worse than nothing here: a name that is wrong would let another table pass as complete. So each protocol
looks only where it is sure, and anything unexpected means that nothing can be told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tidewire.codec import Options, Resources
from tidewire.codec.avro.layout import read_layout as read_avro_layout
from tidewire.codec.avro.wire import HEADER
from tidewire.codec.craft.chunks import read_terms
from tidewire.codec.craft.layout import read_headings
from tidewire.codec.craft.layout import read_layout as read_craft_layout
from tidewire.codec.open_protocol.wire import pairs
from tidewire.codec.simple.formats import format_of
from tidewire.codec.size_limits import Packing
from tidewire.errors import TidewireError
from tidewire.model import Message, TableName


class MessageHeader(NamedTuple):
    """The table and the commit ts of a message; the smallest commit ts if it has several rows."""

    table: TableName | None = None
    commit_ts: int | None = None


_NOTHING = MessageHeader()
_OPEN_DDL = 2
"""Open Protocol's number of a DDL event."""


def peek(name: str, message: Message, options: Options, resources: Resources = Resources()) -> MessageHeader:
    """The table and the commit ts of a message, as far as they can be found without decoding it."""
    look = _PEEKS.get(name)
    if look is None:
        return _NOTHING
    try:
        return look(message, options, resources)
    except (TidewireError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if getattr(error, "transient", False):  # a registry that does not answer says nothing about the message
            raise
        return _NOTHING


def _header(schema: Any, table: Any, commit_ts: Any) -> MessageHeader:
    """Of one row, as far as the members are what they should be."""
    named = isinstance(schema, str) and isinstance(table, str) and bool(table)
    timed = isinstance(commit_ts, int) and not isinstance(commit_ts, bool)
    return MessageHeader(TableName(schema, table) if named else None, commit_ts if timed else None)


def _together(rows: Iterable[MessageHeader]) -> MessageHeader:
    """Of several rows: the table they share, and the least commit ts if all have one."""
    found = list(rows)
    tables = {row.table for row in found}
    times = [row.commit_ts for row in found]
    known = [time for time in times if time is not None]
    return MessageHeader(
        tables.pop() if len(tables) == 1 else None, min(known) if known and len(known) == len(times) else None
    )


def _unpacked(name: str, message: Message, options: Options, resources: Resources) -> bytes:
    return Packing(name, options, resources).unpack(message.value or b"")


def _canal_json(message: Message, options: Options, resources: Resources) -> MessageHeader:
    members = json.loads(_unpacked("canal-json", message, options, resources))
    extension = members.get("_tidb") or {}
    # A bad statement may be about more tables than the one it names.
    table = None if members.get("isDdl") else members.get("table")
    return _header(members.get("database"), table, extension.get("commitTs"))


def _simple(message: Message, options: Options, resources: Resources) -> MessageHeader:
    members = format_of(options).load(_unpacked("simple", message, options, resources), "value")
    return _header(members.get("database"), members.get("table"), members.get("commitTs"))


def _open_protocol(message: Message, _: Options, __: Resources) -> MessageHeader:
    keys = [json.loads(key.payload) for key, _ in pairs(message.key, message.value)]
    return _together(
        _header(key.get("scm"), None if key.get("t") == _OPEN_DDL else key.get("tbl"), key.get("ts")) for key in keys
    )


def _craft(message: Message, _: Options, __: Resources) -> MessageHeader:
    data = message.value or b""
    layout = read_craft_layout(data)
    terms = list(read_terms(layout.dictionary.cursor(data)))
    headings = read_headings(layout.header.cursor(data), len(layout.bodies))
    return _together(_header(terms[row.schema], terms[row.table], row.commit_ts) for row in headings)


def _avro(message: Message, _: Options, resources: Resources) -> MessageHeader:
    part = message.value if message.value and message.value[0] == 0 else message.key
    if part is None or len(part) < HEADER.size or resources.registry is None:
        return _NOTHING
    schema_id = HEADER.unpack_from(part)[1]
    return MessageHeader(read_avro_layout(resources.registry.schema(schema_id), schema_id).table)


_PEEKS: Mapping[str, Callable[[Message, Options, Resources], MessageHeader]] = {
    "avro": _avro,
    "canal-json": _canal_json,
    "craft": _craft,
    "open-protocol": _open_protocol,
    "simple": _simple,
}
