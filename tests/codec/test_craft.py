"""Craft: the server's bytes but for its broken FLOATs, the document's examples, and messages that lie."""

from __future__ import annotations

import hashlib
import pickle
import random
import runpy
import struct
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import DDLS, WATERMARKS, streams
from tidewire.codec import Field, Options, open_protocol
from tidewire.codec.craft import Decoder, Encoder, chunks, decode, encode, inspect
from tidewire.codec.craft.varint import Cursor, reversed_uvarint, trailing_uvarint, uvarint, varint
from tidewire.errors import DecodeError, EncodeError, OptionError
from tidewire.model import (
    Bootstrap,
    Column,
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    DdlType,
    EnumValue,
    Event,
    Message,
    MySQLType,
    Op,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from vector_files import Vector, files, vectors

FILES = files("craft")
FLAG = ColumnFlag


def value_of(message: Message) -> bytes:
    assert message.key is None
    assert message.value is not None
    return message.value


def decoded(data: bytes) -> list[Event]:
    return list(decode(Message(None, data)))


def refusal(data: bytes | None) -> DecodeError:
    with pytest.raises(DecodeError) as found:
        list(decode(Message(None, data)))
    assert found.value.protocol == "craft"
    return found.value


def steps(file: str) -> Iterator[list[Vector]]:
    """The lines one encoder of the server wrote: all messages of a batch, or a single row."""
    batched = ".batch" in file
    for _, lines in groupby(vectors("craft", file), lambda line: line.id.rpartition("/")[0] if batched else line.id):
        yield list(lines)


# --- the server's scratch space, in which FLOATs are overwritten (docs/protocols/craft.md) ---


class Arena:
    """The 64 bytes a server's encoder puts its numbers into. A FLOAT reserves four and writes eight."""

    RESERVED = {MySQLType.FLOAT: 4, MySQLType.DOUBLE: 8} | dict.fromkeys(
        (
            *(MySQLType.TINYINT, MySQLType.SMALLINT, MySQLType.MEDIUMINT, MySQLType.INT, MySQLType.BIGINT),
            *(MySQLType.YEAR, MySQLType.BIT, MySQLType.ENUM, MySQLType.SET),
        ),
        10,
    )

    def __init__(self) -> None:
        self.room = bytearray(64)
        self.at = 0

    def place(self, type_: MySQLType, data: bytes) -> memoryview:
        """Where the value is now; what is there may change."""
        reserved = self.RESERVED[type_]
        if 64 - self.at < reserved:
            self.room, self.at = bytearray(64), 0
        start = self.at
        self.at += reserved
        if 64 - start < len(data):
            return memoryview(data)
        self.room[start : start + len(data)] = data
        return memoryview(self.room)[start : start + len(data)]


def corrupted(message: Message, types: dict[str, MySQLType], arena: Arena) -> bytes:
    """Our message as the server would have sent it."""
    data = bytearray(value_of(message))
    placed = []
    for field in inspect(message):
        if field.name.endswith(" value"):
            column = field.name.removesuffix(" value").partition(".")[2]
            if types[column] in Arena.RESERVED:
                placed.append((field.offset, arena.place(types[column], field.data)))
    for offset, now in placed:
        data[offset : offset + len(now)] = now
    return bytes(data)


def column_types(lines: Iterable[Vector]) -> dict[str, MySQLType]:
    rows = (event for line in lines for event in line.plain if event["kind"] == "row")
    return {column["name"]: MySQLType(column["type_code"]) for row in rows for column in row["columns"]}


def test_events_make_the_servers_bytes() -> None:
    lines = untouched = 0
    for file in FILES:
        for step in steps(file):
            events = [event for line in step for event in line.events]

            messages = list(Encoder(step[0].options).encode(events))

            assert len(messages) == len(step), step[0].id
            arena, types = Arena(), column_types(step)
            for message, line in zip(messages, step, strict=True):
                assert corrupted(message, types, arena) == value_of(line.message), line.id
                lines += 1
                untouched += message == line.message
    # In the other 82 messages the server destroyed a FLOAT.
    assert (lines, untouched) == (1494, 1412)


def on_the_wire(event: Event, options: Options) -> Event:
    """What a message says of an event: no virtual column, and of a delete perhaps the key only."""
    if not isinstance(event, RowChange):
        return event
    key_only = event.op is Op.DELETE and options.delete_only_output_handle_key_columns
    sent = {
        column.name
        for column in event.table.columns
        if column.generated != "virtual" and (not key_only or FLAG.HANDLE_KEY in column.effective_flags)
    }
    rows = [
        None if row is None else {name: value for name, value in row.items() if name in sent}
        for row in (event.before, event.after)
    ]
    return replace(event, before=rows[0], after=rows[1])


def facts(event: Event, options: Options, *, floats: bool = True) -> Any:
    match on_the_wire(event, options):
        case RowChange() as row:
            images = [
                None
                if image is None
                else {
                    column.name: (column.type, column.effective_flags, column.unsigned, image[column.name])
                    for column in row.table.columns
                    if column.name in image and (floats or column.type is not MySQLType.FLOAT)
                }
                for image in (row.before, row.after)
            ]
            return (row.op, row.table.name, row.commit_ts, row.partition_id, images)
        case Ddl() as ddl:
            return (ddl.table, ddl.commit_ts, ddl.query, ddl.type)
        case Watermark(ts):
            return ts
    raise AssertionError(event)


def test_the_servers_bytes_mean_their_events() -> None:
    lines = 0
    for file in FILES:
        for line in vectors("craft", file):
            got = list(Decoder(line.options).decode(line.message))

            want = [facts(event, line.options, floats=False) for event in line.events]
            assert [facts(event, Options(), floats=False) for event in got] == want, line.id
            lines += 1
    assert lines == 1494


def test_our_bytes_mean_their_events_with_every_float() -> None:
    for file in FILES:
        for step in steps(file):
            events = [event for line in step for event in line.events]
            options = step[0].options

            messages = Encoder(options).encode(events)

            got = [facts(event, Options()) for message in messages for event in Decoder().decode(message)]
            assert got == [facts(event, options) for event in events], step[0].id


def test_columns_are_described_by_their_flags() -> None:
    for line in vectors("craft", "types.default.tiflow"):
        for want, got in zip(line.events, Decoder().decode(line.message), strict=True):
            if isinstance(want, RowChange) and isinstance(got, RowChange):
                for column in got.table.columns:
                    told = want.table.column(column.name)
                    assert (column.nullable, column.primary_key) == (told.nullable, told.primary_key), line.id
                    assert column.handle_key == (FLAG.HANDLE_KEY in told.effective_flags), line.id
                    assert column.base_type == told.base_type, line.id


# --- the document's examples ---

T1 = TableSchema(
    TableName("test", "t1"),
    (
        Column("id", MySQLType.INT, flags=FLAG(0x0B), handle_key=True, primary_key=True, nullable=False),
        Column("val", MySQLType.VARCHAR, flags=FLAG(0x40), nullable=True),
    ),
)
CREATE = "CREATE TABLE test.t1(id int primary key, val varchar(16))"
EXAMPLES: list[tuple[list[Event], dict[str, Any], str]] = [
    (
        [RowChange(T1, 415508878783938562, after={"id": 1, "val": "aa"})],
        {},
        """01 8280c087fbe38be205 01 01 00 02 01020402030f0b400204026161
        04 04020203 74657374 7431 6964 76616c 021a06 011a 011a 07""",
    ),
    (
        [
            RowChange(T1, 415508878783938562, after={"id": 2, "val": "bb"}),
            RowChange(T1, 415508881418485761, before={"id": 3, "val": None}, after={"id": 3, "val": "dd"}),
        ],
        {},
        """01 8280c087fbe38be205 ffff9fe809 0101 0100 0000 0200
        01020402030f0b400204046262 01020402030f0b400204066464 02020402030f0b40020106
        0404020203746573747431696476616c 022c0b 021a16 011a 021a03 0b""",
    ),
    (
        [Ddl(TableName("test", "t1"), 415508856908021766, CREATE, DdlType.CREATE_TABLE)],
        {},
        f"01 8680a0c8a9e38be205 02 01 00 02 03 39 {CREATE.encode().hex()} 02 0402 74657374 7431 021a07 0176 05",
    ),
    (
        [Ddl(TableName("test", ""), 415508856908021766, "CREATE DATABASE test", DdlType.CREATE_SCHEMA)],
        {},
        """01 8680a0c8a9e38be205 02 01 00 01 01 14 4352454154452044415441424153452074657374 01 04 74657374
        021a0d 012c 05""",
    ),
    (
        [Ddl(TableName("", ""), 415508856908021766, "", 0)],
        {},
        "01 8680a0c8a9e38be205 02 01 01 01 00 00 021a19 0104 05",
    ),
    (
        [Ddl(TableName("a", "b"), 424316555979653121, "create table a", 1)],
        {},
        """01 8180f0bb8db5def105 02 01 00 02 01 0e 6372656174652074 61626c652061 02 0101 61 62
        021a0f 0120 05""",
    ),
    ([Watermark(424316592563683329)], {}, "01 8180c0e095b6def105 03 01 01 01 021a19 0100 05"),
    (
        [RowChange(T1, 415508881418485761, before={"id": 1, "val": "aa"})],
        {"delete_only_output_handle_key_columns": True},
        """01 8180e0ef84e48be205 01 01 00 02 02 01 04 03 0b 02 02 03 04 02 02 74657374 7431 6964
        021a01 010e 010e 07""",
    ),
]


def test_the_worked_examples_hold_both_ways() -> None:
    for events, options, text in EXAMPLES:
        data = bytes.fromhex(text)

        (message,) = encode(events, **options)

        assert value_of(message).hex() == data.hex()
        got = decoded(data)
        assert [facts(event, Options()) for event in got] == [facts(event, Options(**options)) for event in events]


def test_watermarks_and_ddl_differ_in_their_numbers_only() -> None:
    for ts, head in (
        (424316594097225729, "8180e0bb9bb6def105"),
        (424316594214141953, "8180c0f39bb6def105"),
        (424316594345213953, "818080b29cb6def105"),
    ):
        (message,) = encode([Watermark(ts)])
        assert value_of(message).hex() == f"01{head}03010101021a19010005"
    for ts, code, head in (
        (424316583965360129, 1, "8180c0dcf5b5def105"),
        (424316586087940097, 2, "8180d0d0fdb5def105"),
        (424316588736118785, 3, "8180b0bf87b6def105"),
    ):
        query = f"create table {'abc'[code - 1]}"
        (message,) = encode([Ddl(TableName("a", "b"), ts, query, code)])
        body = f"{code:02x}0e{query.encode().hex()}"
        assert value_of(message).hex() == f"01{head}02010002{body}0201016162021a0f012005"


def test_the_documents_event_stream_passes_through() -> None:
    """The ``Examples of the Event stream output``, told there in Open Protocol."""
    insert = [RowChange(T1, 415508878783938562, after={"id": n, "val": val}) for n, val in ((1, "aa"), (2, "bb"))]
    third = RowChange(T1, 415508878783938562, after={"id": 3, "val": "cc"})
    stream: list[Event] = [
        Ddl(TableName("test", "t1"), 415508856908021766, CREATE, DdlType.CREATE_TABLE),
        Watermark(415508856908021766),
        *insert,
        *(third, third),
        RowChange(T1, 415508881418485761, before={"id": 1, "val": "aa"}),
        RowChange(T1, 415508881418485761, before={"id": 2, "val": "bb"}),
        RowChange(T1, 415508881418485761, before={"id": 3, "val": "cc"}, after={"id": 3, "val": "dd"}),
        RowChange(T1, 415508881418485761, after={"id": 4, "val": "ee"}),
        Watermark(415508881038376963),
    ]

    messages = list(encode(stream))

    assert len(messages) == 4  # DDL, watermark, all rows, watermark
    got = [facts(event, Options()) for message in messages for event in decode(message)]
    assert got == [facts(event, Options()) for event in stream]


def test_the_documents_flags_read_as_it_says() -> None:
    assert FLAG(85) == FLAG.NULLABLE | FLAG.UNIQUE_KEY | FLAG.GENERATED | FLAG.BINARY
    assert FLAG(46) == FLAG.MULTIPLE_KEY | FLAG.PRIMARY_KEY | FLAG.GENERATED | FLAG.HANDLE_KEY


# --- single values ---

SINGLE: list[tuple[MySQLType, int, Value, str]] = [
    (MySQLType.TINYINT, 0x41, -128, "01 41 04 ff01"),
    (MySQLType.TINYINT, 0x41, 127, "01 41 04 fe01"),
    (MySQLType.TINYINT, 0xC1, 255, "01 c101 04 ff01"),
    (MySQLType.SMALLINT, 0x41, -32768, "02 41 06 ffff03"),
    (MySQLType.SMALLINT, 0xC1, 65535, "02 c101 06 ffff03"),
    (MySQLType.MEDIUMINT, 0x41, -8388608, "09 41 08 ffffff07"),
    (MySQLType.MEDIUMINT, 0xC1, 16777215, "09 c101 08 ffffff07"),
    (MySQLType.INT, 0x41, 2147483647, "03 41 0a feffffff0f"),
    (MySQLType.INT, 0xC1, 4294967295, "03 c101 0a ffffffff0f"),
    (MySQLType.BIGINT, 0x41, 2**63 - 1, "08 41 14 feffffffffffffffff01"),
    (MySQLType.BIGINT, 0x41, -(2**63), "08 41 14 ffffffffffffffffff01"),
    (MySQLType.BIGINT, 0xC1, 2**64 - 1, "08 c101 14 ffffffffffffffffff01"),
    (MySQLType.FLOAT, 0x41, 3.140000104904175, "04 41 10 00000060b81e0940"),
    (MySQLType.DOUBLE, 0x41, 2.71, "05 41 10 ae47e17a14ae0540"),
    (MySQLType.DECIMAL, 0x41, Decimal("2333.654321"), "f601 41 16" + b"2333.654321".hex()),
    (MySQLType.BIT, 0xC1, 65, "10 c101 02 41"),
    (MySQLType.ENUM, 0x40, EnumValue(1), "f701 40 02 01"),
    (MySQLType.SET, 0x40, SetValue(3), "f801 40 02 03"),
    (MySQLType.YEAR, 0xC1, 2021, "0d c101 04 ca1f"),
    (MySQLType.DATE, 0x41, Date("2020-02-20"), "0a 41 14" + b"2020-02-20".hex()),
    (MySQLType.TIME, 0x41, Time("02:20:20"), "0b 41 10" + b"02:20:20".hex()),
    (MySQLType.DATETIME, 0x41, DateTime("2015-12-20 23:58:58"), "0c 41 26" + b"2015-12-20 23:58:58".hex()),
    (
        MySQLType.TIMESTAMP,
        0x41,
        Timestamp("2024-03-11 08:51:01.461270"),
        "07 41 34" + b"2024-03-11 08:51:01.461270".hex(),
    ),
    (MySQLType.JSON, 0x41, '{"key1": "value1"}', "f501 41 24" + b'{"key1": "value1"}'.hex()),
    (MySQLType.VARCHAR, 0x40, "", "0f 40 00"),
    (MySQLType.VARCHAR, 0x40, "测试", "0f 40 0c e6b58be8af95"),
    (MySQLType.VARCHAR, 0x40, b"\xff\xfe", "0f 40 04 fffe"),
    (MySQLType.BLOB, 0x41, b"\xff\x00", "fc01 41 04 ff00"),
    (MySQLType.CHAR, 0x41, b"ab", "fe01 41 04 6162"),
    (MySQLType.VECTOR, 0x41, "[1,2,3,4,5]", "e101 41 16" + b"[1,2,3,4,5]".hex()),
    *((type_, 0x41, None, uvarint(type_).hex() + "41 01") for type_ in MySQLType),
]


def test_each_type_has_its_bytes() -> None:
    for type_, flags, value, text in SINGLE:
        column = Column("c", type_, flags=FLAG(flags))
        event = RowChange(TableSchema(TableName("s", "t"), (column,)), 1, after={"c": value})

        (message,) = encode([event])

        body = b"".join(field.data for field in inspect(message) if field.name.startswith("event 0 new"))
        assert body.hex() == "010104" + bytes.fromhex(text).hex(), (type_, value)
        ((_, after),) = images(value_of(message))
        assert after == {"c": value}
        assert type(after["c"]) is type(value)


def test_types_without_values_are_null_whatever_they_hold() -> None:
    for type_ in (MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY):
        (message,) = encode([one_column(type_, 0, "something")])

        lengths = [field.meaning for field in inspect(message) if field.name == "event 0 new.c length"]
        assert lengths == ["NULL"]
        for data in (value_of(message), message_of(Group(types=[type_], values=[b"x"]))):
            assert images(data) == [(None, {"c": None})]


def images(data: bytes) -> list[tuple[Any, Any]]:
    return [(event.before, event.after) for event in decoded(data) if isinstance(event, RowChange)]


def one_column(type_: MySQLType, flags: int, value: Any) -> RowChange:
    return RowChange(TableSchema(TableName("s", "t"), (Column("c", type_, flags=FLAG(flags)),)), 1, after={"c": value})


# --- integers and chunks ---


def test_integers_are_written_as_protobuf_writes_them() -> None:
    for number, text in {
        0: "00", 1: "01", 127: "7f", 128: "8001", 300: "ac02", 16384: "808001", 2**32 - 1: "ffffffff0f",
        2**63 - 1: "ffffffffffffffff7f", 2**64 - 1: "ffffffffffffffffff01",
    }.items():  # fmt: skip
        assert uvarint(number).hex() == text
    for number, text in {
        0: "00", -1: "01", 1: "02", -2: "03", 63: "7e", 64: "8001", -64: "7f", -65: "8101", 1000: "d00f", 2000: "a01f",
        2**31 - 1: "feffffff0f", -(2**31): "ffffffff0f", 2**63 - 1: "feffffffffffffffff01",
        -(2**63): "ffffffffffffffffff01",
    }.items():  # fmt: skip
        assert varint(number).hex() == text
        assert Cursor(varint(number), 0, 10).varint() == number
    for number, text in {
        0: "00", 127: "7f", 128: "0180", 300: "02ac", 16383: "7fff", 16384: "018080", 2**31 - 1: "07ffffffff",
    }.items():  # fmt: skip
        assert reversed_uvarint(number).hex() == text


def test_the_trailing_length_is_read_backwards() -> None:
    before = random.Random(1).randbytes(16)
    for number in [0, *(1 << bit for bit in range(63))]:
        written = reversed_uvarint(number)
        assert trailing_uvarint(before + written, 16) == (number, 16)


def test_integers_beyond_their_range_are_refused() -> None:
    for write, number in ((uvarint, -1), (uvarint, 2**64), (varint, 2**63), (varint, -(2**63) - 1)):
        with pytest.raises(ValueError, match="64-bit"):
            write(number)
    for text, reason in {
        "ffffffffffffffffff02": "more than 64 bits",
        "ffffffffffffffffffff01": "more than 64 bits",
        "8080808080808080808000": "more than 64 bits",
        "80": "truncated",
        "": "truncated",
    }.items():
        data = bytes.fromhex(text)
        with pytest.raises(DecodeError, match=reason):
            Cursor(data, 0, len(data)).uvarint()
        with pytest.raises(DecodeError, match=reason):
            trailing_uvarint(data[::-1], 0)
    assert Cursor(b"\x80\x00", 0, 2).uvarint() == 0  # longer than need be, as the reference accepts it


def test_chunks_hold_their_values_side_by_side() -> None:
    assert chunks.strings([b"a", b"b", b"c"]).hex() == "010101616263"
    assert chunks.nullable_strings([b"a", b"b", b"c"]).hex() == "020202616263"
    assert chunks.nullable_strings([None, b"", b"x"]).hex() == "01000278"
    assert chunks.delta_varints([1, 3, 6]).hex() == "020406"
    assert chunks.delta_varints([-1, -1, -1, 6]).hex() == "0100000e"
    assert chunks.delta_uvarints([5, 3]).hex() == "05feffffffffffffffff01"
    assert (
        chunks.size_table([1, 3, 5, 7, 9]) + chunks.size_table([2, 4, 6, 8, 10])
    ).hex() == "05020404040405" + "04" * 5
    commit_ts = [424316553934667777, 424316554327097345, 424316554746789889, 424316555073945601]
    assert chunks.delta_uvarints(commit_ts).hex() == "8180e0ec85b5def105808090bb01808090c8018080809c01"


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8))
def test_unsigned_differences_wrap_around(numbers: list[int]) -> None:
    data = chunks.delta_uvarints(numbers)
    assert list(chunks.read_delta_uvarints(Cursor(data, 0, len(data)), len(numbers))) == numbers


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
def test_signed_differences_wrap_around(numbers: list[int]) -> None:
    data = chunks.delta_varints(numbers)
    assert list(chunks.read_delta_varints(Cursor(data, 0, len(data)), len(numbers))) == numbers


