"""The limits of an Open Protocol message and batch, rows too large for them, and what is sent first."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace

import pytest

from codec.open_protocol.open_messages import SMALL, insert, put
from codec.tables_and_values import build
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.open_protocol import Decoder, Encoder, decode, encode
from tidewire.errors import EncodeError, MessageTooLarge, OptionError
from tidewire.model import Bootstrap, Column, Ddl, Event, Message, RowChange, TableName, Watermark

TEXTS = build(Column.of("a", "varchar(10)", primary_key=True), Column.of("b", "varchar(10)"))
TS = 415508856908021766


def sizes(messages: list[Message]) -> list[int]:
    return [len(sent.key or b"") + len(sent.value or b"") + 36 for sent in messages]


def test_a_row_of_exactly_the_limit_is_sent_and_one_byte_less_refuses_it() -> None:
    event = insert(TEXTS, TS, a="aa", b="bb")

    (sent,) = encode([event], max_message_bytes=188)
    assert sizes([sent]) == [188] == [54 + 74 + 60]
    with pytest.raises(MessageTooLarge) as refusal:
        list(encode([event], max_message_bytes=187))
    assert (refusal.value.table, refusal.value.length, refusal.value.limit) == ("test.t", 188, 187)
    assert refusal.value.code == "CDC:ErrMessageTooLarge"


def test_no_batch_grows_beyond_its_limits() -> None:
    events = [insert(TEXTS, TS, a="aa", b="bb")] * 10000

    alone = list(encode(events, max_message_bytes=256))
    assert len(alone) == 10000
    assert max(sizes(alone)) <= 256
    batches = list(encode(events, max_batch_size=64))
    assert len(batches) == 157
    counts = [len(list(decode(batch))) for batch in batches]
    assert max(counts) == 64
    assert sum(counts) == 10000
    assert [len(list(decode(batch))) for batch in encode(events[:5], max_batch_size=2)] == [2, 2, 1]
    assert len(list(encode(events[:33]))) == 3, "16 is the default"


def test_the_new_servers_limits() -> None:
    three = [insert(ts=TS, a=n, b=123) for n in (1, 2, 3)]

    assert sizes(list(encode(three, max_message_bytes=400))) == [320, 182]
    assert [len(list(decode(sent))) for sent in encode(three, max_batched_bytes=320)] == [2, 1]
    assert [len(list(decode(sent))) for sent in encode(three, max_batched_bytes=319)] == [1, 1, 1]
    with pytest.raises(MessageTooLarge):
        list(encode(three, max_message_bytes=100))
    (wide,) = encode(three[:1], max_message_bytes=400, max_batched_bytes=100)
    assert sizes([wide]) == [182]


def test_handle_key_only_has_its_own_form() -> None:
    options = Options.parse({"large-message-handle-option": "handle-key-only", "max-message-bytes": 168})
    a = '"a":{"t":1,"h":true,"f":11,"v":1}'
    update = RowChange(SMALL, TS, before={"a": 1, "b": 123}, after={"a": 1, "b": 4})

    (sent,) = Encoder(options).encode([insert(ts=TS, a=1, b=123)])
    assert (sent.key or b"")[16:].decode() == put('{"ts":%d,"scm":"test","tbl":"t","t":1,"ohk":true}', TS)
    assert (sent.value or b"")[8:].decode() == put('{"u":{%s}}', a)
    assert sizes([sent]) == [65 + 41 + 60]
    (event,) = decode(sent)
    assert isinstance(event, RowChange)
    assert event.handle_key_only
    wide = replace(options, max_message_bytes=210)
    (sent,) = Encoder(wide).encode([update])
    assert (sent.value or b"")[8:].decode() == put('{"u":{%s},"p":{%s}}', a, a)
    (sent,) = Encoder(replace(wide, only_output_updated_columns=True, max_message_bytes=190)).encode([update])
    assert (sent.value or b"")[8:].decode() == put('{"u":{%s},"p":{}}', a)


def test_a_large_row_without_a_key_is_refused() -> None:
    table = build(Column.of("a", "tinyint"), Column.of("b", "int"))
    for option in ("handle-key-only", "claim-check"):
        options = Options.parse({"large-message-handle-option": option, "max-message-bytes": 150})
        with pytest.raises(EncodeError) as refusal:
            list(
                Encoder(options, Resources(claim_check=MemoryStore())).encode(
                    [RowChange(table, 1, after={"a": 1, "b": 2})]
                )
            )
        assert refusal.value.code == "CDC:ErrOpenProtocolCodecInvalidData"


def test_a_claim_check_has_its_own_form_and_its_own_limit() -> None:
    text = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "text"))
    event = replace(insert(text, a=1, b="x" * 500), table_id=7, partitioned=True)
    options = Options.parse(
        {
            "large-message-handle-option": "claim-check",
            "claim-check-storage-uri": "s3://bucket/prefix/",
            "large-message-handle-compression": "lz4",
            "max-message-bytes": 320,
        }
    )
    store = MemoryStore()
    resources = Resources(claim_check=store, file_name=lambda: "11111111-2222-4333-8444-555555555555.json")
    noise = "".join(chr(33 + byte % 90) for byte in hashlib.shake_128(b"noise").digest(500))
    uncompressed = replace(event, after={"a": 1, "b": noise})

    (sent,) = Encoder(options, resources).encode([uncompressed])

    assert (sent.key or b"")[16:].decode() == (
        '{"ts":1,"scm":"test","tbl":"t","t":1,"ohk":true,"ohk":false,'
        '"ccl":"s3://bucket/prefix/11111111-2222-4333-8444-555555555555.json","ptn":7}'
    )
    kept = json.loads(store.blobs["11111111-2222-4333-8444-555555555555.json"])
    assert list(kept) == ["key", "value"]
    (whole,) = encode([uncompressed], large_message_handle_compression="lz4")
    assert (base64.b64decode(kept["key"]), base64.b64decode(kept["value"])) == (whole.key, whole.value)
    (back,) = Decoder(options, resources).decode(sent)
    assert isinstance(back, RowChange)
    assert (back.after, back.handle_key_only, back.partition_id) == (uncompressed.after, False, 7)
    (length,) = sizes([sent])
    assert list(Encoder(replace(options, max_message_bytes=length), resources).encode([uncompressed])) == [sent]
    with pytest.raises(MessageTooLarge) as refusal:
        list(Encoder(replace(options, max_message_bytes=length - 1), resources).encode([uncompressed]))
    assert refusal.value.length == length


def test_ddl_and_watermarks_know_no_limit() -> None:
    ddl = Ddl(TableName("test", "t"), 1, "x" * 1000, 3)

    assert len(list(encode([ddl, Watermark(1)], max_message_bytes=1))) == 2


def test_ddl_and_watermarks_are_alone_and_nothing_overtakes() -> None:
    rows = [insert(a=n, b=n) for n in range(3)]
    events: list[Event] = [rows[0], rows[1], Watermark(1), Ddl(TableName("test", "t"), 2, "x", 5), rows[2]]

    messages = list(encode(events))

    assert [len(list(decode(sent))) for sent in messages] == [2, 1, 1, 1]
    assert [type(event) for sent in messages for event in decode(sent)] == [type(event) for event in events]


def test_what_came_before_a_bad_event_is_sent_first() -> None:
    for bad in (
        insert(a=1, b="no number"),
        RowChange(SMALL, None, after={"a": 1}),
        RowChange(SMALL, 1),
        Ddl(TableName("a", "b"), None, "x", 1),
        Bootstrap(SMALL),
    ):
        messages = encode([insert(a=1, b=2), bad])

        assert [type(event) for event in decode(next(messages))] == [RowChange], bad
        with pytest.raises(EncodeError):
            next(messages)


def test_a_raw_claim_check_would_lose_the_key() -> None:
    with pytest.raises(OptionError, match="claim-check-raw-value"):
        Encoder(Options.parse({"large-message-handle-option": "claim-check", "claim-check-raw-value": "true"}))
