"""The native kernel writes the readable codec's bytes in the binary protocols, message for message."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scanner_checks import NATIVE_IS_HERE
from strategies import WORDS, row_changes, tables
from tidewire.arrow import BatchDecoder, Policy, encode_batch
from tidewire.arrow.convert import value_reader
from tidewire.arrow.encode.native import native_messages
from tidewire.arrow.plan import BufferedRow, OpCode, Plan
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import TidewireError
from tidewire.model import (
    Column,
    Date,
    DateTime,
    EnumValue,
    Index,
    Row,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
)
from tidewire.registry import MemoryRegistry
from vector_files import files, vectors

needs_native = pytest.mark.skipif(not NATIVE_IS_HERE, reason="tidewire-native is not installed")

OPS = {"insert": OpCode.INSERT, "update": OpCode.UPDATE, "delete": OpCode.DELETE}
OPTIONS = {
    "avro": [
        {},
        {"enable-tidb-extension": "true"},
        {"enable-tidb-extension": "true", "avro-enable-watermark": "true"},
        {"enable-tidb-extension": "true", "avro-include-before-value": "true"},
        {"avro-include-before-value": "true", "avro-decimal-handling-mode": "string"},
        {"avro-bigint-unsigned-handling-mode": "string", "time-zone": "America/New_York"},
        {"enable-tidb-extension": "true", "integrity-check-level": "correctness"},
        {"max-message-bytes": "200"},
    ],
    "craft": [
        {},
        {"max-batch-size": "3", "time-zone": "America/New_York"},
        {"max-message-bytes": "500"},
        {"delete-only-output-handle-key-columns": "true"},
    ],
    "simple-avro": [
        {},
        {"large-message-handle-compression": "lz4", "time-zone": "America/New_York"},
        {"large-message-handle-option": "handle-key-only", "max-message-bytes": "250"},
        {"integrity-check-level": "correctness"},
    ],
}
"""What a protocol's encoder may be told."""

FOLDERS: dict[str, tuple[str, dict[str, str]]] = {
    "avro": ("avro", {}),
    "craft": ("craft", {}),
    "simple-avro": ("simple-avro", {"encoding-format": "avro"}),
}
"""The vectors of each encoding."""

CASES = [(name, number) for name, options in OPTIONS.items() for number in range(len(options))]
FILES = [(name, file) for name, (folder, _) in FOLDERS.items() for file in files(folder)]


def options_of(name: str, number: int) -> Options:
    return Options.parse(OPTIONS[name][number] | FOLDERS[name][1])


def protocol_of(name: str) -> str:
    return name.partition("-")[0]


def outcome(name: str, table: TableSchema, rows: pa.RecordBatch, options: Options, *, fast: bool) -> object:
    """The messages, or how their making failed."""
    resources = Resources(MemoryStore({}), MemoryRegistry(), clock=lambda: 7, file_name=lambda: "part.json")
    try:
        return encode_batch(protocol_of(name), table, rows, options, resources, fast=fast).to_pylist()
    except (TidewireError, ValueError, KeyError, ArithmeticError) as error:
        return type(error), str(error)


def same(name: str, table: TableSchema, rows: pa.RecordBatch, options: Options) -> None:
    assert outcome(name, table, rows, options, fast=True) == outcome(name, table, rows, options, fast=False)


def planned(table: TableSchema, events: list[RowChange], policy: Policy) -> pa.RecordBatch | None:
    """Events as a batch; ``None`` where a value has no place in one."""
    rows: list[BufferedRow] = [
        (pos, 0, OPS[event.op], event.commit_ts, event.partition_id, event.handle_key_only, event.after, event.before)
        for pos, event in enumerate(events)
    ]
    batch, misfits = Plan(table, value_reader, policy).batch(rows)
    return None if misfits else batch