# --- the document's benchmark ---

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "bench_craft_sizes.py"))
CASES: Sequence[Sequence[RowChange]] = BENCHMARK["CASES"]


def test_the_documents_benchmark_has_the_sizes_of_the_shipped_format() -> None:
    """The document says 300 and 993: its author measured before size tables became signed."""
    expected = [
        (301, "1403e6a146e9d0e8ac79c0970139a2ae17843a34e02f85799c2e286bd40dc5b0"),
        (997, "129060a3a50409565426a1a2237ab04248e5289a1e45893d1205826ecb992b19"),
    ]
    for events, (size, digest) in zip(CASES, expected, strict=True):
        (message,) = encode(events)

        data = value_of(message)
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)
        assert [facts(event, Options()) for event in decoded(data)] == [facts(event, Options()) for event in events]
    assert list(encode([])) == []


def test_the_documents_own_sizes_are_those_of_unsigned_size_tables() -> None:
    for events, size in zip(CASES, (300, 993), strict=True):
        data = value_of(next(encode(events)))
        meta = [13, 60] if len(events) == 1 else [40, 66]
        sizes = [meta, [216] * len(events), *([[108, 108]] * len(events))]
        tables = b"".join(map(chunks.size_table, sizes))
        assert data.endswith(tables + reversed_uvarint(len(tables)))

        unsigned = b"".join(uvarint(len(table)) + chunks.delta_uvarints(table) for table in sizes)

        assert len(data) - len(tables) + len(unsigned) == size


