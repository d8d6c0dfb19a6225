"""The modes a table can be kept in: what it looks like in each, and what the steps of a plan do to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, Final, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply.casts import spark_type
from tidewire.spark.apply.changes import LAST, Changes, filled, last_per, misses
from tidewire.spark.targets import CommitTag, Field, Target, quoted, run_statement, text_literal
from tidewire.sync.rules import Route
from tidewire.sync.steps import Create, Drop, Rename, Step

META: Final = "_tw_"
"""How the names of columns begin that a mode adds."""

OLD: Final = f"{META}old_"
"""How the names of columns begin that hold the row before, in mode history."""

FROM: Final = f"{META}valid_from"
TO: Final = f"{META}valid_to"

_SOURCE: Final = f"{META}source"

_HISTORY: Final = {
    "op": Field(f"{META}op", "string"),
    "ts": Field(f"{META}commit_ts", "bigint"),
    "topic": Field(f"{META}topic", "string"),
    "partition": Field(f"{META}partition", "int"),
    "offset": Field(f"{META}offset", "bigint"),
    "sub": Field(f"{META}sub", "int"),
}
"""What mode history adds to a change."""


class Mode(StrEnum):
    """How a table is kept: as upstream has it now, every change of it, or every version of its rows."""

    MIRROR = "mirror"
    HISTORY = "history"
    SCD2 = "scd2"


class Layout(Protocol):
    """A mode. Every method that changes rows makes one commit with the tag, and returns the version it made."""

    needs_key: ClassVar[bool]
    """Must rows be told apart by a key?"""

    keeps_past: ClassVar[bool]
    """Does a table that is dropped upstream stay, under another name?"""

    fill_where: ClassVar[str]
    """The rows that get the default of a new column."""

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The columns of a table in this mode."""
        ...

    def copies(self, column: str) -> tuple[str, ...]:
        """The columns beside it that hold other values of a column, and change with it."""
        ...

    def merge(self, target: Target, tag: CommitTag, changes: Changes, bounds: tuple[int, int]) -> str | None:
        """Apply changes, all with a ts within the bounds."""
        ...

    def truncate(self, target: Target, tag: CommitTag, name: TableName, ts: int) -> str | None:
        """Leave a table without current rows."""
        ...

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The rows the table has upstream, out of all it has here."""
        ...


class Mirror:
    """Tables that hold what upstream's hold, column for column and row for row."""

    needs_key: ClassVar[bool] = True
    keeps_past: ClassVar[bool] = False
    fill_where: ClassVar[str] = "true"

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The table's own columns."""
        return user_fields(table, policy)

    def copies(self, column: str) -> tuple[str, ...]:
        """None."""
        return ()

    def merge(self, target: Target, tag: CommitTag, changes: Changes, bounds: tuple[int, int]) -> str | None:
        """Delete, update and insert by the last change of every key."""
        table, keys, lacks = changes.table, key_names(changes.key), changes.lacks
        names = [quoted(column.name) for column in table.columns]
        updates = (
            f"{name} = IF({misses(number, 's.missing')}, t.{name}, s.row.{name})"
            if column.name in lacks
            else f"{name} = s.row.{name}"
            for number, (column, name) in enumerate(zip(table.columns, names, strict=True))
        )
        last = last_per(filled(changes.effects(), table, keys, lacks), keys, LAST)
        return run_with(
            target,
            table.name,
            tag,
            last.select("live", "missing", "row", *keys),
            f"MERGE INTO {target.relation(table.name)} AS t USING {{source}} AS s ON {_same_key(changes.key)} "
            f"WHEN MATCHED AND NOT s.live THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(updates)} "
            f"WHEN NOT MATCHED AND s.live THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.row.{name}' for name in names)})",
        )

    def truncate(self, target: Target, tag: CommitTag, name: TableName, ts: int) -> str | None:
        """Remove all rows."""
        return target.truncate(name, tag)

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """All rows."""
        return rows


