"""Promises all codecs make: what goes in comes out, and no bad message passes or does harm."""

from __future__ import annotations

import pickle
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import DDLS, WATERMARKS, row_changes, streams
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.images import changed_columns
from tidewire.errors import DecodeError, EncodeError
from tidewire.model import Ddl, Event, Message, Op, RowChange, Watermark
from vector_files import Vector, files, vectors

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
OPTION_SETS = [
    *(("open-protocol", options) for options in OPEN_OPTIONS),
    *(("canal-json", options) for options in CANAL_OPTIONS),
]


def carried(name: str, options: Options, events: list[Event]) -> Iterator[tuple[Any, ...]]:
    """What must arrive of these events."""
    for event in events:
        match event:
            case RowChange(before=before, after=after):
                rows = {"before": before, "after": after}
                if event.op is Op.DELETE and options.delete_only_output_handle_key_columns:
                    rows["before"] = _only(before, event.table.handle_key)
                if event.op is Op.UPDATE and not options.output_old_value and name == "open-protocol":
                    rows["before"] = None
                elif event.op is Op.UPDATE and options.only_updated:
                    rows["before"] = _only(before, [c.name for c in changed_columns(event, event.table.columns)])
                extension = name == "open-protocol" or options.enable_tidb_extension
                partition = event.partition_id if name == "open-protocol" else None
                yield ("row", event.table.name, event.commit_ts if extension else None, partition, rows)
            case Ddl():
                extension = name == "open-protocol" or options.enable_tidb_extension
                yield ("ddl", event.table, event.commit_ts if extension else None, event.query)
            case Watermark(ts):
                if name == "open-protocol" or options.enable_tidb_extension:
                    yield ("watermark", ts)


def facts(event: Event) -> tuple[Any, ...]:
    match event:
        case RowChange():
            rows = {"before": event.before, "after": event.after}
            return ("row", event.table.name, event.commit_ts, event.partition_id, rows)
        case Ddl():
            return ("ddl", event.table, event.commit_ts, event.query)
        case Watermark(ts):
            return ("watermark", ts)
    raise AssertionError(event)


def _only(row: Any, names: Any) -> Any:
    return {name: value for name, value in row.items() if name in names}


@pytest.mark.parametrize(("name", "options"), OPTION_SETS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(name: str, options: dict[str, Any], data: st.DataObject) -> None:
    stream = data.draw(streams(st.one_of(DDLS, WATERMARKS)))
    parsed = Options.parse({option.replace("_", "-"): value for option, value in options.items()})
    resources = Resources(claim_check=MemoryStore())
    codec = protocol(name)

    try:
        messages = list(codec.Encoder(parsed, resources).encode(stream))
    except EncodeError as error:
        assert error.code == "CDC:ErrMessageTooLarge"
        return
    decoder = codec.Decoder(parsed, resources)
    got = [event for message in messages for event in decoder.decode(message)]

    expected = list(carried(name, parsed, stream))
    assert len(got) == len(expected)
    for event, want in zip(got, expected, strict=True):
        if isinstance(event, RowChange) and event.handle_key_only:
            for side, row in want[4].items():
                image = facts(event)[4][side]
                assert (image is None) == (row is None)
                assert image is None or all(row[column] == value for column, value in image.items())
        else:
            assert facts(event) == want


@pytest.mark.parametrize("name", ["open-protocol"])
@settings(max_examples=60, deadline=None)
@given(event=row_changes())
def test_types_and_flags_come_out_too(name: str, event: RowChange) -> None:
    (message,) = protocol(name).encode([event])
    (got,) = protocol(name).decode(message)

    assert isinstance(got, RowChange)
    assert [(c.name, c.type, c.flags, c.handle_key) for c in got.table.columns] == [
        (c.name, c.type, c.flags, c.handle_key) for c in event.table.columns
    ]


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
@settings(max_examples=300, deadline=None)
@given(key=st.none() | st.binary(max_size=200), value=st.none() | st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(name: str, key: bytes | None, value: bytes | None) -> None:
    for compression in ("none", "lz4", "snappy"):
        options = Options.parse({"large-message-handle-compression": compression})
        try:
            list(protocol(name).Decoder(options).decode(Message(key, value)))
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


def sample(name: str) -> list[Vector]:
    """A few lines of every file."""
    return [vector for file in files(name) for vector in vectors(name, file)[:: max(1, len(vectors(name, file)) // 6)]]


def attempt(name: str, vector: Vector, message: Message) -> bool:
    """Does it decode? Anything but events or a ``DecodeError`` fails the test."""
    decoder = protocol(name).Decoder(vector.options, Resources(claim_check=vector.claim_checks))
    try:
        list(decoder.decode(message))
    except DecodeError:
        return True
    return False


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
def test_every_truncation_is_refused(name: str) -> None:
    for vector in sample(name):
        key, value = vector.message.key, vector.message.value
        assert value is not None
        step = 1 if len(value) < 1500 else 7
        for cut in range(0, len(value), step):
            assert attempt(name, vector, Message(key, value[:cut])), (vector.id, "value", cut)
        for cut in range(0, len(key or b""), step):
            assert attempt(name, vector, Message((key or b"")[:cut], value)), (vector.id, "key", cut)


def test_every_corrupted_length_is_refused() -> None:
    for vector in sample("open-protocol"):
        key, value = vector.message.key, vector.message.value
        assert key is not None
        assert value is not None
        for wrong in (0, 1, len(value) - 9, len(value) - 7, 2**31, 2**63, 2**64 - 1):
            length = max(wrong, 0).to_bytes(8, "big")
            if length != value[:8]:
                assert attempt("open-protocol", vector, Message(key, length + value[8:])), (vector.id, wrong)
            if length != key[8:16]:
                assert attempt("open-protocol", vector, Message(key[:8] + length + key[16:], value)), (vector.id, wrong)


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
def test_corruption_is_refused_or_decodes_and_takes_little_memory(name: str) -> None:
    chance = random.Random(20261116)
    found = sample(name)
    tracemalloc.start()
    try:
        for _ in range(2500):
            vector = chance.choice(found)
            parts = [bytearray(vector.message.key or b""), bytearray(vector.message.value or b"")]
            for _ in range(chance.randint(1, 4)):
                part = chance.choice([part for part in parts if part])
                part[chance.randrange(len(part))] = chance.randrange(256)
            attempt(name, vector, Message(bytes(parts[0]) if vector.message.key else None, bytes(parts[1])))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 64 * 1024 * 1024


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
def test_an_error_says_where_and_survives_pickling(name: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        list(protocol(name).decode(Message(b"\0" * 7, b"{")))

    error = pickle.loads(pickle.dumps(refusal.value))
    assert (str(error), error.args) == (str(refusal.value), refusal.value.args)
    assert error.protocol == name
    assert "at byte" in str(error)


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
def test_inspection_covers_every_byte(name: str) -> None:
    codec = protocol(name)
    for vector in sample(name):
        for message in (vector.message, Message(vector.message.key, (vector.message.value or b"")[:-3])):
            for part, data in (("key", message.key), ("value", message.value)):
                fields = [field for field in codec.inspect(message, vector.options) if field.part == part]

                assert b"".join(field.data for field in fields) == (data or b""), (vector.id, part)
                assert [field.offset for field in fields] == _offsets(fields), (vector.id, part)


def _offsets(fields: list[Any]) -> list[int]:
    offsets, at = [], 0
    for field in fields:
        offsets.append(at)
        at += len(field.data)
    return offsets