def test_the_documents_json_sizes_come_from_the_same_rows() -> None:
    assert [BENCHMARK["size"](open_protocol, events) for events in CASES] == [708, 2816]
    assert [line.split() for line in BENCHMARK["lines"]()][1:] == [
        ["0", "1", "301", "708", "2.35"],
        ["1", "4", "997", "2816", "2.82"],
    ]


def test_the_server_destroys_floats_that_ours_keep() -> None:
    for values, ours, theirs in (
        ({"f": 2.0, "g": 2000}, "0000000000000040", "00000000a01f0040"),
        ({"f": 2.0, "h": 3.0}, "0000000000000040", "0000000000000000"),
    ):
        types = {"f": MySQLType.FLOAT, "g": MySQLType.BIGINT, "h": MySQLType.FLOAT}
        columns = tuple(Column(name, types[name], flags=FLAG(0x41)) for name in values)
        (message,) = encode([RowChange(TableSchema(TableName("s", "t"), columns), 1, after=values)])
        (offset,) = (field.offset for field in inspect(message) if field.name == "event 0 new.f value")

        assert value_of(message)[offset:][:8].hex() == ours
        assert corrupted(message, types, Arena())[offset:][:8].hex() == theirs


def test_todays_variant_of_the_benchmark_with_and_without_the_servers_floats() -> None:
    columns = tuple(
        Column(name, type_, flags=FLAG(flags))
        for name, type_, flags in zip(
            "abcdefgh", map(MySQLType, (15, 252, 10, 7, 12, 4, 8, 3)), (0x0A, 0x40, *[0x41] * 6), strict=True
        )
    )
    moment = "2021-01-02 00:00:00"
    values = ("varchar1", "string1", Date("2021-01-02"), Timestamp(moment), DateTime(moment), 2.0, 2000, None)
    row = dict(zip("abcdefgh", values, strict=True))
    event = RowChange(TableSchema(TableName("test", "t"), columns), 424316552636792833, before=row, after=row)
    types = {column.name: column.type for column in columns}
    for count, size, right, wrong in (
        (
            1,
            265,
            "ead9c2f1832c4c5a80b8e8e0d753ce18e015a27e7d4b08613dea4a5c67d7613d",
            "33e15cf7fcfc2960f420e46328353370e401638ff440edbdcd0f1ed8c9393650",
        ),
        (
            4,
            943,
            "c9445819499cba3dddad2420c7346eae9b27ba50c1074aac7954b5375dac7db6",
            "2e7af8d0179a7c0c09194788ae8ca26fb83289c8ed8311dc16eb9857250934e3",
        ),
    ):
        (message,) = encode([event] * count, max_message_bytes=8192, max_batch_size=64)
        data = value_of(message)
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, right)
        assert hashlib.sha256(corrupted(message, types, Arena())).hexdigest() == wrong


