"""The document's benchmark of Craft: its sizes, and FLOATs that the server destroys."""

from __future__ import annotations

import hashlib
import runpy
from collections.abc import Sequence
from pathlib import Path

from codec.craft.craft_messages import FLAG, Arena, corrupted, decoded, facts, value_of
from tidewire.codec import Options, open_protocol
from tidewire.codec.craft import chunks, encode, inspect
from tidewire.codec.craft.varint import reversed_uvarint, uvarint
from tidewire.model import Column, Date, DateTime, MySQLType, RowChange, TableName, TableSchema, Timestamp

BENCHMARK = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "bench_craft_sizes.py"))
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