class Scd2:
    """Tables of versions: every version of every row, with the time it was valid.

    A version is valid from its commit ts up to, and without, the ts of the next change of its key; the current one has
    no end.
    """

    needs_key: ClassVar[bool] = True
    keeps_past: ClassVar[bool] = True
    fill_where: ClassVar[str] = "true"

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The table's own columns and the time the row was valid."""
        return (*user_fields(table, policy), Field(FROM, "bigint"), Field(TO, "bigint"))

    def copies(self, column: str) -> tuple[str, ...]:
        """None: versions are rows."""
        return ()

    def merge(self, target: Target, tag: CommitTag, changes: Changes, bounds: tuple[int, int]) -> str | None:
        """Close the versions that end and open those that begin, in one go."""
        table, key, keys = changes.table, changes.key, key_names(changes.key)
        rows = _rows(target, table.name)
        # A version that ended before all of these changes has nothing to do with them.
        known = rows.where(f"{TO} IS NULL OR {TO} >= {bounds[0]}")
        events = filled(_not_known(changes.effects(), known, key), table, keys, changes.lacks)
        events = last_per(events, [*keys, "ts"], ("live", "offset", "sub"))
        events = _completed(events, self.current(rows, key), table, key, changes.lacks)
        columns = [quoted(column.name) for column in table.columns]
        return run_with(
            target,
            table.name,
            tag,
            _edits(events, keys),
            f"MERGE INTO {target.relation(table.name)} AS t USING {{source}} AS s "
            f"ON {_same_key(key)} AND t.{FROM} = s.closes AND t.{TO} IS NULL "
            f"WHEN MATCHED THEN UPDATE SET {TO} = s.ends "
            f"WHEN NOT MATCHED AND s.closes IS NULL THEN INSERT ({', '.join(columns)}, {FROM}, {TO}) "
            f"VALUES ({', '.join(f's.row.{name}' for name in columns)}, s.begins, s.ends)",
        )

    def truncate(self, target: Target, tag: CommitTag, name: TableName, ts: int) -> str | None:
        """Close all versions."""
        statement = f"UPDATE {target.relation(name)} SET {TO} = {ts} WHERE {TO} IS NULL"
        return run_statement(target, name, tag, statement)

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The versions without an end."""
        return rows.where(f"{TO} IS NULL").select(*map(quoted, user_columns(rows.columns)))


def _not_known(effects: DataFrame, known: DataFrame, key: Sequence[Column]) -> DataFrame:
    """Effects that are later than the last one their key had, with ``open``, where the key's current version begins.

    At the same ts only a row counts, and only if its key ended deleted: it is the other half of a moved row.
    """
    keys = key_names(key)
    versions = known.selectExpr(*_key_values(key), f"{FROM} AS begun", f"{TO} AS ended")
    last = versions.groupBy(*keys).agg(
        F.expr("max(coalesce(ended, begun)) AS last"),
        F.expr("max(begun) AS begun"),
        F.expr("max(begun) FILTER (WHERE ended IS NULL) AS open"),
    )
    fresh = effects.join(last, keys, "left").where("last IS NULL OR ts > last OR (ts = last AND live AND begun < last)")
    return fresh.drop("last", "begun")


def _edits(events: DataFrame, keys: Sequence[str]) -> DataFrame:
    """What the events make of the versions: ``k0…, closes, begins, ends, row``."""
    order = f"OVER (PARTITION BY {', '.join(keys)} ORDER BY ts)"
    timed = events.selectExpr("*", f"lead(ts) {order} AS next", f"row_number() {order} AS number")
    nothing = "CAST(NULL AS bigint)"
    opened = f"IF(live, named_struct('closes', {nothing}, 'begins', ts, 'ends', next, 'row', row), NULL)"
    closed = f"named_struct('closes', open, 'begins', {nothing}, 'ends', ts, 'row', IF(live, NULL, row))"
    closed = f"IF(number = 1 AND open < ts, {closed}, NULL)"
    edits = f"explode(filter(array({opened}, {closed}), edit -> edit IS NOT NULL)) AS edit"
    return timed.selectExpr(*keys, edits).select(*keys, "edit.*")


class History:
    """Tables that only grow: a row for every change, once, with the row before and after.

    The row after is in the table's own columns; a delete has its key there. The row before is in columns ``_tw_old_…``.
    TRUNCATE is one row without values.
    """

    needs_key: ClassVar[bool] = False
    keeps_past: ClassVar[bool] = True
    fill_where: ClassVar[str] = "_tw_op IN ('insert', 'update')"

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The row after, where the change was read, and the row before."""
        own = user_fields(table, policy)
        return (*own, *_HISTORY.values(), *(Field(f"{OLD}{field.name}", field.type) for field in own))

    def copies(self, column: str) -> tuple[str, ...]:
        """The column's old value."""
        return (f"{OLD}{column}",)

    def merge(self, target: Target, tag: CommitTag, changes: Changes, bounds: tuple[int, int]) -> str | None:
        """Append the changes that are not there yet.

        A key changes in one way at one ts. Without a key only its place identifies a change, so changes that the
        changefeed sends again are there again.
        """
        table, key, keys = changes.table, changes.key, key_names(changes.key)
        records = changes.records()
        if key:
            records = self._told(records, _rows(target, table.name), changes, bounds)
            records = last_per(records, [*keys, "ts", "op"], ("offset", "sub"))
            same = f"t._tw_op = s.op AND {_same_key(key)}"
        else:
            same = " AND ".join(f"t.{META}{part} = s.{part}" for part in ("topic", "partition", "offset", "sub"))
        columns = [quoted(column.name) for column in table.columns]
        names = [*columns, *(field.name for field in _HISTORY.values())]
        names += [quoted(OLD + column.name) for column in table.columns]
        values = [f"s.row.{name}" for name in columns] + [f"s.{part}" for part in _HISTORY]
        values += [f"s.old.{name}" for name in columns]
        return run_with(
            target,
            table.name,
            tag,
            records,
            f"MERGE INTO {target.relation(table.name)} AS t USING {{source}} AS s "
            f"ON t._tw_commit_ts = s.ts AND t._tw_commit_ts BETWEEN {bounds[0]} AND {bounds[1]} AND {same} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})",
        )

    def _told(self, records: DataFrame, rows: DataFrame, changes: Changes, bounds: tuple[int, int]) -> DataFrame:
        """Records with the values of columns that they do not tell. Those that are there already are left out first."""
        table, key, keys, lacks = changes.table, changes.key, key_names(changes.key), changes.lacks
        if not lacks:
            return records
        there = rows.where(f"_tw_commit_ts BETWEEN {bounds[0]} AND {bounds[1]}")
        there = there.selectExpr(*_key_values(key), "_tw_commit_ts AS ts", "_tw_op AS op")
        records = records.join(there, [*keys, "ts", "op"], "left_anti")
        left = changes.left_keys()
        if left is not None:
            records = records.unionByName(left.selectExpr("*", "'left' AS op"), allowMissingColumns=True)
        records = filled(records, table, keys, lacks).where("op <> 'left'")
        return _completed(records, self.current(rows, key), table, key, lacks)

    def truncate(self, target: Target, tag: CommitTag, name: TableName, ts: int) -> str | None:
        """Append the row that says so."""
        return run_statement(
            target,
            name,
            tag,
            f"MERGE INTO {target.relation(name)} AS t USING (SELECT {ts} AS ts) AS s "
            f"ON t._tw_commit_ts = s.ts AND t._tw_op = 'truncate' "
            f"WHEN NOT MATCHED THEN INSERT (_tw_op, _tw_commit_ts) VALUES ('truncate', s.ts)",
        )

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The last row of every key after the last TRUNCATE; without a key, what came less what went."""
        cut = rows.where("_tw_op = 'truncate'").agg(F.max("_tw_commit_ts").alias("cut"))
        since = (
            rows.where("_tw_op <> 'truncate'").crossJoin(F.broadcast(cut)).where("_tw_commit_ts > coalesce(cut, -1)")
        )
        names = user_columns(rows.columns)
        row = f"struct({', '.join(map(quoted, names))}) AS row"
        if not key:
            return _balance(since, names, row)
        rank = ["_tw_commit_ts AS ts", "_tw_op <> 'delete' AS live", "_tw_offset AS offset", "_tw_sub AS sub"]
        effects = since.selectExpr(*rank, *_key_values(key), row)
        rank[1] = "false AS live"
        new = [each.replace(" AS k", " AS new") for each in _key_values(key)]
        moved = since.where("_tw_op = 'update'").selectExpr(*rank, *_key_values(key, OLD), row, *new)
        moved = moved.where(" OR ".join(f"k{number} <> new{number}" for number in range(len(key))))
        effects = effects.unionAll(moved.select(*effects.columns))
        last = last_per(effects, key_names(key), LAST)
        return last.where("live").select("row.*")


def _balance(rows: DataFrame, names: Sequence[str], row: str) -> DataFrame:
    """Rows that came more often than they went, as often as that."""
    came = rows.where("_tw_op <> 'delete'").selectExpr(row, "1 AS times")
    old = f"struct({', '.join(f'{quoted(OLD + name)} AS {quoted(name)}' for name in names)}) AS row"
    went = rows.where("_tw_op <> 'insert'").selectExpr(old, "-1 AS times")
    left = came.unionAll(went).groupBy("row").agg(F.sum("times").alias("times")).where("times > 0")
    return left.selectExpr("row", "explode(sequence(1, CAST(times AS int)))").select("row.*")


LAYOUTS: Mapping[Mode, Layout] = {Mode.MIRROR: Mirror(), Mode.HISTORY: History(), Mode.SCD2: Scd2()}


def current_rows(mode: Mode, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
    """The rows a table has upstream, out of all rows of it here: in every mode those of a mirror.

    ``key`` are the columns of its handle key.
    """
    return LAYOUTS[mode].current(rows, key)


def modes_of(
    steps: Sequence[Step], known: Mapping[TableName, Mode], wanted: Callable[[TableName], Mode], route: Route
) -> tuple[list[Mode], dict[TableName, Mode]]:
    """The mode each step is done in, and those of all tables afterwards, by their folded names in the target.

    A table has its mode from when it is made, and takes it along to other names. One without a key can only be kept as
    history.
    """
    modes, found = dict(known), []
    for step in steps:
        first = next(iter(step.tables))
        name = route(first).folded
        if isinstance(step, Create):
            modes[name] = wanted(first) if step.table.handle_key else Mode.HISTORY
        found.append(modes.get(name) or wanted(first))
        if isinstance(step, Rename):
            moved = {route(new).folded: modes.pop(route(old).folded, wanted(old)) for old, new in step.moves}
            modes |= moved
        if isinstance(step, Drop):
            modes.pop(name, None)
    return found, modes


def user_fields(table: TableSchema, policy: Policy) -> tuple[Field, ...]:
    """The table's own columns."""
    return tuple(Field(column.name, spark_type(column, policy)) for column in table.columns)


