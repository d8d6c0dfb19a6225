"""What a database's tables hold, asked of the database itself, against what the tables of a lake hold."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from integration.mariadb import MariaDB
from tidewire.cli.show import canonical
from tidewire.model import TableName
from tidewire.spark.snapshot import snapshot

Row: TypeAlias = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """A table: its columns in order with their types, those of its key, and its rows."""

    columns: Mapping[str, str]
    key: tuple[str, ...]
    rows: list[Row]


def upstream_tables(db: MariaDB, *databases: str) -> dict[str, Contents]:
    """All tables of some databases, by name such as ``calm.t1``."""
    connection = db.connect(conv={}, init_command="SET time_zone = '+00:00'")
    try:
        with connection.cursor() as cursor:
            return {name: _contents(cursor, name) for database in databases for name in _names(cursor, database)}
    finally:
        connection.close()


def assert_lake_equals(
    spark: SparkSession, target: Path, wanted: Mapping[str, Contents], *, besides: Iterable[str] = ()
) -> None:
    """The target has these tables and those ``besides``: names, keys, columns in order, and every row."""
    found = snapshot(spark, str(target))
    assert sorted(found) == sorted([*wanted, *besides])
    for name in wanted:
        table = found.tables[TableName(*name.split("."))]
        upstream = wanted[str(name)]
        assert [column.name for column in table.schema.columns] == list(upstream.columns), name
        assert table.schema.handle_key == upstream.key, name
        rows = canonical(found[str(name)].toArrow(), table.schema, found.time_zone)
        assert _comparable((row.values() for row in rows), upstream.columns) == upstream.rows, name


def _names(cursor: Any, database: str) -> list[str]:
    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [database])
    return [f"{database}.{name}" for (name,) in cursor.fetchall()]


def _contents(cursor: Any, name: str) -> Contents:
    cursor.execute(
        "SELECT column_name, data_type, column_key FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        name.split("."),
    )
    described = cursor.fetchall()
    columns = {column: kind for column, kind, _ in described}
    cursor.execute(
        f"SELECT {', '.join(_ASKED.get(kind, '`{}`').format(column) for column, kind in columns.items())} FROM {name}"
    )
    key = tuple(column for column, _, role in described if role == "PRI")
    return Contents(columns, key, _comparable(cursor.fetchall(), columns))


_ASKED: Mapping[str, str] = {
    "float": "CAST(`{}` AS DOUBLE)",  # as text it has six digits only
    **dict.fromkeys(("enum", "set", "bit"), "`{}` + 0"),
}


def _comparable(rows: Iterable[Iterable[Any]], columns: Mapping[str, str]) -> list[Row]:
    """Rows in an order of their own, their values in one form whoever tells them."""
    return sorted(
        (tuple(_text(value, kind) for value, kind in zip(row, columns.values(), strict=True)) for row in rows), key=str
    )


def _text(value: Any, kind: str) -> str | None:
    match value:
        case None:
            return None
        case bytes():
            return value.hex()
        case {"base64": encoded}:
            return base64.b64decode(encoded).hex()
        case {"index": index}:
            return str(index)
        case _:
            return _FORMS.get(kind, str)(value)


def _single(text: str) -> str:
    return struct.pack("f", float(text)).hex()


def _double(text: str) -> str:
    return repr(float(text))


def _without_zeros(text: str) -> str:
    """Protocols that do not tell how many digits a fraction has leave its zeros out."""
    return text.rstrip("0").rstrip(".") if "." in text else text


_FORMS: Mapping[str, Callable[[str], str]] = {
    "float": _single,
    "double": _double,
    **dict.fromkeys(("datetime", "timestamp", "time"), _without_zeros),
}
