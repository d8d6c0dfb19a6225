"""Partitions against the figures of TiCDC's own unit tests."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tidewire.dispatch import Hash, Rule, partition
from tidewire.errors import OptionError
from tidewire.model import Column, DateTime, EnumValue, Index, Row, RowChange, TableName, TableSchema

WHOLE = 1 << 32
"""With so many partitions the partition is the hash itself."""

TYPES = {
    "tenant": "varchar(9)",
    "amount": "decimal(10,3)",
    "created": "datetime",
    "uid": "varbinary(9)",
    "big": "bigint unsigned",
}


def changed(name: str, row: Row, key: str = "") -> RowChange:
    columns = [Column.of(each, TYPES.get(each, "bigint"), primary_key=each in key.split()) for each in row]
    schema, table = name.split(".")
    return RowChange(TableSchema.build(TableName(schema, table), columns), 415508878783938562, after=row)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("hello,hash hello,pingcap hello,ticdc hello,tools", 0x914505A7),
        ("hello,tools hello,ticdc hello,pingcap hello,hash", 0x914505A7),
        ("ticdc,hello hello,hash hello,tools hello,pingcap", 0xF21B4F40),
        ("ticdc,hello hello,hash tools,hello hello,pingcap", 0x7CD6194A),
    ],
)
def test_writes_commute_but_their_parts_do_not(pairs: str, expected: int) -> None:
    hashed = Hash()
    for pair in pairs.split():
        first, second = pair.encode().split(b",")
        hashed.write(first, second)

    assert hashed.sum == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test.t1", 0x405C657F),
        ("test.t2", 0xD95534C5),
        ("test.t3", 0xAE520453),
        ("TEST.T1", 0x8BCA8231),
        ("simple.user", 0x2B813A1A),
    ],
)
def test_a_table_goes_by_its_name(name: str, expected: int) -> None:
    assert partition(changed(name, {"id": 1}), Rule.parse("default"), WHOLE) == expected


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("test.t1", {"a": 11}, 0x618B1AF2),
        ("test.t1", {"a": 22}, 0xD3AF188B),
        ("test.t2", {"a": 11, "b": 22}, 0x693788E5),
        ("test.t2", {"b": 22, "a": 11}, 0x693788E5),
        ("test.t2", {"a": 11, "b": 0}, 0xC849603E),
        ("test.t2", {"a": 11, "b": 33}, 0x072B8932),
        ("test.t1", {"id": 1}, 0xA854E25B),
        ("test.t1", {"id": 2}, 0x315DB3E1),
        ("test.t1", {"id": 3}, 0x465A8377),
        ("test.t1", {"id": 4}, 0xD83E16D4),
        ("simple.user", {"id": 1}, 0xC389BD3E),
        ("shop.orders", {"tenant": "a", "order_no": 10001}, 0x6CE0EA1F),
    ],
)
def test_a_row_goes_by_its_handle_key(name: str, row: Row, expected: int) -> None:
    event = changed(name, row, key=" ".join(row))

    assert partition(event, Rule.parse("index-value"), WHOLE) == expected


@pytest.mark.parametrize(
    ("name", "row", "expected"),
    [
        ("test.t1", {"col2": 11, "col1": 22}, 0xF03ED95F),
        ("test.t1", {"COL2": 11, "Col1": 22}, 0x91CD5965),
        ("shop.orders", {"amount": Decimal("12.340")}, 0x530996B0),
        ("shop.orders", {"created": DateTime("2024-01-02 03:04:05")}, 0x9191EAF4),
        ("shop.orders", {"uid": bytes.fromhex("89504E47")}, 0xB2DB8574),
        ("shop.orders", {"big": 18446744073709551615}, 0x66477E07),
        ("shop.orders", {"neg": -1}, 0x78B5F550),
        ("test.t1", {"c1": None}, 0x405C657F),
    ],
)
def test_a_row_goes_by_columns_whatever_the_case_of_their_names(name: str, row: Row, expected: int) -> None:
    rule = Rule.parse("columns:" + ",".join(row).upper())

    assert partition(changed(name, row), rule, WHOLE) == expected


def test_the_classic_server_hashes_null() -> None:
    rule = Rule(Rule.parse("columns:c1").dispatcher, columns=("c1",), hashes_null=True)

    assert partition(changed("test.t1", {"c1": None}), rule, WHOLE) == 0xE7300B4D


@pytest.mark.parametrize(("count", "expected"), [(2, 0), (3, 1), (4, 2), (6, 4), (16, 2)])
def test_a_transaction_goes_by_its_commit_ts(count: int, expected: int) -> None:
    assert partition(changed("test.t1", {"id": 1}), Rule.parse("ts"), count) == expected


def test_a_deleted_row_goes_where_it_was() -> None:
    gone = changed("test.t1", {"id": 3}, key="id")
    gone = RowChange(gone.table, 5, before=gone.after)

    assert partition(gone, Rule.parse("rowid"), WHOLE) == 0x465A8377


def test_a_named_index_counts_instead_of_the_handle_key() -> None:
    columns = [Column.of("id", "bigint", primary_key=True), Column.of("a", "bigint"), Column.of("e", "enum('x','y')")]
    indexes = [Index("U", ("a",), unique=True), Index("e", ("e",), unique=True), Index("plain", ("id",))]
    table = TableSchema.build(TableName("test", "t1"), columns, indexes)
    event = RowChange(table, 5, after={"id": 1, "a": 11, "e": EnumValue(2, "y")})
    by_number = Hash().write(b"test", b"t1").write(b"e", b"2").sum

    assert partition(event, Rule.parse("index-value:u"), WHOLE) == 0x618B1AF2
    assert partition(event, Rule.parse("index-value:E"), WHOLE) == by_number
    with pytest.raises(OptionError, match="no unique index 'plain'"):
        partition(event, Rule.parse("index-value:plain"), WHOLE)


@pytest.mark.parametrize(("type_", "value", "text"), [("float", 0.1, b"0.1"), ("double", 1e22, b"1" + b"0" * 22)])
def test_a_float_is_hashed_without_exponent(type_: str, value: float, text: bytes) -> None:
    column = Column.of("f", type_)
    event = RowChange(TableSchema.build(TableName("a", "b"), [column]), 5, after={"f": value})

    assert partition(event, Rule.parse("columns:f"), WHOLE) == Hash().write(b"a", b"b").write(b"f", text).sum


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(OptionError, match=r"test\.t1 has no column x"):
        partition(changed("test.t1", {"id": 1}), Rule.parse("columns:x"), 3)


@pytest.mark.parametrize("text", ["", "nonsense", "columns", "columns:", "table:id", "ts:id", "index-value:a,b"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OptionError):
        Rule.parse(text)
