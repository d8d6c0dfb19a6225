"""The tables of a workload: some with a meaning, one with every type, and any number of random ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import NamedTuple

from tidewire.model import Column, Index
from tidewire.model.types import STRINGS, TEXTUAL


class Shape(NamedTuple):
    """A table that could be made. ``partitions``: into how many it is divided by a hash of its key, 0 for none."""

    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    partitions: int = 0


def column(name: str, type_: str, *, required: bool = False, default: str | None = None) -> Column:
    """A column as TiDB describes it, with its charset."""
    made = replace(Column.of(name, type_, nullable=not required), default=default)
    if made.type in TEXTUAL and made.charset is None:
        return replace(made, charset="utf8mb4", collation="utf8mb4_bin")
    return replace(made, collation="binary")


def keyed(name: str, key: Iterable[Column], others: Iterable[Column], partitions: int = 0) -> Shape:
    """A table with a primary key."""
    keys = tuple(replace(each, primary_key=True, handle_key=True, nullable=False) for each in key)
    primary = Index("PRIMARY", tuple(each.name for each in keys), unique=True, primary=True)
    return Shape(name, (*keys, *others), (primary,), partitions)


_EVERY_TYPE = (
    "tinyint",
    "smallint unsigned",
    "mediumint",
    "int",
    "bigint unsigned",
    "float",
    "double",
    "decimal(30,10)",
    "char(10)",
    "varchar(60)",
    "binary(6)",
    "varbinary(30)",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "date",
    "time(3)",
    "datetime(6)",
    "timestamp",
    "year",
    "enum('x','y','z')",
    "set('p','q','r')",
    "bit(12)",
    "json",
)
"""Every type that all protocols carry; VECTOR is not among them."""

_KEY_TYPES = ("bigint", "int unsigned", "bigint unsigned", "varchar(32)", "varbinary(16)", "datetime(6)")

_SHAPES = (
    keyed(
        "accounts",
        [column("id", "bigint")],
        [
            column("name", "varchar(40)"),
            column("balance", "decimal(20,4)", required=True, default="0.0000"),
            column("updated", "timestamp(3)"),
            column("status", "enum('new','active','closed')", default="new"),
            column("tags", "set('a','b','c','d')"),
            column("profile", "json"),
        ],
    ),
    keyed(
        "order_items",
        [column("order_id", "int"), column("line_no", "int")],
        [column("sku", "varchar(16)"), column("quantity", "smallint unsigned"), column("price", "decimal(10,2)")],
    ),
    Shape(
        "sessions",
        (
            column("token", "varchar(32)", required=True),
            column("account", "int"),
            column("payload", "varbinary(64)"),
            column("last_seen", "datetime(6)"),
        ),
        (Index("u", ("token",), unique=True),),
    ),
    keyed(
        "metrics",
        [column("id", "int")],
        [column("day", "date", required=True), column("v", "double"), column("f", "float"), column("note", "text")],
        partitions=4,
    ),
    keyed(
        "everything",
        [column("id", "int unsigned")],
        [column(f"c{number:02}", type_) for number, type_ in enumerate(_EVERY_TYPE, 1)],
    ),
)


def shape(number: int, random: Random) -> Shape:
    """The table of a number: the first ones have a meaning, the others are random."""
    return _SHAPES[number] if number < len(_SHAPES) else random_shape(f"t{number}", random)


def random_shape(name: str, random: Random) -> Shape:
    """A table of random columns with a random key."""
    keys = [column(f"k{number}", random.choice(_KEY_TYPES)) for number in range(1, random.choice((1, 1, 2)) + 1)]
    types = random.sample(_EVERY_TYPE, random.randint(2, 9))
    return keyed(name, keys, (column(f"c{number}", type_) for number, type_ in enumerate(types, 1)))


def indexable(candidate: Column) -> bool:
    """Can an index be made over the whole column?"""
    return candidate.type not in STRINGS and candidate.base_type not in ("json", "vector")
