"""The seam between a load and the topic: does the topic have everything that changed since the load?

A partition reaches back to a load if one of its watermarks is not later than the load. If its first message is still
there, its oldest change counts too. A partition that begins later, and whose first message is still there, is new if
another partition shows that the changefeed is older than the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidewire.model import Position, TableName
from tidewire.model.tso import to_datetime
from tidewire.sync.beginnings import loads
from tidewire.sync.manifest import Partition, ReadRange
from tidewire.sync.state import Hold, HoldKind, State


def unreached(state: State, read: Mapping[Partition, Iterable[ReadRange]]) -> list[Hold]:
    """The holds of tables that were loaded before the topic begins: what changed in between is in neither.

    ``read`` are the ranges of a pass; a partition is looked at when its first watermark has come.
    """
    known = state.frontier.partitions
    first = {
        at: _together(ordered)
        for at, ranges in read.items()
        if (ordered := sorted(ranges, key=lambda each: each.start))
        and not (at in known and known[at].watermark)
        and any(each.turns for each in ordered)
    }
    followed = any(progress.watermark for progress in known.values())
    tables = {table.folded: table for table in state.tables}
    return [
        hold
        for name, ts in sorted(loads(state.beginnings).items())
        if ts > state.applied and name in tables
        for hold in _gaps(tables[name], ts, first, followed)
    ]


def _gaps(table: TableName, ts: int, first: Mapping[Partition, ReadRange], followed: bool) -> list[Hold]:
    """The hold of one table, if a partition begins too late for it."""
    begins = {at: _begins(range_) for at, range_ in first.items()}
    is_older = followed or any(moment <= ts for moment in begins.values())
    late = [(moment, at) for at, moment in begins.items() if moment > ts and (first[at].start or not is_older)]
    if not late:
        return []
    moment, at = max(late)
    reason = (
        f"{at} begins at {_text(moment)}, after the load of {_text(ts)}, and what changed in between is not in it: "
        f"begin the changefeed with --start-ts {ts} or earlier, or load again"
    )
    return [Hold(ts, Position(at.topic, at.number, first[at].start), reason, table, HoldKind.LOAD, first_ts=ts + 1)]


def reaches(hold: Hold, read: Mapping[Partition, Iterable[ReadRange]]) -> bool:
    """Does the partition of a hold reach back now, because the producer began again at an earlier moment?"""
    ranges = read.get(Partition.of(hold.at), ())
    return any(moment <= hold.ts for range_ in ranges for offset, moment in range_.turns if offset > hold.at.offset)


def _together(ranges: Sequence[ReadRange]) -> ReadRange:
    turns = tuple(turn for each in ranges for turn in each.turns)
    known = [each.first_ts for each in ranges if each.first_ts is not None]
    return ReadRange(ranges[0].start, ranges[-1].end, turns=turns, first_ts=min(known, default=None))


def _begins(range_: ReadRange) -> int:
    """From which ts on a partition has everything."""
    found = min(ts for _, ts in range_.turns)
    return found if range_.start or range_.first_ts is None else min(found, range_.first_ts)


def _text(ts: int) -> str:
    return f"{to_datetime(ts):%Y-%m-%d %H:%M:%S.%f} UTC"
