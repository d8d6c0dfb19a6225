"""Promises all codecs make: what goes in comes out, and no bad message passes or does harm."""

from __future__ import annotations

import pickle
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from carried import check_carried
from strategies import DDLS, NAMES, WATERMARKS, WORDS, row_changes, streams
from tidewire.codec import PROTOCOLS, Decoder, Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.parking import Parking
from tidewire.codec.transcode import Adapter
from tidewire.errors import DecodeError, MessageTooLarge
from tidewire.model import Message, RowChange
from tidewire.registry import MemoryRegistry
from vector_files import decoder, sample

OPEN_OPTIONS = [
    {},
    {"max_batch_size": 3},
    {"max_batched_bytes": 400},
    {"output_old_value": False},
    {"only_output_updated_columns": True},
    {"delete_only_output_handle_key_columns": True},
    {"large_message_handle_compression": "lz4"},
    {"large_message_handle_compression": "snappy"},
    {"large_message_handle_option": "handle-key-only", "max_message_bytes": 2000},
    {"large_message_handle_option": "claim-check", "max_message_bytes": 2000},
    {
        "large_message_handle_option": "claim-check",
        "max_message_bytes": 2000,
        "large_message_handle_compression": "lz4",
    },
]
CANAL_OPTIONS = [
    {},
    {"enable_tidb_extension": True},
    {"enable_tidb_extension": True, "content_compatible": True},
    {"enable_tidb_extension": True, "only_output_updated_columns": True},
    {"enable_tidb_extension": True, "delete_only_output_handle_key_columns": True},
    {"enable_tidb_extension": True, "output_row_key": True},
    {"enable_tidb_extension": True, "large_message_handle_compression": "lz4"},
    {"enable_tidb_extension": True, "large_message_handle_compression": "snappy"},
    {"enable_tidb_extension": True, "large_message_handle_option": "handle-key-only", "max_message_bytes": 3000},
    {
        "enable_tidb_extension": True,
        "large_message_handle_option": "claim-check",
        "claim_check_raw_value": True,
        "max_message_bytes": 3000,
    },
]
CRAFT_OPTIONS = [{}, {"max_batch_size": 3}, {"max_message_bytes": 300}, {"delete_only_output_handle_key_columns": True}]
AVRO_OPTIONS = [
    {},
    {"enable_tidb_extension": True},
    {"enable_tidb_extension": True, "avro_enable_watermark": True},
    {"enable_tidb_extension": True, "avro_include_before_value": True},
    {"avro_decimal_handling_mode": "string", "avro_bigint_unsigned_handling_mode": "string"},
    {
        "enable_tidb_extension": True,
        "avro_decimal_handling_mode": "string",
        "avro_bigint_unsigned_handling_mode": "string",
        "integrity_check_level": "correctness",
        "corruption_handle_level": "error",
    },
]
SIMPLE_OPTIONS = [
    {},
    {"encoding_format": "avro"},
    {"integrity_check_level": "correctness", "corruption_handle_level": "error"},
    {"encoding_format": "avro", "integrity_check_level": "correctness", "corruption_handle_level": "error"},
    {"large_message_handle_compression": "lz4"},
    {"encoding_format": "avro", "large_message_handle_compression": "snappy"},
    {"large_message_handle_option": "claim-check", "max_message_bytes": 6000},
]
OPTION_SETS = [
    (name, options)
    for name, sets in {
        "open-protocol": OPEN_OPTIONS,
        "canal-json": CANAL_OPTIONS,
        "craft": CRAFT_OPTIONS,
        "avro": AVRO_OPTIONS,
        "simple": SIMPLE_OPTIONS,
    }.items()
    for options in sets
]


