"""Which tables can be replicated: those whose rows can be told apart."""

from __future__ import annotations

from collections.abc import Iterable

from tidewire.dispatch.ddl_types import SCHEMA_DDL, type_of
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, Generated, TableSchema

INELIGIBLE = "CDC:ErrTableIneligible"

_PASSES = SCHEMA_DDL | {DdlType.CREATE_VIEW, DdlType.DROP_VIEW, DdlType.ADD_INDEX, DdlType.ADD_PRIMARY_KEY}
"""Statements that are sent although the table has no key: they are not about a table, or may give it one."""


def is_eligible(table: TableSchema) -> bool:
    """Does a table have a handle key, none of whose columns is virtual?"""
    key = [column for column in table.columns if column.handle_key]
    return bool(key) and all(column.generated is not Generated.VIRTUAL for column in key)


def verify_eligible(tables: Iterable[TableSchema]) -> None:
    """Refuse tables whose rows cannot be told apart; ``CDC:ErrTableIneligible`` names all of them."""
    ineligible = [str(table.name) for table in tables if not is_eligible(table)]
    if ineligible:
        raise ChangefeedError(
            INELIGIBLE,
            f"these tables have neither a primary key nor a unique index over columns that are NOT NULL: "
            f"{', '.join(ineligible)}; leave them out by filter.rules, or set ignore-ineligible-table or "
            "force-replicate",
        )


def passes_without_key(ddl: Ddl) -> bool:
    """Is a statement sent where tables without a key are not? One that tells no schema is."""
    table = ddl.table_schema or ddl.pre_table_schema
    return table is None or not table.columns or is_eligible(table) or type_of(ddl) in _PASSES
