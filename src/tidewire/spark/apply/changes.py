"""The changes of a Merge step: staged files in, one row per change or per key out.

Files of one shape and with the same bounds are read together, with a schema that is told, so that no file is opened to
look for one. A change says something about one key, or, if an update moves a row, about two. Keys are compared byte
for byte: an UPDATE that changes a key has its old and its new value, so no collation is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidewire.arrow.plan import OpCode
from tidewire.arrow.policy import Policy
from tidewire.ddl.defaults import fill
from tidewire.errors import SyncError
from tidewire.model import Column, Position, TableSchema
from tidewire.spark.apply.casts import cast_sql, literal_sql, misfit_sql, spark_type
from tidewire.spark.targets.base import quoted, text_literal
from tidewire.sync.manifest import Partition, Rejected
from tidewire.sync.steps import Merge, Slice

_UPDATE: Final = int(OpCode.UPDATE)
_DELETE: Final = int(OpCode.DELETE)
_OPS: Final = "CASE _op WHEN 0 THEN 'insert' WHEN 1 THEN 'update' ELSE 'delete' END"


@dataclass(frozen=True, slots=True)
class Scan:
    """Files that are read at once: of one shape, within the same bounds, and out of one partition if it is told."""

    shape: tuple[Column, ...]
    bounds: tuple[int, int] | None
    partition: Partition | None
    key: tuple[str, ...] = ()
    moves: bool = True
    paths: tuple[str, ...] = ()

    @property
    def group(self) -> tuple[object, ...]:
        """What files of several partitions have in common that are read together."""
        return self.shape, self.bounds


def scans(slices: Iterable[Slice], *, by_partition: bool = False) -> list[Scan]:
    """The files of slices by what they have in common. A slice that takes all of its file has no bounds."""
    found: dict[Scan, list[str]] = {}
    for each in slices:
        file = each.file
        whole = each.from_ts <= file.min_ts and file.max_ts <= each.to_ts
        bounds = None if whole else (each.from_ts, each.to_ts)
        partition = file.partition if by_partition else None
        found.setdefault(Scan(file.shape.columns, bounds, partition, file.shape.handle_key, file.moves), []).append(
            file.path
        )
    return [replace(scan, paths=tuple(paths)) for scan, paths in found.items()]


def surely_has_rows(slices: Iterable[Slice]) -> bool:
    """Is there a row in these slices for sure? A file has rows at both ends of its range."""
    return any(each.from_ts <= ts <= each.to_ts for each in slices for ts in (each.file.min_ts, each.file.max_ts))


class Changes:
    """The changes of a Merge step.

    A key's values are in columns ``k0``, ``k1``…; the row is a struct ``row`` with the table's columns in its types.
    ``lacks`` lists the columns that some shape does not have: in rows of that shape ``row`` has their default, and
    ``missing`` their numbers; see :func:`filled`.
    """

    def __init__(self, spark: SparkSession, merge: Merge, policy: Policy = Policy()) -> None:
        self._spark = spark
        self._merge = merge
        self._policy = policy
        self.table = merge.table
        self._dirty: set[tuple[object, ...]] = set()
        self.lacks = frozenset(
            column.name
            for scan in scans(merge.slices)
            for column in self.table.columns
            if self._told(scan, column) is None
        )

    def _told(self, scan: Scan, column: Column) -> Column | None:
        return told_column(self._merge, scan.shape, column)

    @property
    def key(self) -> tuple[Column, ...]:
        """The columns of the table's key."""
        return key_columns(self.table)

    # What does not fit

    def misfits(self) -> list[Rejected]:
        """The changes with a value that their table cannot hold. From now on they are left out."""
        reasons = [(scan, reason) for scan in scans(self._merge.slices) if (reason := self._reason(scan)) is not None]
        if not reasons:
            return []
        # Seldom does a value not fit, so the first look is one job over as few scans as there are.
        flaws = [
            self._read(scan).where(f"({reason}) IS NOT NULL").selectExpr(f"{number} AS scan")
            for number, (scan, reason) in enumerate(reasons)
        ]
        found = reduce(DataFrame.unionAll, flaws).distinct().collect()
        self._dirty = {reasons[row["scan"]][0].group for row in found}
        dirty = [scan for scan in scans(self._merge.slices, by_partition=True) if scan.group in self._dirty]
        return [rejected for scan in dirty for rejected in self._rejected(scan)]

    def _rejected(self, scan: Scan) -> Iterator[Rejected]:
        assert scan.partition is not None
        rows = self._read(scan).selectExpr("_ts", "_offset", "_sub", f"{self._reason(scan)} AS reason")
        for row in rows.where("reason IS NOT NULL").orderBy("_offset", "_sub").collect():
            at = Position(scan.partition.topic, scan.partition.number, row["_offset"])
            yield Rejected(at, row["reason"], table=self.table.name, commit_ts=row["_ts"])

    def _reason(self, scan: Scan) -> str | None:
        """Why a change does not fit, NULL if it does; ``None`` where all fit."""
        keys = {column.name.lower() for column in self.key}
        checks = []
        for column in self.table.columns:
            told = self._told(scan, column)
            if told is None:
                continue
            what = f"column {column.name} ({column.mysql_type}): "
            for image in ("after", "before"):
                value = quoted(image, told.name)
                misfit = misfit_sql(value, told, column, self._policy)
                if misfit is not None:
                    shown = f"coalesce(left(CAST({value} AS string), 100), '')"
                    checks.append(f"WHEN {misfit} THEN concat({text_literal(what)}, {shown}, ' does not fit')")
            # What identifies a row can be missing: a date the calendar does not have is NULL, and of an old row only
            # the key may be staged, which was another one when the file was written.
            other_key = not told.handle_key and any(each.handle_key for each in scan.shape)
            if column.name.lower() in keys and (other_key or self._policy.nulls_zeros(column)):
                value = self._key_value(column, told)
                checks.append(f"WHEN {value} IS NULL THEN {text_literal(what + 'a key without a value')}")
        return f"CASE {' '.join(checks)} END" if checks else None

    # Reading

    def _read(self, scan: Scan) -> DataFrame:
        image = ", ".join(f"{quoted(column.name)}: {spark_type(column, self._policy)}" for column in scan.shape)
        schema = (
            "_op tinyint, _ts bigint, _offset bigint, _sub int, _partition bigint, "
            f"after struct<{image}>, before struct<{image}>, _absent array<smallint>"
        )
        rows = self._spark.read.schema(schema).parquet(*map(literal_path, scan.paths))
        return rows if scan.bounds is None else rows.where(f"_ts BETWEEN {scan.bounds[0]} AND {scan.bounds[1]}")

    def _fitting(self, scan: Scan) -> DataFrame:
        rows = self._read(scan)
        reason = self._reason(scan) if scan.group in self._dirty else None
        return rows if reason is None else rows.where(f"({reason}) IS NULL")

    def any(self) -> bool:
        """Is there a change that fits?"""
        return any(not self._fitting(scan).isEmpty() for scan in scans(self._merge.slices))

    # What a change says

    def effects(self) -> DataFrame:
        """What the changes say about keys: ``ts, live, offset, sub, k0…, missing, row``; a delete has no row."""
        parts = [part for scan in scans(self._merge.slices) for part in (self._told_keys(scan), self._left_keys(scan))]
        return reduce(DataFrame.unionAll, [part for part in parts if part is not None])

    def _told_keys(self, scan: Scan) -> DataFrame:
        keys = [self._key_value(column, told) for column, told in self._key_wire(scan)]
        row = f"IF(_op = {_DELETE}, NULL, {self._row(scan)}) AS row"
        rank = ["_ts AS ts", f"_op <> {_DELETE} AS live", "_offset AS offset", "_sub AS sub"]
        return self._fitting(scan).selectExpr(*rank, *_numbered(keys), f"{self._missing(scan)} AS missing", row)

    def _left_keys(self, scan: Scan) -> DataFrame | None:
        """The keys that updates moved their rows away from, as deletes; ``None`` if there surely are none."""
        wire = self._key_wire(scan)
        if not scan.moves and set(scan.key) == {told.name for _, told in wire}:
            return None
        keys = [self._key_value(column, told) for column, told in wire]
        old = [self._old_key_value(scan, column, told) for column, told in wire]
        moved = " OR ".join(f"{before} <> {after}" for before, after in zip(old, keys, strict=True))
        rank = ["_ts AS ts", "false AS live", "_offset AS offset", "_sub AS sub"]
        nothing = f"CAST(NULL AS struct<{self._row_type()}>) AS row"
        rows = self._fitting(scan).where(f"_op = {_UPDATE} AND before IS NOT NULL AND ({moved})")
        return rows.selectExpr(*rank, *_numbered(old), f"{_NONE_MISSING} AS missing", nothing)

    def records(self) -> DataFrame:
        """Every change: ``op, ts, live, topic, partition, offset, sub, k0…, missing, row, old``.

        ``row`` of a delete has its key only. ``old`` is the row before; what an update does not tell of it is as after.
        """
        parts = [self._records(scan) for scan in scans(self._merge.slices, by_partition=True)]
        return reduce(DataFrame.unionAll, parts)

    def left_keys(self) -> DataFrame | None:
        """The keys that updates moved their rows away from, as deletes: ``ts, live, offset, sub, k0…``."""
        parts = [part for scan in scans(self._merge.slices) if (part := self._left_keys(scan)) is not None]
        return reduce(DataFrame.unionAll, parts).drop("missing", "row") if parts else None

    def _records(self, scan: Scan) -> DataFrame:
        assert scan.partition is not None
        topic, number = text_literal(scan.partition.topic), scan.partition.number
        keys = [self._key_value(column, told) for column, told in self._key_wire(scan)]
        return self._fitting(scan).selectExpr(
            f"{_OPS} AS op",
            "_ts AS ts",
            f"_op <> {_DELETE} AS live",
            f"{topic} AS topic",
            f"{number} AS partition",
            "_offset AS offset",
            "_sub AS sub",
            *_numbered(keys),
            f"{self._missing(scan)} AS missing",
            f"IF(_op = {_DELETE}, {self._key_row(scan)}, {self._row(scan)}) AS row",
            f"{self._old_row(scan)} AS old",
        )

    # Expressions

    def _key_wire(self, scan: Scan) -> list[tuple[Column, Column]]:
        """The columns of the key, as declared and as the files have them."""
        found = []
        for column in self.key:
            told = self._told(scan, column)
            if told is None:
                raise SyncError(f"{self.table.name}: its rows do not tell {column.name}, which is in its key")
            found.append((column, told))
        return found

    def _key_value(self, column: Column, told: Column) -> str:
        """A value of the key: the new row's, or a deleted one's."""
        raw = f"IF(_op = {_DELETE}, {quoted('before', told.name)}, {quoted('after', told.name)})"
        return cast_sql(raw, told, column, self._policy)

    def _old_key_value(self, scan: Scan, column: Column, told: Column) -> str:
        return cast_sql(_before(scan, told), told, column, self._policy)

    def _struct(self, values: Iterable[tuple[Column, str]]) -> str:
        return f"named_struct({', '.join(f'{text_literal(column.name)}, {value}' for column, value in values)})"

    def _null(self, column: Column) -> str:
        return f"CAST(NULL AS {spark_type(column, self._policy)})"

    def _row(self, scan: Scan) -> str:
        """The new row in the table's columns."""
        values = []
        for column in self.table.columns:
            told = self._told(scan, column)
            if told is None:
                values.append((column, default_sql(column, self._policy)))
            else:
                values.append((column, cast_sql(quoted("after", told.name), told, column, self._policy)))
        return self._struct(values)

    def _old_row(self, scan: Scan) -> str:
        values = [
            (column, self._null(column) if told is None else cast_sql(_before(scan, told), told, column, self._policy))
            for column in self.table.columns
            for told in (self._told(scan, column),)
        ]
        return f"IF(before IS NULL, NULL, {self._struct(values)})"

    def _key_row(self, scan: Scan) -> str:
        keys = {column.name: told for column, told in self._key_wire(scan)}
        return self._struct(
            (column, self._key_value(column, keys[column.name]) if column.name in keys else self._null(column))
            for column in self.table.columns
        )

    def _row_type(self) -> str:
        return ", ".join(f"{quoted(column.name)}: {spark_type(column, self._policy)}" for column in self.table.columns)

    def _missing(self, scan: Scan) -> str:
        numbers = [str(number) for number, column in enumerate(self.table.columns) if self._told(scan, column) is None]
        return f"array({', '.join(numbers)})" if numbers else _NONE_MISSING


