"""Rows in a target's tables, put there as a step of a sync puts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidewire.model import TableName
from tidewire.spark.apply.find import Search
from tidewire.spark.apply.keys import Keys
from tidewire.spark.apply.write import write_rows
from tidewire.spark.targets import CommitTag, Target
from tidewire.spark.targets.files import FileChange


def put(
    target: Target, name: TableName, tag: CommitTag, rows: Mapping[str, Sequence[Any]] | pa.Table, key: str = "id"
) -> str:
    """Write rows in place of those with the same key; the version that this makes."""
    return target.write(name, change(target, name, rows, key), tag)


def change(
    target: Target, name: TableName, rows: Mapping[str, Sequence[Any]] | pa.Table, key: str = "id"
) -> FileChange:
    """What puts rows in place of those with the same key."""
    table = target.stored(name)
    column = table.column(key)
    typed = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
    search = Search(table.files, table.access)
    found = search.find([column], Keys([typed[key].cast(column.type)]))
    added = write_rows(replace(table, key=(key,)), typed, "test")
    return FileChange(table, tuple(added), search.bitmaps(found))
