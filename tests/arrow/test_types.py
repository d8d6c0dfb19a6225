"""The type mapping, and the page that publishes it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tidewire.arrow import arrow_type, engines
from tidewire.arrow.types import warning
from tidewire.model import Column, MySQLType

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "types.md"

SAMPLES = [
    "tinyint",
    "tinyint unsigned",
    "smallint",
    "smallint unsigned",
    "mediumint",
    "mediumint unsigned",
    "int",
    "int unsigned",
    "bigint",
    "bigint unsigned",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,10)",
    "decimal(39,10)",
    "decimal",
    "year",
    "bit(8)",
    "bit(63)",
    "bit(64)",
    "bit",
    "date",
    "datetime(6)",
    "timestamp(6)",
    "time(6)",
    "char(10)",
    "varchar(10)",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "binary(10)",
    "varbinary(10)",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "enum('a','b')",
    "enum",
    "set('a','b')",
    "set",
    "json",
    "vector(3)",
]


def table() -> str:
    lines = ["| MySQL | Arrow | Spark | Iceberg | Delta |", "|---|---|---|---|---|"]
    for sample in SAMPLES:
        type_ = arrow_type(Column.of("c", sample))
        names = (sample, str(type_), *engines(type_))
        lines.append("| " + " | ".join(names) + " |")
    return "\n".join(lines)


def test_the_page_shows_the_mapping() -> None:
    assert table() in PAGE.read_text(), f"put this into {PAGE.name}:\n{table()}"


@pytest.mark.parametrize("type_", MySQLType)
def test_every_mysql_type_has_a_place_everywhere(type_: MySQLType) -> None:
    for unsigned in (False, True):
        assert engines(arrow_type(Column("c", type_, unsigned=unsigned)))


def test_what_does_not_fit_a_decimal_is_text_and_said() -> None:
    column = Column.of("c", "decimal(65,30)")

    assert arrow_type(column) == pa.string()
    assert warning(column) == "decimal(65,30) has more than 38 digits and is kept as text"
    assert warning(Column.of("c", "decimal(38,0)")) is None
