"""Mode scd2: every version of every row, with the time it was valid.

A version is valid from its commit ts up to, and without, the ts of the next change of its key; the current one has no
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply.changes import Changes, last_per
from tidewire.spark.apply.layout import META, completed, folded_keys, key_names, same_key, user_columns, user_fields
from tidewire.spark.apply.statements import run, run_with
from tidewire.spark.targets import Field, Mark, Target
from tidewire.spark.targets.sql_text import quoted

FROM = f"{META}valid_from"
TO = f"{META}valid_to"


class Scd2:
    """Tables of versions."""

    needs_key: ClassVar[bool] = True
    keeps_past: ClassVar[bool] = True
    fill_where: ClassVar[str] = "true"

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The table's own columns and the time the row was valid."""
        return (*user_fields(table, policy), Field(FROM, "bigint"), Field(TO, "bigint"))

    def copies(self, column: str) -> tuple[str, ...]:
        """None: versions are rows."""
        return ()

    def merge(self, target: Target, mark: Mark, changes: Changes, bounds: tuple[int, int]) -> None:
        """Close the versions that end and open those that begin, in one go."""
        table, key = changes.table, changes.key
        rows = target.session().sql(f"SELECT * FROM {target.relation(table.name)}")
        events = last_per(changes.effects(), [*key_names(key), "ts"], ("live", "offset", "sub"))
        events = completed(events, self.current(rows, key), table, key, changes.lacks)
        # A version that ended before all of these changes has nothing to do with them.
        known = rows.where(f"{TO} IS NULL OR {TO} >= {bounds[0]}")
        columns = [quoted(column.name) for column in table.columns]
        run_with(
            target,
            mark,
            _edits(events, known, key),
            f"MERGE INTO {target.relation(table.name)} AS t USING {{source}} AS s "
            f"ON {same_key(key)} AND t.{FROM} = s.closes AND t.{TO} IS NULL "
            f"WHEN MATCHED THEN UPDATE SET {TO} = s.ends "
            f"WHEN NOT MATCHED AND s.closes IS NULL THEN INSERT ({', '.join(columns)}, {FROM}, {TO}) "
            f"VALUES ({', '.join(f's.row.{name}' for name in columns)}, s.begins, s.ends)",
        )

    def truncate(self, target: Target, mark: Mark, name: TableName, ts: int) -> None:
        """Close all versions."""
        run(target, mark, f"UPDATE {target.relation(name)} SET {TO} = {ts} WHERE {TO} IS NULL")

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The versions without an end."""
        return rows.where(f"{TO} IS NULL").select(*map(quoted, user_columns(rows.columns)))


def _edits(events: DataFrame, known: DataFrame, key: Sequence[Column]) -> DataFrame:
    """What the events make of the versions: ``k0…, closes, begins, ends, row``.

    An event counts if it is later than the last one its key had. At the same ts only a row counts, and only where its
    key ended deleted: it is the other half of a moved row, and comes back.
    """
    keys = key_names(key)
    versions = known.selectExpr(*folded_keys(key), f"{FROM} AS begun", f"{TO} AS ended")
    last = versions.groupBy(*keys).agg(
        F.expr("max(coalesce(ended, begun)) AS last"),
        F.expr("max(begun) AS begun"),
        F.expr("max(begun) FILTER (WHERE ended IS NULL) AS open"),
    )
    fresh = events.join(last, keys, "left").where("last IS NULL OR ts > last OR (ts = last AND live AND begun < last)")
    order = f"OVER (PARTITION BY {', '.join(keys)} ORDER BY ts)"
    timed = fresh.selectExpr("*", f"lead(ts) {order} AS next", f"row_number() {order} AS number")
    nothing = "CAST(NULL AS bigint)"
    opened = f"IF(live, named_struct('closes', {nothing}, 'begins', ts, 'ends', next, 'row', row), NULL)"
    closed = f"named_struct('closes', open, 'begins', {nothing}, 'ends', ts, 'row', IF(live, NULL, row))"
    closed = f"IF(number = 1 AND open < ts, {closed}, NULL)"
    edits = f"explode(filter(array({opened}, {closed}), edit -> edit IS NOT NULL)) AS edit"
    return timed.selectExpr(*keys, edits).select(*keys, "edit.*")
