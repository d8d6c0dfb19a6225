"""What every target promises, whatever its table format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark.targets.rows import change, put
from spark.targets.tags import tag
from tidewire.arrow.types import _ENGINES, UNSIGNED_BIGINT, engines
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import ColumnError, Fenced, Retry, SyncError
from tidewire.model import TableName
from tidewire.spark.apply.compact import compact
from tidewire.spark.targets import (
    TARGETS,
    AddColumn,
    ColumnChange,
    CommitTag,
    DeltaTarget,
    DropColumn,
    Field,
    MoveColumn,
    RenameColumn,
    Target,
    TargetError,
    WidenColumn,
    delta_commit,
    iceberg_swap,
    quoted,
)
from tidewire.spark.targets.files import FileChange
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog
from tidewire.storage.folder import FolderStorage

FIELDS = (Field("id", "bigint"), Field("s", "string"))
ODD = (
    *("sp ace", "do.t", "back`tick", 'it\'s \\ "q"', "select", "é𝄞", "UPPER", "a,;{}()=b", "../up/", "100%", "#x?y=z"),
    "snapshots",  # to Iceberg, a table about a table
)


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    return TARGETS[request.param](spark, str(tmp_path_factory.mktemp(f"a {request.param} (of 1%)")))


@pytest.fixture
def db(request: pytest.FixtureRequest) -> str:
    """A database that no other test uses; also the name of a sync of its own."""
    return str(request.node.originalname)[:60]


def merge(target: Target, name: TableName, step: CommitTag, *rows: tuple[int, str]) -> str:
    keys, texts = zip(*rows, strict=True)
    return put(target, name, step, {"id": keys, "s": texts})


def insert(target: Target, name: TableName, values: str, step: CommitTag | None = None) -> None:
    target.session(step).sql(f"INSERT INTO {target.relation(name)} VALUES {values}")


def rows(target: Target, name: TableName, version: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in target.read(name, version).collect())


def identity(target: Target, name: TableName) -> str:
    return target.version(name).partition("@")[0]


def columns(target: Target, name: TableName) -> list[str]:
    return [field.name for field in target.fields(name)]


def test_a_table_is_created_filled_and_read_at_any_version(target: Target, db: str) -> None:
    name = TableName(db, "t")

    empty = target.create(name, FIELDS, tag())
    first = merge(target, name, tag(), (1, "one"), (2, "two"))
    second = merge(target, name, tag(), (2, "zwei"), (3, "drei"))

    assert target.exists(name)
    assert name in target.names()
    assert target.fields(name) == FIELDS
    assert second == target.version(name)
    assert target.row_count(name) in (3, None)
    assert rows(target, name) == rows(target, name, target.version(name)) == [(1, "one"), (2, "zwei"), (3, "drei")]
    assert rows(target, name, first) == [(1, "one"), (2, "two")]
    assert target.read(name, empty).columns == ["id", "s"]
    assert rows(target, name, empty) == []


def test_every_type_of_a_column_is_kept_as_it_is(target: Target, db: str) -> None:
    name = TableName(db, "t")
    at = dt.datetime(1000, 1, 2, 3, 4, 5, 678901)
    values: dict[str, tuple[str, Any]] = {
        "int": ("-2147483648", -(2**31)),
        "bigint": ("9223372036854775807", 2**63 - 1),
        "float": ("float('1.5')", 1.5),
        "double": ("double('-0.1')", -0.1),
        "date": ("date'0001-01-01'", dt.date(1, 1, 1)),
        "timestamp_ntz": ("timestamp_ntz'1000-01-02 03:04:05.678901'", at),
        "timestamp": ("timestamp'9999-12-31 23:59:59.999999Z'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
        "string": ("'é𝄞'", "é𝄞"),
        "binary": ("X'00FF'", b"\0\xff"),
        "array<float>": ("array(float('1.5'), null)", [1.5, None]),
        engines(UNSIGNED_BIGINT).spark: ("18446744073709551615", Decimal(2**64 - 1)),
        "decimal(38,10)": ("-0.5", Decimal("-0.5")),
    }
    fields = [Field(f"c{number}", type_) for number, type_ in enumerate(values)]

    target.create(name, fields, tag())
    insert(target, name, f"({', '.join(sql for sql, _ in values.values())}), ({', '.join(['null'] * len(values))})")

    assert {engine.spark for engine in _ENGINES.values()} <= values.keys()
    assert target.fields(name) == tuple(fields)
    # An instant becomes local time on its way to Python, and the year 9999 has no later one.
    casts = [f"CAST({name} AS timestamp_ntz)" if type_ == "timestamp" else name for name, type_ in map(astuple, fields)]
    full, empty = target.read(name).orderBy("c0", ascending=False).selectExpr(*casts).collect()
    assert list(full) == [value for _, value in values.values()]
    assert list(empty) == [None] * len(values)


def test_a_step_is_found_in_the_version_that_completed_it(target: Target, db: str) -> None:
    name = TableName(db, "t")
    created = target.create(name, FIELDS, tag("made", sync=db))
    insert(target, name, "(0, 'without')")
    merged = merge(target, name, tag("merged", epoch=2, sync=db), (1, "with"))
    insert(target, name, "(2, 'without')")
    altered = target.alter(name, [AddColumn(Field("n", "int"))], tag("altered", epoch=2, sequence=2, sync=db))
    emptied = target.truncate(name, tag("emptied", epoch=3, sequence=2, sync=db))

    found = {step: target.find(name, step) for step in ("made", "merged", "altered", "emptied", "other")}

    assert found == {"made": created, "merged": merged, "altered": altered, "emptied": emptied, "other": None}
    assert len({*found.values()}) == 5
    assert emptied == target.version(name)
    assert target.find(TableName(db, "missing"), "made") is None
    assert rows(target, name, altered) == [(0, "without", None), (1, "with", None), (2, "without", None)]
    assert rows(target, name) == []
    target.create(name, FIELDS, tag("anew", epoch=3, sync=db))
    assert target.find(name, "made") is None


def test_a_part_of_a_step_does_not_complete_it(target: Target, db: str) -> None:
    name = TableName(db, "t")
    target.create(name, FIELDS, tag())
    target.alter(name, [AddColumn(Field("n", "int"))], tag("long", part=0))
    insert(target, name, "(1, 'one', 1)")

    put(target, name, tag("long", part=1), {"id": [1], "s": ["one"], "n": [7]})

    assert (target.parts(name, "long"), target.find(name, "long")) == (2, None)
    assert target.parts(name, "other") == target.parts(TableName(db, "missing"), "long") == 0

    done = target.alter(name, [RenameColumn("n", "m")], tag("long"))
    assert target.find(name, "long") == done
    assert rows(target, name) == [(1, "one", 7)]


def test_a_change_of_nothing_completes_its_step(target: Target, db: str) -> None:
    name = TableName(db, "t")
    target.create(name, FIELDS, tag())

    version = target.write(name, FileChange(target.stored(name)), tag("nothing"))

    assert version == target.find(name, "nothing") == target.version(name)


# A driver that was replaced


def test_a_fence_stops_drivers_with_an_older_epoch(target: Target, db: str) -> None:
    name, other = TableName(db, "t"), TableName(db, "other")
    target.create(name, FIELDS, tag(epoch=3, sync=db))
    merge(target, name, tag(epoch=3, sync=db), (1, "one"))

    target.fence(name, tag(epoch=4, sync=db))
    target.fence(TableName(db, "missing"), tag(epoch=4, sync=db))

    late = tag(epoch=3, sync=db)
    calls: list[Callable[[], object]] = [
        lambda: merge(target, name, late, (2, "two")),
        lambda: target.alter(name, [DropColumn("s")], late),
        lambda: target.truncate(name, late),
        lambda: target.fence(name, late),
        lambda: target.check_epoch(name, late),
        lambda: target.create(name, FIELDS, late),
        lambda: target.rename([(name, other)], late),
        lambda: compact(target, name, late),
        lambda: target.expire(name, dt.datetime.now(dt.timezone.utc), {}, late),
        lambda: target.drop(name, late),
    ]
    for call in calls:
        with pytest.raises(Fenced, match=rf"epoch 4 has taken over {db}.t"):
            call()
    target.check_epoch(name, tag(epoch=3, sync="another"))
    merge(target, name, tag(epoch=4, sync=db), (3, "three"))
    assert rows(target, name) == [(1, "one"), (3, "three")]
    assert {each for each in target.names() if each.schema == db} == {name}


@contextmanager
def before_the_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> Iterator[list[int]]:
    """Something happens once between the making of a commit and its swap; how many swaps there were in all."""
    swaps: list[int] = []
    with monkeypatch.context() as patch:
        for module in (iceberg_swap, delta_commit):
            patch.setattr(module, "exchange", _interrupted(module.exchange, swaps, happens, before=True))
        yield swaps


@contextmanager
def after_the_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> Iterator[list[int]]:
    """Something happens once after a swap, before its answer arrives."""
    swaps: list[int] = []
    with monkeypatch.context() as patch:
        for module in (iceberg_swap, delta_commit):
            patch.setattr(module, "exchange", _interrupted(module.exchange, swaps, happens, before=False))
        yield swaps


def _interrupted(exchange: Any, swaps: list[int], happens: Callable[[], object], *, before: bool) -> Any:
    def interrupted(*arguments: Any) -> Any:
        swaps.append(len(swaps))
        first = len(swaps) == 1
        if first and before:
            happens()
        answer = exchange(*arguments)
        if first and not before:
            happens()
        return answer

    return interrupted


def test_a_commit_that_a_newer_driver_overtook_is_refused(
    target: Target, db: str, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """The older driver is paused after it has looked at the epoch, right before its commit."""
    name = TableName(db, "t")
    target.create(name, FIELDS, tag(epoch=1, sync=db))
    merge(target, name, tag(epoch=1, sync=db), (1, "one"))
    newer = type(target)(spark, target.uri)  # type: ignore[call-arg]  # a protocol says nothing of __init__

    with (
        before_the_commit(monkeypatch, lambda: newer.fence(name, tag(epoch=2, sync=db))),
        pytest.raises(Fenced, match="epoch 2"),
    ):
        target.truncate(name, tag("old", epoch=1, sync=db))

    assert target.find(name, "old") is None
    assert rows(target, name) == [(1, "one")]


def test_a_commit_that_another_commit_overtook_is_made_again(
    target: Target, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TableName(db, "t")
    target.create(name, FIELDS, tag())

    with before_the_commit(monkeypatch, lambda: target.alter(name, [AddColumn(Field("a", "int"))], tag())) as swaps:
        version = target.alter(name, [AddColumn(Field("b", "int"))], tag("second"))

    assert columns(target, name) == ["id", "s", "a", "b"]
    assert version == target.find(name, "second") == target.version(name)
    assert len(swaps) in (2, 3)


def test_rows_that_another_program_moved_are_searched_again(
    target: Target, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction between the search and the commit: the dead positions belong to files that are gone."""
    name = TableName(db, "t")
    target.create(name, FIELDS, tag())
    for key in range(6):
        merge(target, name, tag(), (key, "old"))
    searched = change(target, name, {"id": [1], "s": ["new"]})
    compact(target, name)

    with pytest.raises(Retry, match=rf"another program changed {db}\.t"):
        target.write(name, searched, tag("stale"))
    with (
        before_the_commit(
            monkeypatch, lambda: target.session().sql(f"DELETE FROM {target.relation(name)} WHERE id = 3")
        ),
        pytest.raises(Retry),
    ):
        merge(target, name, tag("late"), (3, "again"))

    merge(target, name, tag("fresh"), (1, "new"))
    assert rows(target, name) == [(0, "old"), (1, "new"), (2, "old"), (4, "old"), (5, "old")]


