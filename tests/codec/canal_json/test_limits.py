"""The limits of a Canal-JSON message, and rows too large for them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from codec.canal_json.canal_messages import CLOCK, EXTENSION, SMALL, text_of
from codec.tables_and_values import build
from tidewire.codec import Options
from tidewire.codec.canal_json import Encoder, decode
from tidewire.errors import MessageTooLarge, OptionError
from tidewire.model import Column, Ddl, Event, RowChange, TableName, Watermark


def test_a_row_of_exactly_the_limit_is_sent_and_one_byte_less_refuses_it() -> None:
    event = RowChange(build(Column.of("a", "varchar(255)", primary_key=True)), 1, after={"a": "aa"})
    size = len(text_of(event).encode()) + 36

    assert text_of(event, max_message_bytes=size)
    assert text_of(event, max_message_bytes=300)
    for limit in (size - 1, 100):
        with pytest.raises(MessageTooLarge) as refusal:
            text_of(event, max_message_bytes=limit)
        assert (refusal.value.length, refusal.value.limit, refusal.value.table) == (size, limit, "test.t")


def test_every_row_is_a_message_of_its_own() -> None:
    events = [RowChange(SMALL, n, before={"a": 1, "b": 2}, after={"a": 1, "b": 3}) for n in range(1000)]

    assert len(list(Encoder(Options(max_batch_size=100), CLOCK).encode(events))) == 1000


def test_ddl_and_watermarks_know_no_limit() -> None:
    events: list[Event] = [Ddl(TableName("test", "t"), 1, "x" * 1000, 3), Watermark(1)]

    assert len(list(Encoder(replace(EXTENSION, max_message_bytes=1), CLOCK).encode(events))) == 2


def test_a_large_row_is_sent_with_its_key_only() -> None:
    options = Options.parse(
        {"enable-tidb-extension": True, "large-message-handle-option": "handle-key-only", "max-message-bytes": 310}
    )
    table = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "varchar(200)"))
    event = RowChange(table, 5, before={"a": 1, "b": "x" * 200}, after={"a": 1, "b": "y" * 200})

    (sent,) = Encoder(options, CLOCK).encode([event])

    wire = json.loads(sent.value or b"")
    assert (wire["sqlType"], wire["mysqlType"], wire["data"]) == ({"a": -6}, {"a": "tinyint"}, [{"a": "1"}])
    assert wire["old"] == [{"a": "1"}]
    assert sent.value is not None
    assert sent.value.endswith(b',"_tidb":{"commitTs":5,"onlyHandleKey":true}}')
    (back,) = decode(sent)
    assert isinstance(back, RowChange)
    assert back.handle_key_only
    partial = replace(options, only_output_updated_columns=True)
    (sent,) = Encoder(partial, CLOCK).encode([event])
    assert json.loads(sent.value or b"")["old"] == [{}]


def test_large_messages_need_the_extension() -> None:
    for option in ("handle-key-only", "claim-check"):
        with pytest.raises(OptionError, match="enable-tidb-extension"):
            Encoder(Options.parse({"large-message-handle-option": option}))
