"""Keys of every type are found again, whatever became of their column: no row twice, none lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from tidewire.ddl.column_steps import NamedColumn, TypedColumn
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, execute
from tidewire.spark.apply.keys import Keys, SortedValues
from tidewire.spark.targets import Target
from tidewire.spark.targets.files import ColumnStats, shortened
from tidewire.sync.steps import Alter, Create, Merge
from tidewire.sync.table_options import NO_OPTIONS, PartitionBy, TableOptions

D = Decimal
UTC = timezone.utc

KEYS: list[tuple[str, list[Any], str | None]] = [
    ("tinyint", [-128, 0, 127], "int"),
    ("smallint unsigned", [0, 65535], "bigint"),
    ("int", [-(2**31), 0, 2**31 - 1], "bigint"),
    ("int unsigned", [0, 2**32 - 1], "bigint unsigned"),
    ("bigint", [-(2**63), 0, 2**63 - 1], "decimal(20,0)"),
    ("bigint unsigned", [D(0), D(2**63), D(2**64 - 1)], "decimal(22,0)"),
    ("decimal(10,2)", [D("-1.50"), D("0.00"), D("99999999.99")], "decimal(12,2)"),
    ("decimal(38,10)", [D("-1.0000000001"), D("9" * 28 + ".5000000000")], None),
    ("float", [-1.5, 0.0, 3.25], "double"),
    ("double", [-1.5, 0.0, 1e300], None),
    ("date", [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)], None),
    ("datetime(6)", [datetime(1, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4), datetime(9999, 12, 31)], None),
    ("timestamp(6)", [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2038, 1, 1, 0, 0, 0, 1, tzinfo=UTC)], None),
    ("time(6)", [-3_020_399_000_000, 0, 3_020_399_000_000], None),
    ("year", [0, 1901, 2155], None),
    ("bit(10)", [0, 1023], None),
    ("bit(64)", [D(0), D(2**64 - 1)], None),
    ("char(4)", ["", "a", "ab "], "char(10)"),
    ("varchar(200)", ["", "a", "A", "ä" * 40, "ä" * 41, "\U0010ffff" * 30, "z" * 200], "varchar(400)"),
    ("binary(4)", [b"\0\0\0\0", b"a\0\0\0", b"\xff\xff\xff\xff"], None),
    ("varbinary(40)", [b"", b"\0", b"\xff" * 30, b"\xff" * 31], None),
    ("enum('a','b','')", ["a", "b", ""], None),
    ("set('a','b')", ["", "a", "a,b"], None),
]
"""A type, keys of it, and a wider type that MODIFY can give the column."""


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
@pytest.mark.parametrize(("kind", "values", "wider"), KEYS, ids=[kind for kind, _, _ in KEYS])
def test_a_key_of_every_type_is_found_again(
    target: Target, tmp_path: Path, kind: str, values: list[Any], wider: str | None
) -> None:
    _follow(target, tmp_path, kind, values, wider)


IN_PLACE = ("tinyint", "smallint unsigned", "int", "bigint unsigned", "decimal(10,2)", "char(4)", "varchar(200)")
"""Keys of these types are widened without new files; others that partition a table are not."""


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "values", "wider"),
    [key for key in KEYS if key[0] not in ("float", "double")],
    ids=lambda kind: str(kind)[:20],
)
def test_a_key_that_partitions_is_found_again(
    target: Target, tmp_path: Path, kind: str, values: list[Any], wider: str | None
) -> None:
    options = TableOptions(partition=(PartitionBy("k", "bucket[3]"),))
    _follow(target, tmp_path, kind, values, wider if kind in IN_PLACE else None, options)


IN_DELTA = ("bigint", "decimal(10,2)", "datetime(6)", "varchar(200)", "varbinary(40)")
"""Keys that every run of the tests has in Delta; ``make matrix`` has all."""


@pytest.mark.slow
@pytest.mark.parametrize("target", ["delta"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "values", "wider"),
    [pytest.param(*key, marks=[] if key[0] in IN_DELTA else pytest.mark.matrix, id=key[0]) for key in KEYS],
)
def test_a_key_is_found_again_in_delta_too(
    target: Target, tmp_path: Path, kind: str, values: list[Any], wider: str | None
) -> None:
    _follow(target, tmp_path, kind, values, wider)


def _follow(
    target: Target,
    folder: Path,
    kind: str,
    values: list[Any],
    wider: str | None,
    options: TableOptions = NO_OPTIONS,
) -> None:
    """Rows come, come again, change, and change again after their key was renamed and widened; one goes."""
    key, text = Column.of("k", kind, primary_key=True), Column.of("v", "varchar(20)")
    table = TableSchema(
        TableName("keys", "".join(filter(str.isalnum, kind)) + "p" * len(options.partition)), (key, text)
    )
    rows = [{"k": value, "v": "first"} for value in values]
    came = [change(5, number, None, row) for number, row in enumerate(rows)]
    steps: list[Any] = [Create(table, 1, options), Merge(table, (stage(folder, table, came),), 5)]
    changed = [change(6, 20 + number, row, {**row, "v": "second"}) for number, row in enumerate(rows)]
    steps.append(Merge(table, (stage(folder, table, [*came, *changed]),), 6))
    renamed = replace(key, name="n")
    after = replace(table, columns=(renamed, text))
    steps.append(Alter(table, after, (NamedColumn("k", "n"),), 7))
    if wider is not None:
        wide = Column.of("n", wider, primary_key=True)
        table, after = after, replace(table, columns=(wide, text))
        steps.append(Alter(table, after, (TypedColumn(renamed, wide),), 8))
    again = [{"n": _widened(value, wider), "v": "third"} for value in values]
    last = [change(9, 40 + number, {**row, "v": "second"}, row) for number, row in enumerate(again)]
    last.append(change(10, 60, again[0], None))
    steps += [Merge(after, (stage(folder, after, last),), 10)] * 2

    for step in steps:
        execute(step, target, tag(), Mode.MIRROR)

    found = target.read(after.name).toArrow().to_pylist()
    assert sorted(found, key=_by_key) == sorted(again[1:], key=_by_key)


def _by_key(row: dict[str, Any]) -> str:
    return str(row["n"])


def _widened(value: Any, wider: str | None) -> Any:
    return D(value) if wider is not None and wider.startswith(("decimal", "bigint unsigned")) else value


# Numbers of keys


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "b"]), st.booleans()), max_size=30),
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "c"]), st.booleans()), max_size=30),
)
def test_rows_are_found_by_all_columns_of_their_key(
    known: list[tuple[int, str, bool]], looked_at: list[tuple[int, str, bool]]
) -> None:
    keys = Keys(_columns(known))

    rows, ids = keys.find(_columns(looked_at))

    assert len(keys) == len(set(known))
    assert [row for row in range(len(looked_at)) if looked_at[row] in known] == rows.tolist()
    assert [known[keys.ids.tolist().index(id_)] for id_ in ids] == [looked_at[row] for row in rows]


def _columns(rows: list[tuple[int, str, bool]]) -> list[pa.Array]:
    types = (pa.int32(), pa.string(), pa.bool_())
    return [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types)]


def test_there_is_one_zero() -> None:
    rows, ids = Keys([pa.array([0.0, 1.0])]).find([pa.array([-0.0, 2.0])])

    assert (rows.tolist(), ids.tolist()) == ([0], [0])


@given(st.lists(st.integers(-50, 50), min_size=1), st.integers(-60, 60), st.integers(-60, 60))
def test_bounds_are_compared_with_all_values(values: list[int], lower: int, upper: int) -> None:
    expected = any(lower <= value <= upper for value in values)

    assert SortedValues(pa.array(values)).any_between(lower, upper) is expected
    texts = pa.array([f"{value + 100:03}" for value in values])
    assert SortedValues(texts).any_between(b"%03d" % (lower + 100), b"%03d" % (upper + 100)) is expected


@given(st.lists(st.text(max_size=40), min_size=1))
def test_short_bounds_hold_all_texts(texts: list[str]) -> None:
    data = sorted(text.encode() for text in texts)

    short = shortened(ColumnStats(0, data[0], data[-1]), pa.string())

    assert isinstance(short.lower, bytes)
    assert short.lower <= data[0]
    assert short.upper is None or short.upper >= data[-1]  # type: ignore[operator]
    assert all(bound is None or len(bound.decode()) <= 16 for bound in (short.lower, short.upper))  # type: ignore[union-attr]