class AnswerLost(Exception):
    """The connection broke."""


def lose_the_answer() -> None:
    raise AnswerLost


def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(
    target: Target, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TableName(db, "t")

    with after_the_commit(monkeypatch, lose_the_answer) as created:
        made = target.create(name, FIELDS, tag("made"))
    with after_the_commit(monkeypatch, lose_the_answer) as altered:
        first = target.alter(name, [AddColumn(Field("n", "int"))], tag("long", part=0))
    with after_the_commit(monkeypatch, lose_the_answer) as again:
        done = target.alter(name, [RenameColumn("n", "m")], tag("long"))
    with after_the_commit(monkeypatch, lose_the_answer) as written:
        rows_there = merge(target, name, tag("rows"), (1, "one"))

    assert len(created) == len(altered) == len(again) == len(written) == 1
    assert rows_there == target.find(name, "rows") == target.version(name)
    assert rows(target, name) == [(1, "one", None)]
    assert made == target.find(name, "made")
    assert made != first != done
    assert done == target.find(name, "long")
    assert columns(target, name) == ["id", "s", "m"]


def test_a_commit_that_never_arrives_is_one_line(target: Target, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = TableName(db, "t")
    target.create(name, FIELDS, tag())

    def fail(*_: Any) -> None:
        raise AnswerLost("the catalog does not answer\nat Catalog.java:1")

    monkeypatch.setattr("tidewire.spark.targets.commits._PAUSES", (0.0, 0.0))
    for module in (iceberg_swap, delta_commit):
        monkeypatch.setattr(module, "exchange", fail)

    with pytest.raises(SyncError, match=rf"^{db}\.t in .* could not be committed: the catalog does not answer; check"):
        target.truncate(name, tag())


# Columns


def alter(target: Target, name: TableName, *changes: ColumnChange) -> str:
    return target.alter(name, changes, tag())


def test_columns_come_go_move_and_keep_their_values(target: Target, db: str) -> None:
    name = TableName(db, "t")
    target.create(name, FIELDS, tag())
    insert(target, name, "(1, 'one')")
    before = target.version(name)

    changed = alter(
        target,
        name,
        AddColumn(Field("last", "int")),
        AddColumn(Field("first", "decimal(9,2)"), ColumnPosition(first=True)),
        AddColumn(Field("Mid", "array<float>"), ColumnPosition(after="ID")),
        AddColumn(Field("MID", "string")),
        RenameColumn("S", "text"),
        RenameColumn("text", "TEXT"),
        RenameColumn("s", "nothing"),
    )
    assert columns(target, name) == ["first", "id", "Mid", "TEXT", "last"]
    assert changed == target.version(name)

    alter(
        target, name, MoveColumn("TEXT", ColumnPosition(first=True)), MoveColumn("first", ColumnPosition(after="last"))
    )
    alter(target, name, MoveColumn("id", ColumnPosition()), DropColumn("MID"), DropColumn("mid"))
    assert columns(target, name) == ["TEXT", "id", "last", "first"]
    assert rows(target, name) == [("one", 1, None, None)]
    assert (target.read(name, before).columns, rows(target, name, before)) == (["id", "s"], [(1, "one")])
    assert target.read(name, changed).columns == ["first", "id", "Mid", "TEXT", "last"]
    assert rows(target, name, changed) == [(None, 1, None, "one", None)]

    wrong = (
        (MoveColumn("id", ColumnPosition(after="nowhere")), "no column nowhere"),
        (MoveColumn("nothing", ColumnPosition(first=True)), "no column nothing"),
        (AddColumn(Field("new", "int"), ColumnPosition(after="s")), "no column s"),
        (RenameColumn("id", "Last"), "there is a column last"),
        (WidenColumn("nothing", "int"), "no column nothing"),
    )
    for each, reason in wrong:
        with pytest.raises(ColumnError, match=reason):
            alter(target, name, DropColumn("last") if "last" not in reason else DropColumn("TEXT"), each)
    assert columns(target, name) == ["TEXT", "id", "last", "first"]


def test_a_column_is_widened_where_its_values_stay_the_same(target: Target, db: str) -> None:
    name = TableName(db, "t")
    fields = (Field("i", "int"), Field("f", "float"), Field("d", "decimal(5,2)"), Field("s", "string"))
    target.create(name, fields, tag())
    insert(target, name, "(-7, float('1.5'), -1.25, '7')")
    before = target.version(name)

    alter(target, name, WidenColumn("I", "bigint"), WidenColumn("f", "double"), AddColumn(Field("n", "int")))
    alter(target, name, WidenColumn("d", "decimal(12,2)"))
    alter(target, name, WidenColumn("d", "decimal(20,2)"), WidenColumn("d", "decimal(20,2)"))

    widened = [Field("i", "bigint"), Field("f", "double"), Field("d", "decimal(20,2)")]
    assert target.fields(name)[:3] == tuple(widened)
    insert(target, name, "(8589934592, double('0.1'), 123456789012.25, '8', 1)")
    assert rows(target, name)[0] == (-7, 1.5, Decimal("-1.25"), "7", None)
    assert len(rows(target, name)) == 2
    assert target.read(name, before).dtypes[0] == ("i", "int")


@pytest.mark.parametrize(
    ("old", "new", "can"),
    [
        ("int", "bigint", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(20,2)", True),
        ("bigint", "int", False),
        ("int", "string", False),
        ("string", "int", False),
        ("decimal(20,2)", "decimal(19,2)", False),
        ("array<float>", "string", False),
        ("string", "array<float>", False),
    ],
)
def test_which_types_can_be_widened(target: Target, old: str, new: str, can: bool) -> None:
    assert target.can_widen(old, new) is can


def test_odd_names_are_names_like_others(target: Target, db: str) -> None:
    first, second = (
        TableName(f"{db} {schema}", table) for schema, table in (("do.t`", "back`tick"), ("é", "a.b/../c"))
    )

    target.create(first, [Field(name, "int") for name in ODD], tag())
    alter(
        target,
        first,
        AddColumn(Field("new `one`.x", "int"), ColumnPosition(after="do.t")),
        RenameColumn("sp ace", "sp.`ace"),
        WidenColumn("do.t", "bigint"),
        DropColumn("select"),
    )
    target.rename([(first, second)], tag())
    expected = ["sp.`ace", "do.t", "new `one`.x", *(name for name in ODD[2:] if name != "select")]
    target.session().sql(f"INSERT INTO {target.relation(second)} ({quoted('do.t')}, {quoted('100%')}) VALUES (1, 2)")

    assert columns(target, second) == expected
    assert second in target.names()
    assert first not in target.names()
    (row,) = target.read(second, target.version(second)).collect()
    assert {column: value for column, value in row.asDict().items() if value is not None} == {"do.t": 1, "100%": 2}


def test_names_that_differ_in_case_are_different_names(target: Target, db: str) -> None:
    lower, upper = TableName(db, "t"), TableName(db, "T")
    target.create(lower, FIELDS, tag())
    table = identity(target, lower)

    target.rename([(lower, upper)], tag())

    assert not target.exists(lower)
    assert identity(target, upper) == table


def made(target: Target, names: Iterable[TableName]) -> list[str]:
    """Tables of these names, and which they are."""
    names = list(names)
    for name in names:
        if not target.exists(name):
            target.create(name, FIELDS, tag())
    return [identity(target, name) for name in names]


def test_tables_are_renamed_all_at_once_and_only_once(target: Target, db: str) -> None:
    a, b, c, d = (TableName(db, table) for table in "abcd")
    tables = made(target, (a, b, c))

    chain = [(a, b), (b, c), (c, d)]
    versions = target.rename(chain, tag("chain", sequence=3))
    assert not target.exists(a)
    assert [identity(target, name) for name in (b, c, d)] == tables
    assert versions == {name: target.version(name) for name in (b, c, d)}

    swap = [(b, c), (c, b), (d, d)]
    target.rename(swap, tag("swap", sequence=3))
    for moves, step in ((chain, "chain"), (swap, "swap")):
        target.rename(moves, tag(step, sequence=3))
        assert target.moved(tag(step))
    assert [identity(target, name) for name in (c, b, d)] == tables
    assert target.find(b, "swap") == target.version(b)
    assert not target.moved(tag("other"))

    target.rename([(d, TableName(f"{db} 2", "d"))], tag(sequence=4))
    target.rename(swap, tag("swap", sequence=4))
    assert [identity(target, name) for name in (c, b, TableName(f"{db} 2", "d"))] == tables


def test_a_table_that_was_replaced_keeps_its_name(target: Target, db: str) -> None:
    name, other = TableName(db, "t"), TableName(db, "other")
    planned, now = (target.create(name, FIELDS, tag()).partition("@")[0] for _ in range(2))

    calls: list[Callable[[], object]] = [
        lambda: target.drop(name, tag(), identity=planned),
        lambda: target.create(name, FIELDS, tag(), identity=planned),
        lambda: target.rename([(name, other)], tag(), identities={name: planned}),
    ]
    for call in calls:
        with pytest.raises(TargetError, match=rf"{db}.t is not the table that the plan was made for"):
            call()
    assert identity(target, name) == now

    target.rename([(name, other)], tag(), identities={name: now})
    target.drop(other, tag("gone"), identity=now)
    assert target.moved(tag("gone"))
    assert not {each for each in target.names() if each.schema == db}


@pytest.mark.parametrize(
    ("moves", "reason"),
    [
        ([("a", "x"), ("missing", "y")], "no table .*missing"),
        ([("a", "c"), ("b", "x")], "there is a table of that name"),
        ([("a", "x"), ("b", "x")], "(twice|of that name)"),
        ([("a", "x"), ("a", "y")], "twice"),
    ],
    ids=str,
)
def test_a_rename_that_cannot_be_done_moves_nothing(
    target: Target, db: str, moves: list[tuple[str, str]], reason: str
) -> None:
    names = [TableName(db, table) for table in "abc"]
    tables = made(target, names)

    with pytest.raises(TargetError, match=reason):
        target.rename([(TableName(db, old), TableName(db, new)) for old, new in moves], tag())

    assert [identity(target, name) for name in names] == tables
    assert {name for name in target.names() if name.schema == db} == set(names)


class Crash(BaseException):
    """The end of the process."""


@contextmanager
def crash(monkeypatch: pytest.MonkeyPatch, at: int, *, done: bool) -> Iterator[None]:
    """Everything that changes what is stored goes well until a certain time, which crashes, before it or after it."""
    writers: list[tuple[Any, str]] = [
        (IcebergCatalog, "rename"),
        (IcebergCatalog, "set_namespace_property"),
        (iceberg_swap, "exchange"),
        (delta_commit, "exchange"),
        (FolderStorage, "put_if_absent"),
    ]
    left = at

    def crashing(write: Any) -> Any:
        def wrapper(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0 and not done:
                raise Crash
            answer = write(*arguments)
            if left < 0:
                raise Crash
            return answer

        return wrapper

    with monkeypatch.context() as patch:
        for owner, method in writers:
            patch.setattr(owner, method, crashing(getattr(owner, method)))
        yield


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_rename_that_was_interrupted_is_completed(
    target: Target, db: str, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    a, b = (TableName(db, table) for table in "ab")
    expected = made(target, (a, b))
    crashes = 0
    while True:
        step = tag(sync=f"{db} {done}", sequence=crashes)
        expected.reverse()
        moves = [(a, b), (b, a)]
        try:
            with crash(monkeypatch, crashes, done=done):
                target.rename(moves, step)
        except Crash:
            crashes += 1
            target.rename(moves, step)
            assert [identity(target, name) for name in (a, b)] == expected
        else:
            break

    assert [identity(target, name) for name in (a, b)] == expected
    assert {name for name in target.names() if name.schema == db} == {a, b}
    # Two fences and a document, or twice leaving (fence, move) and arriving (tag, move), and a property.
    assert crashes == (3 if isinstance(target, DeltaTarget) else 9)


def test_a_version_outlives_whatever_becomes_of_the_name(target: Target, db: str) -> None:
    name, other = TableName(db, "t"), TableName(db, "other")
    target.create(name, FIELDS, tag())
    insert(target, name, "(1, 'first table')")
    first = target.version(name)

    target.rename([(name, other)], tag())
    assert rows(target, name, first) == [(1, "first table")]

    target.create(name, (Field("n", "int"),), tag())
    second = target.version(name)
    insert(target, name, "(2)")
    third = target.version(name)
    assert rows(target, name, first) == [(1, "first table")]

    target.create(name, FIELDS, tag())
    assert rows(target, name) == []
    assert rows(target, name, second) == []
    assert target.read(name, second).columns == ["n"]
    assert rows(target, name, third) == [(2,)]

    target.drop(other, tag())
    target.drop(other, tag())
    assert not target.exists(other)
    assert rows(target, name, first) == [(1, "first table")]


def test_dropped_tables_are_purged_and_others_stay(spark: SparkSession, tmp_path: Path, target: Target) -> None:
    own = type(target)(spark, str(tmp_path / "own"))  # type: ignore[call-arg]  # a protocol says nothing of __init__
    name, other = TableName("db", "t"), TableName("db", "other")
    for table in (name, other):
        own.create(table, FIELDS, tag())
    version = own.version(name)
    own.drop(name, tag())
    now = dt.datetime.now(dt.timezone.utc)

    assert own.purge(now - dt.timedelta(days=1)) == 0
    assert own.purge(now + dt.timedelta(days=1), {version}) == 0
    assert rows(own, name, version) == []
    assert own.purge(now + dt.timedelta(days=1), tag=tag()) == 1
    assert own.purge(now + dt.timedelta(days=1)) == 0

    with pytest.raises(TargetError, match="any more"):
        own.read(name, version)
    assert own.names() == (other,)
    assert len(list((tmp_path / "own" / "data").iterdir())) == 1


def test_threads_merge_into_their_tables_side_by_side(target: Target, db: str) -> None:
    names = [TableName(db, f"t{number}") for number in range(6)]

    def work(number: int) -> None:
        target.create(names[number], FIELDS, tag())
        merge(target, names[number], tag(f"own {number}"), (number, "own"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))

    for number, name in enumerate(names):
        assert target.find(name, f"own {number}") == target.version(name)
        assert target.find(name, f"own {number + 1}") is None
    everything = reduce(DataFrame.unionAll, map(target.read, names))
    assert sorted(map(tuple, everything.collect())) == [(number, "own") for number in range(6)]


def test_what_is_not_there_is_a_clear_error(target: Target, db: str) -> None:
    name = TableName(db, "missing")

    for call in (target.fields, target.version, target.read, target.size):
        with pytest.raises(TargetError, match=f"no table {db}.missing"):
            call(name)
    with pytest.raises(TargetError, match="not a version of"):
        target.read(name, "nonsense")
    with pytest.raises(TargetError, match=f"no table {db}.missing"):
        target.alter(name, (), tag())