_NONE_MISSING: Final = "CAST(NULL AS array<int>)"


def literal_path(path: str) -> str:
    r"""A path that Spark does not take for a pattern.

    >>> print(literal_path("/data/a[1]"))
    /data/a\[1\]
    """
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def told_column(merge: Merge, shape: Sequence[Column], column: Column) -> Column | None:
    """The column of files with this shape that has the values of a table's column; ``None`` if they lack it."""
    source = merge.source(column.name)
    return None if source is None else next((each for each in shape if each.name.lower() == source), None)


def default_sql(column: Column, policy: Policy) -> str:
    """The value of a column that no change has told: its declared default, or NULL."""
    return literal_sql(fill(replace(column, nullable=True)), column, policy)


def key_columns(table: TableSchema) -> tuple[Column, ...]:
    """The columns that identify a row."""
    return tuple(column for column in table.columns if column.handle_key)


LAST: Final = ("ts", "live", "offset", "sub")
"""What ranks the changes of a key: of two at one ts an upsert wins over a delete, then the later position."""


def last_per(rows: DataFrame, keys: Sequence[str], rank: Sequence[str]) -> DataFrame:
    """The rows with the highest rank among those with the same keys.

    The maximum of a struct takes two thirds of the time that ``max_by`` and ``row_number`` take.
    """
    rest = [name for name in rows.columns if name not in keys and name not in rank]
    last = F.max(F.struct(*rank, *rest)).alias("last")
    return (
        rows.repartition(*keys)
        .groupBy(*keys)
        .agg(last)
        .select(*keys, *(f"last.{name}" for name in (*rank, *rest) if name not in keys))
    )


