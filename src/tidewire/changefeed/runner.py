"""Runs a changefeed: from a source through a filter into a sink, until the end or until it is stopped.

Rows before a statement are flushed before the statement is sent, and the statement before the rows after it. Watermarks
and checkpoints are written for timestamps up to which everything is flushed. So a changefeed that resumes at its
checkpoint repeats some changes and loses none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from tidewire.changefeed.checkpoint import Checkpoint, CheckpointStore
from tidewire.changefeed.config.dispatching import dispatching
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.integrity import Check, check_for
from tidewire.changefeed.sink.base import Sink
from tidewire.changefeed.sink.open import open_sink
from tidewire.changefeed.source.base import Resolved, RowBatch, Source, Upstream, changes_keys, changes_of, up_to
from tidewire.dispatch import Filter, Verdict, per_table
from tidewire.dispatch.statements import type_of
from tidewire.model import Ddl, DdlType, Op, RowChange, TableName, TableSchema

MOST_PENDING = 2048
"""The number of rows that are dispatched together, as in TiCDC."""

LONGEST_PENDING = 0.015
"""The seconds that rows wait for others, as in TiCDC."""


class Tables(Mapping[TableName, TableSchema | None]):
    """The replicated tables in the order of their first event, with their schemas where known; DDL changes both.

    They decide which topics get watermarks.
    """

    def __init__(self, tables: Iterable[TableSchema] = ()) -> None:
        self._tables: dict[TableName, TableSchema | None] = {table.name: table for table in tables}

    def __getitem__(self, name: TableName) -> TableSchema | None:
        return self._tables[name]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def schemas(self) -> dict[TableName, TableSchema]:
        """The tables whose schema is known."""
        return {name: table for name, table in self._tables.items() if table is not None}

    def add(self, table: TableSchema) -> None:
        """Note the table of a row."""
        self._tables[table.name] = table

    def follow(self, parts: Sequence[Ddl], keeps: Callable[[TableName], bool] = lambda name: True) -> None:
        """Apply the parts of one statement, which happen at once: tables may swap their names.

        A table is dropped if ``keeps`` refuses its new name.
        """
        for part in parts:
            if part.old_name is not None:
                self._tables.pop(part.old_name, None)
        for part in parts:
            _EFFECTS.get(type_of(part), Tables._alter)(self, part)
            if part.old_name is not None and not keeps(part.table):
                self._tables.pop(part.table, None)

    def _alter(self, ddl: Ddl) -> None:
        if ddl.table in self._tables and ddl.table_schema is not None:
            self._tables[ddl.table] = ddl.table_schema

    def _appear(self, ddl: Ddl) -> None:
        self._tables[ddl.table] = ddl.table_schema

    def _vanish(self, ddl: Ddl) -> None:
        self._tables.pop(ddl.table, None)

    def _vanish_all(self, ddl: Ddl) -> None:
        schema = ddl.table.schema
        self._tables = {name: table for name, table in self._tables.items() if name.schema != schema}


_EFFECTS: Mapping[int | None, Callable[[Tables, Ddl], None]] = {
    **dict.fromkeys((DdlType.CREATE_TABLE, DdlType.CREATE_TABLES, DdlType.RECOVER_TABLE), Tables._appear),
    **dict.fromkeys((DdlType.RENAME_TABLE, DdlType.RENAME_TABLES), Tables._appear),
    DdlType.DROP_TABLE: Tables._vanish,
    DdlType.DROP_SCHEMA: Tables._vanish_all,
}


class Transaction:
    """Holds back the INSERT halves of split UPDATEs until all other rows of their transaction are sent.

    Otherwise rows that swap their keys would be deleted after they were inserted.
    """

    def __init__(self) -> None:
        self._ts: int | None = None
        self._late: list[RowChange] = []

    def add(self, change: RowChange, parts: Iterable[RowChange]) -> Iterator[RowChange]:
        """Take a change and the parts a filter made of it; yield the rows that can be sent now."""
        if change.commit_ts != self._ts:
            yield from self.end()
            self._ts = change.commit_ts
        for part in parts:
            if change.op is Op.UPDATE and part.op is Op.INSERT:
                self._late.append(part)
            else:
                yield part

    def end(self) -> Iterator[RowChange]:
        """The rows that were held back."""
        late, self._late = self._late, []
        self._ts = None
        yield from late


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of a changefeed: everything up to ``checkpoint_ts`` is safe, up to ``resolved_ts`` it is read."""

    checkpoint_ts: int = 0
    resolved_ts: int = 0
    rows: int = 0
    ddls: int = 0
    finished: bool = False
    error: Exception | None = None