# --- batches ---


def row(n: int = 0, **changes: Any) -> RowChange:
    column = Column("a", MySQLType.VARCHAR, flags=FLAG(0x0A), handle_key=True, primary_key=True, nullable=False)
    event = RowChange(TableSchema(TableName("test", "t"), (column,)), 424316552636792833 + n, after={"a": "aa"})
    return replace(event, **changes)


def counts(messages: Iterable[Message]) -> list[int]:
    return [len(list(decode(message))) for message in messages]


def test_a_message_is_closed_after_the_row_that_crosses_the_limit() -> None:
    messages = list(encode([row(n) for n in range(1000)], max_message_bytes=256))

    assert counts(messages) == [5] * 200
    assert all(len(value_of(message)) + 36 <= 256 for message in messages)


def test_a_message_holds_no_more_rows_than_max_batch_size() -> None:
    assert counts(encode([row(n) for n in range(1000)], max_batch_size=64)) == [64] * 15 + [40]
    assert counts(encode([row(n) for n in range(5)], max_batch_size=2)) == [2, 2, 1]
    assert counts(encode([row(n) for n in range(17)])) == [16, 1]
    assert counts(encode([row()], max_message_bytes=1)) == [1]  # there is no "too large"


def test_rows_are_sent_before_a_ddl_or_watermark_overtakes_them() -> None:
    stream: list[Event] = [row(), row(), Watermark(1), row(), Ddl(TableName("s", ""), 2, "q", 1), row()]

    kinds = [[type(event) for event in decode(message)] for message in encode(stream)]

    assert kinds == [[RowChange] * 2, [Watermark], [RowChange], [Ddl], [RowChange]]


