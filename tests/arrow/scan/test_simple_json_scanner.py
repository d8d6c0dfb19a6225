"""Simple's JSON scanner knows the schemas the decoder knows, at every message, and takes only what it is sure of."""

from __future__ import annotations

import json
import lzma
import random
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topic_files
from tidewire.arrow import BatchDecoder, Decoded, Policy
from tidewire.arrow.plan import Groups
from tidewire.arrow.scan.simple_json import Scanner
from tidewire.codec import Options, Resources, simple
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.options import Compression, CorruptionHandling, IntegrityCheck
from tidewire.model import Bootstrap, Checksum, Column, Event, Message, RowChange, TableName, TableSchema, Watermark
from tidewire.plain import message_from_plain

BENCH = Path(__file__).parents[3] / "benchmarks" / "data"


def table(*columns: Column, name: str = "users", version: int = 7, table_id: int = 100) -> TableSchema:
    key = Column.of("id", "bigint", primary_key=True)
    return TableSchema.build(TableName("shop", name), (key, *columns), table_id=table_id, version=version)


USERS = table(Column.of("name", "varchar(32)"))


def bench(name: str) -> list[bytes]:
    with lzma.open(BENCH / f"{name}.jsonl.xz") as lines:
        return [b64decode(json.loads(line)["value"]) for line in lines]


def encoded(*events: Event, **options: Any) -> list[bytes]:
    return [message.value or b"" for message in simple.encode(events, **options)]


def user(number: int, name: str = "a", schema: TableSchema = USERS) -> RowChange:
    return RowChange(schema, 400 + number, after={"id": number, "name": name}, table_id=schema.table_id)


def batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": pa.array(values, pa.binary())})


def left(values: Sequence[bytes | None], **options: Any) -> list[int]:
    """The messages the scanner leaves, while the codec reads each of them in its turn."""
    chosen = Options(**options)
    decoder = simple.Decoder(chosen)
    found = []
    for pos in Scanner(chosen, Policy(), decoder).scan([None] * len(values), values, Groups()):
        found.append(pos)
        try:
            list(decoder.decode(Message(None, values[pos])))
        except ValueError:
            continue
    return found


def outcome(decoded: Decoded) -> tuple[Any, ...]:
    """Everything a batch tells, in an order of its own."""
    rows = {}
    for plan, record_batch in decoded.batches:
        for row in record_batch.to_pylist():
            rows[row["_pos"], row["_sub"]] = (plan.table, repr(row))
    controls = sorted((pos, sub, repr(event)) for pos, sub, event in decoded.controls)
    return rows, controls, [pos for pos, _ in decoded.parked], [reject.pos for reject in decoded.rejects]


def both(values: Sequence[bytes | None], **options: Any) -> Decoded:
    """What comes out, after making sure that the codec alone finds the same."""
    resources = Resources(claim_check=MemoryStore())
    fast = BatchDecoder("simple", Options(**options), resources).decode(batch(values))
    slow = BatchDecoder("simple", Options(**options), resources, fast=False).decode(batch(values))
    assert outcome(fast) == outcome(slow)
    return fast


def images(decoded: Decoded, image: str = "after") -> list[Any]:
    return [row for _, found in decoded.batches for row in found.column(image).to_pylist()]


def column(type_: str, *texts: Any) -> list[bytes]:
    """A schema, and messages whose column ``c`` holds these wire values."""
    schema = table(Column.of("c", type_))
    (bootstrap,) = encoded(Bootstrap(schema))
    (row,) = encoded(RowChange(schema, 400, after={"id": 1, "c": None}, table_id=100))
    return [bootstrap, *(row.replace(b'"c":null', b'"c":' + json.dumps(text).encode()) for text in texts)]


@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_every_row_of_the_benchmark_is_taken(width: str) -> None:
    values = bench(f"simple-json-{width}.bootstrap") + bench(f"simple-json-{width}")
    assert left(values) == [0]


def test_a_row_is_taken_from_the_message_after_its_schema_on() -> None:
    rows = encoded(user(1), user(2), user(3))
    values = [rows[0], *encoded(Bootstrap(USERS)), *rows[1:], *encoded(Watermark(500)), rows[0]]

    assert left(values) == [0, 1, 4]
    decoded = both(values)
    assert [pos for pos, _ in decoded.parked] == [0]
    assert [image["id"] for image in images(decoded)] == [2, 3, 1]


def test_schemas_are_remembered_from_batch_to_batch() -> None:
    decoder = BatchDecoder("simple")
    decoder.decode(batch(encoded(Bootstrap(USERS))))
    assert images(decoder.decode(batch(encoded(user(1))))) == [{"id": 1, "name": "a"}]


