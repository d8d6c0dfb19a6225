"""Random DDL: each kind is a function from the database to the statements it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import NamedTuple

from tidewire.ddl.quoting import quoted
from tidewire.model import Column, Ddl, DdlType, Index, MySQLType, Row, TableName, TableSchema
from tidewire.plain import value_from_plain
from tidewire.workload.database import Clock, Database, Table, built
from tidewire.workload.shapes import Shape, column, indexable, random_shape
from tidewire.workload.sql import alter_table, create_table, definition


class Kind(StrEnum):
    """What a statement does to a table."""

    ADD_COLUMN = "add-column"
    DROP_COLUMN = "drop-column"
    RENAME_COLUMN = "rename-column"
    MODIFY_COLUMN = "modify-column"
    ADD_INDEX = "add-index"
    TRUNCATE = "truncate"
    RENAME_TABLE = "rename-table"
    RECREATE = "recreate"


class Statement(NamedTuple):
    """A statement, and the tables it touched as they are afterwards: ``None`` is a table that is gone."""

    ts: int
    ddl: Ddl
    tables: Mapping[TableName, Table | None]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a statement is made in."""

    random: Random
    database: Database
    clock: Clock


def create(scene: Scene, name: TableName, shape: Shape) -> Statement:
    """Make a table."""
    ts = scene.clock.tick()
    schema = built(name, shape.columns, shape.indexes, scene.database.new_id(), ts)
    ddl = Ddl(name, ts, create_table(name, shape), DdlType.CREATE_TABLE, table_schema=schema)
    return Statement(ts, ddl, {name: Table(schema, scene.database.new_ids(shape.partitions))})


def statements(scene: Scene, kind: Kind, table: Table, *, at: int | None = None) -> Iterator[Statement]:
    """The statements that do this to a table, none where it cannot be done.

    Each must be taken into the database before the next is asked for. ``at`` is the moment of the first, where it
    shares one with the rows before it.
    """
    ticks = iter(() if at is None else (at,))
    return _KINDS[kind](scene, table, lambda: next(ticks, None) or scene.clock.tick())


Tick = Callable[[], int]


def _altered(
    table: Table,
    ts: int,
    type_: DdlType,
    change: str,
    columns: Iterable[Column],
    indexes: Iterable[Index] | None = None,
    rewrite: Callable[[Row], Row] | None = None,
) -> Statement:
    before = table.schema
    assert before.table_id is not None
    after = built(before.name, columns, before.indexes if indexes is None else indexes, before.table_id, ts)
    ddl = Ddl(before.name, ts, alter_table(before.name, change), type_, table_schema=after, pre_table_schema=before)
    rows = table.rows if rewrite is None else {key: rewrite(row) for key, row in table.rows.items()}
    return Statement(ts, ddl, {before.name: Table(after, table.physical, rows)})


