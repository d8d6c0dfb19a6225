"""Which events a changefeed sends: every rule that decides about an event, in one place.

Tables whose rows cannot be told apart are not sent, and an UPDATE that changes a key becomes a DELETE and an INSERT.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidewire.dispatch.column_selector import ColumnSelectors
from tidewire.dispatch.event_filter import EventFilter
from tidewire.dispatch.partition import value_text
from tidewire.dispatch.per_table import PerTable
from tidewire.dispatch.router import Dispatch
from tidewire.dispatch.statements import REPLICATED, SCHEMA_DDL, old_name, type_of
from tidewire.dispatch.table_rules import TableRules
from tidewire.errors import ChangefeedError
from tidewire.model import Column, ColumnFlag, Ddl, DdlType, Generated, Index, Op, RowChange, TableSchema, Value

INELIGIBLE = "CDC:ErrTableIneligible"

_PASSES = SCHEMA_DDL | {DdlType.CREATE_VIEW, DdlType.DROP_VIEW, DdlType.ADD_INDEX, DdlType.ADD_PRIMARY_KEY}
"""Statements that are sent although the table has no key: they are not about a table, or may give it one."""

RENAME_FAILED = "CDC:ErrSyncRenameTableFailed"


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
    """Is a statement sent although tables without a key are not replicated? One without a schema is."""
    table = ddl.table_schema or ddl.pre_table_schema
    return table is None or not table.columns or is_eligible(table) or type_of(ddl) in _PASSES


def split(change: RowChange, *, classic: bool = False) -> tuple[RowChange, ...]:
    """An UPDATE that changes a key as a DELETE of the old row and an INSERT of the new one; else the change itself.

    ``classic``: by the classic server's rule, to which every unique index is a key.
    """
    if change.op is not Op.UPDATE or not changes_key(change, classic=classic):
        return (change,)
    return replace(change, after=None), replace(change, before=None)


def changes_key(change: RowChange, *, classic: bool = False) -> bool:
    """Does an UPDATE change a column that identifies the row?"""
    before, after = change.before or {}, change.after or {}
    columns = _unique_columns(change.table) if classic else _key_columns(change.table)
    differs = _differs_as_text if classic else _differs
    return any(
        differs(before.get(column.name), after.get(column.name), column)
        for column in columns
        if column.name in before and column.name in after
    )


def _differs(before: Value, after: Value, column: Column) -> bool:
    return before != after


def _differs_as_text(before: Value, after: Value, column: Column) -> bool:
    texts = [b"null" if value is None else value_text(value, column) for value in (before, after)]
    return texts[0] != texts[1]


@PerTable
def _key_columns(table: TableSchema) -> tuple[Column, ...]:
    """The primary key, the unique indexes that allow no NULL, and the columns that are unique by themselves."""
    single = {column.name for column in table.columns if _is_flagged(column, alone=True)}
    named = single.union(*(index.columns for index in table.indexes if _identifies(index)))
    return tuple(column for column in table.columns if _is_key(column) or column.name in named)


@PerTable
def _unique_columns(table: TableSchema) -> tuple[Column, ...]:
    """The columns of every unique index."""
    flagged = {column.name for column in table.columns if _is_flagged(column, alone=False)}
    named = flagged.union(*(index.columns for index in table.indexes if index.unique or index.primary))
    return tuple(column for column in table.columns if _is_key(column) or column.name in named)


def _is_key(column: Column) -> bool:
    return column.handle_key or column.primary_key


def _is_flagged(column: Column, alone: bool) -> bool:
    """Do the flags call a column unique? Some protocols send only flags, no indexes."""
    flags = column.flags or ColumnFlag(0)
    return ColumnFlag.UNIQUE_KEY in flags and not (alone and ColumnFlag.MULTIPLE_KEY in flags)


def _identifies(index: Index) -> bool:
    return index.primary or (index.unique and (not index.nullable or len(index.columns) == 1))


class Verdict(StrEnum):
    """What the changefeed does with a statement."""

    SEND = "send"
    IGNORE = "ignore"
    """The statement is not sent, but the table has changed and its rows are still sent."""
    DISCARD = "discard"
    """The statement does not concern the changefeed."""


@dataclass(frozen=True, slots=True)
class Filter:
    """All rules of a changefeed about what is sent.

    ``raw_updates`` is ``output-raw-change-event``: an UPDATE stays one even if it changes a key. ``classic`` takes the
    classic server's way with UPDATEs that change a key: filtered once, before they are split.
    """

    rules: TableRules = field(default_factory=TableRules.parse)
    events: EventFilter = field(default_factory=EventFilter)
    selectors: ColumnSelectors = field(default_factory=ColumnSelectors)
    ignored_start_ts: frozenset[int] = frozenset()
    force_replicate: bool = False
    raw_updates: bool = False
    classic: bool = False
    _taken: PerTable[bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_taken", PerTable(self._takes))

    def takes(self, table: TableSchema) -> bool:
        """Is a table replicated: do the rules keep it, and can its rows be told apart?"""
        return self._taken(table)

    def row(self, change: RowChange) -> tuple[RowChange, ...]:
        """What is sent of a change: nothing, the change, or the halves of an UPDATE, with the selected columns."""
        return tuple(self.select(passed) for passed in self.passed(change))

    def passed(self, change: RowChange) -> tuple[RowChange, ...]:
        """What is sent of a change, with all its columns: partitions are computed from these."""
        if not self._keeps(change):
            return ()
        if not (self.raw_updates or self.classic):
            return tuple(part for part in split(change) if not self._ignores_part(part))
        if self.events.ignores_values(change):
            return ()
        return (change,) if self.raw_updates else split(change, classic=True)

    def select(self, change: RowChange) -> RowChange:
        """A change with the selected columns only."""
        return self.selectors.change(change)

    def ddl(self, ddl: Ddl) -> Verdict:
        """What to do with a statement about one table or schema.

        A RENAME is judged by the old name. Raises ``CDC:ErrSyncRenameTableFailed`` if the rules keep only the new name:
        the rows that the table already has were never sent.
        """
        if type_of(ddl) not in REPLICATED:
            return Verdict.DISCARD
        before = old_name(ddl)
        if self.rules.covers(before or ddl.table):
            return Verdict.IGNORE if self._ignores(ddl) else Verdict.SEND
        if before is None or not self.rules.covers(ddl.table):
            return Verdict.DISCARD
        if ddl.start_ts in self.ignored_start_ts:
            return Verdict.IGNORE
        raise ChangefeedError(
            RENAME_FAILED,
            f"{before} is renamed to {ddl.table}, but filter.rules keep the new name only, so the rows it has were "
            f"never sent; keep {before} too, or list the statement's start ts {ddl.start_ts} in ignore-txn-start-ts "
            "and load the table by other means",
        )

    def schema(self, ddl: Ddl) -> Ddl:
        """A statement whose schemas have the selected columns only."""
        return replace(
            ddl,
            table_schema=ddl.table_schema and self.selectors.table(ddl.table_schema),
            pre_table_schema=ddl.pre_table_schema and self.selectors.table(ddl.pre_table_schema),
        )

    def verify(
        self, tables: Iterable[TableSchema], dispatch: Dispatch | None = None, *, ignore_ineligible: bool = False
    ) -> None:
        """Refuse rules that do not fit the tables upstream, before anything is sent."""
        matched = [table for table in tables if self.rules.matches(table.name)]
        if not (self.force_replicate or ignore_ineligible):
            verify_eligible(matched)
        taken = [table for table in matched if self.takes(table)]
        self.events.verify(taken)
        if dispatch is not None:
            dispatch.verify(taken)
        self.selectors.verify(taken, dispatch)

    def _takes(self, table: TableSchema) -> bool:
        return self.rules.matches(table.name) and (self.force_replicate or is_eligible(table))

    def _keeps(self, change: RowChange) -> bool:
        return (
            change.start_ts not in self.ignored_start_ts
            and self.takes(change.table)
            and not self.events.ignores_type(change)
        )

    def _ignores_part(self, change: RowChange) -> bool:
        """Is a change left out after UPDATEs are split? The halves count as a DELETE and an INSERT."""
        return self.events.ignores_type(change) or self.events.ignores_values(change)

    def _ignores(self, ddl: Ddl) -> bool:
        return (
            ddl.start_ts in self.ignored_start_ts
            or self.events.ignores_ddl(ddl)
            or not (self.force_replicate or passes_without_key(ddl))
        )
