"""Every mode has the current rows of the reference at every step, and the past it promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from spark.apply.staging import Row, change, stage
from spark.targets.tags import tag
from sync.memory_target import MemoryTarget
from sync.reduce import Change
from tidewire.ddl.column_steps import GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import StepImpossible
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, current_rows, execute, task
from tidewire.spark.apply.changes import KeyRange
from tidewire.spark.targets import IcebergTarget, Target
from tidewire.sync.steps import Alter, Create, Drop, Merge, Slice, Step, Truncate

ID = Column.of("id", "int", primary_key=True)
NAME = Column.of("name", "varchar(20)")
PRICE = Column.of("price", "decimal(10,2)")
WIRE_PRICE = Column.of("price", "decimal")

_SEQUENCE = count(1)


def rows_of(target: Target, table: TableSchema, mode: Mode) -> list[dict[str, Any]]:
    """The current rows, by key."""
    key = [column for column in table.columns if column.handle_key]
    found = current_rows(mode, target.read(table.name), key).toArrow().to_pylist()
    return sorted(found, key=lambda row: [str(row[column.name]) for column in key] or sorted(map(str, row.values())))


def all_rows(target: Target, name: TableName, *columns: str) -> list[tuple[Any, ...]]:
    """All rows of some columns, in order."""
    found = target.read(name).select(*columns).orderBy(*columns).collect()
    return [tuple(row) for row in found]


class Story:
    """A table with a random history, told in steps; what a step's slices hold is remembered for the reference."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.table = TableSchema(TableName("story", f"t{next(_SEQUENCE)}"), (ID, NAME, PRICE))
        self.live: dict[int, dict[str, Any]] = {}
        self.staged: dict[str, list[Change]] = {}
        self.ts, self.offset = 10, 0

    def read(self, piece: Slice) -> list[Change]:
        """For the reference."""
        changes = self.staged[piece.file.path]
        return [each for each in changes if piece.from_ts <= each.ts <= piece.to_ts]

    def merge(self, transactions: int) -> Merge:
        """Some transactions, of which a part is sent twice, and deletes may come late."""
        changes = [each for _ in range(transactions) for each in self._transaction()]
        again = self.random.sample(changes, len(changes) // 4)
        sent = [each._replace(at=replace(each.at, offset=self._next_offset())) for each in again]
        shape = TableSchema(self.table.name, tuple(WIRE_PRICE if c == PRICE else c for c in self.table.columns))
        piece = stage(self.folder, shape, changes + sent)
        self.staged[piece.file.path] = changes + sent
        return Merge(self.table, (piece,), self.ts)

    def _next_offset(self) -> int:
        self.offset += 1
        return self.offset

    def _change(self, before: Row | None, after: Row | None) -> Change:
        return change(self.ts, self._next_offset(), before, after)

    def _row(self, key: int) -> dict[str, Any]:
        digit, text = self.random.randint(0, 9), self.random.choice(["a", "b", None])
        values = {"id": key, "name": text, "label": text, "price": f"{digit}.5", "added": digit}
        return {column.name: values[column.name] for column in self.table.columns}

    def _transaction(self) -> list[Change]:
        self.ts += 1
        kind = self.random.choice(["put", "put", "put", "delete", "move", "split", "swap"])
        keys = sorted(self.live)
        if kind == "put" or len(keys) < 2:
            key = self.random.randint(1, 6)
            before, after = self.live.get(key), self._row(key)
            self.live[key] = after
            return [self._change(before, after)]
        first, second = self.random.sample(keys, 2)
        if kind == "delete":
            return [self._change(self.live.pop(first), None)]
        if kind == "swap":
            one, two = self.live[first], self.live[second]
            self.live[first], self.live[second] = {**two, "id": first}, {**one, "id": second}
            return [self._change(one, self.live[second]), self._change(two, self.live[first])]
        free = self.random.choice([key for key in range(1, 8) if key not in self.live])
        before = self.live.pop(first)
        after = self.live[free] = {**before, "id": free}
        if kind == "move":
            # Only what changed is told of the old row.
            return [self._change({"id": first}, after)]
        return [self._change(None, after), self._change(before, None)]

    def steps(self) -> Iterator[Step]:
        """Rows, then other columns, then more rows, an end of all rows, and again rows."""
        yield Create(self.table, self.ts)
        yield self.merge(12)
        yield self.merge(8)
        yield self.alter()
        yield self.merge(8)
        self.ts += 1
        self.live.clear()
        yield Truncate(self.table, self.ts)
        yield self.merge(6)

    def alter(self) -> Alter:
        """A new column with a default, a renamed one, one of another type, and another place."""
        self.ts += 1
        added = replace(Column.of("added", "int", nullable=False), default="7")
        text = Column.of("price", "varchar(20)")
        before = self.table
        self.table = replace(before, columns=(added, ID, replace(NAME, name="label"), text))
        changes = (NamedColumn("name", "label"), TypedColumn(PRICE, text), NewColumn(added, ColumnPosition(), "7"))
        for key, row in self.live.items():
            price = f"{row['price']}0"
            self.live[key] = {"added": 7, "id": key, "label": row["name"], "price": price}
        return Alter(before, self.table, (*changes, PlacedColumn("added", ColumnPosition(first=True))), self.ts)


LOOKS = (2, 3, 4, 6)
"""The steps after which the tables are compared: a look costs as much as a step."""


def in_every_mode(on_delta: Mode) -> pytest.MarkDecorator:
    """All modes on Iceberg, one on Delta: its statements are the same and take several times as long."""
    cases = [*(("iceberg", mode) for mode in Mode), ("delta", on_delta)]
    return pytest.mark.parametrize(("target", "mode"), cases, indirect=["target"])


on_iceberg = pytest.mark.parametrize("target", ["iceberg"], indirect=True)
"""For what takes Delta a minute, and is said on both by the same statements."""


@pytest.mark.slow
@in_every_mode(on_delta=Mode.MIRROR)
def test_current_rows_are_those_of_the_reference_all_along(target: Target, mode: Mode, tmp_path: Path) -> None:
    story = Story(tmp_path, seed=7)
    reference = MemoryTarget(story.read)

    for number, step in enumerate(story.steps()):
        outcome = execute(step, target, tag(), mode)
        reference.execute(step)

        assert outcome.rejected == ()
        if number in LOOKS:
            expected = reference.tables[story.table.name]
            found = current_rows(mode, target.read(story.table.name), (ID,)).toArrow().sort_by("id")
            assert found.column_names == expected.names
            assert found.to_pylist() == [expected.rows[key] for key in sorted(expected.rows)]
        if isinstance(step, Merge):
            last = step
    before = sorted(map(str, target.read(story.table.name).collect()))

    execute(last, target, tag(), mode)

    assert sorted(map(str, target.read(story.table.name).collect())) == before


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
@on_iceberg
def test_ranges_of_keys_in_tasks_of_their_own_make_the_same_rows(
    target: Target, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows move between ranges, and files have rows of several."""
    monkeypatch.setattr(task, "CHANGES_PER_TASK", 4)
    monkeypatch.setattr(task, "FEW_CHANGES", 0)
    counts, ranges = [], task._ranges

    def counted(*arguments: Any) -> list[KeyRange]:
        found = ranges(*arguments)
        counts.append(len(found))
        return found

    monkeypatch.setattr(task, "_ranges", counted)
    story = Story(tmp_path, seed=5)
    reference = MemoryTarget(story.read)

    for step in story.steps():
        execute(step, target, tag(), mode)
        reference.execute(step)

    expected = reference.tables[story.table.name]
    found = current_rows(mode, target.read(story.table.name), (ID,)).toArrow().sort_by("id")
    assert found.to_pylist() == [expected.rows[key] for key in sorted(expected.rows)]
    assert max(counts) > 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SCD2])
def test_format_version_2_has_the_same_rows(spark: SparkSession, mode: Mode, tmp_path: Path) -> None:
    """Dead rows are in files of positions there; another program reads them too."""
    target = IcebergTarget(spark, tmp_path / "lake", format_version=2)
    story = Story(tmp_path, seed=11)
    reference = MemoryTarget(story.read)

    for step in story.steps():
        execute(step, target, tag(), mode)
        reference.execute(step)

    name, expected = story.table.name, reference.tables[story.table.name]
    rows = [expected.rows[key] for key in sorted(expected.rows)]
    assert current_rows(mode, target.read(name), (ID,)).toArrow().sort_by("id").to_pylist() == rows
    outside = SqlCatalog(target.catalog, uri=f"sqlite:///{target.uri}/catalog.db", warehouse=target.uri)
    read = outside.load_table(tuple(name))
    assert read.format_version == 2
    found = read.scan().to_arrow()
    if mode is Mode.SCD2:
        found = found.filter(pc.is_null(found["_tw_valid_to"])).select(expected.names)
    assert found.sort_by("id").to_pylist() == rows
    dead = [each for file in target.stored(name, listed=True).files for each in file.dead]
    assert all(each.path.endswith("-deletes.parquet") for each in dead)


@on_iceberg
def test_the_history_has_every_change_once_with_both_rows(target: Target, tmp_path: Path) -> None:
    table = TableSchema(TableName("modes", "history"), (ID, NAME))
    one, two, moved = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}, {"id": 2, "name": "b"}
    changes = [change(5, 1, None, one), change(6, 2, one, two), change(7, 3, {"id": 1}, moved), change(8, 4, moved)]
    piece = stage(tmp_path, table, [*changes, change(6, 5, one, two)], number=3)
    execute(Create(table, 1), target, tag(), Mode.HISTORY)

    for _ in range(2):
        execute(Merge(table, (piece,), 9), target, tag(), Mode.HISTORY)

    names = ("_tw_commit_ts", "_tw_op", "id", "name", "_tw_old_id", "_tw_old_name", "_tw_topic", "_tw_partition")
    assert all_rows(target, table.name, *names) == [
        (5, "insert", 1, "a", None, None, "topic", 3),
        (6, "update", 1, "b", 1, "a", "topic", 3),
        (7, "update", 2, "b", 1, "b", "topic", 3),
        (8, "delete", 2, None, 2, "b", "topic", 3),
    ]


@on_iceberg
def test_versions_begin_and_end_where_the_next_change_is(target: Target, tmp_path: Path) -> None:
    table = TableSchema(TableName("modes", "scd2"), (ID, NAME))
    rows = [{"id": 1, "name": name} for name in "abc"]
    first = stage(tmp_path, table, [change(5, 1, None, rows[0]), change(6, 2, rows[0], rows[1])])
    second = stage(
        tmp_path,
        table,
        [
            change(6, 3, rows[0], rows[1]),
            change(7, 4, rows[1], None),
            change(7, 5, None, {"id": 2, "name": "x"}),
            change(9, 6, None, rows[2]),
            change(9, 7, {"id": 2, "name": "x"}, {"id": 2, "name": "y"}),
            # Both halves of a transaction that moves a row and puts another one in its place.
            change(9, 8, {"id": 2, "name": "y"}, None),
        ],
    )
    execute(Create(table, 1), target, tag(), Mode.SCD2)

    for piece in (first, second, second):
        execute(Merge(table, (piece,), 9), target, tag(), Mode.SCD2)

    assert all_rows(target, table.name, "id", "_tw_valid_from", "name", "_tw_valid_to") == [
        (1, 5, "a", 6),
        (1, 6, "b", 7),
        (1, 9, "c", None),
        (2, 7, "x", 9),
        (2, 9, "y", None),
    ]


@on_iceberg
def test_the_other_half_of_a_moved_row_may_come_later(target: Target, tmp_path: Path) -> None:
    table = TableSchema(TableName("modes", "halves"), (ID, NAME))
    row, new = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    pieces = [
        stage(tmp_path, table, [each])
        for each in (change(5, 1, None, row), change(7, 2, row, None), change(7, 3, None, new))
    ]
    execute(Create(table, 1), target, tag(), Mode.SCD2)

    for piece in pieces:
        execute(Merge(table, (piece,), 9), target, tag(), Mode.SCD2)

    versions = all_rows(target, table.name, "_tw_valid_from", "name", "_tw_valid_to")
    assert versions == [(5, "a", 7), (7, "b", None)]


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SCD2])
def test_a_table_without_a_key_is_refused_by_name(target: Target, mode: Mode) -> None:
    table = TableSchema(TableName("modes", "keyless"), (NAME,))

    with pytest.raises(StepImpossible, match=rf"modes\.keyless has neither a primary key.*mode {mode} needs"):
        execute(Create(table, 1), target, tag(), mode)


def test_a_column_may_not_take_a_name_of_ours(target: Target) -> None:
    table = TableSchema(TableName("modes", "ours"), (ID, Column.of("_TW_op", "int")))

    with pytest.raises(StepImpossible, match=r"modes\.ours: a column cannot be called _TW_op"):
        execute(Create(table, 1), target, tag(), Mode.HISTORY)


@on_iceberg
def test_the_history_of_a_table_without_a_key_counts_equal_rows(target: Target, tmp_path: Path) -> None:
    table = TableSchema(TableName("modes", "equal"), (NAME,))
    a, b = {"name": "a"}, {"name": "b"}
    changes = [change(5, n, None, a) for n in range(3)] + [change(6, 4, a, b), change(7, 5, a, None)]
    piece = stage(tmp_path, table, changes)
    execute(Create(table, 1), target, tag(), Mode.HISTORY)

    for _ in range(2):
        execute(Merge(table, (piece,), 9), target, tag(), Mode.HISTORY)

    assert rows_of(target, table, Mode.HISTORY) == [a, b]


def test_a_dropped_table_is_gone_or_kept_under_another_name(target: Target, tmp_path: Path) -> None:
    for mode in Mode:
        table = TableSchema(TableName("dropped", f"t_{mode}"), (ID, NAME))
        execute(Create(table, 1), target, tag(), mode)
        piece = stage(tmp_path, table, [change(5, 1, None, {"id": 1, "name": "a"})])
        execute(Merge(table, (piece,), 5), target, tag(), mode)

        for _ in range(2):
            execute(Drop(table.name, 6), target, tag(), mode)

    left = {name.table for name in target.names() if name.schema == "dropped"}
    assert left == {"t_history__dropped_6", "t_scd2__dropped_6"}


@in_every_mode(on_delta=Mode.SCD2)
def test_what_a_shape_does_not_tell_stays_or_is_the_default(target: Target, mode: Mode, tmp_path: Path) -> None:
    extra = replace(Column.of("extra", "int"), default="7")
    table = TableSchema(TableName("lacks", f"t_{mode}"), (ID, NAME, extra))
    narrow = replace(table, columns=(ID, NAME))
    first = stage(tmp_path, table, [change(5, 1, None, {"id": 1, "name": "a", "extra": 3})])
    old, new = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    second = stage(tmp_path, narrow, [change(6, 2, old, new), change(6, 3, None, {"id": 2, "name": "c"})])
    third = stage(tmp_path, table, [change(6, 4, None, {"id": 3, "name": "d", "extra": None})])
    execute(Create(table, 1), target, tag(), mode)

    execute(Merge(table, (first,), 5), target, tag(), mode)
    execute(Merge(table, (second, third), 6), target, tag(), mode)

    assert rows_of(target, table, mode) == [
        {"id": 1, "name": "b", "extra": 3},
        {"id": 2, "name": "c", "extra": 7},
        {"id": 3, "name": "d", "extra": None},
    ]


def _partial(table: TableSchema) -> list[tuple[TableSchema, Change]]:
    """Changes in order, of which some do not tell a column; the shape each of them has."""
    narrow = replace(table, columns=(ID, NAME))
    one, two, four = ({"id": key, "name": "a", "extra": 10 * key} for key in (1, 2, 4))
    return [
        (table, change(5, 1, None, one)),
        (table, change(5, 2, None, two)),
        (table, change(5, 3, None, four)),
        (narrow, change(6, 4, {"id": 1, "name": "a"}, {"id": 1, "name": "b"})),
        (table, change(7, 5, {"id": 1, "name": "b", "extra": 10}, {"id": 1, "name": "b", "extra": None})),
        (narrow, change(8, 6, {"id": 1, "name": "b"}, {"id": 1, "name": "c"})),
        (narrow, change(7, 7, {"id": 2, "name": "a"}, None)),
        (narrow, change(8, 8, None, {"id": 2, "name": "again"})),
        (narrow, change(8, 9, None, {"id": 3, "name": "new"})),
        (table, change(9, 10, {"id": 4, "name": "a", "extra": 40}, {"id": 5, "name": "moved", "extra": 50})),
        (narrow, change(10, 11, None, {"id": 4, "name": "back"})),
        (narrow, change(11, 12, {"id": 5, "name": "moved"}, {"id": 5, "name": "told before"})),
    ]


@pytest.mark.parametrize("mode", Mode)
@on_iceberg
def test_what_is_not_told_does_not_depend_on_where_passes_end(target: Target, mode: Mode, tmp_path: Path) -> None:
    """A value comes from the key's change before, or from the table; after a delete it is the default."""
    extra = replace(Column.of("extra", "int"), default="7")
    cuts = {"parts": (6, 8, 11), "whole": (11,)}
    found = {}
    for name, ends in cuts.items():
        table = TableSchema(TableName("partial", f"{name}_{mode}"), (ID, NAME, extra))
        execute(Create(table, 1), target, tag(), mode)
        begin = 0
        for end in ends:
            files: dict[TableSchema, list[Change]] = {}
            for shape, each in _partial(table):
                if begin < each.ts <= end:
                    files.setdefault(shape, []).append(each)
            pieces = tuple(stage(tmp_path, shape, changes) for shape, changes in files.items())
            execute(Merge(table, pieces, end), target, tag(), mode)
            begin = end
        past = [column for column in target.read(table.name).columns if not column.startswith("_tw_old")]
        found[name] = all_rows(target, table.name, *past), rows_of(target, table, mode)

    assert found["parts"] == found["whole"]
    assert [(row["id"], row["name"], row["extra"]) for row in found["whole"][1]] == [
        (1, "c", None),
        (2, "again", 7),
        (3, "new", 7),
        (4, "back", 7),
        (5, "told before", 50),
    ]


@on_iceberg
def test_a_change_that_came_before_does_not_fill_a_later_one(target: Target, tmp_path: Path) -> None:
    """The history has a newer change than the one that is sent again."""
    extra = Column.of("extra", "int")
    table = TableSchema(TableName("lacks", "sent_again"), (ID, NAME, extra))
    first = [
        change(5, 1, None, {"id": 1, "name": "a", "extra": 5}),
        change(6, 2, None, {"id": 1, "name": "b", "extra": 6}),
    ]
    late = stage(tmp_path, replace(table, columns=(ID, NAME)), [change(7, 9, None, {"id": 1, "name": "c"})])
    again = stage(tmp_path, table, [first[0]._replace(at=replace(first[0].at, offset=8))])
    execute(Create(table, 1), target, tag(), Mode.HISTORY)

    execute(Merge(table, (stage(tmp_path, table, first),), 6), target, tag(), Mode.HISTORY)
    execute(Merge(table, (again, late), 7), target, tag(), Mode.HISTORY)

    assert all_rows(target, table.name, "_tw_commit_ts", "name", "extra") == [(5, "a", 5), (6, "b", 6), (7, "c", 6)]


SPELLINGS = ("はな", "ハナ", "1", "１", "①", "か", "が")
"""One key by Unicode's collation without case and accents, or nearly; seven rows upstream."""


@in_every_mode(on_delta=Mode.MIRROR)
def test_a_key_is_compared_byte_for_byte(target: Target, mode: Mode, tmp_path: Path) -> None:
    code = Column.of("code", "varchar(20)", primary_key=True)
    code = replace(code, charset="utf8mb4", collation="utf8mb4_general_ci")
    table = TableSchema(TableName("spelled", f"t_{mode}"), (code, NAME))
    rows = [{"code": text, "name": "first"} for text in (*SPELLINGS, "a", "blank", "blank ")]
    first = stage(tmp_path, table, [change(5, at, None, row) for at, row in enumerate(rows)])
    changes = [
        change(6, 20, {"code": "a", "name": "first"}, {"code": "A", "name": "moved"}),
        change(6, 21, {"code": "blank ", "name": "first"}, {"code": "blank ", "name": "second"}),
        change(6, 22, {"code": "が", "name": "first"}, None),
    ]
    execute(Create(table, 1), target, tag(), mode)

    execute(Merge(table, (first,), 5), target, tag(), mode)
    before = {row["code"] for row in rows_of(target, table, mode)}
    execute(Merge(table, (stage(tmp_path, table, changes),), 6), target, tag(), mode)

    assert before == {row["code"] for row in rows}
    expected = {**dict.fromkeys(SPELLINGS[:-1], "first"), "A": "moved", "blank": "first", "blank ": "second"}
    assert {row["code"]: row["name"] for row in rows_of(target, table, mode)} == expected


@in_every_mode(on_delta=Mode.HISTORY)
def test_a_column_goes_in_every_mode(target: Target, mode: Mode) -> None:
    table = TableSchema(TableName("gone", f"t_{mode}"), (ID, NAME))
    after = replace(table, columns=(ID,))
    execute(Create(table, 1), target, tag(), mode)

    execute(Alter(table, after, (GoneColumn("name"),), 2), target, tag(), mode)

    assert "name" not in " ".join(field.name for field in target.fields(table.name))
