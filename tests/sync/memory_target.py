"""A target made of dicts: the reference the others are compared with, and one to play with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import TypeAlias, assert_never

from sync.reduce import Change, Key, last_changes
from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.model import (
    Column,
    Date,
    DateTime,
    EnumValue,
    Generated,
    MySQLType,
    Row,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
)
from tidewire.model.types import FLOATS, INTEGERS, STRINGS
from tidewire.sync.steps import (
    Adopt,
    Alter,
    Create,
    Drop,
    Fill,
    Merge,
    Rename,
    SetAside,
    Slice,
    Step,
    Truncate,
    gone_name,
)

Read: TypeAlias = Callable[[Slice], Iterable[Change]]
"""Where staged rows come from: all changes of a slice, in any order."""


@dataclass(slots=True)
class MemoryTable:
    """A table: its columns in order, the names of its key, and its rows by the values of that key."""

    columns: list[Column]
    key: tuple[str, ...]
    rows: dict[Key, dict[str, Value]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [column.name for column in self.columns]


@dataclass(slots=True)
class MemoryTarget:
    """Tables in memory that follow the planner's steps and equal upstream.

    A step either happens whole or not at all, and happens once: its id identifies it.
    """

    read: Read
    tables: dict[TableName, MemoryTable] = field(default_factory=dict)
    rejects: list[str] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def execute(self, step: Step) -> bool:
        """Do a step, unless it was done before; says whether there was something to do."""
        if (identity := step.id) in self.done:
            return False
        match step:
            case Merge():
                self._merge(step)
            case Fill():
                self._merge(step.merge)
            case Create():
                self.tables[step.table.name] = MemoryTable(_stored(step.table), step.table.handle_key)
            case Adopt():
                self._table(step.table.name)
            case Drop():
                table = self.tables.pop(step.name, None)
                if step.keep and table is not None:
                    self.tables[gone_name(step.name, step.ts)] = table
            case Truncate():
                self._table(step.table.name).rows.clear()
            case Rename():
                self._rename(step)
            case Alter():
                self._alter(step)
            case SetAside():
                self.rejects += step.files
            case _:
                assert_never(step)
        self.done.add(identity)
        return True

    def _table(self, name: TableName) -> MemoryTable:
        try:
            return self.tables[name]
        except KeyError:
            raise LookupError(f"there is no table {name}") from None

    def _merge(self, merge: Merge) -> None:
        table, columns = self._table(merge.table.name), _stored(merge.table)
        changes = (_named(change, merge) for piece in merge.slices for change in self.read(piece))
        for key, row in last_changes(changes, merge.table.handle_key, table.rows).items():
            if row is None:
                table.rows.pop(key, None)
            else:
                table.rows[key] = _typed(row, columns)

    def _rename(self, rename: Rename) -> None:
        moving = {old for old, _ in rename.moves}
        for old, new in rename.moves:
            self._table(old)
            if new in self.tables and new not in moving:
                raise LookupError(f"{old} cannot become {new}: there is a table of that name")
        self.tables |= {new: self.tables.pop(old) for old, new in rename.moves}

    def _alter(self, alter: Alter) -> None:
        table = self._table(alter.after.name)
        columns, rows = list(table.columns), [dict(row) for row in table.rows.values()]
        for step in alter.columns:
            _change_column(columns, rows, step)
        key = alter.after.handle_key
        keyed = {tuple([row[name] for name in key]): row for row in rows}
        if len(keyed) < len(rows):
            raise ValueError(f"rows of {alter.after.name} are equal in their new key {key}")
        self.tables[alter.after.name] = MemoryTable(columns, key, keyed)


def _stored(table: TableSchema) -> list[Column]:
    """The columns that have values: a virtual one is in no row."""
    return [column for column in table.columns if column.generated is not Generated.VIRTUAL]


def _named(change: Change, merge: Merge) -> Change:
    """A change whose rows have the table's names for their columns."""
    if not merge.sources:
        return change
    names = {merge.source(column.name): column.name for column in merge.table.columns}

    def named(row: Row | None) -> Row | None:
        return None if row is None else {names[name.lower()]: row[name] for name in row if name.lower() in names}

    return change._replace(before=named(change.before), after=named(change.after))


def _typed(row: Row, columns: list[Column]) -> dict[str, Value]:
    """A row in a table's types. A column that no change has told has its default."""
    return {column.name: cast(row.get(column.name, column.default), column) for column in columns}


