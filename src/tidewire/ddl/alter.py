"""ALTER TABLE: a list of actions, each of which changes columns, names or rows, or nothing that shows in rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidewire.ddl.columns import Definition, read_column, read_default
from tidewire.ddl.edits import (
    AddColumn,
    AddIndex,
    AlterTable,
    ChangeColumn,
    ColumnEdit,
    ColumnPosition,
    ConvertText,
    DropColumn,
    DropIndex,
    Edit,
    Impossible,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetDefault,
)
from tidewire.ddl.indexes import begins_constraint, covers_all_rows, read_constraint
from tidewire.ddl.reader import Reader
from tidewire.ddl.table_builder import PRIMARY
from tidewire.ddl.tables import Element, keys_of, read_element, with_sent_charset
from tidewire.ddl.types import read_charset, sized
from tidewire.model import Generated, Index, TableName, TableSchema


@dataclass(slots=True)
class _Alter:
    """An ALTER TABLE as far as it has been read; ``schema`` is the table a protocol sends along."""

    reader: Reader
    table: TableName
    schema: TableSchema | None
    changes: list[ColumnEdit] = field(default_factory=list)
    new_name: TableName | None = None
    impossible: list[Impossible] = field(default_factory=list)

    def refuse(self, reason: str, table: TableName | None = None) -> None:
        """The table, or another one, cannot be followed past this statement."""
        self.impossible.append(Impossible(table or self.table, reason))


def read_alter_table(reader: Reader, schema: TableSchema | None, database: str | None = None) -> tuple[Edit, ...]:
    """The rest of an ALTER TABLE from the table's name on; ``database`` is the one a table that moves comes from."""
    reader.accept("IF", "EXISTS")
    statement = _Alter(reader, reader.table(database), schema)
    if reader.accept("WAIT"):
        reader.integer()
    reader.accept("NOWAIT")
    while not reader.ended:
        # What is set with a sign is a table option, known or not.
        action = _ACTIONS.get(reader.peek().word) or (_nothing if reader.peek(1).word == "=" else None)
        if action is None:
            raise reader.wrong("an action of ALTER TABLE")
        reader.next()
        action(statement)
        # Partitioning may follow the last action without a comma.
        if not reader.accept(",") and not reader.ended and not reader.sees_any("PARTITION", "REMOVE"):
            raise reader.wrong("a comma or the end of the statement")
    if statement.impossible:
        return tuple(statement.impossible)
    edits: list[Edit] = []
    if statement.changes:
        edits.append(AlterTable(statement.table, tuple(statement.changes)))
    if statement.new_name is not None and statement.new_name != statement.table:
        edits.append(RenameTable(statement.table, statement.new_name))
    return tuple(edits)


def _add(statement: _Alter) -> None:
    reader = statement.reader
    if not reader.accept("COLUMN"):
        if reader.accept("PARTITION"):
            reader.pass_statement()
            return
        if reader.accept("STATS_EXTENDED") or reader.accept("SYSTEM", "VERSIONING"):
            reader.pass_element()
            return
        if begins_constraint(reader):
            constraint = read_constraint(reader)
            statement.changes += [constraint.add] if constraint.add else []
            return
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if reader.sees("("):
        for element in reader.listed(lambda: read_element(reader)):
            _add_element(statement, element, if_not_exists)
    else:
        _add_element(statement, read_column(reader), if_not_exists)


def _add_element(statement: _Alter, element: Element, if_not_exists: bool) -> None:
    if not isinstance(element, Definition):
        statement.changes += [element.add] if element.add else []
        return
    column = sized(with_sent_charset(element.column, statement.schema), "utf8mb4")
    if column.generated is Generated.STORED:
        statement.refuse(f"the values of the new column {column.name!r} are computed, and no message has them")
    elif column.generated is None and element.numbered:
        statement.refuse(f"the server numbers the rows in the new column {column.name!r}, and no message tells how")
    elif column.generated is None and element.computed:
        statement.refuse(
            f"the default of the new column {column.name!r} is an expression, and no message has its value"
        )
    statement.changes.append(AddColumn(column, _place(statement.reader), if_not_exists))
    statement.changes += keys_of(element)


