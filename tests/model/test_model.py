"""The event model: types, tables, values and clocks."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import tables
from tidewire.model import (
    Column,
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    DdlType,
    EnumValue,
    Generated,
    Index,
    MySQLType,
    Op,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Watermark,
)
from tidewire.model.ddl import KIND_OF_TYPE, DdlKind
from tidewire.model.table import choose_handle_key, column_flags
from tidewire.model.tso import from_datetime, logical, physical_ms, to_datetime
from tidewire.model.types import parse_type
from tidewire.model.values import enum_text, set_text
from tidewire.plain.event import event_from_plain
from vector_files import files, vectors

NAME = TableName("test", "t")


@pytest.mark.parametrize(("before", "after", "op"), [(None, {}, Op.INSERT), ({}, {}, Op.UPDATE), ({}, None, Op.DELETE)])
def test_an_op_is_read_from_the_images(before: dict[str, None] | None, after: dict[str, None] | None, op: Op) -> None:
    assert RowChange(TableSchema(NAME), 1, before, after).op is op


def test_events_and_schemas_are_frozen_slotted_and_hashable() -> None:
    schema = TableSchema(NAME, (Column.of("id", "int", primary_key=True),))

    assert hash(schema) == hash(replace(schema))
    assert len({Watermark(1), Watermark(1), Watermark(2)}) == 2
    assert len({Ddl(NAME, 1, "x", 3), Ddl(NAME, 1, "x", DdlType.CREATE_TABLE)}) == 1
    with pytest.raises(FrozenInstanceError):
        schema.version = 2  # type: ignore[misc]
    assert not hasattr(schema, "__dict__")


def test_a_repr_can_be_read() -> None:
    assert repr(Watermark(7)) == "Watermark(ts=7)"
    assert repr(EnumValue(1, "a")) == "EnumValue(index=1, text='a')"
    assert repr(NAME) == "TableName(schema='test', table='t')"
    assert str(NAME) == "test.t"


@pytest.mark.parametrize(
    "text",
    [
        "tinyint(1)",
        "int(10) unsigned zerofill",
        "decimal(65,30)",
        "float(10,2)",
        "double",
        "bit(64)",
        "year(4)",
        "datetime(6)",
        "time",
        "char(1)",
        "varbinary(16)",
        "longblob",
        "mediumtext",
        "json",
        "vector(5)",
        "enum('a','it''s','x,y','new\\nline')",
        "set('a','b')",
    ],
)
def test_a_type_text_survives_being_taken_apart(text: str) -> None:
    assert Column.of("c", text).mysql_type == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal(10, 4)", (MySQLType.DECIMAL, 10, 4)),
        ("INT UNSIGNED", (MySQLType.INT, None, None)),
        ("timestamp(3)", (MySQLType.TIMESTAMP, None, 3)),
        ("boolean", (MySQLType.TINYINT, None, None)),
    ],
)
def test_type_texts_of_other_hands_are_understood(text: str, expected: tuple[MySQLType, int, int]) -> None:
    parsed = parse_type(text)

    assert (parsed.type, parsed.length, parsed.decimal) == expected


@pytest.mark.parametrize("text", ["", "no such", "int(1,2,3)", "decimal(x)", "enum('a'", "enum(a)", "int(-1)"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|invalid literal"):
        parse_type(text)


def test_every_schema_of_the_vectors_gets_its_handle_key_and_flags() -> None:
    """Two exceptions: the new server's flag of a generated key column, and views, whose columns have no type."""
    seen = 0
    for file in files("open-protocol"):
        for vector in vectors("open-protocol", file):
            for plain in vector.plain:
                if plain.get("table_schema") is None:
                    continue
                event = event_from_plain(plain)
                assert isinstance(event, Ddl)
                schema = event.table_schema
                assert schema is not None
                built = TableSchema.build(schema.name, schema.columns, schema.indexes)
                seen += 1
                assert built.handle_key == schema.handle_key
                for told, ours in zip(schema.columns, built.columns, strict=True):
                    assert told.flags is not None
                    assert ours.flags is not None
                    if told.generated and told.handle_key:
                        assert ours.flags & ~ColumnFlag.HANDLE_KEY == told.flags & ~ColumnFlag.HANDLE_KEY
                    elif told.type is not MySQLType.UNSPECIFIED:
                        assert ours.flags == told.flags, (schema.name, told.name)
    assert seen > 150