def filled(changes: DataFrame, table: TableSchema, keys: Sequence[str], lacks: frozenset[str]) -> DataFrame:
    """Changes whose row has, for a column that it does not tell, the value that the key's change before it left.

    So the result does not depend on where passes end. After a delete, a column that is not told has its default.
    ``missing`` is left with the columns that only the stored row can tell: no change before told them, and no delete
    came before. Only columns in ``lacks`` cost anything.
    """
    if not lacks:
        return changes
    numbers = {number: column.name for number, column in enumerate(table.columns) if column.name in lacks}
    key, rank = ", ".join(keys), f"ORDER BY {', '.join(LAST)} ROWS UNBOUNDED PRECEDING"
    lives = changes.selectExpr("*", f"count_if(NOT live) OVER (PARTITION BY {key} {rank}) AS life")
    told = (
        f"last(IF(live AND NOT {misses(number)}, struct({quoted('row', name)} AS value), NULL), true) "
        f"OVER (PARTITION BY {key}, life {rank}) AS told{number}"
        for number, name in numbers.items()
    )
    values = (
        f"{text_literal(column.name)}, "
        + (f"IF(told{number} IS NULL, {value}, told{number}.value)" if number in numbers else value)
        for number, column in enumerate(table.columns)
        for value in (quoted("row", column.name),)
    )
    left = (f"IF({misses(number)} AND told{number} IS NULL, {number}, NULL)" for number in numbers)
    others = [quoted(name) for name in changes.columns if name not in ("missing", "row")]
    return lives.selectExpr("*", *told).selectExpr(
        *others,
        f"IF(live AND life = 0, array_compact(array({', '.join(left)})), NULL) AS missing",
        f"IF(live, named_struct({', '.join(values)}), row) AS row",
    )


def misses(number: int, missing: str = "missing") -> str:
    """Is a column, known by its number in the table, among those that a change does not tell?"""
    return f"coalesce(array_contains({missing}, {number}), false)"


def _numbered(keys: Sequence[str]) -> list[str]:
    return [f"{key} AS k{number}" for number, key in enumerate(keys)]


def _before(scan: Scan, told: Column) -> str:
    """An old value; one that an update leaves out did not change."""
    number = scan.shape.index(told)
    old, new = quoted("before", told.name), quoted("after", told.name)
    return f"IF(_op = {_UPDATE} AND array_contains(_absent, {number}S), {new}, {old})"