def test_each_row_is_read_with_its_schema_version() -> None:
    wider = table(Column.of("name", "varchar(32)"), Column.of("age", "int"), version=8)
    older = RowChange(wider, 500, after={"id": 9, "name": "b", "age": 3}, table_id=100)
    values = [*encoded(Bootstrap(USERS), Bootstrap(wider)), *encoded(user(1), older, user(2))]

    assert left(values) == [0, 1]
    decoded = both(values)
    assert {plan.table.version for plan, _ in decoded.batches} == {7, 8}


def test_a_schema_for_the_exact_table_id_comes_first_once_it_is_there() -> None:
    truncated = table(Column.of("name", "varbinary(32)"), table_id=101)
    plain = replace(user(1), table_id=101)
    before, (row,) = encoded(Bootstrap(USERS)), encoded(plain)
    row = row.replace(b'"name":"a"', b'"name":"YQ=="')

    decoded = both([*before, row, *encoded(Bootstrap(truncated)), row])

    assert [image["name"] for image in images(decoded)] == ["YQ==", b"a"]
    assert [found.column("_partition").to_pylist() for _, found in decoded.batches] == [[101], [None]]


def test_updates_and_deletes() -> None:
    events = [
        RowChange(USERS, 400, before={"id": 1, "name": "a"}, after={"id": 1, "name": None}, table_id=100),
        RowChange(USERS, 401, before={"id": 1}, after={"id": 1, "name": "b"}, table_id=100),
        RowChange(USERS, 402, before={"id": 1}, table_id=100, handle_key_only=True),
    ]
    values = [*encoded(Bootstrap(USERS)), *encoded(*events)]
    assert left(values) == [0]

    ((_, found),) = both(values).batches

    assert found.column("after").to_pylist() == [{"id": 1, "name": None}, {"id": 1, "name": "b"}, None]
    assert found.column("before").to_pylist()[0] == {"id": 1, "name": "a"}
    assert found.column("_absent").to_pylist() == [None, [1], [1]]
    assert found.column("_key_only").to_pylist() == [False, False, True]
    assert "before" not in BatchDecoder("simple", before=False).decode(batch(values)).batches[0][1].schema.names


