"""Avro: recorded bytes and recorded events, round trips, and messages that are broken."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from strategies import DDLS, WATERMARKS, streams
from tidewire.codec import Options, Resources, avro
from tidewire.codec.avro.binary import Cursor
from tidewire.codec.avro.layout import read_layout
from tidewire.codec.avro.names import sanitized
from tidewire.codec.options import CorruptionHandling, IntegrityCheck
from tidewire.errors import DecodeError, EncodeError, MessageTooLarge, OptionError, RegistryError
from tidewire.model import (
    Bootstrap,
    Checksum,
    Column,
    Ddl,
    Event,
    Generated,
    Message,
    MySQLType,
    Op,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)
from tidewire.model.types import INTEGERS, STRINGS
from tidewire.plain import event_to_plain
from tidewire.registry import FileRegistry, MemoryRegistry
from vector_files import Vector, files, vectors

TOPICS = Path(__file__).parents[1] / "topics"
PERSON = TableSchema(
    TableName("test", "person"),
    (Column.of("id", "int", primary_key=True), Column.of("age", "int")),
    version=1,
)


class LineRegistry:
    """Hands out the ids of one line and keeps what was registered."""

    def __init__(self, vector: Vector) -> None:
        self.ids: Mapping[str, int] = vector.line["schema_ids"]
        self.schemas = {"key": "", "value": ""}
        self.subjects: list[str] = []

    def register(self, subject: str, schema: str) -> int:
        part = subject.rpartition("-")[2]
        self.subjects.append(subject)
        self.schemas[part] = schema
        return self.ids[part]

    def schema(self, schema_id: int) -> str:
        raise AssertionError(schema_id)


def decoded(vector: Vector, message: Message | None = None) -> list[Event]:
    decoder = avro.Decoder(vector.options, Resources(registry=vector.registry))
    return list(decoder.decode(vector.message if message is None else message))


def without_names(rows: Mapping[str, Any]) -> dict[str, Any]:
    return {sanitized(name): value for name, value in rows.items()}


def arriving(event: RowChange, options: Options, *, classic: bool = False) -> tuple[Any, ...]:
    """What must arrive of a row change: names, commit ts and the two images.

    The classic server leaves virtual columns out, and takes another key where there is no primary one.
    """
    extension, before_value = options.enable_tidb_extension, options.avro_include_before_value
    generated = [column.name for column in event.table.columns if column.generated is Generated.VIRTUAL]
    extra = {} if classic else dict.fromkeys(generated)
    key = event.table.handle_key if classic else event.table.primary_key
    before, after = (None if row is None else without_names({**row, **extra}) for row in (event.before, event.after))
    commit_ts = event.commit_ts if extension else None
    if event.op is Op.UPDATE and not before_value:
        before = {} if extension else None
    if event.op is Op.DELETE and not before_value:
        assert event.before is not None
        before = without_names({name: event.before[name] for name in key})
        commit_ts = commit_ts if options.avro_enable_watermark else None
    return TableName(*map(sanitized, event.table.name)), commit_ts, before, after


def facts(event: RowChange) -> tuple[Any, ...]:
    return event.table.name, event.commit_ts, event.before, event.after


def exact(rows: Any) -> Any:
    """Values that compare by more than equality: the scale of a DECIMAL and the type count too."""
    return None if rows is None else {name: (type(value), str(value), value) for name, value in rows.items()}


@pytest.mark.parametrize("file", files("avro"))
def test_a_message_means_its_event(file: str) -> None:
    for vector in vectors("avro", file):
        (want,) = vector.events
        unnamed = isinstance(want, RowChange) and want.op is Op.DELETE and vector.message.key is None
        if unnamed and not vector.options.avro_include_before_value:
            continue  # the next test is about these

        (got,) = decoded(vector)

        if not isinstance(want, RowChange):
            told = Ddl(want.table, want.commit_ts, want.query, want.type) if isinstance(want, Ddl) else want
            assert got == told, vector.id
            continue
        assert isinstance(got, RowChange)
        expected = arriving(want, vector.options, classic=file.endswith(".tiflow"))
        assert facts(got)[:2] == expected[:2], vector.id
        assert [exact(row) for row in facts(got)[2:]] == [exact(row) for row in expected[2:]], vector.id
        assert event_to_plain(got)["columns"], vector.id


def test_a_delete_without_a_key_says_nothing_or_is_refused() -> None:
    """The new server sends them for tables that have a unique key only."""
    silent = marked = 0
    for file in files("avro", "*.ticdc"):
        for vector in vectors("avro", file):
            if vector.message.key is not None or vector.plain[0].get("op") != "delete":
                continue
            if vector.message.value is None:
                silent += 1
                assert decoded(vector) == [], vector.id
            elif vector.message.value[0] == 3:
                marked += 1
                with pytest.raises(DecodeError, match="a delete without a key"):
                    decoded(vector)

    assert silent > 20
    assert marked == 6


@pytest.mark.parametrize("file", files("avro", "*.ticdc"))
def test_an_event_makes_the_new_servers_bytes_and_schemas(file: str) -> None:
    for vector in vectors("avro", file):
        registry = LineRegistry(vector)

        messages = list(avro.Encoder(vector.options, Resources(registry=registry)).encode(vector.events))

        assert messages == [vector.message], vector.id
        assert registry.schemas == {part: vector.line[f"{part}_schema"] for part in ("key", "value")}, vector.id


@pytest.mark.parametrize("file", files("avro", "*.errors"))
def test_what_the_server_refuses_is_refused(file: str) -> None:
    for vector in vectors("avro", file):
        with pytest.raises(EncodeError) as refusal:
            list(avro.Encoder(vector.options).encode(vector.events))

        assert refusal.value.code == vector.error, vector.id


@pytest.mark.parametrize("file", files("avro"))
def test_fastavro_reads_the_same_with_the_registered_schema(file: str) -> None:
    for vector in vectors("avro", file)[::5]:
        for part, data in (("key", vector.message.key), ("value", vector.message.value)):
            text = vector.line[f"{part}_schema"]
            if not text or data is None:
                continue
            layout = read_layout(text, 1)

            theirs = fastavro.schemaless_reader(
                io.BytesIO(data[5:]), _bare(json.loads(text)), None, handle_unicode_errors="surrogateescape"
            )

            assert isinstance(theirs, dict)
            cursor = Cursor(data, part)
            cursor.header()
            ours = layout.read(cursor)
            for slot in layout.slots:
                raw = theirs[slot.name]
                if slot.record is None and raw is not None:
                    raw = slot.interpret(raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw)
                found = ours.before if slot.record else {**ours.row, **ours.extension}[slot.name]
                assert found == raw or slot.record is not None, (vector.id, slot.name)


def _bare(schema: Any) -> Any:
    """A schema without the defaults and decimals that TiCDC writes its own way."""
    if isinstance(schema, list):
        return [_bare(member) for member in schema]
    if isinstance(schema, dict):
        return {name: _bare(value) for name, value in schema.items() if name not in ("default", "logicalType")}
    return schema


@pytest.mark.parametrize("file", files("avro", "checksum.*"))
def test_a_checksum_is_verified(file: str) -> None:
    strict = {"corruption_handle_level": CorruptionHandling.ERROR}
    verified = 0
    for vector in vectors("avro", file):
        decoder = avro.Decoder(replace(vector.options, **strict), Resources(registry=vector.registry))  # type: ignore[arg-type]
        for got in decoder.decode(vector.message):
            (want,) = vector.events
            assert isinstance(got, RowChange)
            assert isinstance(want, RowChange)
            if got.after is not None:
                verified += 1
                assert want.checksum is not None
                assert got.checksum == replace(want.checksum, previous=0), vector.id

    assert verified > 100


def test_a_wrong_checksum_is_refused_or_marked() -> None:
    vector = next(vector for vector in vectors("avro", "checksum.checksum.ticdc") if vector.plain[0]["op"] == "insert")
    assert vector.message.value is not None
    stated = vector.plain[0]["checksum"]["current"]
    wrong = vector.message.value.replace(str(stated).encode(), str(stated ^ 1).encode())
    message = Message(vector.message.key, wrong)

    strict = replace(vector.options, corruption_handle_level=CorruptionHandling.ERROR)

    (got,) = decoded(vector, message)
    with pytest.raises(DecodeError) as refusal:
        list(avro.Decoder(strict, Resources(registry=vector.registry)).decode(message))

    assert isinstance(got, RowChange)
    assert got.checksum == Checksum(vector.plain[0]["checksum"]["version"], corrupted=True, current=stated ^ 1)
    assert str(stated) in str(refusal.value)
    assert str(stated ^ 1) in str(refusal.value)


@pytest.mark.parametrize("name", ["avro", "avro.faults"])
@pytest.mark.parametrize("seed", ["seed11", "seed23-classic"])
def test_a_whole_topic_is_read_with_many_schemas_in_one_topic(seed: str, name: str, tmp_path: Path) -> None:
    schemas = tmp_path / "schemas.json"
    schemas.write_bytes(lzma.decompress((TOPICS / seed / "avro.schemas.json.xz").read_bytes()))
    decoder = avro.Decoder(resources=Resources(registry=FileRegistry(schemas)))
    shapes: dict[str, set[tuple[str, ...]]] = {}
    with lzma.open(TOPICS / seed / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            message = Vector({"id": "", "options": {}, "events": [], **line}).message
            for event in decoder.decode(message):
                assert isinstance(event, RowChange)
                if event.after is not None:
                    shapes.setdefault(line["topic"], set()).add(tuple(event.after))

    assert max(map(len, shapes.values())) > 2


OPTION_SETS: list[dict[str, Any]] = [
    {},
    {"enable-tidb-extension": True},
    {"enable-tidb-extension": True, "avro-enable-watermark": True},
    {"enable-tidb-extension": True, "avro-include-before-value": True},
    {"avro-include-before-value": True, "topic": "a.b"},
    {"avro-decimal-handling-mode": "string", "avro-bigint-unsigned-handling-mode": "string"},
    {
        "enable-tidb-extension": True,
        "avro-decimal-handling-mode": "string",
        "avro-bigint-unsigned-handling-mode": "string",
        "integrity-check-level": "correctness",
    },
]


def sayable(stream: list[Event]) -> bool:
    """Names that Avro would make equal, and ENUM names that differ in doubled quotes only, cannot be told apart."""
    for event in stream:
        if not isinstance(event, RowChange):
            continue
        names = [sanitized(column.name) for column in event.table.columns]
        lists = [[name.replace("''", "'") for name in column.elements] for column in event.table.columns]
        if any(len(set(found)) < len(found) for found in (names, *lists)):
            return False
    return True


@pytest.mark.parametrize("settings_", OPTION_SETS, ids=lambda found: "+".join(found) or "default")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(stream=streams(st.one_of(DDLS, WATERMARKS)))
def test_what_goes_in_comes_out(settings_: dict[str, Any], stream: list[Event]) -> None:
    assume(sayable(stream))
    options = Options.parse(settings_)
    resources = Resources(registry=MemoryRegistry())

    messages = list(avro.Encoder(options, resources).encode(stream))
    decoder = avro.Decoder(options, resources)
    got = [event for message in messages for event in decoder.decode(message)]

    controls = options.enable_tidb_extension and options.avro_enable_watermark
    expected = [event for event in stream if controls or isinstance(event, RowChange)]
    assert len(got) == len(expected)
    for event, want in zip(got, expected, strict=True):
        if isinstance(want, RowChange):
            assert isinstance(event, RowChange)
            assert facts(event) == arriving(want, options)
            _check_columns(event, want, options)
        else:
            assert event == want


def _check_columns(event: RowChange, want: RowChange, options: Options) -> None:
    sources = {sanitized(column.name): column for column in want.table.columns}
    for column in event.table.columns:
        source = sources[column.name]
        assert column.primary_key == column.handle_key == source.primary_key
        assert column.nullable == source.nullable
        assert column.is_binary == source.is_binary
        if source.type in INTEGERS | STRINGS:
            assert column.type in (INTEGERS if source.type in INTEGERS else STRINGS)
            assert column.unsigned == source.unsigned
        else:
            assert column.type is source.type
        if source.type is MySQLType.BIT:
            assert column.length == source.length
        if source.type is MySQLType.DECIMAL and options.avro_decimal_handling_mode == "precise":
            assert (column.length, column.decimal) == (source.length, source.decimal)


def sample() -> Iterator[Vector]:
    for file in files("avro"):
        found = vectors("avro", file)
        yield from found[:: max(1, len(found) // 12)]


def test_every_truncation_is_refused() -> None:
    """But for a value cut to nothing: that is a delete."""
    for vector in sample():
        key, value = vector.message.key, vector.message.value
        if value is not None and (key is not None or value[0] != 3):
            for cut in range(1, len(value)):
                with pytest.raises(DecodeError):
                    decoded(vector, Message(key, value[:cut]))
        for cut in range(len(key or b"")):
            with pytest.raises(DecodeError):
                decoded(vector, Message((key or b"")[:cut], value))


def test_bytes_after_the_record_are_refused() -> None:
    for vector in sample():
        key, value = vector.message.key, vector.message.value
        if key is not None:
            with pytest.raises(DecodeError, match="after the end"):
                decoded(vector, Message(key + b"\0", value))
        if value is not None and value[0] == 0:
            with pytest.raises(DecodeError, match="after the end"):
                decoded(vector, Message(key, value + b"\0"))


def test_corruption_is_refused_or_decodes_and_takes_little_memory() -> None:
    chance = random.Random(20261116)
    found = [vector for vector in sample() if vector.message.key or vector.message.value]
    tracemalloc.start()
    try:
        for _ in range(6000):
            vector = chance.choice(found)
            parts = [bytearray(vector.message.key or b""), bytearray(vector.message.value or b"")]
            for _ in range(chance.randint(1, 4)):
                part = chance.choice([part for part in parts if part])
                part[chance.randrange(len(part))] = chance.choice([0x80, 0xFF, chance.randrange(256)])
            message = Message(bytes(parts[0]) if parts[0] else None, bytes(parts[1]) if parts[1] else None)
            try:
                decoded(vector, message)
            except DecodeError as error:
                assert str(error).startswith("avro: ")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 * 1024 * 1024


@settings(max_examples=300, deadline=None)
@given(key=st.none() | st.binary(max_size=60), value=st.none() | st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(key: bytes | None, value: bytes | None) -> None:
    registry = MemoryRegistry()
    list(avro.encode([RowChange(PERSON, 1, after={"id": 1, "age": 2})], registry=registry))
    for message in (
        Message(key, value),
        Message(None if key is None else bytes(4) + b"\1" + key, None if value is None else bytes(4) + b"\2" + value),
    ):
        try:
            list(avro.decode(message, registry=registry))
        except DecodeError:
            continue


_WORDS = st.sampled_from(
    [
        "record",
        "array",
        "int",
        "long",
        "string",
        "bytes",
        "null",
        "decimal",
        "INT",
        "DECIMAL",
        "ENUM",
        "BIT",
        "x",
        "_tidb_op",
    ]
)
_MEMBERS = ["type", "name", "fields", "namespace", "default", "connect.parameters", "tidb_type", "allowed", "length"]
_SCHEMAS = st.recursive(
    st.none() | st.integers(-2, 70) | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_MEMBERS),
            inner,
            max_size=6,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=400, deadline=None)
@given(schema=_SCHEMAS, field=_SCHEMAS, body=st.binary(max_size=20))
def test_any_schema_is_read_or_refused(schema: Any, field: Any, body: bytes) -> None:
    record = {"type": "record", "name": "t", "namespace": "default.test", "fields": [field]}
    for candidate in (schema, record, {**record, "fields": [{"name": "a", "type": schema, "default": field}]}):
        registry = MemoryRegistry({7: json.dumps(candidate)})
        try:
            list(avro.decode(Message(None, b"\0\0\0\0\7" + body), registry=registry))
        except DecodeError:
            continue


def schema_of(type_: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "t", "namespace": "default.test", "fields": [{"name": "a", "type": type_}]}
    )


def long_bytes(number: int) -> bytes:
    """An Avro long."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, "long", number)
    return written.getvalue()