def test_commit_ts_may_go_back_within_a_message() -> None:
    events = [row(commit_ts=ts) for ts in (5, 3, 2**64 - 1, 0)]

    (message,) = encode(events)

    got = [event.commit_ts for event in decode(message) if isinstance(event, RowChange)]
    assert got == [5, 3, 2**64 - 1, 0]


def test_one_name_has_one_number_whatever_it_names() -> None:
    column = Column("x", MySQLType.INT, flags=FLAG(0x41))
    event = RowChange(TableSchema(TableName("x", "x"), (column,)), 1, after={"x": 1})

    (message,) = encode([event])

    terms = [field.meaning for field in inspect(message) if field.name.startswith("term 0")]
    assert terms == ["1 byte", "x"]
    assert not any(field.name.startswith("term 1") for field in inspect(message))


# --- what the encoder refuses ---


def test_what_craft_cannot_say_is_refused() -> None:
    nameless = replace(row().table, name=TableName("", "t"))
    virtual = replace(row().table, columns=())
    for event, reason in (
        (Bootstrap(T1), "BOOTSTRAP"),
        (row(commit_ts=None), "without a commit ts"),
        (row(commit_ts=-1), "not a commit ts"),
        (row(commit_ts=2**64), "not a commit ts"),
        (row(table=nameless), "schema and table"),
        (row(table=replace(row().table, name=TableName("s", ""))), "schema and table"),
        (row(table=replace(row().table, name=TableName("s", "\ud800"))), "Unicode"),
        (row(table=virtual), "no column left of the insert of test.t"),
        (row(before={"a": "x"}, after={}), "no column left of the update of test.t"),
        (row(partitioned=True, table_id=-5), "partition"),
        (Watermark(-1), "not a commit ts"),
        (Ddl(TableName("s", "t"), None, "q", 1), "without a commit ts"),
        (Ddl(TableName("s", "t"), 1, "q", -1), "DDL type"),
        (Ddl(TableName("s", "t"), 1, "\ud800", 1), "Unicode"),
    ):
        with pytest.raises(EncodeError, match=reason):
            list(encode([event]))


def test_a_delete_without_handle_key_is_refused_if_only_that_is_wanted() -> None:
    keyless = replace(row().table, columns=(Column("a", MySQLType.VARCHAR, flags=FLAG(0x40)),))
    delete = row(table=keyless, before={"a": "x"}, after=None)

    assert counts(encode([delete])) == [1]
    with pytest.raises(EncodeError, match="no column left of the delete of"):
        list(encode([delete], delete_only_output_handle_key_columns=True))


def test_an_empty_old_image_is_left_out() -> None:
    (message,) = encode([row(before={})])

    assert images(value_of(message)) == [(None, {"a": "aa"})]


