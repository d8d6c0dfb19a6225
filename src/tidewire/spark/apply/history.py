"""Mode history: every change of a table, once, with the row before and after.

The row after is in the table's own columns; a delete has its key there. The row before is in columns ``_tw_old_…``.
TRUNCATE is one row without values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply.changes import LAST, Changes, last_per
from tidewire.spark.apply.layout import META, completed, folded_keys, key_names, same_key, user_columns, user_fields
from tidewire.spark.apply.statements import run, run_with
from tidewire.spark.targets import Field, Mark, Target
from tidewire.spark.targets.sql_text import quoted

OLD = f"{META}old_"
"""How the names of columns begin that hold the row before."""

_META = {
    "op": Field(f"{META}op", "string"),
    "ts": Field(f"{META}commit_ts", "bigint"),
    "topic": Field(f"{META}topic", "string"),
    "partition": Field(f"{META}partition", "int"),
    "offset": Field(f"{META}offset", "bigint"),
    "sub": Field(f"{META}sub", "int"),
}


class History:
    """Tables that only grow: a row for every change."""

    needs_key: ClassVar[bool] = False
    keeps_past: ClassVar[bool] = True
    fill_where: ClassVar[str] = "_tw_op IN ('insert', 'update')"

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The row after, where the change was read, and the row before."""
        own = user_fields(table, policy)
        return (*own, *_META.values(), *(Field(f"{OLD}{field.name}", field.type) for field in own))

    def copies(self, column: str) -> tuple[str, ...]:
        """The column's old value."""
        return (f"{OLD}{column}",)

    def merge(self, target: Target, mark: Mark, changes: Changes, bounds: tuple[int, int]) -> None:
        """Append the changes that are not there yet.

        A key changes in one way at one ts. Without a key nothing but its place identifies a change, so that changes
        which the changefeed sends again are there again.
        """
        table, key = changes.table, changes.key
        records = changes.records()
        if key:
            records = last_per(records, [*key_names(key), "ts", "op"], ("offset", "sub"))
            same = f"t._tw_op = s.op AND {same_key(key)}"
        else:
            same = " AND ".join(f"t.{META}{part} = s.{part}" for part in ("topic", "partition", "offset", "sub"))
        current = self.current(target.session().sql(f"SELECT * FROM {target.relation(table.name)}"), key)
        records = completed(records, current, table, key, changes.lacks)
        columns = [quoted(column.name) for column in table.columns]
        names = [*columns, *(field.name for field in _META.values())]
        names += [quoted(OLD + column.name) for column in table.columns]
        values = [f"s.row.{name}" for name in columns] + [f"s.{part}" for part in _META]
        values += [f"s.old.{name}" for name in columns]
        run_with(
            target,
            mark,
            records,
            f"MERGE INTO {target.relation(table.name)} AS t USING {{source}} AS s "
            f"ON t._tw_commit_ts = s.ts AND t._tw_commit_ts BETWEEN {bounds[0]} AND {bounds[1]} AND {same} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})",
        )

    def truncate(self, target: Target, mark: Mark, name: TableName, ts: int) -> None:
        """Append the row that says so."""
        run(
            target,
            mark,
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
        place = ["_tw_commit_ts AS ts", "_tw_op <> 'delete' AS live", "_tw_offset AS offset", "_tw_sub AS sub"]
        effects = since.selectExpr(*place, *folded_keys(key), row)
        place[1] = "false AS live"
        moved = since.where("_tw_op = 'update'").selectExpr(*place, *folded_keys(key, OLD), row, *_aliased(key))
        moved = moved.where(" OR ".join(f"k{number} <> new{number}" for number in range(len(key))))
        effects = effects.unionAll(moved.select(*effects.columns))
        last = last_per(effects, key_names(key), LAST)
        return last.where("live").select("row.*")


def _aliased(key: Sequence[Column]) -> list[str]:
    return [each.replace(" AS k", " AS new") for each in folded_keys(key)]


def _balance(rows: DataFrame, names: Sequence[str], row: str) -> DataFrame:
    """Rows that came more often than they went, as often as that."""
    came = rows.where("_tw_op <> 'delete'").selectExpr(row, "1 AS times")
    old = f"struct({', '.join(f'{quoted(OLD + name)} AS {quoted(name)}' for name in names)}) AS row"
    went = rows.where("_tw_op <> 'insert'").selectExpr(old, "-1 AS times")
    left = came.unionAll(went).groupBy("row").agg(F.sum("times").alias("times")).where("times > 0")
    return left.selectExpr("row", "explode(sequence(1, CAST(times AS int)))").select("row.*")