def column_type(avro_type: str, tidb_type: str, **parameters: str) -> dict[str, Any]:
    return {"type": avro_type, "connect.parameters": {"tidb_type": tidb_type, **parameters}}


INT, LONG = column_type("int", "INT"), column_type("long", "BIGINT")
TEXT, BLOB = column_type("string", "TEXT"), column_type("bytes", "BLOB")
DECIMAL = column_type("bytes", "DECIMAL") | {"logicalType": "decimal", "precision": 10, "scale": 2}
ENUM = column_type("string", "ENUM", allowed="a,b")
BROKEN: list[tuple[str, Any, bytes, str]] = [
    ("a length below zero", BLOB, long_bytes(-3) + b"abc", "no whole field of type bytes in the 4 bytes"),
    ("a length that lies", BLOB, long_bytes(1 << 40) + b"abc", "no whole field of type bytes in the 9 bytes"),
    ("a length of all bits", TEXT, long_bytes(-(1 << 63)), "no whole field of type string"),
    ("a branch below zero", ["null", INT], long_bytes(-1) + b"\2", "no branch of a union of two is 0x01"),
    ("a branch below zero that counts from the end", [INT, "null"], long_bytes(-2) + b"\2", "is 0x03"),
    ("a branch too many", [INT, "null"], long_bytes(2) + b"\2", "no branch of a union of two is 0x04"),
    ("an int of 40 bits", INT, long_bytes(1 << 40), "beyond 32 bits"),
    ("an integer of 11 bytes", LONG, b"\x80" * 10 + b"\1", "beyond 64 bits"),
    ("an integer of 65 bits", LONG, b"\xff" * 9 + b"\x03", "beyond 64 bits"),
    ("an int of 11 bytes", INT, b"\x80" * 10 + b"\1", "beyond 64 bits"),
    ("a length of 11 bytes", BLOB, b"\x82" + b"\x80" * 9 + b"\0x", "beyond 64 bits"),
    ("an integer cut short", LONG, b"\x80", "no whole field of type long in the 1 bytes"),
    ("a double cut short", column_type("double", "DOUBLE"), b"\0\0", "no whole field of type double"),
    ("nothing at all", INT, b"", "no whole field of type int in the 0 bytes"),
    ("no branch at all", ["null", INT], b"", "no whole field of type int in the 0 bytes"),
    ("an unsigned below zero", column_type("long", "INT UNSIGNED"), long_bytes(-1), "is not an unsigned 32-bit"),
    ("a DECIMAL of no bytes", DECIMAL, b"\0", "0 bytes are no DECIMAL"),
    ("a DECIMAL of 66 digits", DECIMAL, b"\x38\x7f" + b"\xff" * 27, "more than 65 digits"),
    ("a DECIMAL of many bytes", DECIMAL, b"\x80\x01" + b"\1" * 64, "64 bytes are no DECIMAL"),
    ("a DECIMAL that is no number", column_type("string", "DECIMAL"), b"\4ab", "is not a decimal number"),
    ("a BIT of 9 bytes", column_type("bytes", "BIT", length="64"), b"\x12" + b"\1" * 9, "9 bytes are no BIT"),
    ("an ENUM name nobody allowed", ENUM, b"\2c", "not one of the allowed names"),
    ("an ENUM index beyond the list", ENUM, b"\0023", "not one of the allowed names"),
    ("a BIGINT text of 65 bits", column_type("string", "BIGINT UNSIGNED"), b"\x2818446744073709551616", "64-bit"),
    ("a date that is no text", column_type("string", "DATE"), b"\2\xff", "not UTF-8"),
    ("a FLOAT that is too large", column_type("double", "FLOAT"), b"\0\0\0\0\0\0\xe0\x7f", "too large for a FLOAT"),
]