def test_values_that_do_not_fit_their_column_are_refused() -> None:
    for type_, flags, value in (
        (MySQLType.INT, 0x80, -1),
        (MySQLType.BIGINT, 0, 2**63),
        (MySQLType.BIGINT, 0x80, 2**64),
        (MySQLType.INT, 0, "1"),
        (MySQLType.INT, 0, 1.5),
        (MySQLType.FLOAT, 0, 1e300),
        (MySQLType.DOUBLE, 0, "x"),
        (MySQLType.ENUM, 0, "x"),
        (MySQLType.BIT, 0, -1),
        (MySQLType.DATE, 0, "2020-01-01"),
        (MySQLType.JSON, 0, b"{}"),
        (MySQLType.DECIMAL, 0, "1.0"),
        (MySQLType.VARCHAR, 0, 7),
        (MySQLType.VARCHAR, 0, "\ud800"),
    ):
        with pytest.raises(EncodeError, match="column c "):
            list(encode([one_column(type_, flags, value)]))


def test_options_craft_has_no_answer_to_are_refused() -> None:
    for option in ("handle-key-only", "claim-check"):
        with pytest.raises(OptionError, match="large-message-handle-option"):
            Encoder(Options.parse({"large-message-handle-option": option}))
    for name in ("max-message-bytes", "max-batch-size"):
        with pytest.raises(OptionError, match=name):
            Options.parse({name: "0"})


# --- messages that lie ---


class Group:
    """A column group put together by hand, right unless told otherwise."""

    def __init__(
        self,
        kind: int = 1,
        names: Sequence[int] = (2,),
        types: Sequence[int] = (3,),
        flags: Sequence[int] = (0,),
        values: Sequence[bytes | None] = (b"\2",),
        count: int | None = None,
        tail: bytes = b"",
    ) -> None:
        self.data = b"".join(
            (
                bytes([kind]),
                uvarint(len(names) if count is None else count),
                chunks.delta_varints(names),
                chunks.uvarints(types),
                chunks.uvarints(flags),
                chunks.nullable_strings(values),
                tail,
            )
        )


def message_of(
    *groups: Group | bytes,
    version: bytes = b"\1",
    header: bytes | None = None,
    kind: int = 1,
    terms: bytes = b"\3\1\1\1stc",
    sizes: Sequence[Sequence[int]] | None = None,
    tables: bytes | None = None,
    end: bytes | None = None,
) -> bytes:
    """A message of one event put together by hand, right unless told otherwise."""
    parts = [group.data if isinstance(group, Group) else group for group in groups]
    if header is None:
        header = b"\1" + uvarint(kind) + b"\1\0\2"
    if sizes is None:
        sizes = [[len(header), len(terms)], [sum(map(len, parts))], *([list(map(len, parts))] if kind == 1 else [])]
    if tables is None:
        tables = b"".join(map(chunks.size_table, sizes))
    return b"".join((version, header, *parts, terms, tables, reversed_uvarint(len(tables)) if end is None else end))


def test_a_message_by_hand_is_right() -> None:
    (event,) = decoded(message_of(Group()))

    assert facts(event, Options()) == (
        Op.INSERT, TableName("s", "t"), 1, None, [None, {"c": (MySQLType.INT, 0, False, 1)}],
    )  # fmt: skip


