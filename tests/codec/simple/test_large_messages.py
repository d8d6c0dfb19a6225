"""Simple messages beyond the limit: by their key only, by a claim check, or refused."""

from __future__ import annotations

import base64
import json

import pytest

from codec.simple.simple_messages import CREATED, DOCUMENT, message, user_schema, wire
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.simple import Decoder, Encoder
from tidewire.errors import DecodeError, EncodeError, MessageTooLarge
from tidewire.model import Column, Ddl, RowChange, TableName, TableSchema, Watermark


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_a_large_row_without_a_handle_key_is_not_sent_as_nothing(encoding: str) -> None:
    table = TableSchema(TableName("test", "t"), (Column.of("a", "text"),), version=1)
    event = RowChange(table, 5, after={"a": "x" * 500})
    options = {"max-message-bytes": 300, "encoding-format": encoding}

    with pytest.raises(EncodeError, match="no handle key"):
        list(Encoder(Options.parse(options | {"large-message-handle-option": "handle-key-only"})).encode([event]))

    checked = Options.parse(options | {"large-message-handle-option": "claim-check"})
    resources = Resources(claim_check=MemoryStore())
    (sent,) = Encoder(checked, resources).encode([event])
    decoder = Decoder(checked, resources)
    decoder.schemas.add(table)
    (got,) = decoder.decode(sent)
    assert isinstance(got, RowChange)
    assert (got.after, got.handle_key_only) == (event.after, False)


def test_a_claim_check_leads_to_the_change_it_was_made_for() -> None:
    options = Options.parse({"large-message-handle-option": "claim-check", "max-message-bytes": 400})
    store = MemoryStore()
    decoder = Decoder(options, Resources(claim_check=store))
    decoder.schemas.add(user_schema())
    for wrong in (wire(commitTs=6), message(DOCUMENT["watermark"]), wire(claimCheckLocation="a.json")):
        store.put("a.json", json.dumps({"key": None, "value": base64.b64encode(wrong.value or b"").decode()}).encode())
        with pytest.raises(DecodeError, match="claim check"):
            list(decoder.decode(wire(claimCheckLocation="s3://bucket/a.json", handleKeyOnly=True)))
    with pytest.raises(DecodeError, match="not in the store"):
        list(decoder.decode(wire(claimCheckLocation="s3://bucket/b.json", handleKeyOnly=True)))


def test_a_watermark_has_no_size_limit() -> None:
    tiny = Options(max_message_bytes=1)
    assert list(Encoder(tiny).encode([Watermark(1)]))
    for event in (CREATED, Ddl(TableName("", ""), 1, "CREATE DATABASE x")):
        with pytest.raises(MessageTooLarge):
            list(Encoder(tiny).encode([event]))