@pytest.mark.parametrize(("type_", "body", "reason"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_value_is_refused_with_its_column_and_byte(type_: Any, body: bytes, reason: str) -> None:
    registry = MemoryRegistry({1: schema_of(type_)})

    with pytest.raises(DecodeError, match=reason) as refusal:
        list(avro.decode(Message(None, b"\0\0\0\0\1" + body), registry=registry))

    assert "column a (" in str(refusal.value)
    assert isinstance(refusal.value.at, int)
    assert refusal.value.part == "value"
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


def test_an_error_in_the_row_before_says_so() -> None:
    registry = MemoryRegistry()
    event = RowChange(PERSON, 1, before={"id": 1, "age": 2}, after={"id": 1, "age": 3})
    (message,) = avro.encode([event], registry=registry, avro_include_before_value=True)
    assert message.value is not None
    wrong = message.value[:10] + b"\4" + message.value[11:]

    with pytest.raises(DecodeError, match=r"field _ticdc_before: column age \(int\): no branch .* in value at byte 10"):
        list(avro.decode(Message(message.key, wrong), registry=registry))


def test_a_boolean_is_zero_or_one() -> None:
    registry = MemoryRegistry()
    options = Options(enable_tidb_extension=True, integrity_check_level=IntegrityCheck.CORRECTNESS)
    event = RowChange(PERSON, 1, after={"id": 1, "age": 3}, checksum=Checksum())
    (message,) = avro.Encoder(options, Resources(registry=registry)).encode([event])
    assert message.value is not None
    assert message.value.endswith(b"\0\0")

    with pytest.raises(DecodeError, match="field _tidb_corrupted: 7 is no boolean"):
        list(avro.decode(Message(message.key, message.value[:-2] + b"\7\0"), registry=registry))


@pytest.mark.parametrize(
    "doing",
    [
        "list(avro.encode([RowChange(table, 1, after={'id': 1})]))",
        "list(avro.decode(Message(bytes([0, 0, 0, 0, 1, 2]), None), registry=registry))",
    ],
)
def test_without_fastavro_the_extra_to_install_is_named(doing: str) -> None:
    script = f"""
import sys
sys.modules["fastavro"] = None
from tidewire.codec import avro
from tidewire.errors import MissingExtra
from tidewire.model import *
from tidewire.registry import MemoryRegistry
list(avro.encode([Watermark(1)], enable_tidb_extension=True, avro_enable_watermark=True))
registry = MemoryRegistry({{1: {schema_of(INT)!r}}})
table = TableSchema(TableName("test", "t"), (Column.of("id", "int"),))
try:
    {doing}
except MissingExtra as error:
    print(error)
"""

    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert told == "fastavro is needed here; install it with: pip install 'tidewire[avro]'\n"


STRANGE: list[tuple[str, Any]] = [
    ("nothing", None),
    ("a type of Avro only", "int"),
    ("an array", {"type": "array", "items": "int"}),
    ("a union of three", ["null", INT, TEXT]),
    ("a union of two columns", [INT, TEXT]),
    ("a record", {"type": "record", "name": "x", "fields": []}),
    ("no tidb_type", {"type": "int", "connect.parameters": {}}),
    ("an unknown tidb_type", column_type("int", "HUGEINT")),
    ("a type that does not go with it", column_type("int", "DATE")),
    ("bytes that are no decimal", column_type("bytes", "DECIMAL")),
    ("a decimal of no precision", DECIMAL | {"precision": "x"}),
    ("a decimal with a scale beyond its precision", DECIMAL | {"scale": 11}),
    ("a decimal with a scale beyond reason", DECIMAL | {"precision": 10**9, "scale": 10**9}),
    ("a BIT of no length", column_type("bytes", "BIT", length="many")),
    ("an ENUM of nothing", column_type("string", "ENUM")),
]


@pytest.mark.parametrize("type_", [case[1] for case in STRANGE], ids=[case[0] for case in STRANGE])
def test_a_schema_ticdc_does_not_make_is_refused_with_its_place(type_: Any) -> None:
    registry = MemoryRegistry({1: schema_of(type_)})

    with pytest.raises(DecodeError, match=r"in schema 1 at \$\.fields\[0\]\.type"):
        list(avro.decode(Message(None, b"\0\0\0\0\1\2"), registry=registry))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(None, b""), "of no known kind"),
        (Message(None, b"\4"), "of no known kind"),
        (Message(b"", None), "0 bytes, at least 5"),
        (Message(b"\0\0\0\1", None), "4 bytes, at least 5"),
        (Message(b"\1\0\0\0\1\2", None), "the first byte is 1"),
        (Message(b"\0\0\0\0\1\2", b"\2" + bytes(8)), "the first byte is 2"),
        (Message(b"\0\0\0\0\1\2", b"\3" + bytes(7)), "8 bytes, 9 were expected"),
        (Message(b"\0\0\0\0\7\2", None), "schema 7 not found"),
        (Message(None, b"\2" + bytes(7)), "8 bytes, 9 were expected"),
        (Message(None, b"\2" + bytes(9)), "10 bytes, 9 were expected"),
        (Message(None, b"\1{"), "not JSON"),
        (Message(None, b"\1[]"), "an object was expected"),
        (Message(None, b'\1{"query":"q","type":3,"schema":"s","table":"t"}'), "unsigned 64-bit integer"),
    ],
)
def test_a_broken_frame_is_refused(message: Message, reason: str) -> None:
    registry = MemoryRegistry({1: schema_of(INT)})

    with pytest.raises(DecodeError, match=reason):
        list(avro.decode(message, registry=registry))


