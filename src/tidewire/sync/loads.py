"""What a load makes of the tables: a plan that creates and fills them.

Changes up to the load's ts are replays for the tables in it, and so are DDL; later ones are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidewire.errors import LoadError
from tidewire.model import TableSchema
from tidewire.sync.beginnings import Beginning, Origin
from tidewire.sync.catalogue import Catalogue, stored
from tidewire.sync.holds import Holds
from tidewire.sync.manifest import Rejected, StagedFile
from tidewire.sync.plan import Planned, next_state, published_tables
from tidewire.sync.rules import Rules
from tidewire.sync.state import Hold, HoldKind, OnBad, State
from tidewire.sync.steps import Adopt, Create, Fill, SetAside, Slice, Step
from tidewire.sync.target_tables import TargetTables


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table whose rows are staged. ``rejected`` are rows that cannot be read or do not fit, by file and line."""

    schema: TableSchema
    files: tuple[StagedFile, ...]
    rejected: tuple[Rejected, ...] = ()


def plan_load(
    state: State,
    tables: Sequence[LoadedTable],
    ts: int,
    rules: Rules,
    *,
    reject_files: tuple[str, ...] = (),
    on_bad: OnBad = OnBad.HOLD,
    has_watermarks: bool = True,
    adopts: bool = False,
    check: Callable[[Step], str | None] = lambda step: None,
    now: str = "",
) -> Planned:
    """The plan that makes the tables of a load, and the state after it; :class:`LoadError` if one cannot be made.

    With ``adopts`` the tables are in the target already, and are taken over.
    """
    read = max((each.watermark for each in state.frontier.partitions.values()), default=0)
    if has_watermarks and read > ts:
        raise LoadError(
            f"the sync of this target has read its topic up to {read}, past the moment {ts} of the load: what changed "
            "since then would be lost. Give --replace: the sync then reads the topic again for these tables"
        )
    catalogue = Catalogue(state.tables.values(), state.last_ddl_ts, state.beginnings)
    targets = TargetTables(state.target_tables, state.kept, rules)
    holds = Holds(state, has_watermarks=has_watermarks, now=now)
    steps: list[Step] = [SetAside(reject_files)] if reject_files else []
    for table in tables:
        steps += _made(table, ts, catalogue, targets, adopts=adopts)
        if table.rejected and on_bad is OnBad.HOLD:
            holds.add(_held(table, ts))
    for step in steps:
        if isinstance(step, Create | Adopt) and (reason := check(step)) is not None:
            raise LoadError(f"{', '.join(map(str, sorted(step.tables)))} cannot be loaded: {reason}")
    names = {table.schema.name.folded for table in tables}
    after = replace(
        next_state(state, catalogue, targets, has_watermarks=has_watermarks),
        holds=tuple(holds.all),
        rejected=state.rejected + sum(len(table.rejected) for table in tables),
        pending=tuple(
            replace(each, since=max(each.since, ts + 1), fresh=max(each.fresh, ts + 1))
            if has_watermarks and each.file.table.folded in names
            else each
            for each in state.pending
        ),
    )
    publication = published_tables(targets, catalogue, state.applied if has_watermarks else None, holds.limit)
    done = tuple(file for table in tables for file in table.files)
    return Planned(tuple(steps), after, publication, tuple(targets.notes), done)


def _made(table: LoadedTable, ts: int, catalogue: Catalogue, targets: TargetTables, *, adopts: bool) -> list[Step]:
    """The steps that make one table."""
    schema = table.schema
    if targets.by_name.get(schema.name.folded) is not None:
        raise LoadError(f"{schema.name} is there already: leave it out with --tables, or give --replace")
    catalogue.tables[schema.name.folded] = schema
    catalogue.last_ddl_ts[schema.name.folded] = ts
    catalogue.beginnings[schema.name.folded] = Beginning(ts, Origin.LOAD)
    if adopts:
        return targets.follow([Adopt(stored(schema), ts)], told=False)
    slices = tuple(Slice(file, file.min_ts, file.max_ts) for file in table.files)
    fill = [Fill(stored(schema), slices, ts)] if slices else []
    return targets.follow([Create(stored(schema), ts), *fill], told=False)


def _held(table: LoadedTable, ts: int) -> Hold:
    """The hold of a table that lacks rows of its load."""
    first = min(table.rejected, key=lambda each: each.at)
    count = len(table.rejected)
    more = f", and {count - 1:,} more {'row' if count == 2 else 'rows'}" if count > 1 else ""
    return Hold(ts, first.at, f"not loaded: {first.reason}{more}", table.schema.name, HoldKind.LOAD, first_ts=ts)
