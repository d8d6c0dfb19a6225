"""What the tests of a changefeed share: small tables, rows of them, a source that is a list, a clock that is set."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from tidewire.changefeed.source.base import Resolved, ResumePosition, RowBatch, Upstream
from tidewire.model import Column, Ddl, DdlType, Index, RowChange, TableName, TableSchema


def table(name: str = "t", *, schema: str = "test", table_id: int = 100, version: int = 5) -> TableSchema:
    """``(id int primary key, name varchar(20))``."""
    columns = [Column.of("id", "int", primary_key=True), Column.of("name", "varchar(20)")]
    indexes = [Index("PRIMARY", ("id",), unique=True, primary=True)]
    return TableSchema.build(TableName(schema, name), columns, indexes, table_id=table_id, version=version)


def insert(id_: int, ts: int, of: TableSchema | None = None, name: str = "x") -> RowChange:
    """A new row."""
    of = of or table()
    return RowChange(of, ts, after={"id": id_, "name": name}, start_ts=ts - 1, table_id=of.table_id)


def update(old: int, new: int, ts: int, of: TableSchema | None = None, name: str = "y") -> RowChange:
    """A row that changed, and perhaps its key."""
    of = of or table()
    return RowChange(
        of, ts, before={"id": old, "name": "x"}, after={"id": new, "name": name}, start_ts=ts - 1, table_id=of.table_id
    )


def delete(id_: int, ts: int, of: TableSchema | None = None) -> RowChange:
    """A row that went."""
    of = of or table()
    return RowChange(of, ts, before={"id": id_, "name": "x"}, start_ts=ts - 1, table_id=of.table_id)


def create(of: TableSchema, ts: int) -> Ddl:
    """The statement that made a table."""
    query = f"CREATE TABLE `{of.name.table}` (id int primary key, name varchar(20))"
    return Ddl(of.name, ts, query, DdlType.CREATE_TABLE, table_schema=of)


class ListSource:
    """A source that is a list; a place is an index into it."""

    def __init__(self, items: Iterable[Upstream], tables: Sequence[TableSchema] = (), now: int = 0) -> None:
        self.items = list(items)
        self.closed = threading.Event()
        self.reads: list[tuple[int, ResumePosition | None]] = []
        self._tables = tables
        self._now = now

    def now(self) -> int:
        """What it was told."""
        return self._now

    def tables(self) -> Sequence[TableSchema]:
        """What it was told."""
        return self._tables

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """The items after a place, until it is closed."""
        self.reads.append((start_ts, place))
        for item in self.items[0 if place is None else place["index"] :]:
            if self.closed.is_set():
                return
            yield item

    def close(self) -> None:
        """End the reading."""
        self.closed.set()


def resolved_after(items: Sequence[Upstream], ts: int) -> Resolved:
    """A mark after these items."""
    return Resolved(ts, {"index": len(items) + 1})


class SetClock:
    """A clock that shows what it is set to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class DiarySink:
    """A sink that writes down what it is told, a line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """Write down the tables."""
        self.lines.append(f"begin {[table.name.table for table in tables]}")

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Write down each change."""
        self.lines += [f"{change.op} {(change.after or change.before or {})['id']!r}" for change in changes]

    def columns(self, batch: RowBatch) -> None:
        """Write down how many there are."""
        self.lines.append(f"columns {batch.rows.num_rows}")

    def ddl(self, ddl: Ddl) -> None:
        """Write down the statement."""
        self.lines.append(ddl.query)

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Write down who is told."""
        self.lines.append(f"watermark {ts} {[name.table for name in tables]}")

    def flush(self) -> None:
        """Write down that all is safe."""
        self.lines.append("flush")

    def close(self) -> None:
        """Write down the end."""
        self.lines.append("close")