def test_without_a_registry_a_row_cannot_be_read() -> None:
    (message,) = avro.encode([RowChange(PERSON, 1, after={"id": 1, "age": 2})])

    with pytest.raises(OptionError, match="option schema-registry: it is needed to read messages with schema 1"):
        list(avro.decode(message))


def test_a_registry_that_is_down_is_not_the_messages_fault() -> None:
    class Down(MemoryRegistry):
        def schema(self, schema_id: int) -> str:
            raise RegistryError("http://registry", "no answer", 503)

    with pytest.raises(RegistryError, match="no answer"):
        list(avro.decode(Message(b"\0\0\0\0\1\2", None), registry=Down()))


def test_the_same_id_may_mean_another_schema_when_messages_bring_their_own() -> None:
    registry = MemoryRegistry({1: schema_of(INT)})
    decoder = avro.Decoder(resources=Resources(registry=registry))
    message = Message(None, b"\0\0\0\0\1\2")
    (first,) = decoder.decode(message)
    registry.put(1, schema_of(column_type("string", "TEXT")))

    (second,) = decoder.decode(Message(None, b"\0\0\0\0\1\2x"))

    assert isinstance(first, RowChange)
    assert isinstance(second, RowChange)
    assert (first.after, second.after) == ({"a": 1}, {"a": "x"})


