"""Mode scd2: tables of versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableSchema
from tidewire.spark.apply.effects import Effects, effects_of, ends_of, sources_of, starts_of
from tidewire.spark.apply.find import Found, Search
from tidewire.spark.apply.keys import Numbers
from tidewire.spark.apply.layout import (
    META,
    NEVER,
    Batch,
    Edit,
    as_stored,
    key_names,
    lacking,
    places_of,
    rows_of,
    user_columns,
    user_fields,
)
from tidewire.spark.apply.rewrite import Literal, Rewrite, Where
from tidewire.spark.targets.base import Field, quoted
from tidewire.spark.targets.files import DataFile, StoredColumn, StoredTable

FROM: Final = f"{META}valid_from"
TO: Final = f"{META}valid_to"


class Scd2:
    """Tables of versions: every version of every row, with the time it was valid.

    A version is valid from its commit ts up to, and without, the ts of the next change of its key; the current one has
    no end. Versions that have ended and current ones are in different files, so that a search skips most of the former.
    """

    needs_key: ClassVar[bool] = True
    keeps_past: ClassVar[bool] = True
    old_rows: ClassVar[bool] = False
    filled: ClassVar[Where | None] = None

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The table's own columns and the time the row was valid."""
        return (*user_fields(table, policy), Field(FROM, "bigint"), Field(TO, "bigint"))

    def order(self, table: TableSchema) -> tuple[str, ...]:
        """The key, then the time."""
        return (*key_names(table), FROM)

    def group(self, table: StoredTable, file: DataFile) -> int:
        """Files with current versions, and files with versions that have ended."""
        stats = file.stats.get(table.column(TO).id)
        return int(stats is not None and stats.nulls == 0)

    def copies(self, column: str) -> tuple[str, ...]:
        """None: versions are rows."""
        return ()

    def edit(self, batch: Batch) -> Edit:
        """Versions that begin are written. The current version of a key that changes is written again, with its end."""
        changes, effects = batch.changes, effects_of(batch.changes, batch.keys)
        ends = batch.column(TO)
        first = int(effects.ts.min()) if len(effects) else 0
        found = batch.search.find(batch.key, effects.keys, lambda file: _may_end_after(file, ends, first))
        times = batch.search.rows(found, (batch.column(FROM), ends))
        begun, ended = times[0].to_numpy(), pc.fill_null(times[1], NEVER).to_numpy()
        is_open = ended == NEVER
        known = np.flatnonzero(is_open | (ended >= first))
        last, newest, current = (np.full(len(effects.keys), NEVER) for _ in range(3))
        np.maximum.at(last, found.ids[known], np.where(is_open, begun, ended)[known])
        np.maximum.at(newest, found.ids[known], begun[known])
        open_rows = np.flatnonzero(is_open)
        current[found.ids[open_rows]] = open_rows
        effects = effects.at(_is_new(effects, last, newest))
        events = ends_of(effects.ids, effects.ts)
        sources = {number: sources_of(effects, told)[events] for number, told in changes.told.items()}
        effects = effects.at(events)
        return self._edit(batch, effects, sources, found, begun, current)

    def _edit(
        self,
        batch: Batch,
        events: Effects,
        sources: Mapping[int, Numbers],
        found: Found,
        begun: Numbers,
        current: Numbers,
    ) -> Edit:
        """The edit of events, one for each key and ts. ``current`` has the place of each key's current version."""
        is_first, is_last = starts_of(events.ids), ends_of(events.ids)
        following = np.append(events.ts[1:], 0)
        closes = is_first & (current[events.ids] >= 0)
        closes[closes] = begun[current[events.ids[closes]]] < events.ts[closes]
        dying = np.zeros(len(found), bool)
        dying[current[events.ids[closes]]] = True
        dead = found.at(dying)
        end_of = np.zeros(len(found), np.int64)
        end_of[current[events.ids[closes]]] = events.ts[closes]
        lacks = lacking(batch.changes, sources, events.live)
        stored_rows = found.at(_chosen(current if lacks else current[:0], len(found)))
        live = events.live
        at = places_of(stored_rows, len(current))[events.ids[live]]
        rows = rows_of(
            batch.changes,
            events.record[live],
            {number: source[live] for number, source in sources.items()},
            batch.stored_values(stored_rows, lacks),
            at,
        )
        rows = as_stored(batch.stored, rows)
        stays = is_last[live]
        times = pa.array(events.ts[live]), pa.array(following[live], mask=stays)
        rows = rows.append_column(FROM, times[0]).append_column(TO, times[1])
        values = batch.search.rows(dead, batch.stored.columns) if len(dead) else []
        closed = pa.table(
            {
                column.name: pa.array(end_of[dying]) if column.name == TO else array
                for column, array in zip(batch.stored.columns, values, strict=bool(values))
            }
        )
        ended = _together([rows.filter(pa.array(~stays)), *([closed] if closed.num_rows else [])])
        return Edit((rows.filter(pa.array(stays)), ended), dead)

    def truncation(self, stored: StoredTable, search: Search, ts: int) -> Edit | Rewrite | None:
        """All current versions end."""
        return Rewrite(((TO, Literal(ts)),), Where(TO))

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The versions without an end."""
        return rows.where(f"{TO} IS NULL").select(*map(quoted, user_columns(rows.columns)))


def _may_end_after(file: DataFile, column: StoredColumn, ts: int) -> bool:
    """May a file have versions without an end, or that ended at a ts or later?"""
    stats = file.stats.get(column.id)
    return stats is None or stats.nulls != 0 or stats.upper is None or stats.upper >= ts  # type: ignore[operator]


def _is_new(effects: Effects, last: Numbers, newest: Numbers) -> Numbers:
    """Effects that are later than the last one their key had.

    At the same ts only a row counts, and only if its key ended deleted: it is the other half of a moved row.
    """
    known = last[effects.ids]
    found: Numbers = (effects.ts > known) | (
        (effects.ts == known) & effects.live & (newest[effects.ids] < known) & (known != NEVER)
    )
    return found


def _chosen(places: Numbers, count: int) -> Numbers:
    """A mask of those places that are not -1 or less."""
    found = np.zeros(count, bool)
    found[places[places >= 0]] = True
    return found


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of several tables. Stored rows keep columns that another program has added."""
    return pa.concat_tables([table for table in tables if table.num_rows] or tables[:1], promote_options="default")