def _place(reader: Reader) -> ColumnPosition:
    if reader.accept("FIRST"):
        return ColumnPosition(first=True)
    return ColumnPosition(after=reader.column_name()) if reader.accept("AFTER") else ColumnPosition()


def _drop(statement: _Alter) -> None:
    reader = statement.reader
    if reader.accept("PARTITION"):
        reader.pass_statement()
        statement.refuse("DROP PARTITION removes rows, and no message tells which")
    elif reader.accept("PRIMARY", "KEY"):
        statement.changes.append(DropIndex(PRIMARY))
    elif reader.accept_any("INDEX", "KEY", "CONSTRAINT"):
        # A constraint may be a unique key; a check or a foreign key of that name is no index, and then nothing goes.
        reader.accept("IF", "EXISTS")
        statement.changes.append(DropIndex(reader.name()))
    elif reader.accept_any("FOREIGN", "CHECK", "STATS_EXTENDED") or reader.accept("SYSTEM", "VERSIONING"):
        reader.pass_element()
    else:
        reader.accept("COLUMN")
        if_exists = reader.accept("IF", "EXISTS")
        statement.changes.append(DropColumn(reader.column_name(), if_exists))
        reader.accept_any("RESTRICT", "CASCADE")


def _modify(statement: _Alter) -> None:
    statement.reader.accept("COLUMN")
    if_exists = statement.reader.accept("IF", "EXISTS")
    definition = read_column(statement.reader)
    _redefine(statement, definition.column.name, definition, if_exists)


def _change(statement: _Alter) -> None:
    statement.reader.accept("COLUMN")
    if_exists = statement.reader.accept("IF", "EXISTS")
    name = statement.reader.column_name()
    _redefine(statement, name, read_column(statement.reader), if_exists)


def _redefine(statement: _Alter, name: str, definition: Definition, if_exists: bool) -> None:
    column = sized(with_sent_charset(definition.column, statement.schema), "utf8mb4")
    statement.changes.append(ChangeColumn(name, column, _place(statement.reader), if_exists))
    statement.changes += keys_of(definition)


def _rename(statement: _Alter) -> None:
    reader = statement.reader
    if reader.accept("COLUMN"):
        if_exists = reader.accept("IF", "EXISTS")
        name = reader.column_name()
        reader.expect("TO")
        statement.changes.append(RenameColumn(name, reader.column_name(), if_exists))
    elif reader.accept_any("INDEX", "KEY"):
        reader.accept("IF", "EXISTS")
        name = reader.name()
        reader.expect("TO")
        statement.changes.append(RenameIndex(name, reader.name()))
    else:
        reader.accept_any("TO", "AS", "=")
        statement.new_name = reader.table()


def _alter(statement: _Alter) -> None:
    reader = statement.reader
    if reader.accept_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        reader.pass_element()
        return
    reader.accept("COLUMN")
    reader.accept("IF", "EXISTS")
    name = reader.column_name()
    if reader.accept("DROP", "DEFAULT"):
        statement.changes.append(SetDefault(name, None))
    elif reader.accept("SET", "DEFAULT"):
        statement.changes.append(SetDefault(name, read_default(reader).value))
    else:
        reader.expect("SET")
        if not reader.accept_any("VISIBLE", "INVISIBLE"):
            raise reader.wrong("DEFAULT")


def _convert(statement: _Alter) -> None:
    reader = statement.reader
    reader.expect("TO")
    found = read_charset(reader)
    if found is None:
        raise reader.wrong("a charset")
    collation = (read_charset(reader) or found)[1]
    charset = found[0] or (collation or "").split("_")[0]
    if charset:
        statement.changes.append(ConvertText(charset, collation))