def test_an_update_without_old_values_is_still_an_update() -> None:
    registry = MemoryRegistry()
    rows: tuple[Row, Row] = {"id": 1, "age": 18}, {"id": 1, "age": 20}
    event = RowChange(PERSON, 1025, before=rows[0], after=rows[1])

    (told,) = avro.encode([event], registry=registry, enable_tidb_extension=True)
    (untold,) = avro.encode([event], registry=registry)

    assert [event.op for event in avro.decode(told, registry=registry) if isinstance(event, RowChange)] == [Op.UPDATE]
    assert [event.op for event in avro.decode(untold, registry=registry) if isinstance(event, RowChange)] == [Op.INSERT]


@pytest.mark.parametrize("options", [{}, {"enable_tidb_extension": True}, {"avro_enable_watermark": True}])
def test_ddl_and_watermarks_make_no_message_by_default(options: dict[str, Any]) -> None:
    events: list[Event] = [Ddl(TableName("test", "t"), 1, "CREATE TABLE t(a INT)", 3), Watermark(2)]

    assert list(avro.encode(events, **options)) == []


def test_what_the_protocol_has_no_words_for_is_refused() -> None:
    with pytest.raises(EncodeError, match="cannot say BOOTSTRAP"):
        list(avro.encode([Bootstrap(PERSON)]))