def _add_column(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    random, columns = scene.random, list(table.schema.columns)
    type_, default = random.choice(_ADDED)
    new = column(scene.database.fresh("added"), type_, required=default is not None and random.random() < 0.5)
    new = replace(new, default=default)
    fill = None if default is None else value_from_plain(_plain_default(default, new), new)
    place = random.choice(("", "", " FIRST", f" AFTER {quoted(columns[0].name)}"))
    columns.insert({"": len(columns), " FIRST": 0}.get(place, 1), new)
    yield _altered(
        table,
        tick(),
        DdlType.ADD_COLUMN,
        f"ADD COLUMN {definition(new)}{place}",
        columns,
        rewrite=lambda row: {**row, new.name: fill},
    )


_ADDED: tuple[tuple[str, str | None], ...] = (
    ("int", "3"),
    ("bigint unsigned", "18446744073709551615"),
    ("varchar(20)", "it's"),
    ("decimal(8,2)", "0.50"),
    ("enum('low','high')", "high"),
    ("datetime(3)", "2026-01-02 03:04:05.000"),
    ("double", "2.5"),
    ("varchar(20)", None),
    ("json", None),
    ("blob", None),
    ("timestamp(6)", None),
)
"""Types of new columns, with a default or none."""


def _plain_default(default: str, new: Column) -> object:
    if new.type is MySQLType.ENUM:
        return {"index": new.elements.index(default) + 1, "text": default}
    return default


def _drop_column(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    free = _free_columns(table.schema)
    if len(free) < 2:
        return
    gone = scene.random.choice(free)
    yield _altered(
        table,
        tick(),
        DdlType.DROP_COLUMN,
        f"DROP COLUMN {quoted(gone.name)}",
        (each for each in table.schema.columns if each is not gone),
        rewrite=lambda row: {name: value for name, value in row.items() if name != gone.name},
    )


def _rename_column(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    free = _free_columns(table.schema)
    if not free:
        return
    old = scene.random.choice(free)
    new = scene.database.fresh("renamed")
    yield _altered(
        table,
        tick(),
        DdlType.MODIFY_COLUMN,
        f"RENAME COLUMN {quoted(old.name)} TO {quoted(new)}",
        (replace(each, name=new) if each is old else each for each in table.schema.columns),
        rewrite=lambda row: {new if name == old.name else name: value for name, value in row.items()},
    )


def _modify_column(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    wider = [(each, wide) for each in _free_columns(table.schema) if (wide := widened(each)) is not None]
    if not wider:
        return
    old, new = scene.random.choice(wider)
    yield _altered(
        table,
        tick(),
        DdlType.MODIFY_COLUMN,
        f"MODIFY COLUMN {definition(new)}",
        (new if each is old else each for each in table.schema.columns),
    )


def widened(narrow: Column) -> Column | None:
    """The column with room for more values, all present ones unchanged; ``None`` if there is no such type."""
    match narrow.type:
        case MySQLType.TINYINT | MySQLType.SMALLINT | MySQLType.MEDIUMINT | MySQLType.INT:
            return replace(narrow, type=_WIDER[narrow.type], length=None)
        case MySQLType.VARCHAR if narrow.length is not None and narrow.length < 1000:
            return replace(narrow, length=narrow.length * 2)
        case MySQLType.DECIMAL if narrow.length is not None and narrow.length < 34:
            return replace(narrow, length=narrow.length + 4)
        case MySQLType.ENUM if len(narrow.elements) < 10:
            return replace(narrow, elements=(*narrow.elements, f"more{len(narrow.elements)}"))
        case _:
            return None


_WIDER: Mapping[MySQLType, MySQLType] = {
    MySQLType.TINYINT: MySQLType.SMALLINT,
    MySQLType.SMALLINT: MySQLType.MEDIUMINT,
    MySQLType.MEDIUMINT: MySQLType.INT,
    MySQLType.INT: MySQLType.BIGINT,
}


def _add_index(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    # Indexed columns are left alone by the other kinds, so most of them stay free.
    free = _free_columns(table.schema)
    able = [each for each in free if indexable(each)]
    if not able or len(free) < 4:
        return
    over = scene.random.choice(able)
    index = Index(f"i_{over.name}", (over.name,), nullable=bool(over.nullable))
    yield _altered(
        table,
        tick(),
        DdlType.ADD_INDEX,
        f"ADD INDEX {quoted(index.name)}({quoted(over.name)})",
        table.schema.columns,
        (*table.schema.indexes, index),
    )


def _truncate(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    ts, before = tick(), table.schema
    after = replace(before, table_id=scene.database.new_id(), version=ts)
    ddl = Ddl(
        before.name,
        ts,
        f"TRUNCATE TABLE {quoted(*before.name)}",
        DdlType.TRUNCATE_TABLE,
        table_schema=after,
        pre_table_schema=before,
    )
    yield Statement(ts, ddl, {before.name: Table(after, scene.database.new_ids(len(table.physical)))})


def _rename_table(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    ts, old = tick(), table.schema.name
    stem = old.table.partition("_v")[0]
    names = (TableName(old.schema, f"{stem}_v{number}") for number in range(2, 1 << 30))
    new = next(name for name in names if name not in scene.database.tables)
    after = replace(table.schema, name=new)  # a new name is no new version
    ddl = Ddl(
        new,
        ts,
        f"RENAME TABLE {quoted(*old)} TO {quoted(*new)}",
        DdlType.RENAME_TABLE,
        table_schema=after,
        pre_table_schema=table.schema,
        old_name=old,
    )
    yield Statement(ts, ddl, {old: None, new: Table(after, table.physical, table.rows)})


def _recreate(scene: Scene, table: Table, tick: Tick) -> Iterator[Statement]:
    ts, old = tick(), table.schema
    ddl = Ddl(
        old.name,
        ts,
        f"DROP TABLE {quoted(*old.name)}",
        DdlType.DROP_TABLE,
        table_schema=old,
        pre_table_schema=old,
    )
    yield Statement(ts, ddl, {old.name: None})
    others = random_shape(old.name.table, scene.random)
    key = [replace(each, id=None) for each in old.columns if each.handle_key]
    plain = [each for each in others.columns if not each.primary_key and each.name not in old.handle_key]
    # The key stays, so that a protocol without DDL can still tell which rows are the same.
    index = min((each for each in old.indexes if each.columns == old.handle_key), key=lambda each: not each.primary)
    yield create(scene, old.name, Shape(old.name.table, (*key, *plain), (index,), len(table.physical)))


def _free_columns(schema: TableSchema) -> list[Column]:
    """The columns in no index."""
    taken = {name for index in schema.indexes for name in index.columns}
    return [each for each in schema.columns if each.name not in taken]


_KINDS: Mapping[Kind, Callable[[Scene, Table, Tick], Iterator[Statement]]] = {
    Kind.ADD_COLUMN: _add_column,
    Kind.DROP_COLUMN: _drop_column,
    Kind.RENAME_COLUMN: _rename_column,
    Kind.MODIFY_COLUMN: _modify_column,
    Kind.ADD_INDEX: _add_index,
    Kind.TRUNCATE: _truncate,
    Kind.RENAME_TABLE: _rename_table,
    Kind.RECREATE: _recreate,
}
