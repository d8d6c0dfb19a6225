"""What the tests of Canal-JSON share: the document's examples, messages read and written in one call, a small table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codec.tables_and_values import build
from tidewire.codec import Options, Resources
from tidewire.codec.canal_json import Encoder, decode
from tidewire.model import Column, Event, Message, RowChange, Value

DOCUMENT = json.loads((Path(__file__).parents[1] / "documents" / "canal-json.json").read_text("utf-8"))
EXAMPLES: Mapping[str, dict[str, Any]] = {example["name"]: example["message"] for example in DOCUMENT["examples"]}
EXTENSION = Options(enable_tidb_extension=True)
CLOCK = Resources(clock=lambda: 1700000000000)
TSO = 429918007904436226
SMALL = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "tinyint"))
ROW = {"type": "INSERT", "database": "d", "table": "t", "mysqlType": {"a": "int"}, "data": [{"a": "1"}]}


def message(wire: Any) -> Message:
    """A message of this object."""
    return Message(None, json.dumps(wire, ensure_ascii=False).encode())


def decoded(wire: Mapping[str, Any]) -> Event:
    """The one event of this object."""
    (event,) = decode(message(wire))
    return event


def row_of(**wire: Any) -> RowChange:
    """A row change, of which only what matters is given."""
    whole = {
        "id": 0,
        "database": "test",
        "table": "t",
        "pkNames": None,
        "isDdl": False,
        "type": "INSERT",
        "es": 0,
        "ts": 0,
        "sql": "",
        "sqlType": {},
        "mysqlType": {"a": "int"},
        "data": [{"a": "1"}],
        "old": None,
        **wire,
    }
    event = decoded(whole)
    assert isinstance(event, RowChange)
    return event


def value_of(mysql_type: str, text: str | None) -> Value:
    """The value that a text stands for in a column of this type."""
    return (row_of(mysqlType={"c": mysql_type}, data=[{"c": text}]).after or {})["c"]


def text_of(event: Event, **options: Any) -> str:
    """The text of the one message of an event."""
    (sent,) = Encoder(Options(**options), CLOCK).encode([event])
    assert sent.key is None
    assert sent.value is not None
    return sent.value.decode()


def wire_of(event: Event, **options: Any) -> dict[str, Any]:
    """The object in the one message of an event."""
    wire: dict[str, Any] = json.loads(text_of(event, **options))
    return wire


def data_text(type_: str, value: Value) -> str:
    """A value's text as it stands in the message, quotes included."""
    table = build(Column.of("c", type_))
    head, _, data = text_of(RowChange(table, 1, after={"c": value})).partition('"data":[{"c":')
    assert head
    return data.removesuffix("}]}")
