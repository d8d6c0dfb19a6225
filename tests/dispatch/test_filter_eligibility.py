"""Which tables can be replicated, and which statements about the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidewire.dispatch import is_eligible, verify_eligible
from tidewire.dispatch.filter import passes_without_key
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Ddl, DdlType, Generated, Index, TableName, TableSchema

NAME = TableName("test", "t")
ID = Column.of("id", "bigint", primary_key=True)
A = Column.of("a", "bigint", nullable=False)
N = Column.of("n", "bigint")
UNIQUE_A, UNIQUE_N = Index("ua", ("a",), unique=True), Index("un", ("n",), unique=True, nullable=True)


def table(*columns: Column, indexes: tuple[Index, ...] = ()) -> TableSchema:
    return TableSchema.build(NAME, columns, indexes)


KEYLESS = table(A, N, indexes=(UNIQUE_N, Index("plain", ("a",))))


@pytest.mark.parametrize(
    ("schema", "eligible"),
    [
        (table(ID, N), True),
        (table(A, N, indexes=(UNIQUE_A,)), True),
        (KEYLESS, False),
        (table(A, N), False),
        (table(A, N, indexes=(Index("an", ("a", "n"), unique=True, nullable=True),)), False),
        (table(replace(A, generated=Generated.VIRTUAL), N, indexes=(UNIQUE_A,)), False),
        (table(replace(A, generated=Generated.STORED), N, indexes=(UNIQUE_A,)), True),
    ],
)
def test_a_table_needs_a_key_over_columns_that_are_there(schema: TableSchema, eligible: bool) -> None:
    assert is_eligible(schema) is eligible


def test_ineligible_tables_are_all_named() -> None:
    other = replace(KEYLESS, name=TableName("test", "other"))

    verify_eligible([table(ID)])
    with pytest.raises(ChangefeedError, match=r"test\.t, test\.other") as caught:
        verify_eligible([table(ID), KEYLESS, other])
    assert caught.value.code == "CDC:ErrTableIneligible"


@pytest.mark.parametrize(
    ("type_", "schema", "passes"),
    [
        (DdlType.CREATE_TABLE, KEYLESS, False),
        (DdlType.CREATE_TABLE, table(ID), True),
        (DdlType.ADD_COLUMN, KEYLESS, False),
        (DdlType.DROP_TABLE, KEYLESS, False),
        (DdlType.ADD_INDEX, KEYLESS, True),
        (DdlType.ADD_PRIMARY_KEY, table(ID), True),
        (DdlType.DROP_INDEX, KEYLESS, False),
        (DdlType.DROP_PRIMARY_KEY, KEYLESS, False),
        (DdlType.DROP_INDEX, table(ID, A), True),
        (DdlType.CREATE_SCHEMA, None, True),
        (DdlType.DROP_SCHEMA, None, True),
        (DdlType.CREATE_VIEW, KEYLESS, True),
        (DdlType.DROP_TABLE, None, True),
    ],
)
def test_statements_about_tables_without_a_key(type_: DdlType, schema: TableSchema | None, passes: bool) -> None:
    assert passes_without_key(Ddl(NAME, 9, "", type_, table_schema=schema)) is passes
    assert passes_without_key(Ddl(NAME, 9, "", type_, pre_table_schema=schema)) is passes