@pytest.mark.parametrize("ts", [None, -1, 1 << 64])
def test_an_event_needs_a_ts_that_is_one(ts: Any) -> None:
    events: list[Event] = [
        RowChange(PERSON, ts, after={"id": 1, "age": 1}),
        RowChange(PERSON, ts, before={"id": 1, "age": 1}),
        Ddl(TableName("test", "t"), ts, "DROP TABLE t", 4),
        Watermark(ts),
    ]
    for event in events:
        with pytest.raises(EncodeError, match=r"without a commit ts|no 64-bit ts"):
            list(avro.encode([event], enable_tidb_extension=True, avro_enable_watermark=True))


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"id": None, "age": 1}, "CDC:ErrAvroEncodeToBinary"),
        ({"id": 1 << 31, "age": 1}, "CDC:ErrAvroEncodeFailed"),
        ({"id": "x", "age": 1}, "CDC:ErrAvroEncodeFailed"),
        ({"id": 1}, "CDC:ErrAvroEncodeFailed"),
    ],
)
def test_a_value_a_column_cannot_hold_is_refused(row: Row, code: str) -> None:
    with pytest.raises(EncodeError, match=r"column (id|age) \(int\)") as refusal:
        list(avro.encode([RowChange(PERSON, 1, after=row)]))

    assert refusal.value.code == code