def _change_column(columns: list[Column], rows: list[dict[str, Value]], step: ColumnStep) -> None:
    match step:
        case NewColumn(column, place, fill):
            columns.insert(_index(columns, place, len(columns)), column)
            value = cast(fill, column)
            for row in rows:
                row[column.name] = value
        case GoneColumn(name):
            del columns[_find(columns, name)]
            for row in rows:
                del row[name]
        case NamedColumn(name, new):
            at = _find(columns, name)
            columns[at] = replace(columns[at], name=new)
            for row in rows:
                row[new] = row.pop(name)
        case TypedColumn(old, new_column):
            columns[_find(columns, old.name)] = new_column
            for row in rows:
                row[new_column.name] = cast(row.pop(old.name), new_column)
        case PlacedColumn(name, place):
            at = _find(columns, name)
            column = columns.pop(at)
            columns.insert(_index(columns, place, at), column)
        case _:
            assert_never(step)


def _find(columns: list[Column], name: str) -> int:
    for index, column in enumerate(columns):
        if column.name == name:
            return index
    raise LookupError(f"there is no column {name}")


def _index(columns: list[Column], place: ColumnPosition, otherwise: int) -> int:
    if place.first:
        return 0
    return otherwise if place.after is None else _find(columns, place.after) + 1


def cast(value: Value, column: Column) -> Value:
    """A value in a column's type, out of another type or out of MySQL's text.

    >>> cast("7", Column.of("n", "int")), cast(7, Column.of("s", "varchar(9)"))
    (7, '7')
    """
    if value is None:
        return None
    kind = _PYTHON.get(column.type)
    return value if type(value) is kind else _CASTS[column.type](value, column)


def _text(value: Value) -> str:
    match value:
        case bytes():
            return value.decode()
        case EnumValue() | SetValue():
            return value.text if value.text is not None else str(value.index)
        case _:
            return str(value)


def _whole(value: Value, _: Column) -> Value:
    return int(Decimal(_text(value)).to_integral_value(ROUND_HALF_UP))


def _bits(value: Value, column: Column) -> Value:
    return int.from_bytes(value) if isinstance(value, bytes) else _whole(value, column)


def _decimal(value: Value, column: Column) -> Value:
    return Decimal(_text(value)).quantize(Decimal(1).scaleb(-(column.decimal or 0)), ROUND_HALF_UP)


def _string(value: Value, column: Column) -> Value:
    if column.is_binary:
        return value if isinstance(value, bytes) else _text(value).encode()
    return _text(value)


def _enum(value: Value, column: Column) -> Value:
    if isinstance(value, EnumValue | int):
        return value if isinstance(value, EnumValue) else EnumValue(value)
    text = _text(value)
    return EnumValue(column.elements.index(text) + 1 if text in column.elements else 0, text)


def _set(value: Value, column: Column) -> Value:
    if isinstance(value, SetValue | int):
        return value if isinstance(value, SetValue) else SetValue(value)
    names = set(_text(value).split(","))
    return SetValue(sum(1 << bit for bit, element in enumerate(column.elements) if element in names), _text(value))


_CASTS: Mapping[MySQLType, Callable[[Value, Column], Value]] = {
    **dict.fromkeys(MySQLType, lambda value, _: _text(value)),
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _whole),
    **dict.fromkeys(FLOATS, lambda value, _: float(_text(value))),
    **dict.fromkeys(STRINGS, _string),
    MySQLType.BIT: _bits,
    MySQLType.DECIMAL: _decimal,
    MySQLType.DATE: lambda value, _: Date(_text(value)),
    MySQLType.DATETIME: lambda value, _: DateTime(_text(value)),
    MySQLType.TIMESTAMP: lambda value, _: Timestamp(_text(value)),
    MySQLType.TIME: lambda value, _: Time(_text(value)),
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
}

_PYTHON: Mapping[MySQLType, type] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, int),
    **dict.fromkeys(FLOATS, float),
    MySQLType.DATE: Date,
    MySQLType.DATETIME: DateTime,
    MySQLType.TIMESTAMP: Timestamp,
    MySQLType.TIME: Time,
    MySQLType.ENUM: EnumValue,
    MySQLType.SET: SetValue,
}
"""The types whose values need no cast when they have this Python type already."""
