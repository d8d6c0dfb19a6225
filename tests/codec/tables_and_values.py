"""What the tests of several codecs share: a table made of columns, and values that do not fit theirs."""

from __future__ import annotations

from typing import Any

from tidewire.model import Column, Index, SetValue, TableName, TableSchema


def build(*columns: Column, indexes: tuple[Index, ...] = ()) -> TableSchema:
    """The table ``test.t``, with the index of its primary key if it has one."""
    key = tuple(column.name for column in columns if column.primary_key)
    primary = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    return TableSchema.build(TableName("test", "t"), columns, primary + indexes)


MISFITS: list[tuple[str, Any]] = [
    ("bit(64)", -1),
    ("set('a')", SetValue(2**64)),
    ("enum('a')", "a"),
    ("enum('a')", 1),
    ("float", float("nan")),
    ("float", 1e39),
    ("double", float("inf")),
    ("decimal(5,2)", 1),
]
"""Types of columns, and for each a value that is not one of it."""
