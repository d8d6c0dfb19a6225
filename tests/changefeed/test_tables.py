"""The tables a changefeed replicates, as statements change them."""

from __future__ import annotations

from changefeed.pieces import table
from tidewire.changefeed.tables import Tables
from tidewire.model import Ddl, DdlType, TableName


def renamed(old: str, new: str) -> Ddl:
    after = table(new)
    return Ddl(after.name, 10, "RENAME …", DdlType.RENAME_TABLES, table_schema=after, old_name=TableName("test", old))


def names(tables: Tables) -> set[str]:
    return {name.table for name in tables}


def test_tables_can_change_names_with_each_other() -> None:
    tables = Tables([table("a"), table("b")])

    tables.follow([renamed("a", "b"), renamed("b", "a")])

    assert names(tables) == {"a", "b"}


def test_a_table_that_gets_a_name_nobody_wants_is_gone() -> None:
    tables = Tables([table("a"), table("b")])

    tables.follow([renamed("a", "tmp_a")], lambda name: not name.table.startswith("tmp"))

    assert names(tables) == {"b"}


def test_a_dropped_schema_takes_its_tables_along() -> None:
    tables = Tables([table("a"), table("b", schema="other")])

    tables.follow([Ddl(TableName("test", ""), 10, "DROP DATABASE test", DdlType.DROP_SCHEMA)])

    assert names(tables) == {"b"}
