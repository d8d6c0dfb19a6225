"""Reports of a running sync for observers: points in a pass, the result of each pass, and lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import StrEnum
from typing import Any, Protocol

from tidewire.model import TableName
from tidewire.sync.beginnings import incomplete
from tidewire.sync.manifest import Manifest
from tidewire.sync.plan import Planned
from tidewire.sync.state import Hold, State
from tidewire.sync.steps import Fill, Merge


class Point(StrEnum):
    """A place in a pass. Between any two of them a driver may die; the ledger's docstring says what happens then."""

    STAGED = "staged"
    KEPT = "kept"
    FENCED = "fenced"
    STEP = "step"
    APPLIED = "applied"
    REPLANNED = "replanned"
    PUBLISHED = "published"
    CLEANED = "cleaned"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did.

    ``incomplete`` are the tables whose older rows are missing. ``tables`` gives the changes that were applied to each
    table, ``rows`` how many rows tables have now, as far as that is known. ``known`` are all tables that the upstream
    has now. ``rejected`` counts the messages of this pass that cannot be read, ``rejected_total`` those of all passes.
    ``messages`` is an estimate if the source is a storage sink's files. Times are in seconds.
    """

    sequence: int
    messages: int
    staged: int
    tables: Mapping[TableName, int]
    rows: Mapping[TableName, int]
    steps: int
    applied: int
    watermark: int
    rejected: int
    parked: int
    holds: tuple[Hold, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    known: tuple[TableName, ...] = ()
    rejected_total: int = 0
    incomplete: Mapping[TableName, int] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))


class Observer(Protocol):
    """Receives the reports of a sync."""

    def reached(self, point: Point) -> None:
        """A pass came to a point."""
        ...

    def finished(self, report: PassReport) -> None:
        """A pass is done."""
        ...

    def note(self, line: str) -> None:
        """Receive a note for people, such as what the sync waits for."""
        ...


class Silent:
    """An observer that does nothing."""

    def reached(self, point: Point) -> None:
        """A pass came to a point."""

    def finished(self, report: PassReport) -> None:
        """A pass is done."""

    def note(self, line: str) -> None:
        """There is something to say to people."""


def report_of(
    planned: Planned,
    manifest: Manifest,
    sequence: int,
    rows: Mapping[TableName, int],
    seconds: Mapping[str, float],
    messages: int,
) -> PassReport:
    """The report of a plan that was carried out, after a pass that read so many messages."""
    tables: dict[TableName, int] = {}
    for step in planned.steps:
        if isinstance(step, Merge | Fill):
            tables[step.table.name] = tables.get(step.table.name, 0) + sum(each.file.rows for each in step.slices)
    state: State = planned.state
    return PassReport(
        sequence=sequence,
        messages=messages,
        staged=sum(file.rows for file in manifest.files),
        tables=tables,
        rows=rows,
        steps=len(planned.steps),
        applied=state.applied,
        watermark=state.frontier.watermark,
        rejected=len(manifest.rejected),
        parked=len(state.parked),
        holds=state.holds,
        notes=planned.notes,
        seconds=dict(seconds),
        known=tuple(state.tables),
        incomplete=incomplete(state.tables, state.beginnings),
        rejected_total=state.rejected,
    )


def describe(report: PassReport) -> dict[str, Any]:
    """A report as one line of a log."""
    return {
        "time": report.at.isoformat(timespec="milliseconds"),
        "sequence": report.sequence,
        "messages": report.messages,
        "staged": report.staged,
        "tables": {str(name): count for name, count in report.tables.items()},
        "rows": {str(name): count for name, count in report.rows.items()},
        "steps": report.steps,
        "applied": report.applied,
        "watermark": report.watermark,
        "rejected": report.rejected,
        "rejected_total": report.rejected_total,
        "parked": report.parked,
        "held": [describe_hold(hold) for hold in report.holds],
        "incomplete": sorted(map(str, report.incomplete)),
        "notes": list(report.notes),
        "seconds": {name: round(value, 3) for name, value in report.seconds.items()},
    }


def describe_hold(hold: Hold) -> dict[str, Any]:
    """A hold as a JSON object."""
    return {
        "id": hold.id,
        "table": None if hold.table is None else str(hold.table),
        "ts": hold.ts,
        "at": str(hold.at),
        "kind": str(hold.kind),
        "since": hold.since,
        "reason": hold.reason,
    }