def test_a_message_counts_with_kafkas_overhead_against_the_limit() -> None:
    event = RowChange(PERSON, 1, after={"id": 1, "age": 18})
    (message,) = avro.encode([event])
    size = len(message.key or b"") + len(message.value or b"") + 36

    assert list(avro.encode([event], max_message_bytes=size)) == [message]
    with pytest.raises(MessageTooLarge, match=f"takes {size} bytes"):
        list(avro.encode([event], max_message_bytes=size - 1))


def test_a_schema_is_registered_once_per_version() -> None:
    class Counting(MemoryRegistry):
        calls = 0

        def register(self, subject: str, schema: str) -> int:
            self.calls += 1
            return super().register(subject, schema)

    registry = Counting()
    encoder = avro.Encoder(resources=Resources(registry=registry))
    wider = replace(PERSON, columns=(*PERSON.columns, Column.of("note", "text")))

    for table in (PERSON, PERSON, replace(PERSON, version=2), wider, replace(wider, version=None)):
        row = {column.name: 1 if column.type is MySQLType.INT else "x" for column in table.columns}
        list(encoder.encode([RowChange(table, 1, after=row)] * 3))

    assert registry.calls == 8
    assert registry.subjects == {"test_person-key": [1], "test_person-value": [2, 3]}


