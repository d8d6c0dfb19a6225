"""The schemas a Simple decoder has seen, the rows that come before theirs, and what is announced of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codec.simple.simple_messages import AVRO, CREATED, DOCUMENT, JSON, ROW, USER, column, message, wire
from tidewire.codec.parking import Parking
from tidewire.codec.simple import Decoder, Encoder, SchemaCache
from tidewire.errors import SchemaUnknown
from tidewire.model import Bootstrap, Column, Ddl, DdlType, RowChange, TableName, TableSchema


def test_rows_wait_until_the_schema_of_their_own_table_comes() -> None:
    """The classic reference decoder loops without end here: two tables wait, one schema arrives."""
    parking: Parking[int] = Parking(Decoder())
    rows = [wire(), wire(table="other"), wire(data=ROW | {"id": "2"}), wire(table="other", data=ROW | {"id": "3"})]
    for number, row in enumerate(rows):
        assert list(parking.decode(row, number)) == []

    released = list(parking.decode(message(DOCUMENT["schema"]), 4))
    assert [origin for origin, _ in released] == [4, 0, 2]
    assert len(parking.parked) == 2
    assert {missing.table for _, _, missing in parking.parked} == {"simple.other"}

    released = list(parking.decode(message(DOCUMENT["schema"] | {"tableSchema": USER | {"table": "other"}}), 5))
    assert [(origin, event.after["id"]) for origin, event in released[1:]] == [(1, 1), (3, 3)]  # type: ignore[union-attr,index]
    assert parking.parked == []


def test_a_row_of_another_version_waits_too() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))

    with pytest.raises(SchemaUnknown) as missing:
        list(decoder.decode(wire(schemaVersion=7)))

    assert (missing.value.table, missing.value.version) == ("simple.user", 7)


def test_the_schema_before_a_ddl_is_remembered_as_well() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["alter"])))

    (event,) = decoder.decode(wire())
    assert isinstance(event, RowChange)
    assert len(event.table.columns) == 4


def test_the_first_schema_of_a_version_wins() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    changed = USER | {"columns": [column("id", "bigint", 20)]}
    list(decoder.decode(message(DOCUMENT["schema"] | {"tableSchema": changed})))

    (event,) = decoder.decode(wire())
    assert isinstance(event, RowChange)
    assert event.table.column("id").base_type == "int"


def test_after_truncate_the_rows_have_the_new_id_and_no_partition() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    truncate = DOCUMENT["alter"] | {"type": "TRUNCATE", "tableSchema": USER | {"tableID": 150}}
    (ddl,) = decoder.decode(message(truncate))
    assert isinstance(ddl, Ddl)
    assert ddl.type == DdlType.TRUNCATE_TABLE

    events = [decoder.decode(wire(tableID=number))[0] for number in (148, 150, 151, ...)]
    assert [event.partitioned for event in events if isinstance(event, RowChange)] == [False, False, True, False]
    assert isinstance(events[1], RowChange)
    assert events[1].table.table_id == 150


def test_the_memory_of_schemas_is_bounded() -> None:
    schemas = SchemaCache(size=4)
    for number in range(10):
        schemas.add(replace(CREATED.table_schema, version=number))

    name = CREATED.table_schema.name
    assert len(schemas) == 4
    assert schemas.find(name, 0, 110) is None
    assert schemas.find(name, 9, 110) is not None


def test_decoders_can_share_their_memory() -> None:
    first = Decoder()
    list(first.decode(message(DOCUMENT["schema"])))

    assert list(Decoder(schemas=first.schemas).decode(wire()))


def test_a_table_that_other_protocols_tell_little_of_can_be_announced() -> None:
    """No lengths, no charsets, no indexes: TiDB's defaults stand in, and the key is kept."""
    columns = tuple(
        replace(Column.of(name, sql_type), handle_key=name == "id", length=None, nullable=None, charset=None)
        for name, sql_type in (("id", "int"), ("u", "int unsigned"), ("d", "datetime(3)"), ("t", "varchar(9)"))
    )
    for options in (JSON, AVRO):
        (sent,) = Encoder(options).encode([Bootstrap(TableSchema(TableName("a", "b"), columns, version=1))])
        (got,) = Decoder(options).decode(sent)
        assert isinstance(got, Bootstrap)
        told_of = got.table_schema
        assert told_of.handle_key == ("id",)
        assert [(c.base_type, c.length, c.decimal, c.charset) for c in told_of.columns] == [
            ("int", 11, 0, "binary"),
            ("int", 10, 0, "binary"),
            ("datetime", 23, 3, "binary"),
            ("varchar", None, 0, "utf8mb4"),
        ]
