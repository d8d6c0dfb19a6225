"""Events that go through Simple come out as they went in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from codec.simple.simple_messages import DOCUMENT, message, verifying, wire
from strategies import BOOTSTRAPS, WATERMARKS, streams
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.simple import Decoder, Encoder, capabilities, decode, encode
from tidewire.errors import MessageTooLarge
from tidewire.model import Bootstrap, RowChange, Watermark

OPTION_SETS: list[dict[str, Any]] = [
    {},
    {"integrity-check-level": "correctness", "corruption-handle-level": "error"},
    {"large-message-handle-compression": "lz4"},
    {"large-message-handle-compression": "snappy"},
    {"large-message-handle-option": "handle-key-only", "max-message-bytes": 1200},
    {"large-message-handle-option": "claim-check", "max-message-bytes": 1200},
    {"large-message-handle-option": "claim-check", "max-message-bytes": 1200, "claim-check-raw-value": True},
]


@pytest.mark.parametrize("encoding", ["json", "avro"])
@pytest.mark.parametrize("options", OPTION_SETS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(encoding: str, options: dict[str, Any], data: st.DataObject) -> None:
    parsed = Options.parse(options | {"encoding-format": encoding})
    stream = data.draw(streams(st.one_of(WATERMARKS, BOOTSTRAPS)))
    schemas = {event.table: None for event in stream if isinstance(event, RowChange)}
    announced_later = {event.table_schema for event in stream if isinstance(event, Bootstrap)}
    names = [table.name for table in schemas.keys() | announced_later]
    assume(len(set(names)) == len(names))
    ahead = Options.parse({"encoding-format": encoding})
    resources = Resources(claim_check=MemoryStore())
    decoder = Decoder(parsed, resources)
    for announced in Encoder(ahead).encode(map(Bootstrap, schemas)):
        list(Decoder(ahead, schemas=decoder.schemas).decode(announced))
    try:
        messages = list(Encoder(parsed, resources).encode(stream))
    except MessageTooLarge:
        return
    got = [event for message in messages for event in decoder.decode(message)]

    for event, sent in zip(got, stream, strict=True):
        match event, sent:
            case RowChange(), RowChange():
                assert (event.table.name, event.commit_ts) == (sent.table.name, sent.commit_ts)
                assert event.table_id == (sent.table_id or sent.table.table_id)
                assert [(c.name, c.type, c.flags) for c in event.table.columns] == [
                    (c.name, c.type, c.flags) for c in sent.table.columns
                ]
                for ours, theirs in ((event.before, sent.before), (event.after, sent.after)):
                    if event.handle_key_only and ours is not None and theirs is not None:
                        assert ours == {name: theirs[name] for name in sent.table.handle_key}
                    else:
                        assert ours == theirs
            case Bootstrap(schema), Bootstrap(sent_schema):
                assert (schema.name, schema.indexes, schema.version, schema.table_id) == (
                    sent_schema.name,
                    sent_schema.indexes,
                    sent_schema.version,
                    sent_schema.table_id,
                )
            case _:
                assert event == sent


def test_a_row_of_the_handle_key_only_says_so_again() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    row = wire(handleKeyOnly=True, data={"id": "1"})
    (event,) = decoder.decode(row)

    resources = Resources(clock=lambda: DOCUMENT["insert"]["buildTs"])
    (again,) = Encoder(Options.parse({"integrity-check-level": "correctness"}), resources).encode([event])
    assert json.loads(again.value or b"") == json.loads(row.value or b"")


def test_the_functions_do_what_the_classes_do() -> None:
    assert [decode(sent)[0] for sent in encode([Watermark(5)])] == [Watermark(5)]
    assert capabilities(verifying("warn")).row - capabilities().row == {"checksum"}
