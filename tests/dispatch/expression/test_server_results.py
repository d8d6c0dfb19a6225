"""Expressions against what a MySQL-compatible server says they come to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tidewire.dispatch import Expression
from tidewire.dispatch.expression.values import text_of
from tidewire.model import Column, Date, DateTime, EnumValue, Row, SetValue, TableName, TableSchema, Time

COLLATIONS = {"s": "utf8mb4_bin", "c": "utf8mb4_general_ci", "e": "utf8mb4_bin", "st": "utf8mb4_bin"}
TYPES = {
    "id": "int",
    "big": "bigint",
    "u": "bigint unsigned",
    "m": "decimal(10,3)",
    "f": "double",
    "s": "varchar(20)",
    "c": "varchar(20)",
    "b": "varbinary(20)",
    "e": "enum('x','y','z')",
    "st": "set('p','q')",
    "d": "date",
    "dt": "datetime",
    "t": "time",
    "y": "year",
    "n": "int",
}
TABLE = TableSchema.build(
    TableName("shop", "t"),
    [replace(Column.of(name, type_), collation=COLLATIONS.get(name)) for name, type_ in TYPES.items()],
)
ROW: Row = {
    "id": 6,
    "big": 9007199254740993,
    "u": 18446744073709551615,
    "m": Decimal("12.340"),
    "f": 0.5,
    "s": "Abc",
    "c": "Abc",
    "b": b"Abc",
    "e": EnumValue(2),
    "st": SetValue(3),
    "d": Date("2024-01-02"),
    "dt": DateTime("2024-01-02 03:04:05"),
    "t": Time("12:34:56"),
    "y": 2024,
    "n": None,
}
FACTS = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "server_results.tsv").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("text", "expected"), FACTS)
def test_an_expression_comes_to_what_a_server_says(text: str, expected: str) -> None:
    value = Expression.parse(text).value(ROW, TABLE)

    assert ("\\N" if value is None else text_of(value).text) == expected


def test_the_results_are_many_and_different() -> None:
    assert len({text for text, _ in FACTS}) == len(FACTS) > 300