def _truncate(statement: _Alter) -> None:
    statement.reader.expect("PARTITION")
    statement.reader.pass_statement()
    statement.refuse("TRUNCATE PARTITION removes rows, and no message tells which")


def _exchange(statement: _Alter) -> None:
    reader = statement.reader
    reader.expect("PARTITION")
    reader.name()
    reader.expect("WITH", "TABLE")
    other = reader.table()
    reader.pass_element()
    for table in (statement.table, other):
        statement.refuse("EXCHANGE PARTITION swaps rows between two tables, and no message tells which", table)


def _tablespace(statement: _Alter) -> None:
    statement.reader.pass_statement()
    statement.refuse("the rows are replaced from outside, and no message tells them")


def _first(statement: _Alter) -> None:
    statement.reader.expect("PARTITION")
    statement.reader.pass_statement()
    statement.refuse("FIRST PARTITION removes rows, and no message tells which")


def _nothing(statement: _Alter) -> None:
    statement.reader.pass_element()


def _nothing_more(statement: _Alter) -> None:
    statement.reader.pass_statement()


_Action: TypeAlias = Callable[[_Alter], None]

_LISTS = ("PARTITION", "REORGANIZE", "COALESCE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR", "LAST", "MERGE")
"""Actions without effect on rows that stand alone or last, and may have commas of their own."""

_OPTIONS = """
    ALGORITHM ATTRIBUTES AUTOEXTEND_SIZE AUTO_ID_CACHE AUTO_INCREMENT AUTO_RANDOM_BASE AVG_ROW_LENGTH CACHE CHARACTER
    CHARSET CHECKSUM COLLATE COMMENT COMPACT COMPRESSION CONNECTION DATA DEFAULT DELAY_KEY_WRITE DISABLE ENABLE
    ENCRYPTION ENGINE ENGINE_ATTRIBUTE FORCE INDEX INSERT_METHOD KEY_BLOCK_SIZE LOCK MAX_ROWS MIN_ROWS NOCACHE
    PACK_KEYS PASSWORD PLACEMENT PRE_SPLIT_REGIONS REMOVE ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE
    SECONDARY_LOAD SECONDARY_UNLOAD SET SHARD_ROW_ID_BITS STATS_AUTO_RECALC STATS_BUCKETS STATS_COL_CHOICE
    STATS_COL_LIST STATS_PERSISTENT STATS_SAMPLE_PAGES STATS_SAMPLE_RATE STATS_TOPN STORAGE TABLESPACE TTL TTL_ENABLE
    TTL_JOB_INTERVAL UNION UNSET WITH WITHOUT
"""
"""Actions and table options without effect on rows, by their first word."""

_ACTIONS: Mapping[str, _Action] = {
    **dict.fromkeys(_OPTIONS.split(), _nothing),
    **dict.fromkeys((*_LISTS, "ORDER", "SPLIT"), _nothing_more),
    **dict.fromkeys(("DISCARD", "IMPORT"), _tablespace),
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "RENAME": _rename,
    "ALTER": _alter,
    "CONVERT": _convert,
    "TRUNCATE": _truncate,
    "EXCHANGE": _exchange,
    "FIRST": _first,
}


def read_create_index(reader: Reader, unique: bool) -> tuple[Edit, ...]:
    """The rest of a CREATE INDEX from the index's name on."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    if reader.accept_any("USING", "TYPE"):
        reader.name()
    reader.expect("ON")
    table = reader.table()
    columns = reader.index_parts()
    unique = covers_all_rows(reader.pass_element()) and unique
    if None in columns:
        return ()
    index = Index(name, tuple(column for column in columns if column), unique)
    return (AlterTable(table, (AddIndex(index, if_not_exists),)),)


def read_drop_index(reader: Reader) -> tuple[Edit, ...]:
    """The rest of a DROP INDEX from the index's name on."""
    reader.accept("IF", "EXISTS")
    name = reader.name()
    reader.expect("ON")
    table = reader.table()
    reader.pass_element()
    return (AlterTable(table, (DropIndex(name),)),)
