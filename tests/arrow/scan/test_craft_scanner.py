"""Craft's scanner takes rows, leaves everything else, and never takes what the codec refuses."""

from __future__ import annotations

import json
import lzma
import random
from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scanner_checks import NATIVE_IS_HERE, identical
from tidewire.arrow import BatchDecoder, Decoded, Kernel, Policy
from tidewire.arrow.plan import Groups
from tidewire.arrow.scan.craft import Scanner
from tidewire.codec import Options, craft
from tidewire.codec.craft.varint import uvarint, varint
from tidewire.model import (
    Column,
    ColumnFlag,
    Date,
    Ddl,
    EnumValue,
    Event,
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from vector_files import files, vectors

BENCH = Path(__file__).parents[3] / "benchmarks" / "data"
FLAG = ColumnFlag
ID = Column("id", MySQLType.BIGINT, FLAG.BINARY | FLAG.HANDLE_KEY | FLAG.PRIMARY_KEY, handle_key=True, primary_key=True)
NAME = Column("name", MySQLType.VARCHAR, FLAG.NULLABLE)
USERS = TableSchema(TableName("shop", "users"), (ID, NAME))
ORDERS = TableSchema(TableName("shop", "orders"), (ID, Column("on", MySQLType.DATE, FLAG.BINARY | FLAG.NULLABLE)))


def bench(name: str) -> list[bytes]:
    with lzma.open(BENCH / f"{name}.jsonl.xz") as lines:
        return [b64decode(json.loads(line)["value"]) for line in lines]


def encoded(events: Iterable[Event], **options: Any) -> list[bytes]:
    return [message.value or b"" for message in craft.encode(events, **options)]


def batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": pa.array(values, pa.binary())})


def scanned(values: Sequence[bytes | None]) -> list[int]:
    """The messages the scanner leaves."""
    scanner = Scanner(Options(), Policy(), craft.Decoder())
    return scanner.scan([None] * len(values), values, Groups())


def outcome(decoded: Decoded) -> tuple[Any, ...]:
    """Everything a batch tells, in an order of its own."""
    rows = {}
    for plan, record_batch in decoded.batches:
        for row in record_batch.to_pylist():
            rows[row["_pos"], row["_sub"]] = (plan.table.name, repr(row))
    controls = sorted((pos, sub, repr(event)) for pos, sub, event in decoded.controls)
    return rows, controls, [reject.pos for reject in decoded.rejects]


def both(values: Sequence[bytes | None]) -> Decoded:
    """What comes out, after making sure that the codec alone and the native kernel find the same."""
    fast = BatchDecoder("craft").decode(batch(values))
    slow = BatchDecoder("craft", fast=False).decode(batch(values))
    assert outcome(fast) == outcome(slow)
    if NATIVE_IS_HERE:
        identical(BatchDecoder("craft", kernel=Kernel.NATIVE).decode(batch(values)), fast)
    return fast


def images(decoded: Decoded, image: str = "after") -> list[Any]:
    return [row for _, found in decoded.batches for row in found.column(image).to_pylist()]


def user(number: int, name: Value, ts: int = 400) -> RowChange:
    return RowChange(USERS, ts, after={"id": number, "name": name})


@pytest.mark.parametrize("name", ["craft-narrow", "craft-narrow-batch16", "craft-wide", "craft-wide-batch16"])
def test_every_message_of_the_benchmark_is_taken(name: str) -> None:
    assert scanned(bench(name)) == []


@pytest.mark.parametrize("file", files("craft"))
def test_of_the_servers_messages_only_ddl_and_watermarks_are_left(file: str) -> None:
    lines = vectors("craft", file)
    values = [line.message.value for line in lines]
    decoder = craft.Decoder()
    for pos in scanned(values):
        events = list(decoder.decode(lines[pos].message))
        assert not all(isinstance(event, RowChange) for event in events), lines[pos].id


def test_what_is_no_row_is_left_and_comes_out_as_an_event() -> None:
    ddl = Ddl(TableName("shop", "users"), 401, "DROP TABLE users", type=4)
    values = [*encoded([user(1, "a")]), *encoded([ddl]), *encoded([Watermark(402)]), None, b""]

    assert scanned(values) == [1, 2, 3, 4]
    decoded = both(values)
    assert [event for _, _, event in decoded.controls] == [ddl, Watermark(402)]
    assert [reject.reason for reject in decoded.rejects] == ["no value", "truncated integer"]


def test_updates_have_old_rows_and_deletes_nothing_else() -> None:
    events = [
        RowChange(USERS, 400, before={"id": 1, "name": "a"}, after={"id": 1, "name": None}),
        RowChange(USERS, 401, before={"id": 1, "name": None}),
    ]
    values = encoded(events)
    assert scanned(values) == []

    decoded = both(values)

    assert images(decoded) == [{"id": 1, "name": None}, None]
    assert images(decoded, "before") == [{"id": 1, "name": "a"}, {"id": 1, "name": None}]


def test_old_rows_of_some_columns_tell_which_are_absent() -> None:
    wide = TableSchema(USERS.name, (ID, NAME, Column("note", MySQLType.VARCHAR, FLAG.NULLABLE)))
    after: dict[str, Value] = {"id": 1, "name": "b", "note": "n" * 100}
    values = encoded([RowChange(wide, 400, before={"id": 1, "name": "a"}, after=after)])
    assert scanned(values) == []

    (table,) = both(values).batches

    assert table[1].column("before").to_pylist() == [{"id": 1, "name": "a", "note": None}]
    assert table[1].column("_absent").to_pylist() == [[2]]


def test_without_old_rows_none_are_built() -> None:
    values = encoded([RowChange(USERS, 400, before={"id": 1, "name": "a"}, after={"id": 1, "name": "b"})])
    decoded = BatchDecoder("craft", before=False).decode(batch(values))
    assert "before" not in decoded.batches[0][1].schema.names


def test_tables_shapes_and_partitions_mix_in_a_message() -> None:
    renamed = replace(USERS, columns=(ID, replace(NAME, name="full_name")))
    events = [
        user(1, "a", 405),
        RowChange(ORDERS, 404, after={"id": 2, "on": Date("2024-02-29")}, table_id=77, partitioned=True),
        RowChange(renamed, 403, after={"id": 3, "full_name": "x" * 70}),
        user(4, None, 406),
    ]
    values = encoded(events)
    assert len(values) == 1
    assert scanned(values) == []

    decoded = both(values)

    assert sorted(plan.table.name.table for plan, _ in decoded.batches) == ["orders", "users", "users"]
    assert len(images(decoded)) == 4


def test_a_bad_value_rejects_its_message_and_no_other() -> None:
    good, other = encoded([user(1, "a"), user(2, "b")], max_batch_size=1)
    dated = encoded([RowChange(ORDERS, 400, after={"id": 1, "on": Date("2024-02-29")})])[0]
    wrong = dated.replace(b"2024-02-29", b"2024-02-2x")

    decoded = both([good, wrong, other])

    assert images(decoded) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    (reject,) = decoded.rejects
    assert (reject.pos, reject.value) == (1, wrong)
    assert reject.reason.startswith("column on (date): ")


def test_a_message_with_one_bad_row_goes_as_a_whole() -> None:
    (value,) = encoded([user(1, "a"), RowChange(ORDERS, 400, after={"id": 1, "on": Date("2024-02-29")})])
    decoded = both([value.replace(b"2024-02-29", b"2024-x2-29")])
    assert decoded.batches == []
    assert len(decoded.rejects) == 1


def test_a_column_that_is_there_twice_is_refused() -> None:
    (value,) = encoded(
        [RowChange(replace(USERS, columns=(ID, replace(NAME, name="ie"))), 1, after={"id": 1, "ie": ""})]
    )
    twice = value.replace(b"idie", b"idid")
    assert twice != value
    assert scanned([twice]) == [0]
    assert both([twice]).rejects[0].reason == "column id is there twice"


TYPED: Sequence[tuple[MySQLType, ColumnFlag, Value, Any]] = [
    (MySQLType.BIGINT, FLAG.BINARY, -(1 << 63), -(1 << 63)),
    (MySQLType.BIGINT, FLAG.BINARY | FLAG.UNSIGNED, (1 << 64) - 1, Decimal((1 << 64) - 1)),
    (MySQLType.TINYINT, FLAG.BINARY, -1, -1),
    (MySQLType.YEAR, FLAG.BINARY | FLAG.UNSIGNED, 2024, 2024),
    (MySQLType.BIT, FLAG.BINARY | FLAG.UNSIGNED, 5, Decimal(5)),
    (MySQLType.ENUM, FLAG(0), EnumValue(3), 3),
    (MySQLType.SET, FLAG(0), SetValue(1 << 63), Decimal(1 << 63)),
    (MySQLType.DOUBLE, FLAG.BINARY, 2.5, 2.5),
    (MySQLType.DECIMAL, FLAG.BINARY, Decimal("-0.50"), "-0.50"),
    (MySQLType.TIME, FLAG.BINARY, Time("-00:00:01.5"), -1_500_000),
    (MySQLType.TIMESTAMP, FLAG.BINARY, Timestamp("0000-00-00 00:00:00"), None),
    (MySQLType.BLOB, FLAG.BINARY, b"\xff" * 300, b"\xff" * 300),
    (MySQLType.JSON, FLAG.BINARY, '{"a": 1}', '{"a": 1}'),
]


@pytest.mark.parametrize(("type_", "flags", "value", "expected"), TYPED)
def test_values_of_every_kind(type_: MySQLType, flags: ColumnFlag, value: Value, expected: Any) -> None:
    table = TableSchema(TableName("a", "b"), (Column("c", type_, flags, unsigned=FLAG.UNSIGNED in flags),))
    values = encoded([RowChange(table, 400, after={"c": value}), RowChange(table, 401, after={"c": None})])
    assert scanned(values) == []
    assert images(both(values)) == [{"c": expected}, {"c": None}]


def test_needless_zeros_of_a_decimal_go() -> None:
    table = TableSchema(TableName("a", "b"), (Column("c", MySQLType.DECIMAL, FLAG.BINARY),))
    (value,) = encoded([RowChange(table, 400, after={"c": Decimal("10.5")})])
    assert images(both([value.replace(b"10.5", b"00.5")])) == [{"c": "0.5"}]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_messages_give_what_the_codec_gives(seed: int) -> None:
    """All-or-nothing and no surprise, whichever byte is wrong."""
    chance = random.Random(seed)
    intact = [value for file in files("craft") for line in vectors("craft", file) if (value := line.message.value)]

    def damaged(value: bytes) -> bytes:
        changed = bytearray(value)
        for _ in range(chance.choice((1, 1, 2))):
            place = chance.randrange(len(changed))
            changed[place : place + chance.choice((0, 1, 1))] = bytes([chance.randrange(256)])
        return bytes(changed)

    both([damaged(value) for value in chance.choices(intact, k=150)])


@pytest.mark.parametrize(
    "head", [b"\x01", b"\x01\x05\x01\x01\x02\x04", b"\x01\x05\x01\x01\x02\x04\x01\x01\x00\x0f\x00"]
)
def test_endless_integers_are_given_up_soon(head: bytes) -> None:
    body = head + b"\xff" * 3_000_000
    tables = b"\x02" + varint(len(head) - 1) + varint(1 - len(head)) + b"\x01" + varint(3_000_000)
    tables += b"\x01" + varint(3_000_000)
    value = body + tables + bytes([len(tables)])
    assert scanned([value]) == [0]
    both([value])


def framed(header: bytes, body: bytes, dictionary: bytes) -> bytes:
    """A message with one row in one group."""
    tables = b"\x02" + varint(len(header)) + varint(len(dictionary) - len(header))
    tables += (b"\x01" + varint(len(body))) * 2
    return b"\x01" + header + body + dictionary + tables + bytes([len(tables)])


@pytest.mark.parametrize("count", [1 << 20, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_counts_that_no_message_can_hold_are_refused_at_once(count: int) -> None:
    many = uvarint(count)
    header, columns, values = b"\x90\x03\x01\x01\x00\x02", b"\x04\x02\x08\x0f\x0b\x40", b"\x02\x02\x02a"
    terms = b"\x04\x05\x02\x04shopusersidname"
    sections = [
        (header, b"\x01\x02" + columns + values, b"\x04" + terms),
        (header, b"\x01" + many + columns + values, b"\x04" + terms),
        (header, b"\x01\x02" + columns + values, many + terms),
    ]
    assert len(images(both([framed(*sections[0])]))) == 1
    sizes = framed(*sections[0])
    counts = [sizes[:at] + many + sizes[at + 1 : -1] + bytes([6 + len(many)]) for at in (-8, -5, -3)]
    hostile = [*counts, *(framed(*found) for found in sections[1:])]

    assert both(hostile).batches == []


def test_messages_with_many_tables_are_read() -> None:
    names = [TableName("shop", f"t{number}") for number in range(100)]
    rows = [RowChange(replace(USERS, name=name), 400, after={"id": 1, "name": "a"}) for name in names]

    decoded = both(encoded(rows, max_batch_size=100) * 5)

    assert len(decoded.batches) == 100
    assert len(images(decoded)) == 500


def test_plans_and_dictionaries_do_not_pile_up() -> None:
    scanner = Scanner(Options(), Policy(), craft.Decoder())
    for number in range(1100):
        table = replace(USERS, name=TableName("shop", f"t{number}"))
        values = encoded([RowChange(table, 400, after={"id": 1, "name": "a"})])
        assert scanner.scan([None], values, Groups()) == []
    assert len(scanner._plans) <= 512
    assert len(scanner._dictionaries) <= 512