@pytest.mark.parametrize(("name", "options"), OPTION_SETS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(name: str, options: dict[str, Any], data: st.DataObject) -> None:
    stream = data.draw(streams(st.one_of(DDLS, WATERMARKS), names=WORDS if name == "avro" else NAMES))
    parsed = Options.parse({option.replace("_", "-"): value for option, value in options.items()})
    resources = Resources(claim_check=MemoryStore(), registry=MemoryRegistry())
    codec = protocol(name)
    capabilities = codec.capabilities(parsed)
    ready = list(Adapter(capabilities).adapt(stream))

    try:
        messages = list(codec.Encoder(parsed, resources).encode(ready))
    except MessageTooLarge:
        return
    parking: Parking[None] = Parking(codec.Decoder(parsed, resources))
    got = [event for message in messages for _, event in parking.decode(message, None)]

    assert not parking.parked
    assert len(got) == len(ready)
    for original, event in zip(ready, got, strict=True):
        check_carried(original, event, capabilities)


@pytest.mark.parametrize("name", ["open-protocol", "craft"])
@settings(max_examples=60, deadline=None)
@given(event=row_changes())
def test_types_and_flags_come_out_too(name: str, event: RowChange) -> None:
    (message,) = protocol(name).encode([event])
    (got,) = protocol(name).decode(message)

    assert isinstance(got, RowChange)
    assert [(c.name, c.type, c.flags, c.handle_key) for c in got.table.columns] == [
        (c.name, c.type, c.flags, c.handle_key) for c in event.table.columns
    ]


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=300, deadline=None)
@given(key=st.none() | st.binary(max_size=200), value=st.none() | st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(name: str, key: bytes | None, value: bytes | None) -> None:
    for compression in ("none", "lz4", "snappy"):
        options = Options.parse({"large-message-handle-compression": compression})
        try:
            list(protocol(name).Decoder(options, Resources(registry=MemoryRegistry())).decode(Message(key, value)))
        except DecodeError as error:
            assert str(error).startswith(name)


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "u",
                    "p",
                    "d",
                    "t",
                    "h",
                    "f",
                    "v",
                    "ts",
                    "scm",
                    "tbl",
                    "q",
                    "data",
                    "old",
                    "mysqlType",
                    "type",
                    "isDdl",
                    "_tidb",
                    "commitTs",
                    "pkNames",
                    "database",
                    "table",
                    "sql",
                    "id",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(key=_JSON, value=_JSON, kind=st.integers(0, 4))
def test_any_json_decodes_or_is_refused(key: Any, value: Any, kind: int) -> None:
    import json

    from tidewire.codec.open_protocol.wire import VERSION, frame

    dumped = json.dumps(value).encode()
    head = {"ts": 1, "t": kind, **key} if isinstance(key, dict) else key
    for name, message in (
        ("open-protocol", Message(VERSION + frame(json.dumps(head).encode()), frame(dumped))),
        ("canal-json", Message(None, dumped)),
    ):
        try:
            list(protocol(name).decode(message))
        except DecodeError:
            continue


def refused(reader: Decoder, message: Message) -> bool:
    """Is it refused? Anything but events or a ``DecodeError`` fails the test."""
    try:
        list(reader.decode(message))
    except DecodeError:
        return True
    return False


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_truncation_is_refused(name: str) -> None:
    for vector in sample(name):
        key, value = vector.message.key, vector.message.value
        reader = decoder(name, vector)
        step = 1 if len(value or b"") < 1500 else 7
        for cut in range(0 if name != "avro" else 1, len(value or b""), step):  # an empty value is Avro's delete
            assert refused(reader, Message(key, (value or b"")[:cut])), (vector.id, "value", cut)
        for cut in range(0 if name != "avro" else 1, len(key or b""), step):
            assert refused(reader, Message((key or b"")[:cut], value)), (vector.id, "key", cut)


def test_every_corrupted_length_is_refused() -> None:
    for vector in sample("open-protocol"):
        key, value = vector.message.key, vector.message.value
        assert key is not None
        assert value is not None
        reader = decoder("open-protocol", vector)
        for wrong in (0, 1, len(value) - 9, len(value) - 7, 2**31, 2**63, 2**64 - 1):
            length = max(wrong, 0).to_bytes(8, "big")
            if length != value[:8]:
                assert refused(reader, Message(key, length + value[8:])), (vector.id, wrong)
            if length != key[8:16]:
                assert refused(reader, Message(key[:8] + length + key[16:], value)), (vector.id, wrong)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_corruption_is_refused_or_decodes_and_takes_little_memory(name: str) -> None:
    chance = random.Random(20261116)
    readers = {vector: decoder(name, vector) for vector in sample(name, 3)}
    found = list(readers)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            vector = chance.choice(found)
            parts = [bytearray(vector.message.key or b""), bytearray(vector.message.value or b"")]
            for _ in range(chance.randint(1, 4)):
                part = chance.choice([part for part in parts if part])
                part[chance.randrange(len(part))] = chance.randrange(256)
            message = Message(bytes(parts[0]) if vector.message.key else None, bytes(parts[1]))
            refused(readers[vector], message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 64 * 1024 * 1024


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_error_says_where_and_survives_pickling(name: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        list(protocol(name).Decoder(resources=Resources(registry=MemoryRegistry())).decode(Message(b"\0" * 7, b"{")))

    error = pickle.loads(pickle.dumps(refusal.value))
    assert (str(error), error.args) == (str(refusal.value), refusal.value.args)
    assert error.protocol == name
    assert "at byte" in str(error)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_inspection_covers_every_byte(name: str) -> None:
    codec = protocol(name)
    for vector in sample(name):
        for message in (vector.message, Message(vector.message.key, (vector.message.value or b"")[:-3])):
            for part, data in (("key", message.key), ("value", message.value)):
                fields = [f for f in codec.inspect(message, vector.options, vector.resources) if f.part == part]

                assert b"".join(field.data for field in fields) == (data or b""), (vector.id, part)
                assert [field.offset for field in fields] == _offsets(fields), (vector.id, part)


def _offsets(fields: list[Any]) -> list[int]:
    offsets, at = [], 0
    for field in fields:
        offsets.append(at)
        at += len(field.data)
    return offsets
