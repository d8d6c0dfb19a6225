"""What every target promises, whatever its table format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidewire.arrow.types import _ENGINES, UNSIGNED_BIGINT, engines
from tidewire.ddl.edits import Place
from tidewire.model import TableName
from tidewire.spark.targets import TARGETS, DeltaTarget, Field, Mark, Target, TargetError
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog, IcebergTable
from tidewire.spark.targets.sql_text import quoted
from tidewire.spark.work import Work

FIELDS = (Field("id", "bigint"), Field("s", "string"))
SYNC = "a/sync"  # a mark's text has slashes too
ODD = (
    *("sp ace", "do.t", "back`tick", 'it\'s \\ "q"', "select", "é𝄞", "UPPER", "a,;{}()=b", "../up/", "100%", "#x?y=z"),
    "snapshots",  # to Iceberg, a table about a table
)


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    return TARGETS[request.param](spark, str(tmp_path_factory.mktemp(f"a {request.param} (of 1%)")))


@pytest.fixture
def db(request: pytest.FixtureRequest) -> str:
    """A database that no other test uses; also the name of a sync, where a target remembers what a sync has done."""
    return str(request.node.originalname)[:60]


def merge(target: Target, name: TableName, mark: Mark | None, *rows: tuple[int, str]) -> None:
    values = ", ".join(f"({key}, '{text}')" for key, text in rows)
    target.session(mark).sql(
        f"MERGE INTO {target.relation(name)} t USING (SELECT * FROM VALUES {values} AS v(id, s)) c ON t.id = c.id "
        "WHEN MATCHED THEN UPDATE SET s = c.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (c.id, c.s)"
    )


def insert(target: Target, name: TableName, values: str, mark: Mark | None = None) -> None:
    target.session(mark).sql(f"INSERT INTO {target.relation(name)} VALUES {values}")


def rows(target: Target, name: TableName, version: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in target.read(name, version).collect())


def identity(target: Target, name: TableName) -> str:
    return target.version(name).partition("@")[0]


def columns(target: Target, name: TableName) -> list[str]:
    return [field.name for field in target.fields(name)]


def test_a_table_is_created_filled_and_read_at_any_version(target: Target, db: str) -> None:
    name = TableName(db, "t")

    target.create(name, FIELDS)
    empty = target.version(name)
    merge(target, name, Mark(SYNC, 1, 1), (1, "one"), (2, "two"))
    first = target.version(name)
    merge(target, name, Mark(SYNC, 1, 2), (2, "zwei"), (3, "drei"))

    assert target.exists(name)
    assert name in target.names()
    assert target.fields(name) == FIELDS
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

    target.create(name, fields)
    insert(target, name, f"({', '.join(sql for sql, _ in values.values())}), ({', '.join(['null'] * len(values))})")

    assert {engine.spark for engine in _ENGINES.values()} <= values.keys()
    assert target.fields(name) == tuple(fields)
    # An instant becomes local time on its way to Python, and the year 9999 has no later one.
    casts = [f"CAST({name} AS timestamp_ntz)" if type_ == "timestamp" else name for name, type_ in map(astuple, fields)]
    full, empty = target.read(name).orderBy("c0", ascending=False).selectExpr(*casts).collect()
    assert list(full) == [value for _, value in values.values()]
    assert list(empty) == [None] * len(values)


def test_a_mark_is_on_its_commit_and_on_no_other(target: Target, db: str) -> None:
    name, mark = TableName(db, "t"), Mark(SYNC, 7, 2)
    target.create(name, FIELDS)
    insert(target, name, "(0, 'without')")
    assert not target.has(name, Mark(SYNC, 0, 0))

    insert(target, name, "(1, 'with')", mark)
    insert(target, name, "(2, 'without')")

    assert target.has(name, mark)
    assert target.has(name, Mark(SYNC, 7, 1))
    assert target.has(name, Mark(SYNC, 6, 9))
    assert not target.has(name, Mark(SYNC, 7, 3))
    assert not target.has(name, Mark(SYNC, 8, 0))
    assert not target.has(name, Mark("another", 0, 0))
    assert not target.has(TableName(db, "missing"), mark)
    assert len(rows(target, name)) == 3


def test_a_table_is_stamped_when_a_step_has_no_rows(target: Target, db: str) -> None:
    name = TableName(db, "t")

    target.create(name, FIELDS, {}, Mark(SYNC, 1, 3))
    assert target.has(name, Mark(SYNC, 1, 3))
    assert not target.has(name, Mark(SYNC, 1, 4))

    target.stamp(name, Mark(SYNC, 1, 4))
    target.stamp(name, Mark(SYNC, 1, 2))
    target.stamp(name, Mark("another", 0, 1))
    assert target.has(name, Mark(SYNC, 1, 4))
    assert not target.has(name, Mark(SYNC, 1, 5))
    assert target.has(name, Mark("another", 0, 1))

    target.create(name, FIELDS)
    assert not target.has(name, Mark(SYNC, 1, 3))
    with pytest.raises(TargetError, match=r"no table .*missing"):
        target.stamp(TableName(db, "missing"), Mark(SYNC, 1, 4))


def test_columns_come_go_move_and_keep_their_values(target: Target, db: str) -> None:
    name = TableName(db, "t")
    target.create(name, FIELDS)
    insert(target, name, "(1, 'one')")
    before = target.version(name)

    target.add_column(name, Field("last", "int"))
    target.add_column(name, Field("first", "decimal(9,2)"), Place(first=True))
    target.add_column(name, Field("Mid", "array<float>"), Place(after="ID"))
    target.add_column(name, Field("MID", "string"))
    assert columns(target, name) == ["first", "id", "Mid", "s", "last"]

    target.rename_column(name, "S", "text")
    target.rename_column(name, "text", "TEXT")
    target.rename_column(name, "s", "nothing")
    changed = target.version(name)
    assert columns(target, name) == ["first", "id", "Mid", "TEXT", "last"]

    target.move_column(name, "TEXT", Place(first=True))
    target.move_column(name, "first", Place(after="last"))
    target.move_column(name, "id", Place())
    target.drop_column(name, "MID")
    target.drop_column(name, "mid")
    assert columns(target, name) == ["TEXT", "id", "last", "first"]
    assert rows(target, name) == [("one", 1, None, None)]
    assert (target.read(name, before).columns, rows(target, name, before)) == (["id", "s"], [(1, "one")])
    assert target.read(name, changed).columns == ["first", "id", "Mid", "TEXT", "last"]
    assert rows(target, name, changed) == [(None, 1, None, "one", None)]

    for wrong in (Place(after="nowhere"), Place(after="s")):
        with pytest.raises(TargetError, match="no column"):
            target.move_column(name, "id", wrong)
    with pytest.raises(TargetError, match="no column"):
        target.move_column(name, "nothing", Place(first=True))


def test_a_column_is_widened_where_its_values_stay_the_same(target: Target, db: str) -> None:
    name = TableName(db, "t")
    fields = (Field("i", "int"), Field("f", "float"), Field("d", "decimal(5,2)"), Field("s", "string"))
    target.create(name, (*fields, Field("v", "array<float>")))
    insert(target, name, "(-7, float('1.5'), -1.25, '7', null)")
    before = target.version(name)

    assert target.widen_column(name, "I", "bigint")
    assert target.widen_column(name, "f", "double")
    assert target.widen_column(name, "d", "decimal(20,2)")
    assert target.widen_column(name, "d", "decimal(20,2)")
    for column, type_ in (
        ("i", "int"),
        ("i", "string"),
        ("s", "int"),
        ("d", "decimal(19,2)"),
        ("v", "string"),
        ("s", "array<float>"),
    ):
        assert not target.widen_column(name, column, type_), (column, type_)
    with pytest.raises(TargetError, match="no column"):
        target.widen_column(name, "nothing", "int")

    widened = [Field("i", "bigint"), Field("f", "double"), Field("d", "decimal(20,2)")]
    assert target.fields(name)[:3] == tuple(widened)
    assert rows(target, name) == [(-7, 1.5, Decimal("-1.25"), "7", None)]
    assert target.read(name, before).dtypes[0] == ("i", "int")


def test_odd_names_are_names_like_others(target: Target, db: str) -> None:
    first, second = (
        TableName(f"{db} {schema}", table) for schema, table in (("do.t`", "back`tick"), ("é", "a.b/../c"))
    )

    target.create(first, [Field(name, "int") for name in ODD])
    target.add_column(first, Field("new `one`.x", "int"), Place(after="do.t"))
    target.rename_column(first, "sp ace", "sp.`ace")
    target.widen_column(first, "do.t", "bigint")
    target.drop_column(first, "select")
    target.rename([(first, second)], Mark(db, 1, 1))
    expected = ["sp.`ace", "do.t", "new `one`.x", *(name for name in ODD[2:] if name != "select")]
    target.session().sql(f"INSERT INTO {target.relation(second)} ({quoted('do.t')}, {quoted('100%')}) VALUES (1, 2)")

    assert columns(target, second) == expected
    assert second in target.names()
    assert first not in target.names()
    (row,) = target.read(second, target.version(second)).collect()
    assert {column: value for column, value in row.asDict().items() if value is not None} == {"do.t": 1, "100%": 2}


def test_names_that_differ_in_case_are_different_names(target: Target, db: str) -> None:
    lower, upper = TableName(db, "t"), TableName(db, "T")
    target.create(lower, FIELDS)
    table = identity(target, lower)

    target.rename([(lower, upper)], Mark(db, 1, 1))

    assert not target.exists(lower)
    assert identity(target, upper) == table


def made(target: Target, names: Iterable[TableName]) -> list[str]:
    """Tables of these names, and which they are."""
    names = list(names)
    for name in names:
        if not target.exists(name):
            target.create(name, FIELDS)
    return [identity(target, name) for name in names]


def test_tables_are_renamed_all_at_once_and_only_once(target: Target, db: str) -> None:
    a, b, c, d = (TableName(db, table) for table in "abcd")
    tables = made(target, (a, b, c))

    chain = [(a, b), (b, c), (c, d)]
    target.rename(chain, Mark(db, 3, 1))
    assert not target.exists(a)
    assert [identity(target, name) for name in (b, c, d)] == tables

    swap = [(b, c), (c, b), (d, d)]
    target.rename(swap, Mark(db, 3, 2))
    for moves, step in ((chain, 1), (swap, 2)):
        target.rename(moves, Mark(db, 3, step))
    assert [identity(target, name) for name in (c, b, d)] == tables
    assert target.has(b, Mark(db, 3, 2))

    target.rename([(d, TableName(f"{db} 2", "d"))], Mark(db, 4, 1))
    target.rename(swap, Mark(db, 3, 3))
    assert [identity(target, name) for name in (c, b, TableName(f"{db} 2", "d"))] == tables


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
        target.rename([(TableName(db, old), TableName(db, new)) for old, new in moves], Mark(db, 1, 1))

    assert [identity(target, name) for name in names] == tables
    assert {name for name in target.names() if name.schema == db} == set(names)


class Crash(BaseException):
    """The end of the process."""


@contextmanager
def crash(monkeypatch: pytest.MonkeyPatch, at: int, *, done: bool) -> Iterator[None]:
    """Everything that changes what is stored goes well until a certain time, which crashes, before it or after it."""
    writers = [(IcebergCatalog, "rename"), (IcebergCatalog, "set_namespace_property"), (IcebergTable, "set_properties")]
    left = at

    def crashing(write: Any) -> Any:
        def wrapper(*arguments: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0 and not done:
                raise Crash
            write(*arguments)
            if left < 0:
                raise Crash

        return wrapper

    with monkeypatch.context() as patch:
        for owner, method in (*writers, (Work, "write")):
            patch.setattr(owner, method, crashing(getattr(owner, method)))
        yield


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_rename_that_was_interrupted_is_completed(
    target: Target, db: str, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    a, b, c = (TableName(db, table) for table in "abc")
    expected = made(target, (a, b, c))
    crashes = 0
    while True:
        mark = Mark(f"{db} {done}", crashes, 1)
        expected = [expected[1], expected[2], expected[0]]
        moves = [(a, c), (b, a), (c, b)]
        try:
            with crash(monkeypatch, crashes, done=done):
                target.rename(moves, mark)
        except Crash:
            crashes += 1
            target.rename(moves, mark)
            assert [identity(target, name) for name in (a, b, c)] == expected
        else:
            break

    assert [identity(target, name) for name in (a, b, c)] == expected
    assert {name for name in target.names() if name.schema == db} == {a, b, c}
    assert crashes == (1 if isinstance(target, DeltaTarget) else 10)


def test_a_version_outlives_whatever_becomes_of_the_name(target: Target, db: str) -> None:
    name, other = TableName(db, "t"), TableName(db, "other")
    target.create(name, FIELDS)
    insert(target, name, "(1, 'first table')")
    first = target.version(name)

    target.rename([(name, other)], Mark(db, 1, 1))
    assert rows(target, name, first) == [(1, "first table")]

    target.create(name, (Field("n", "int"),))
    second = target.version(name)
    insert(target, name, "(2)")
    third = target.version(name)
    assert rows(target, name, first) == [(1, "first table")]

    target.create(name, FIELDS)
    assert rows(target, name) == []
    assert rows(target, name, second) == []
    assert target.read(name, second).columns == ["n"]
    assert rows(target, name, third) == [(2,)]

    target.drop(other)
    target.drop(other)
    assert not target.exists(other)
    assert rows(target, name, first) == [(1, "first table")]


def test_dropped_tables_are_purged_and_others_stay(spark: SparkSession, tmp_path: Path, target: Target) -> None:
    own = type(target)(spark, str(tmp_path / "own"))  # type: ignore[call-arg]  # a protocol says nothing of __init__
    name, other = TableName("db", "t"), TableName("db", "other")
    for table in (name, other):
        own.create(table, FIELDS)
    version = own.version(name)
    own.drop(name)
    now = dt.datetime.now(dt.timezone.utc)

    assert own.purge(now - dt.timedelta(days=1)) == 0
    assert rows(own, name, version) == []
    assert own.purge(now + dt.timedelta(days=1)) == 1
    assert own.purge(now + dt.timedelta(days=1)) == 0

    with pytest.raises(TargetError, match="any more"):
        own.read(name, version)
    assert own.names() == (other,)
    assert len(list((tmp_path / "own" / "data").iterdir())) == 1


def test_threads_merge_into_their_tables_side_by_side(target: Target, db: str) -> None:
    names = [TableName(db, f"t{number}") for number in range(6)]

    def work(number: int) -> None:
        target.create(names[number], FIELDS)
        merge(target, names[number], Mark(SYNC, 1, number), (number, "own"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(6)))

    for number, name in enumerate(names):
        assert target.has(name, Mark(SYNC, 1, number))
        assert not target.has(name, Mark(SYNC, 1, number + 1))
    everything = reduce(DataFrame.unionAll, map(target.read, names))
    assert sorted(map(tuple, everything.collect())) == [(number, "own") for number in range(6)]


def test_what_is_not_there_is_a_clear_error(target: Target, db: str) -> None:
    name = TableName(db, "missing")

    for call in (target.fields, target.version, target.read, target.keep_marks):
        with pytest.raises(TargetError, match=f"no table {db}.missing"):
            call(name)
    with pytest.raises(TargetError, match="no version of"):
        target.read(name, "nonsense")
    with pytest.raises(TargetError, match=f"no table {db}.missing"):
        target.add_column(name, Field("c", "int"))