def test_every_version_but_zero_is_read() -> None:
    for version in (b"\1", b"\2", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"):
        assert len(decoded(message_of(Group(), version=version))) == 1


def test_a_partition_is_a_physical_table_id() -> None:
    for partition, table_id in ((0, 0), (77, 77), (-1, None), (-2, None)):
        (event,) = decoded(message_of(Group(), header=b"\1\1" + varint(partition) + b"\0\2"))
        assert isinstance(event, RowChange)
        assert (event.table_id, event.partitioned) == (table_id, table_id is not None)


def test_unknown_groups_are_skipped_and_later_ones_win() -> None:
    (event,) = decoded(message_of(Group(), Group(values=[b"\4"]), b"\x09?!", Group(kind=2)))

    assert isinstance(event, RowChange)
    assert (event.after, event.before) == ({"c": 2}, {"c": 1})


def test_a_key_is_ignored() -> None:
    assert len(list(decode(Message(b"k", message_of(Group()))))) == 1


LIES: list[tuple[str, bytes]] = [
    ("truncated integer", b""),
    ("version 0", message_of(Group(), version=b"\0")),
    ("an integer of more than 64 bits", message_of(Group(), version=b"\xff" * 9 + b"\2")),
    # the size tables
    ("length of the size tables: truncated", b"\1\x80\x80"),
    ("length of the size tables: an integer of more than 64 bits", b"\1" + b"\xff" * 12),
    ("99 bytes of size tables in a message of 28", message_of(Group(), end=b"\x63")),
    ("bytes of size tables in a message of", message_of(Group(), end=reversed_uvarint(2**64 - 1))),
    ("truncated integer", message_of(Group(), tables=b"")),
    ("no sizes of header and dictionary", message_of(Group(), tables=b"\0")),
    ("1 sizes of header and dictionary, 2 were expected", message_of(Group(), sizes=[[5], [14], [14]])),
    ("3 sizes of header and dictionary, 2 were expected", message_of(Group(), sizes=[[5, 7, 0], [7], [7]])),
    ("a size of -1 bytes in the sizes of header", message_of(Group(), sizes=[[5, -1], [15], [15]])),
    (f"{2**64 - 1} sizes of header and dictionary", message_of(Group(), tables=uvarint(2**64 - 1) + b"\2\2")),
    ("1000000 sizes of events, but 1 bytes are left", message_of(Group(), tables=b"\2\x0a\4" + uvarint(10**6) + b"\2")),
    ("no sizes of events", message_of(Group(), tables=b"\2\x0a\4\0")),
    (f"sizes of {2**62 + 12} bytes together, but the sections have 19", message_of(Group(), sizes=[[5, 7], [2**62]])),
    ("sizes of 20 bytes together, but the sections have 19", message_of(Group(), sizes=[[5, 8], [7], [7]])),
    ("sizes of 18 bytes together, but the sections have 19", message_of(Group(), sizes=[[5, 7], [6], [6]])),
    ("column groups of 8 bytes in an event of 7", message_of(Group(), sizes=[[5, 7], [7], [8]])),
    ("column groups of 6 bytes in an event of 7", message_of(Group(), sizes=[[5, 7], [7], [6]])),
    ("a size of -1 bytes in the sizes of column groups", message_of(Group(), sizes=[[5, 7], [7], [8, -1]])),
    ("no sizes of column groups of event 0", message_of(Group(), tables=b"\2\x0a\4\1\x0e\0")),
    ("more size tables than events", message_of(Group(), sizes=[[5, 7], [7], [7], [7]])),
    ("no size table for the column groups of event 0", message_of(Group(), sizes=[[5, 7], [7]])),
    # the header
    ("a header of 5 bytes for 2 events", message_of(Group(), sizes=[[5, 7], [7, 0], [7]])),
    ("1 bytes more than the header needs", message_of(Group(), header=b"\1\1\1\0\2\0")),
    ("truncated integer", message_of(Group(), header=b"\1\1\1\0\x80")),
    ("an integer of more than 64 bits", message_of(Group(), header=b"\xff" * 10 + b"\1\1\0\2")),
    ("4 is no event type", message_of(Group(), header=b"\1\4\1\0\2")),
    ("0 is no event type", message_of(Group(), header=b"\1\0\1\0\2")),
    ("term 3 of a dictionary of 3", message_of(Group(), header=b"\1\1\1\0\6")),
    ("term -2 of a dictionary of 3", message_of(Group(), header=b"\1\1\1\3\2")),
    # the dictionary
    ("no terms", message_of(Group(), terms=b"\0")),
    ("100 terms, but 6 bytes are left", message_of(Group(), terms=b"\x64\1\1\1stc")),
    ("a length of 4294967295 bytes, but 3 are left", message_of(Group(), terms=b"\1\xff\xff\xff\xff\x0fstc")),
    ("2 bytes more than the term dictionary needs", message_of(Group(), terms=b"\3\1\1\1stcxx")),
    ("term 2 is not UTF-8", message_of(Group(), terms=b"\3\1\1\1st\xff")),
    # a row
    ("a row with neither new nor old columns", message_of(b"\x09?!")),
    ("a length of 1 bytes, but 0 are left", message_of(Group(), b"")),
    ("no columns", message_of(Group(count=0))),
    ("1000 columns, but 5 bytes are left", message_of(Group(count=1000))),
    ("2 columns, but 5 bytes are left", message_of(Group(count=2))),
    ("term 9 of a dictionary of 3", message_of(Group(names=[9]))),
    ("term -1 of a dictionary of 3", message_of(Group(names=[-1]))),
    ("column c is there twice", message_of(Group(names=[2, 2], types=[3, 3], flags=[0, 0], values=[b"\2", b"\2"]))),
    ("column c: 17 is no column type", message_of(Group(types=[17]))),
    ("column c: 300 is no column type", message_of(Group(types=[300]))),
    ("column c: 0x100 are no column flags", message_of(Group(flags=[0x100]))),
    ("1 bytes more than the column group needs", message_of(Group(tail=b"!"))),
    ("a length of -2 bytes", message_of(b"\1\1\4\3\0" + varint(-2) + b"\2")),
    ("a length of 3 bytes, but 1 are left", message_of(b"\1\1\4\3\0" + varint(3) + b"\2")),
    ("bytes, but 1 are left", message_of(b"\1\1\4\3\0" + varint(2**63 - 1) + b"\2")),
    # its values
    ("column c (int): truncated integer", message_of(Group(values=[b""]))),
    ("column c (int): truncated integer", message_of(Group(values=[b"\x80"]))),
    ("column c (int): an integer of more than 64 bits", message_of(Group(values=[b"\xff" * 9 + b"\2"]))),
    ("column c (int): 1 bytes more than the integer needs", message_of(Group(values=[b"\2\2"]))),
    ("column c (bit): truncated integer", message_of(Group(types=[16], values=[b""]))),
    ("column c (float): 4 bytes, 8 were expected", message_of(Group(types=[4], values=[b"abcd"]))),
    ("column c (double): 9 bytes, 8 were expected", message_of(Group(types=[5], values=[b"abcdefghi"]))),
    ("column c (decimal): '1e5' is not a decimal number", message_of(Group(types=[246], values=[b"1e5"]))),
    ("column c (date): not UTF-8", message_of(Group(types=[10], values=[b"\xff"]))),
    ("column c (json): not UTF-8", message_of(Group(types=[245], values=[b"\xff"]))),
    # a DDL and a watermark
    ("a length of 9 bytes, but 1 are left", message_of(b"\1\x09q", kind=2)),
    ("1 bytes more than the DDL needs", message_of(b"\1\1qq", kind=2)),
    ("the query is not UTF-8", message_of(b"\1\1\xff", kind=2)),
    ("truncated integer", message_of(b"\1", kind=2)),
    ("1 bytes more than the watermark needs", message_of(b"!", kind=3)),
]


def test_lies_are_refused_with_their_place() -> None:
    for reason, data in LIES:
        error = refusal(data)

        assert reason in error.reason, data.hex()
        assert isinstance(error.at, int)
        assert 0 <= error.at <= len(data)
        assert f"at byte {error.at}" in str(error)
        assert pickle.loads(pickle.dumps(error)).args == error.args
    assert refusal(None).reason == "no value"


def test_a_broken_message_is_shown_as_far_as_it_can_be_read() -> None:
    for reason, data in LIES:
        fields = list(inspect(Message(None, data)))

        assert covered(fields) == data
        assert [field.name for field in fields].count("?") == 1
        assert fields[-1].name == "?"
        assert reason in fields[-1].meaning
    (*known, last) = inspect(Message(None, message_of(Group(types=[17]))))
    assert (known[-1].name, last.offset) == ("event 0 new.c name", 9)


def test_counts_are_checked_before_they_are_believed() -> None:
    huge = uvarint(2**40)
    lies = [
        message_of(Group(), terms=huge + b"\1\1stc"),
        message_of(b"\1" + huge + b"\4\3\0\2\2"),
        message_of(Group(), tables=huge + b"\2\2"),
        message_of(Group(), tables=b"\2\x0a\4" + huge),
        message_of(b"\1" + huge + b"q", kind=2),
        message_of(b"\1\1\4\x0f\0" + varint(2**40)),
    ]
    tracemalloc.start()
    try:
        for data in lies:
            refusal(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_a_value_that_is_no_number_survives_as_the_server_left_it() -> None:
    """The server can turn a FLOAT into anything, also into what no FLOAT holds."""
    for number in (1e300, float("inf")):
        data = message_of(Group(types=[4], values=[struct.pack("<d", number)]))
        assert images(data) == [(None, {"c": number})]


# --- all messages ---


def covered(fields: Iterable[Field]) -> bytes:
    data = b""
    for field in fields:
        assert field.part == "value"
        assert field.offset == len(data)
        data += field.data
    return data


def sample() -> list[Vector]:
    return [line for file in FILES for line in vectors("craft", file)[:: max(1, len(vectors("craft", file)) // 10)]]


def test_inspection_covers_every_byte() -> None:
    for file in FILES:
        for line in vectors("craft", file)[::3]:
            fields = list(inspect(line.message))
            assert covered(fields) == value_of(line.message), line.id
            assert all(field.data and field.name != "?" for field in fields), line.id


def test_inspection_says_what_each_byte_is() -> None:
    (message,) = encode([RowChange(T1, 415508878783938562, after={"id": 1, "val": None})])

    assert [(field.offset, field.data.hex(), field.name, field.meaning) for field in inspect(message)] == [
        (0, "01", "version", "1"),
        (1, "8280c087fbe38be205", "event 0 commit ts", "415508878783938562, 2020-03-24 09:03:03.740000 UTC"),
        (10, "01", "event 0 type", "ROW"),
        (11, "01", "event 0 partition", "none"),
        (12, "00", "event 0 schema", "test"),
        (13, "02", "event 0 table", "t1"),
        (14, "01", "event 0 new group", "columns NEW"),
        (15, "02", "event 0 new column count", "2"),
        (16, "04", "event 0 new.id name", "term 2"),
        (17, "02", "event 0 new.val name", "term 3"),
        (18, "03", "event 0 new.id type", "INT"),
        (19, "0f", "event 0 new.val type", "VARCHAR"),
        (20, "0b", "event 0 new.id flags", "BINARY HANDLE_KEY PRIMARY_KEY"),
        (21, "40", "event 0 new.val flags", "NULLABLE"),
        (22, "02", "event 0 new.id length", "1 byte"),
        (23, "01", "event 0 new.val length", "NULL"),
        (24, "02", "event 0 new.id value", "1"),
        (25, "04", "dictionary count", "4 terms"),
        (26, "04", "term 0 length", "4 bytes"),
        (27, "02", "term 1 length", "2 bytes"),
        (28, "02", "term 2 length", "2 bytes"),
        (29, "03", "term 3 length", "3 bytes"),
        (30, "74657374", "term 0", "test"),
        (34, "7431", "term 1", "t1"),
        (36, "6964", "term 2", "id"),
        (38, "76616c", "term 3", "val"),
        (41, "02", "size table of header and dictionary", "2 sizes"),
        (42, "1a", "size 0 of header and dictionary", "13 bytes"),
        (43, "06", "size 1 of header and dictionary", "16 bytes"),
        (44, "01", "size table of events", "1 sizes"),
        (45, "16", "size 0 of events", "11 bytes"),
        (46, "01", "size table of groups of event 0", "1 sizes"),
        (47, "16", "size 0 of groups of event 0", "11 bytes"),
        (48, "07", "length of size tables", "7 bytes, read from the end"),
    ]


def test_every_truncation_is_refused() -> None:
    for line in sample():
        data = value_of(line.message)
        for cut in range(0, len(data), 1 if len(data) < 1500 else 5):
            error = refusal(data[:cut])
            assert isinstance(error.at, int), line.id


def test_corruption_is_refused_or_decodes_and_takes_little_memory() -> None:
    chance = random.Random(20261116)
    lines = sample()
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(3000):
            data = bytearray(value_of(chance.choice(lines).message))
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            message = Message(None, bytes(data))
            try:
                list(decode(message))
            except DecodeError:
                refused += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 << 20
    assert 1000 < refused < 3000


def test_inspection_of_corrupted_messages_covers_them_and_agrees_with_the_decoder() -> None:
    chance = random.Random(7)
    lines = [line for line in sample() if len(value_of(line.message)) < 800]
    for _ in range(600):
        data = bytearray(value_of(chance.choice(lines).message))
        data[chance.randrange(len(data))] = chance.randrange(256)
        message = Message(None, bytes(data))
        try:
            reason = None if list(decode(message)) else ""
        except DecodeError as error:
            reason = error.reason

        fields = list(inspect(message))

        assert covered(fields) == data
        assert (fields[-1].meaning if fields[-1].name == "?" else None) == reason


@settings(max_examples=200, deadline=None)
@given(value=st.binary(max_size=120))
def test_any_bytes_decode_or_are_refused(value: bytes) -> None:
    for data in (value, b"\1" + value, message_of(value), message_of(Group(), terms=value), message_of(value, kind=2)):
        try:
            decoded(data)
        except DecodeError as error:
            assert str(error).startswith("craft: ")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_batch_size": 1},
        {"max_batch_size": 3},
        {"max_message_bytes": 300},
        {"delete_only_output_handle_key_columns": True},
    ],
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(options: dict[str, Any], data: st.DataObject) -> None:
    stream = data.draw(streams(st.one_of(DDLS, WATERMARKS)))

    messages = list(encode(stream, **options))

    got = [facts(event, Options()) for message in messages for event in decode(message)]
    assert got == [facts(event, Options(**options)) for event in stream]
    for message in messages:
        assert covered(inspect(message)) == message.value