class Runner:
    """Runs one changefeed. ``start_ts`` is used if there is no checkpoint yet; ``target_ts`` is the end.

    ``interval`` is the time between two watermarks, in seconds of ``clock``. ``check`` checks the checksum of each row.
    ``by_columns``: the filter has no rules about single rows, so batches need not be split into rows.
    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        filter_: Filter,
        checkpoints: CheckpointStore,
        *,
        start_ts: int | None = None,
        target_ts: int | None = None,
        interval: float = 1.0,
        check: Check | None = None,
        by_columns: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._source = source
        self._sink = sink
        self._filter = filter_
        self._checkpoints = checkpoints
        self._start_ts = start_ts
        self._target_ts = target_ts
        self._interval = interval
        self._check = check
        self._by_columns = by_columns and check is None
        self._clock = clock
        self._stopping = threading.Event()
        self._tables = Tables()
        self._transaction = Transaction()
        self._pending: list[RowChange] = []
        self._pending_since = 0.0
        self._advanced_at = clock()
        self._statement_sent = False
        self._resolved: Checkpoint | None = None
        self._checkpoint = Checkpoint(0)
        self._rows = self._ddls = 0
        self._finished = False
        self._error: Exception | None = None

    @property
    def status(self) -> Status:
        """The current status. May be called from any thread."""
        return Status(
            self._checkpoint.ts,
            max(self._checkpoint.ts, self._resolved.ts if self._resolved else 0),
            self._rows,
            self._ddls,
            self._finished,
            self._error,
        )

    def stop(self) -> None:
        """Stop the run soon, with a last checkpoint. May be called from any thread."""
        self._stopping.set()
        self._source.close()

    def run(self) -> None:
        """Replicate until the target is reached, the source ends or :meth:`stop` is called. Errors are raised."""
        try:
            self._begin()
            self._follow()
            if self._resolved is not None:
                self._advance(self._resolved)
            self._send_pending()
            self._sink.flush()
        except Exception as error:
            self._error = error
            raise
        finally:
            self._source.close()
            self._sink.close()

    def _begin(self) -> None:
        """Start at the checkpoint. Its watermark is sent first, because the replay starts there."""
        kept = self._checkpoints.load()
        self._checkpoint = kept or Checkpoint(self._source.now() if self._start_ts is None else self._start_ts)
        tables = [table for table in self._source.tables() if self._filter.takes(table)]
        self._tables = Tables(tables)
        self._sink.begin(tables)
        if kept is None:
            self._checkpoints.save(self._checkpoint)
        else:
            self._sink.watermark(kept.ts, self._tables)

    def _follow(self) -> None:
        target = self._target_ts
        if target is not None and self._checkpoint.ts >= target:
            self._finished = True
            return
        for item in self._source.read(self._checkpoint.ts, self._checkpoint.place):
            if self._stopping.is_set():
                return
            if target is not None and (ts := _ts(item)) is not None and ts > target:
                self._resolved = replace(self._resolved or self._checkpoint, ts=target)
                break
            _TAKE[type(item)](self, item)
        self._finished = not self._stopping.is_set()

    def _take_row(self, change: RowChange) -> None:
        for row in self._transaction.add(change, self._filter.passed(change)):
            self._add(row)
        if len(self._pending) >= MOST_PENDING:
            self._hand_over()

    def _take_batch(self, batch: RowBatch) -> None:
        if self._target_ts is not None:
            batch = up_to(batch, self._target_ts)
        stays_whole = self._by_columns and (self._filter.raw_updates or not changes_keys(batch))
        if stays_whole and self._filter.takes(batch.table):
            self._send_pending()
            self._tables.add(batch.table)
            self._sink.columns(batch)
            self._rows += batch.rows.num_rows
            return
        for change in changes_of(batch):
            self._take_row(change)

    def _take_ddl(self, ddl: Ddl) -> None:
        followed = []
        for part in per_table(ddl, self._tables.schemas()):
            verdict = self._filter.ddl(part)
            if verdict is Verdict.SEND:
                self._send_ddl(part)
            if verdict is not Verdict.DISCARD:
                followed.append(part)
        self._tables.follow(followed, self._filter.rules.matches)

    def _send_ddl(self, ddl: Ddl) -> None:
        """Flush everything before a statement, then send the statement, which returns when it is safe."""
        self._send_pending()
        self._sink.flush()
        self._sink.ddl(ddl)
        self._ddls += 1
        self._statement_sent = True

    def _take_resolved(self, resolved: Resolved) -> None:
        self._resolved = Checkpoint(resolved.ts, resolved.place)
        now = self._clock()
        if self._statement_sent or now - self._advanced_at >= self._interval:
            self._advance(self._resolved)
        elif self._pending and now - self._pending_since >= LONGEST_PENDING:
            self._send_pending()

    def _add(self, row: RowChange) -> None:
        if not self._pending:
            self._pending_since = self._clock()
        self._pending.append(row if self._check is None else self._check(row))

    def _send_pending(self) -> None:
        """Send the pending rows; the last transaction is complete."""
        for row in self._transaction.end():
            self._add(row)
        self._hand_over()

    def _hand_over(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            for row in pending:
                self._tables.add(row.table)
            self._sink.rows(pending)
            self._rows += len(pending)

    def _advance(self, resolved: Checkpoint) -> None:
        """Flush, save the checkpoint, and send a watermark."""
        self._send_pending()
        self._sink.flush()
        self._advanced_at = self._clock()
        self._statement_sent = False
        if resolved.ts > self._checkpoint.ts:
            self._checkpoints.save(resolved)
            self._checkpoint = resolved
            self._sink.watermark(resolved.ts, self._tables)


def _ts(item: Upstream) -> int | None:
    """The timestamp of an item; ``None`` for a batch, which is cut at the target elsewhere."""
    return item.ts if isinstance(item, Resolved) else None if isinstance(item, RowBatch) else item.commit_ts


_TAKE: Mapping[type[Any], Callable[[Runner, Any], None]] = {
    RowChange: Runner._take_row,
    RowBatch: Runner._take_batch,
    Ddl: Runner._take_ddl,
    Resolved: Runner._take_resolved,
}


def runner_for(
    settings: Settings,
    source: Source,
    checkpoints: CheckpointStore,
    *,
    start_ts: int,
    target_ts: int | None = None,
    sink: Sink | None = None,
) -> Runner:
    """A runner from checked settings. ``sink`` replaces the sink that the settings name."""
    kept = checkpoints.load()
    begins = start_ts if kept is None else kept.ts
    storage, filter_, check = settings.storage, dispatching(settings).filter, check_for(settings.options)
    return Runner(
        source,
        # The sink is opened last, because it would stay open if a setting were refused.
        open_sink(settings, begins) if sink is None else sink,
        filter_,
        checkpoints,
        start_ts=start_ts,
        target_ts=target_ts,
        interval=settings.watermark_interval if storage is None else storage.flush_interval,
        check=check,
        by_columns=not _has_row_rules(settings),
    )


def _has_row_rules(settings: Settings) -> bool:
    """Do the rules depend on the values of single rows, or change them?"""
    filters = settings.filter
    targets = any(rule.target_schema or rule.target_table for rule in settings.dispatchers)
    return bool(filters.event_filters or filters.ignore_txn_start_ts or settings.column_selectors or targets)