def test_the_encoder_keeps_a_bounded_number_of_schemas() -> None:
    encoder = avro.Encoder()

    for number in range(1100):
        table = replace(PERSON, name=TableName("test", f"t{number}"))
        list(encoder.encode([RowChange(table, 1, after={"id": 1, "age": 1})]))

    assert len(encoder._schemas) <= 1000


@pytest.mark.parametrize("with_registry", [True, False])
def test_inspection_covers_every_byte(with_registry: bool) -> None:
    for vector in sample():
        resources = Resources(registry=vector.registry) if with_registry else Resources()
        value = vector.message.value
        for message in (vector.message, Message(vector.message.key, None if value is None else value[:-1])):
            fields = list(avro.inspect(message, vector.options, resources))
            for part, data in (("key", message.key), ("value", message.value)):
                found = [field for field in fields if field.part == part]

                assert b"".join(field.data for field in found) == (data or b""), (vector.id, part)
                assert [field.offset for field in found] == [
                    sum(len(field.data) for field in found[:number]) for number in range(len(found))
                ], (vector.id, part)


def test_inspection_names_every_field_with_its_meaning() -> None:
    registry = MemoryRegistry()
    event = RowChange(PERSON, 429918007904436226, before={"id": 1, "age": 18}, after={"id": 1, "age": None})
    (message,) = avro.encode([event], registry=registry, enable_tidb_extension=True, avro_include_before_value=True)

    fields = avro.inspect(message, resources=Resources(registry=registry))

    assert [(field.part, field.offset, field.data.hex(), field.name, field.meaning) for field in fields][5:] == [
        ("value", 5, "02", "id", "int: 1"),
        ("value", 6, "00", "age", "NULL"),
        ("value", 7, "02", "_ticdc_before", "record"),
        ("value", 8, "02", "_ticdc_before.id", "int: 1"),
        ("value", 9, "0224", "_ticdc_before.age", "int: 18"),
        ("value", 11, "0275", "_tidb_op", "update"),
        (
            "value", 13, "848080fbcf89b0f70b", "_tidb_commit_ts",
            "commit ts 429918007904436226, 2021-12-20 13:30:49.196000 UTC",
        ),
        ("value", 22, "d8ffcc80bb5f", "_tidb_commit_physical_time", "1640007049196 ms since the epoch"),
    ]  # fmt: skip
