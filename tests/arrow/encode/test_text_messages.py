"""The native kernel writes the readable codec's bytes in the protocols that are text."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scanner_checks import NATIVE_IS_HERE
from strategies import row_changes, tables
from tidewire.arrow import BatchDecoder, OpCode, Policy, encode_batch
from tidewire.arrow.convert import value_reader
from tidewire.arrow.encode.native import native_messages
from tidewire.arrow.plan import BufferedRow, Plan
from tidewire.arrow.types import arrow_type
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.options import Compression, IntegrityCheck
from tidewire.errors import TidewireError
from tidewire.model import Column, RowChange, TableName, TableSchema
from vector_files import files, vectors

PROTOCOLS = {"canal-json": "canal-json", "open-protocol": "open-protocol", "simple-json": "simple"}
"""The protocols by the name of their folder."""

needs_native = pytest.mark.skipif(not NATIVE_IS_HERE, reason="tidewire-native is not installed")

OPS = {"insert": OpCode.INSERT, "update": OpCode.UPDATE, "delete": OpCode.DELETE}
OPTION_SETS = {
    "plain": Options(),
    "extension": Options(enable_tidb_extension=True, output_row_key=True, time_zone="Asia/Shanghai"),
    "small batches": Options(max_batch_size=2, output_old_value=False),
    "short batches": Options(max_batched_bytes=600, max_message_bytes=1_000_000),
    "handle key": Options(delete_only_output_handle_key_columns=True),
    "zone": Options(time_zone="America/New_York"),
}
LEFT = {
    "updated columns": Options(only_output_updated_columns=True),
    "compatible": Options(content_compatible=True),
    "checksums": Options(integrity_check_level=IntegrityCheck.CORRECTNESS),
    "too large": Options(max_message_bytes=700),
    "compressed": Options(large_message_handle_compression=Compression.SNAPPY),
}


def still() -> int:
    return 1_700_000_000_000


def outcome(
    name: str, table: TableSchema, rows: pa.RecordBatch, options: Options, *, fast: bool, ticks: bool = False
) -> Any:
    """The messages, or the error. A clock that ticks never says the same twice: each message must ask it once."""
    clock = count(still()).__next__ if ticks else still
    try:
        return encode_batch(name, table, rows, options, Resources(clock=clock), fast=fast).to_pylist()
    except (TidewireError, OverflowError) as error:
        return type(error), str(error)


def is_covered(name: str, table: TableSchema, rows: pa.RecordBatch, options: Options = Options()) -> bool:
    return native_messages(name, table, rows, options, Resources(), Policy(options.time_zone)) is not None


def as_rows(table: TableSchema, events: list[RowChange], policy: Policy) -> pa.RecordBatch:
    rows: list[BufferedRow] = [
        (pos, 0, OPS[event.op], event.commit_ts, event.partition_id, False, event.after, event.before)
        for pos, event in enumerate(events)
    ]
    batch, _ = Plan(table, value_reader, policy).batch(rows)
    return batch


@pytest.mark.parametrize("options", [*OPTION_SETS.values(), *LEFT.values()], ids=[*OPTION_SETS, *LEFT])
@pytest.mark.parametrize("name", PROTOCOLS.values())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_table_gives_the_codecs_bytes(name: str, options: Options, data: st.DataObject) -> None:
    table = data.draw(tables())
    events = data.draw(st.lists(row_changes(table), max_size=6))
    rows = as_rows(table[0], events, Policy(options.time_zone))

    assert outcome(name, table[0], rows, options, fast=True) == outcome(name, table[0], rows, options, fast=False)


@pytest.mark.parametrize(("folder", "file"), [(folder, file) for folder in PROTOCOLS for file in files(folder)])
def test_rows_of_real_messages_give_the_codecs_bytes(folder: str, file: str) -> None:
    name, lines = PROTOCOLS[folder], vectors(folder, file)
    messages = [line.message for line in lines]
    batch = pa.record_batch(
        {
            "key": pa.array([message.key for message in messages], pa.binary()),
            "value": pa.array([message.value for message in messages], pa.binary()),
        }
    )
    kept = MemoryStore({name: data for line in lines for name, data in line.claim_checks.blobs.items()})
    for plan, rows in BatchDecoder(name, lines[0].options, Resources(claim_check=kept)).decode(batch).batches:
        for options in (lines[0].options, Options()):
            fast = outcome(name, plan.table, rows, options, fast=True)
            assert fast == outcome(name, plan.table, rows, options, fast=False)


COLUMNS: dict[str, list[Any]] = {
    "tinyint unsigned": [0, 127, 128, None],
    "int unsigned": [1, 2**31, None],
    "bigint unsigned": [Decimal(2**64 - 1), Decimal(2**63 - 1), None],
    "bit(64)": [Decimal(2**64 - 1)],
    "float": [1.5, 1e-7, 3e38, -0.0, 16777216.0, None],
    "double": [0.1, 1e21, 1e20, 1e-6, 9.5e-7, 5e-324, -1.7976931348623157e308],
    "decimal(20,10)": [Decimal("0.0000000001"), Decimal("0E-10"), Decimal("-5.0000000000"), None],
    "decimal(65,2)": ["-0.50", "12345678901234567890123456789012345678901234567890.10"],
    "date": [date(2, 1, 1), date(1969, 12, 31), None],
    "datetime": [datetime(2, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 120000), None],
    "datetime(3)": [datetime(1969, 12, 31, 23, 59, 59, 999999)],
    "timestamp(6)": [datetime(2024, 3, 10, 7, 30, tzinfo=timezone.utc), datetime(1970, 1, 1, tzinfo=timezone.utc)],
    "time": [-3_020_399_000_001, 3_020_399_000_000, 0, -1, 1 << 62, None],
    "time(2)": [-1_500_000, 359_999_990_000],
    "varchar(40)": ["plain", '"\\<>&\b\f\n\u2028\u2029\x00\x7f/', "ü😀", "", None],
    "varbinary(40)": [b"plain", b'"\\\x00\xff\xc3\xbc\xe2\x80\xa8\x7f', b"", None],
    "text": ["a\tb", None],
    "blob": [b"\x00\xff", None],
    "enum('a','b','it''s')": ["", "b", "it's", None],
    "set('a','b','c')": ["", "a,c", "c", None],
    "json": ['{"a": "\\n"}', None],
    "vector": [[1.0, 2.5, 1e-9], [], None],
    "year": [0, 2155],
}


def filled(type_: str, values: list[Any]) -> tuple[TableSchema, pa.RecordBatch]:
    """Inserts, updates and deletes in turn, all of one column."""
    column = replace(Column.of("c", type_), handle_key=True)
    table = TableSchema(TableName("s", "t"), (column,), table_id=7, version=9)
    plan, length = Plan(table, value_reader, Policy()), 3 * len(values)
    array = pa.array([value for value in values for _ in range(3)], arrow_type(column))
    images = [
        pa.StructArray.from_arrays(
            [array], fields=list(plan.struct), mask=pa.array([row % 3 == absent for row in range(length)])
        )
        for absent in (2, 0)
    ]
    heads: list[Any] = [
        [row % 3 for row in range(length)],
        [(1 << 60) + row for row in range(length)],
        range(length),
        [0] * length,
        [None, 0, 5] * len(values),
        [False] * length,
    ]
    schema = plan.schema(before=True)
    arrays = [pa.array(head, field.type) for head, field in zip(heads, schema, strict=False)]
    return table, pa.RecordBatch.from_arrays(
        [*arrays, *images, pa.nulls(length, schema.field("_absent").type)], schema=schema
    )


@needs_native
@pytest.mark.parametrize("options", OPTION_SETS.values(), ids=OPTION_SETS)
@pytest.mark.parametrize("type_", COLUMNS)
@pytest.mark.parametrize("name", PROTOCOLS.values())
def test_every_type_is_covered(name: str, type_: str, options: Options) -> None:
    table, rows = filled(type_, COLUMNS[type_])

    assert is_covered(name, table, rows, options)
    for part in (rows, rows.slice(1), rows.slice(0, 1), rows.slice(0, 0)):
        fast = outcome(name, table, part, options, fast=True, ticks=True)
        assert fast == outcome(name, table, part, options, fast=False, ticks=True)


BIGINT = Column.of("c", "bigint unsigned")
ODD: dict[str, list[Any]] = {
    "bigint unsigned": [Decimal(2**64)],
    "double": [float("inf")],
    "decimal(65,2)": ["007.10"],
    "enum('a')": ["b"],
    "set('a')": ["b"],
    "vector": [[None]],
    "geometry": ["x"],
}


@needs_native
@pytest.mark.parametrize("type_", ODD)
@pytest.mark.parametrize("name", PROTOCOLS.values())
def test_odd_values_are_left_to_the_codec(name: str, type_: str) -> None:
    assert not is_covered(name, *filled(type_, ODD[type_]))


@pytest.mark.parametrize("name", PROTOCOLS.values())
def test_timestamps_no_column_holds_have_the_codecs_summer_time(name: str) -> None:
    table, rows = filled("timestamp", [datetime(2099, 7, 1, tzinfo=timezone.utc)])
    options = Options(time_zone="America/New_York")

    assert outcome(name, table, rows, options, fast=True) == outcome(name, table, rows, options, fast=False)


@needs_native
@pytest.mark.parametrize("column", ["_key_only", "_absent"])
@pytest.mark.parametrize("name", PROTOCOLS.values())
def test_partial_images_are_left_to_the_codec(name: str, column: str) -> None:
    table, rows = filled("int", [1])
    partial = {"_key_only": [True] * 3, "_absent": [None, [0], None]}[column]
    number = rows.schema.get_field_index(column)
    rows = rows.set_column(number, rows.schema.field(number), pa.array(partial, rows.schema.field(number).type))

    assert not is_covered(name, table, rows)
    assert outcome(name, table, rows, Options(), fast=True) == outcome(name, table, rows, Options(), fast=False)


@needs_native
@pytest.mark.parametrize("field", [pa.field("c", pa.int64()), pa.field("other", arrow_type(BIGINT))], ids=str)
@pytest.mark.parametrize("name", PROTOCOLS.values())
def test_rows_of_another_shape_are_left_to_the_codec(name: str, field: pa.Field) -> None:
    table, rows = filled("bigint unsigned", [Decimal(5)])
    for column in ("after", "before"):
        image = pa.StructArray.from_arrays([pa.array([5] * 3, field.type)], fields=[field], mask=rows[column].is_null())
        rows = rows.set_column(rows.schema.get_field_index(column), column, image)

    assert not is_covered(name, table, rows)