@pytest.mark.parametrize(("name", "number"), CASES)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_tables_rows_have_the_codecs_bytes(name: str, number: int, data: st.DataObject) -> None:
    table = data.draw(tables(WORDS))
    events = data.draw(st.lists(row_changes(table), max_size=20))
    options = options_of(name, number)
    rows = planned(table[0], events, Policy(options.time_zone))
    if rows is None:
        return

    same(name, table[0], rows, options)
    same(name, table[0], rows.slice(len(events) // 3), options)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_vectors_rows_have_the_codecs_bytes(name: str, file: str) -> None:
    lines = vectors(FOLDERS[name][0], file)
    registry, store = MemoryRegistry(), MemoryStore({})
    for line in lines:
        store.blobs.update(line.claim_checks.blobs)
        for schema_id, schema in line.registry.schemas().items():
            registry.put(schema_id, schema)
    messages = [line.message for line in lines]
    batch = pa.record_batch(
        {part: pa.array([getattr(message, part) for message in messages], pa.binary()) for part in ("key", "value")}
    )
    options = lines[0].options
    decoded = BatchDecoder(protocol_of(name), options, Resources(claim_check=store, registry=registry)).decode(batch)

    for plan, rows in decoded.batches:
        same(name, plan.table, rows, options)
        new_rows = rows.filter(rows.column("after").is_valid()).drop_columns(["before", "_absent"])
        same(name, plan.table, new_rows, options)


VALUES: dict[str, Value] = {
    "int": -5,
    "varchar(20)": "hé",
    "varbinary(20)": b"\xff",
    "float": 1.5,
    "double": 2.5,
    "decimal(10,2)": Decimal("-1.50"),
    "year": 2024,
    "bit(9)": 300,
    "date": Date("2024-02-29"),
    "datetime(3)": DateTime("2024-02-29 12:00:00.500"),
    "timestamp": Timestamp("2024-02-29 12:00:00"),
    "time": Time("-838:59:59"),
    "enum('a','b')": EnumValue(2, "b"),
    "set('a','b')": SetValue(3, "a,b"),
    "json": "{}",
    "vector": "[1,2.5]",
}
"""A value of every type."""

PLAIN = TableSchema.build(
    TableName("shop", "orders"),
    [
        replace(Column.of("id", "bigint unsigned"), primary_key=True, nullable=False),
        *(replace(Column.of(f"c{number}", type_), nullable=True) for number, type_ in enumerate(VALUES)),
    ],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
    table_id=5,
    version=3,
)


@needs_native
@pytest.mark.parametrize("name", OPTIONS)
def test_plain_rows_of_every_type_are_covered(name: str) -> None:
    columns = [column.name for column in PLAIN.columns]
    full: Row = dict(zip(columns, (2**63, *VALUES.values()), strict=True))
    empty: Row = dict.fromkeys(columns) | {"id": 300}
    images = [(None, full), (full, empty), (empty, full), (full, None), (None, empty)]
    events = [RowChange(PLAIN, ts, before=before, after=after) for ts, (before, after) in enumerate(images, 2**62)]
    rows, options = planned(PLAIN, events, Policy()), options_of(name, 0)
    assert rows is not None

    made = native_messages(protocol_of(name), PLAIN, rows, options, Resources(clock=lambda: 7), Policy())

    assert made is not None
    same(name, PLAIN, rows, options)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("commit_ts", [[None], [-1]])
def test_what_is_out_of_the_ordinary_is_left_to_the_codec(name: str, commit_ts: list[int | None]) -> None:
    struct = Plan(PLAIN, value_reader, Policy()).struct
    options = options_of(name, min(1, len(OPTIONS[name]) - 1))

    same(name, PLAIN, plain_rows(struct, [1], commit_ts), options)
    same(name, PLAIN, plain_rows(struct, [10**19 * 2], [1]), options)
    same(name, PLAIN, plain_rows(pa.struct([("id", pa.int32())]), [1], [1]), options)


def plain_rows(struct: pa.DataType, ids: list[int], commit_ts: list[int | None]) -> pa.RecordBatch:
    """Inserts that have nothing but an id."""
    count = len(ids)
    return pa.record_batch(
        {
            "_op": pa.array([OpCode.INSERT] * count, pa.int8()),
            "_commit_ts": pa.array(commit_ts, pa.int64()),
            "_partition": pa.nulls(count, pa.int64()),
            "_key_only": pa.array([False] * count),
            "after": pa.array([{"id": number} for number in ids], struct),
        }
    )
