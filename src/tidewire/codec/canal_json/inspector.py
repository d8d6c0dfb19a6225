"""One Canal-JSON message, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidewire.codec.base import Field, Resources
from tidewire.codec.canal_json.types import PROTOCOL
from tidewire.codec.options import Options
from tidewire.codec.size_limits import Packing
from tidewire.codec.spans import json_fields, moment, name_of
from tidewire.model import JavaSQLType, Message
from tidewire.model.tso import LOGICAL_BITS


def inspect(message: Message, options: Options = Options(), resources: Resources = Resources()) -> Iterator[Field]:
    """Every byte of a message in order, with its meaning; a broken one as far as it can be read."""
    packing = Packing(PROTOCOL, options, resources)
    if message.value:
        yield from packing.inspect(message.value, 0, lambda data, part, at: json_fields(data, part, at, _explain))


def _explain(path: str, value: Any) -> str:
    parent, _, name = path.rpartition(".")
    match parent, name, value:
        case "$", ("es" | "ts"), int():
            word = "committed" if name == "es" else "encoded"
            return f"{word} {moment(value << LOGICAL_BITS)}"
        case "$._tidb", ("commitTs" | "watermarkTs"), int():
            return f"TSO, {moment(value)}"
        case "$", _, _ if name in _WORDS:
            return f"{_WORDS[name]}: {value}"
    if path.startswith("$.sqlType"):
        return f"Java type {name_of(JavaSQLType, value)}"
    if path.startswith("$.mysqlType"):
        return f"MySQL type {value}"
    return "NULL" if value is None else repr(value)


_WORDS = {
    "id": "always 0",
    "database": "schema",
    "table": "table",
    "isDdl": "is it a DDL?",
    "type": "kind of event",
    "sql": "query",
}
