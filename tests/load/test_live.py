"""Live sources without a server: how tables are cut into chunks, and how a row that does not fit is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidewire.changefeed.source.mysql.connection import Answer
from tidewire.changefeed.source.mysql.server import table_of
from tidewire.load.live import Begun, KeyRange, LiveChunk, LiveTable, begun, ranges_between
from tidewire.load.live_tidb import split_column
from tidewire.load.rows import Rows
from tidewire.load.source import Place
from tidewire.model import TableName
from tidewire.spark.load.task import ChunkReport, ChunkWork
from tidewire.spark.stage.reader import Before
from tidewire.storage import open_storage
from tidewire.sync.documents import decode
from tidewire.sync.rules import Rules

NAME = TableName("shop", "t")


@pytest.mark.parametrize(
    ("key", "column", "value", "literal"),
    [
        ("id bigint PRIMARY KEY /*T![clustered_index] CLUSTERED */", "`id`", b"-5", "-5"),
        ("id int, b int, PRIMARY KEY (id, b) /*T![clustered_index] NONCLUSTERED */", "_tidb_rowid", b"7", "7"),
        ("id int NOT NULL, UNIQUE KEY (id)", "_tidb_rowid", b"7", "7"),
        ("id varchar(9), PRIMARY KEY (id)", "`id`", "é'".encode(), "_utf8mb4 x'c3a927'"),
        ("id varbinary(9), PRIMARY KEY (id)", "`id`", b"\xff", "x'ff'"),
        ("id decimal(9,2), PRIMARY KEY (id)", None, b"", ""),
    ],
)
def test_a_table_of_tidb_is_cut_by_what_its_rows_are_stored_by(
    key: str, column: str | None, value: bytes, literal: str
) -> None:
    query = f"CREATE TABLE `t` ({key})"

    found = split_column(table_of(NAME, query, mariadb=False), query)

    assert (None if found is None else (found[0], found[1](value))) == (None if column is None else (column, literal))


def test_ranges_have_every_row_once_and_are_kept(tmp_path: Path) -> None:
    ranges = ranges_between("`id`", ["-3", "10"])
    assert [each.where for each in ranges] == [
        " WHERE `id` < -3",
        " WHERE `id` >= -3 AND `id` < 10",
        " WHERE `id` >= 10",
    ]
    assert KeyRange().where == ""
    table = LiveTable(NAME, "CREATE TABLE `t` (`id` int PRIMARY KEY, j json)", True, 30, ranges)
    ledger = open_storage(tmp_path)

    Begun(5, (table,)).keep(ledger, "loads/1")

    assert begun(ledger, "loads/1") == Begun(5, (table,))
    assert begun(ledger, "loads/2") is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(LiveChunk):
    """A chunk whose rows are given."""

    rows: tuple[Answer, ...]

    def read(self) -> Iterator[tuple[Place, Rows]]:
        """The rows."""
        return self.batches(lambda sql, count: iter([list(self.rows)]))


def test_a_row_that_does_not_fit_is_named_with_table_and_key(tmp_path: Path) -> None:
    table = table_of(NAME, "CREATE TABLE `t` (a varchar(9), b int, v date, PRIMARY KEY (a, b))", mariadb=True)
    rows = ((b"x", b"1", b"2024-01-02"), (b"y", b"2", b"soon"), ("é".encode(), b"3", None))
    ledger = open_storage(tmp_path)
    chunk = Told(table, KeyRange(), 3, 2, rows=rows)

    count = ChunkWork(ledger, "loads/1", 0, chunk, 5, Rules(), Before.KEY, "UTC", True).run()

    report = decode(ledger.read("loads/1/done/0000000") or b"", ChunkReport)
    (rejected,) = report.rejected
    assert count == 2
    assert rejected.reason.startswith("shop.t, the row with a = y, b = 2: column v (date): ")
    assert (rejected.at.topic, rejected.at.offset) == ("shop.t", (2 << 32) + 2)
