"""What a changefeed sends of what happens upstream: everything that decides about an event, in one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidewire.dispatch.column_selector import ColumnSelectors
from tidewire.dispatch.ddl_types import REPLICATED, type_of
from tidewire.dispatch.eligibility import is_eligible, passes_without_key, verify_eligible
from tidewire.dispatch.event_filter import EventFilter
from tidewire.dispatch.per_table import PerTable
from tidewire.dispatch.router import Dispatch
from tidewire.dispatch.split import split
from tidewire.dispatch.statements import old_name
from tidewire.dispatch.table_rules import TableRules
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, RowChange, TableSchema

RENAME_FAILED = "CDC:ErrSyncRenameTableFailed"


class Verdict(StrEnum):
    """What becomes of a statement."""

    SEND = "send"
    IGNORE = "ignore"
    """It is not sent, but the table has changed and its rows are still sent."""
    DISCARD = "discard"
    """It does not concern the changefeed."""


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
        """Does a table take part: do the rules keep it, and can its rows be told apart?"""
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
        """What becomes of a statement about one table or schema.

        A RENAME goes by the old name. ``CDC:ErrSyncRenameTableFailed`` where the rules keep the new name only: the
        rows the table already has were never sent.
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
        """Refuse rules that tables upstream do not fit, before anything is sent."""
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
        """Is a change left out once UPDATEs are split? The halves count as a DELETE and an INSERT of their own."""
        return self.events.ignores_type(change) or self.events.ignores_values(change)

    def _ignores(self, ddl: Ddl) -> bool:
        return (
            ddl.start_ts in self.ignored_start_ts
            or self.events.ignores_ddl(ddl)
            or not (self.force_replicate or passes_without_key(ddl))
        )