ODD = {
    "a member is there twice": (b'"commitTs":', b'"commitTs":401,"commitTs":'),
    "a column is there twice": (b'"name":"a"', b'"name":"a","name":"b"'),
    "a column the table lacks": (b'"name":', b'"nane":'),
    "a member no server sends": (b'"version":1', b'"version":1,"x":{}'),
    "another version": (b'"version":1', b'"version":2'),
    "no row's type": (b'"INSERT"', b'"INSERTED"'),
    "an image too many": (b'"data":', b'"old":{},"data":'),
    "a number that is none": (b'"id":"1"', b'"id":1'),
    "minus zero": (b'"tableID":100', b'"tableID":-0'),
    "a commit ts below zero": (b'"commitTs":401', b'"commitTs":-1'),
    "an escaped backslash before the quote": (b'"name":"a"', b'"name\\\\":"a"'),
    "cut off": (b"}}", b"}"),
    "not UTF-8": (b'"a"', b'"\xff"'),
    "a claim check": (b'"data":', b'"claimCheckLocation":"file:///x","data":'),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_left_to_the_codec(name: str) -> None:
    (row,) = encoded(user(1))
    odd = row.replace(*ODD[name], 1)
    assert odd != row
    values = [*encoded(Bootstrap(USERS)), odd, row]
    if name != "a number that is none":
        assert left(values) == [0, 1]
    both(values)


def test_quotes_and_colons_in_a_text_are_no_members() -> None:
    texts = ['":', '{"a": 1, "b": {"c": ""}}', "\\", 'a\\":']
    values = [*encoded(Bootstrap(USERS)), *encoded(*(user(1 + n, text) for n, text in enumerate(texts)))]
    assert left(values) in ([0], [0, 4])  # of the last one the scanner is not sure
    assert [image["name"] for image in images(both(values))] == texts


WRONG: Mapping[str, Sequence[Any]] = {
    "int": ["12x", "+1", " 1", "1.0", "1e3", "0x1F", "", "9" * 30, "3000000000", 5, {"value": "1"}],
    "int unsigned": ["-1", "1_0"],
    "bigint unsigned": ["-1", "18446744073709551616", "+1", "1e3"],
    "float": ["nan", "inf", "1e39", "1e", ".", "1_0", "1e1000"],
    "decimal(5,2)": ["1e2", "+1", ".5", "1.", "1000", "1.234", "x"],
    "decimal(60,2)": ["1e2", "+1", "0" * 251],
    "bit(8)": ["-1", "x"],
    "varbinary(9)": ["YQ=", "Y!==", "a"],
    "enum('a','b')": ["3", "+1", " 1", "a", "-1"],
    "set('a','b')": ["4", "1_0"],
    "date": ["2024-02-3x", "x"],
    "datetime": ["2024-02-29 25:00:00"],
    "timestamp": ["x", {"location": "Nowhere/None", "value": "2024-01-01 00:00:00"}, {"location": "UTC"}],
    "time": ["x", "1:2:3"],
}


@pytest.mark.parametrize(("type_", "text"), [(type_, text) for type_, texts in WRONG.items() for text in texts])
def test_a_bad_value_rejects_its_message_and_no_other(type_: str, text: Any) -> None:
    decoded = both(column(type_, None, text, None))
    assert len(images(decoded)) == 2
    (reject,) = decoded.rejects
    assert reject.pos == 2
    assert reject.reason.startswith("column c (") or reject.at is not None


RIGHT: Mapping[str, Sequence[tuple[Any, Any]]] = {
    "int": [("007", 7), ("-0", 0)],
    "bigint unsigned": [("18446744073709551615", Decimal(18446744073709551615))],
    "float": [("1e-3", pytest.approx(0.001)), ("-2.5", -2.5)],
    "decimal(5,2)": [("-1.5", Decimal("-1.50")), ("1.230", Decimal("1.23"))],
    "decimal(60,2)": [("001.50", "1.50")],
    "bit(64)": [("18446744073709551615", Decimal(18446744073709551615))],
    "varbinary(9)": [("YQ==", b"a"), ("", b"")],
    "enum('a','b')": [("2", "b"), ("0", "")],
    "set('a','b')": [("3", "a,b")],
    "date": [("0000-00-00", None)],
    "time": [("-00:00:01", -1_000_000)],
    "timestamp": [
        ({"location": "Asia/Shanghai", "value": "2024-01-01 08:00:00"}, datetime(2024, 1, 1, tzinfo=timezone.utc)),
        ({"location": "UTC", "value": "2024-01-01 08:00:00"}, datetime(2024, 1, 1, 8, tzinfo=timezone.utc)),
        ({"location": "Local", "value": "2024-01-01 08:00:00"}, datetime(2024, 1, 1, 8, tzinfo=timezone.utc)),
        ("2024-01-01 08:00:00", datetime(2024, 1, 1, 8, tzinfo=timezone.utc)),
        ({"location": "Asia/Shanghai", "value": "0000-00-00 00:00:00"}, None),
    ],
}


@pytest.mark.parametrize("type_", RIGHT)
def test_values_of_every_kind(type_: str) -> None:
    values = column(type_, *(text for text, _ in RIGHT[type_]), None)
    assert left(values) == [0]
    assert [image["c"] for image in images(both(values))] == [*(value for _, value in RIGHT[type_]), None]


def test_one_bad_value_in_a_hundred_is_found_in_every_column() -> None:
    texts = ["12x" if number % 100 == 50 else str(number) for number in range(1000)]
    decoded = both(column("int", *texts))
    assert [reject.pos for reject in decoded.rejects] == list(range(51, 1001, 100))
    assert len(images(decoded)) == 990


CHECKED = Options(integrity_check_level=IntegrityCheck.CORRECTNESS, corruption_handle_level=CorruptionHandling.ERROR)


def test_rows_with_a_checksum_are_left_where_it_is_verified() -> None:
    wrong = replace(user(1), checksum=Checksum(0, False, 1, 0))
    writing = {"integrity_check_level": IntegrityCheck.CORRECTNESS}
    values = [*encoded(Bootstrap(USERS)), *encoded(wrong, **writing)]
    assert b'"checksum"' in values[1]

    assert left(values) == [0]
    assert left([values[0], values[1].replace(b'"previous":0', b'"previous":-0')]) == [0, 1]
    options = {
        "integrity_check_level": CHECKED.integrity_check_level,
        "corruption_handle_level": CHECKED.corruption_handle_level,
    }
    assert left(values, **options) == [0, 1]
    assert len(both(values, **options).rejects) == 1


def test_compressed_messages_are_taken() -> None:
    packed = {"large_message_handle_compression": Compression.LZ4}
    values = [*encoded(Bootstrap(USERS), user(1), **packed), b"not packed"]
    assert left(values, **packed) == [0, 2]
    both(values, **packed)


def lines() -> Iterable[bytes]:
    for line in topic_files.lines("seed11", "simple-json"):
        yield message_from_plain(line).value or b""


@pytest.mark.parametrize("seed", range(4))
def test_damaged_messages_give_what_the_codec_gives(seed: int) -> None:
    chance = random.Random(seed)
    intact = list(lines())
    schemas = [value for value in intact if b"tableSchema" in value]

    def damaged(value: bytes) -> bytes:
        changed = bytearray(value)
        place = chance.randrange(len(changed))
        changed[place : place + chance.choice((0, 1, 1))] = bytes([chance.choice(b'0123456789-+.eE"{}:,\\ nu')])
        return bytes(changed)

    both(schemas + [damaged(value) for value in chance.choices(intact, k=150)])