def user_columns(names: Iterable[str]) -> list[str]:
    """The names of the table's own columns among all."""
    return [name for name in names if not name.lower().startswith(META)]


def key_names(key: Sequence[object]) -> list[str]:
    """``k0``, ``k1``…"""
    return [f"k{number}" for number in range(len(key))]


def _key_values(key: Sequence[Column], prefix: str = "") -> list[str]:
    """The columns ``k0``, ``k1``… of rows, out of columns with a prefix."""
    return [f"{quoted(prefix + column.name)} AS k{number}" for number, column in enumerate(key)]


def _same_key(key: Sequence[Column]) -> str:
    """Is a row of the table, called ``t``, one with the key of the source, called ``s``?"""
    return " AND ".join(f"{quoted('t', column.name)} = s.k{number}" for number, column in enumerate(key))


def _rows(target: Target, name: TableName) -> DataFrame:
    return target.session().sql(f"SELECT * FROM {target.relation(name)}")


def _completed(
    changes: DataFrame, rows: DataFrame, table: TableSchema, key: Sequence[Column], lacks: frozenset[str]
) -> DataFrame:
    """Changes whose row has the stored values of columns that are still missing; ``rows`` are the current ones."""
    if not lacks:
        return changes
    now = rows.selectExpr(*_key_values(key), "struct(*) AS now")
    values = (
        f"{text_literal(column.name)}, "
        + (
            f"IF({misses(number)} AND now IS NOT NULL, now.{name}, row.{name})"
            if column.name in lacks
            else f"row.{name}"
        )
        for number, column in enumerate(table.columns)
        for name in (quoted(column.name),)
    )
    others = [quoted(name) for name in changes.columns if name != "row"]
    joined = changes.join(now, key_names(key), "left")
    return joined.selectExpr(*others, f"IF(row IS NULL, NULL, named_struct({', '.join(values)})) AS row")


def run_with(target: Target, name: TableName, tag: CommitTag, source: DataFrame, statement: str) -> str | None:
    """Run a statement in which ``{source}`` stands for rows of this thread's session; the version it made."""
    source.createOrReplaceTempView(_SOURCE)
    try:
        return run_statement(target, name, tag, statement.replace("{source}", _SOURCE))
    finally:
        target.session().catalog.dropTempView(_SOURCE)