def test_the_smallest_not_null_unique_index_is_the_handle_key() -> None:
    columns = [Column.of(name, "int", nullable=name == "d") for name in "abcd"]
    indexes = [
        Index("ab", ("a", "b"), unique=True),
        Index("d", ("d",), unique=True, nullable=True),
        Index("c", ("c",), unique=True),
        Index("b", ("b",), unique=True),
    ]

    assert choose_handle_key(columns, indexes) == ("c",)
    assert choose_handle_key(columns, indexes[:2]) == ("a", "b")
    assert choose_handle_key(columns, indexes[1:2]) == ()


def test_a_virtual_column_identifies_no_row() -> None:
    plain = Column.of("b", "int", nullable=False)
    virtual = replace(Column.of("v", "int", nullable=False), generated=Generated.VIRTUAL)
    indexes = (Index("by_v", ("v",), unique=True), Index("by_b", ("b",), unique=True))

    assert choose_handle_key((plain, virtual), indexes) == ("b",)


def test_flags_of_the_fact_sheet() -> None:
    """``unique(b,c)`` and ``key(c,d)`` over five columns."""
    columns = [
        Column.of("a", "int", primary_key=True),
        Column.of("b", "int", nullable=False),
        Column.of("c", "int"),
        Column.of("d", "int unsigned"),
        Column.of("e", "blob"),
    ]
    indexes = [Index("bc", ("b", "c"), unique=True), Index("cd", ("c", "d"))]

    assert [int(column_flags(column, indexes)) for column in columns] == [11, 49, 113, 225, 65]


@given(tables())
def test_a_key_column_is_a_column(table: tuple[TableSchema, object]) -> None:
    schema, _ = table

    assert set(schema.handle_key) <= {column.name for column in schema.columns}
    assert schema.column(schema.columns[0].name) is schema.columns[0]
    with pytest.raises(KeyError):
        schema.column("no such column, its name is too long")


def test_the_documents_ddl_codes_are_all_there() -> None:
    assert [DdlType(code).value for code in range(1, 37)] == list(range(1, 37))
    assert DdlType.MULTI_SCHEMA_CHANGE.value == 61
    assert KIND_OF_TYPE[DdlType.ADD_PRIMARY_KEY] is DdlKind.CINDEX
    assert KIND_OF_TYPE.get(DdlType.EXCHANGE_TABLE_PARTITION) is None


def test_a_tso_is_a_clock_and_a_counter() -> None:
    tso = 429918007904436226

    assert physical_ms(tso) == 1640007049196
    assert from_datetime(to_datetime(tso), logical(tso)) == tso
    with pytest.raises(ValueError, match="time zone"):
        from_datetime(datetime(2026, 1, 1))


@given(st.datetimes(min_value=datetime(1971, 1, 1), timezones=st.just(timezone.utc)))
def test_a_moment_becomes_a_tso_to_the_millisecond(moment: datetime) -> None:
    assert abs(to_datetime(from_datetime(moment)) - moment) < timedelta(milliseconds=1)


def test_dates_and_times_say_what_python_can_say() -> None:
    assert Date("2024-02-29").to_date() == date(2024, 2, 29)
    assert Date("0000-00-00").to_date() is None
    assert Date("2024-00-15").is_zero
    assert DateTime("2024-02-29 01:02:03.5").to_datetime() == datetime(2024, 2, 29, 1, 2, 3, 500_000)
    assert Timestamp("0000-00-00 00:00:00").to_datetime() is None
    assert Time("-838:59:59.000001").to_timedelta() == -timedelta(hours=838, minutes=59, seconds=59, microseconds=1)
    with pytest.raises(ValueError, match="not a MySQL TIME"):
        Time("noon").to_timedelta()
    with pytest.raises(ValueError, match="day"):
        Date("2023-02-29").to_date()


def test_a_zone_and_a_name_are_remarks_not_values() -> None:
    assert Timestamp("2024-01-01 00:00:00", "UTC") == Timestamp("2024-01-01 00:00:00")
    assert EnumValue(1, "a") == EnumValue(1)
    assert len({SetValue(1), EnumValue(1)}) == 2
    assert DateTime("x") != Timestamp("x")


def test_names_behind_numbers() -> None:
    assert enum_text(0, ("a",)) == ""
    assert enum_text(2, ("a",)) is None
    assert set_text(5, ("a", "b", "c")) == "a,c"
    assert set_text(8, ("a", "b", "c")) is None
    assert str(Decimal("1.10")) == "1.10"
