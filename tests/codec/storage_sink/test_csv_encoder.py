"""CSV records, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tidewire.codec.storage_sink.csv_config import CsvConfig
from tidewire.codec.storage_sink.csv_encoder import CsvEncoder, go_float
from tidewire.errors import ChangefeedError
from tidewire.model import Column, EnumValue, Generated, RowChange, SetValue, TableName, TableSchema

TS = 435661838416609281


def change(op: str, table: str, columns: dict[str, tuple[str, Any]], before: dict[str, Any] | None = None) -> RowChange:
    schema = TableSchema(
        TableName("test", table), tuple(Column.of(name, type_) for name, (type_, _) in columns.items())
    )
    row = {name: value for name, (_, value) in columns.items()}
    if op == "D":
        return RowChange(schema, TS, before=row)
    return RowChange(schema, TS, before=before or row if op == "U" else None, after=row)


def texts(*values: Any) -> dict[str, tuple[str, Any]]:
    kinds = {int: "int", float: "double", bytes: "blob"}
    return {f"c{number}": (kinds.get(type(value), "varchar(20)"), value) for number, value in enumerate(values)}


CASES: list[tuple[CsvConfig, str, RowChange, str]] = [
    (
        CsvConfig(include_commit_ts=True),
        "\n",
        change("I", "table1", texts(123, "hello,world")),
        '"I","table1","test",435661838416609281,123,"hello,world"\n',
    ),
    (
        CsvConfig("!", "", include_commit_ts=True),
        "\n",
        change("U", "table2", texts("a!b!c", "def")),
        "U!table2!test!435661838416609281!a\\!b\\!c!def\n",
    ),
    (
        CsvConfig("!", "", include_commit_ts=True, output_old_value=True),
        "\n",
        change("U", "table2", texts("a!b!c", "def"), {"c0": "a!b!c", "c1": "abc"}),
        "D!table2!test!435661838416609281!true!a\\!b\\!c!abc\nI!table2!test!435661838416609281!true!a\\!b\\!c!def\n",
    ),
    (
        CsvConfig("!", "", include_commit_ts=True, output_old_value=True),
        "\n",
        change("I", "table2", texts("a!b!c", "def")),
        "I!table2!test!435661838416609281!false!a\\!b\\!c!def\n",
    ),
    (
        CsvConfig("[*]", ""),
        "\r\n",
        change("D", "table4", texts("a[*]b[*]c", "def")),
        "D[*]table4[*]test[*]a\\[\\*\\]b\\[\\*\\]c[*]def\r\n",
    ),
    (
        CsvConfig("[*]", "'"),
        "\n",
        change("I", "table5", texts("a[*]b[*]c", "def", None, 12345.678)),
        "'I'[*]'table5'[*]'test'[*]'a[*]b[*]c'[*]'def'[*]\\N[*]12345.678\n",
    ),
    (
        CsvConfig(",", "", include_commit_ts=True),
        "\n",
        change("U", "table6", texts("a\\b\\c", "def\n")),
        "U,table6,test,435661838416609281,a\\\\b\\\\c,def\\n\n",
    ),
    (
        CsvConfig(",", "'"),
        "\n",
        change("I", "table7", texts("\\", "\\\r", "\\\\")),
        "'I','table7','test','\\','\\\r','\\\\'\n",
    ),
    (
        CsvConfig("\t", '"', include_commit_ts=True),
        "\n",
        change("D", "table8", texts("a\tb", 123.456, "你好，世界")),
        '"D"\t"table8"\t"test"\t435661838416609281\t"a\tb"\t123.456\t"你好，世界"\n',
    ),
    (CsvConfig(), "", change("I", "t", texts('"a,b,c', "")), '"I","t","test","""a,b,c",""'),
    (CsvConfig("***", ""), "", change("I", "t", texts("abc***def")), "I***t***test***abc\\*\\*\\*def"),
]


@pytest.mark.parametrize(("config", "terminator", "row", "text"), CASES)
def test_a_change_makes_its_record(config: CsvConfig, terminator: str, row: RowChange, text: str) -> None:
    assert CsvEncoder(config, terminator).record(row).decode() == text


def test_every_type_has_its_text() -> None:
    columns = {
        "a": ("enum('a,','b')", EnumValue(1)),
        "b": ("set('a','b','c','d')", SetValue(9)),
        "c": ("bit(10)", 683),
        "d": ("year", 1970),
        "e": ("decimal(13,7)", Decimal("129012.1230000")),
        "f": ("blob", b"hello world"),
        "g": ("float", 12345.12345),
        "h": ("json", '{"a": 1}'),
        "i": ("varchar(9)", b"\xff"),
    }
    record = CsvEncoder(CsvConfig(), "").record(change("I", "t", columns))
    hexadecimal = CsvEncoder(CsvConfig(binary_encoding_method="hex"), "").record(
        change("I", "t", texts(b"hello world"))
    )

    assert record == (
        b'"I","t","test","a,","a,d",683,1970,"129012.1230000","aGVsbG8gd29ybGQ=",12345.123,"{""a"": 1}","\xff"'
    )
    assert hexadecimal == b'"I","t","test","68656c6c6f20776f726c64"'


def test_a_name_that_is_not_in_the_list_is_refused() -> None:
    for type_, value in (("enum('a')", EnumValue(0)), ("enum('a')", EnumValue(2)), ("set('a')", SetValue(2))):
        with pytest.raises(ChangefeedError) as refusal:
            CsvEncoder(CsvConfig(), "").record(change("I", "t", {"c": (type_, value)}))
        assert refusal.value.code == "CDC:ErrCSVEncodeFailed"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (-0.0, "-0"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1.5e-5, "1.5e-05"), (1e-4, "0.0001"),
     (-2.5, "-2.5"), (100.0, "100"), (1.25e300, "1.25e+300")],
)  # fmt: skip
def test_floats_are_printed_as_go_prints_them(number: float, text: str) -> None:
    assert go_float(number) == text


def test_the_header_names_what_a_record_has() -> None:
    table = TableSchema(TableName("test", "t"), (Column.of("col1", "int"), Column.of("v", "int")))
    table = replace(table, columns=(table.columns[0], replace(table.columns[1], generated=Generated.VIRTUAL)))
    head = "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema"

    def header(**config: bool) -> str:
        return CsvEncoder(CsvConfig(**config), "\n").header(table).decode()  # type: ignore[arg-type]

    assert header(output_field_header=True) == f"{head},col1\n"
    assert header(output_field_header=True, include_commit_ts=True) == f"{head},ticdc-meta$commit-ts,col1\n"
    assert header(output_field_header=True, output_old_value=True) == f"{head},ticdc-meta$is-update,col1\n"
    assert header() == ""
