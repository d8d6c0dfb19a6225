"""How a sync goes, for those who listen: points on a batch's way, and what each batch did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tidewire.model import TableName
from tidewire.sync.manifest import Manifest
from tidewire.sync.plan import Planned
from tidewire.sync.state import Hold
from tidewire.sync.steps import Merge


class Point(StrEnum):
    """A place on a batch's way."""

    STAGED = "staged"
    STEP = "step"
    APPLIED = "applied"
    PUBLISHED = "published"
    SAVED = "saved"


@dataclass(frozen=True, slots=True)
class Report:
    """What one batch did. Times are in seconds, ``tables`` gives the rows applied to each."""

    batch: int
    sequence: int
    messages: int
    rows: int
    tables: Mapping[TableName, int]
    steps: int
    applied: int
    watermark: int
    rejected: int
    parked: int
    holds: tuple[Hold, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


class Observer(Protocol):
    """Hears how a sync goes."""

    def reached(self, point: Point) -> None:
        """A batch came to a point."""
        ...

    def finished(self, report: Report) -> None:
        """A batch is done."""
        ...


class Silent:
    """An observer that says nothing."""

    def reached(self, point: Point) -> None:
        """A batch came to a point."""

    def finished(self, report: Report) -> None:
        """A batch is done."""


def report_of(planned: Planned, manifest: Manifest, seconds: Mapping[str, float]) -> Report:
    """What a plan that was carried out did."""
    tables: dict[TableName, int] = {}
    for step in planned.steps:
        if isinstance(step, Merge):
            tables[step.table.name] = tables.get(step.table.name, 0) + sum(s.file.rows for s in step.slices)
    state = planned.state
    return Report(
        batch=manifest.batch,
        sequence=state.sequence,
        messages=sum(range_.end - range_.start for range_ in manifest.read.values()),
        rows=sum(file.rows for file in manifest.files),
        tables=tables,
        steps=len(planned.steps),
        applied=state.applied,
        watermark=state.frontier.watermark,
        rejected=len(manifest.rejected),
        parked=len(state.parked),
        holds=state.holds,
        notes=planned.notes,
        seconds=dict(seconds),
    )


def describe(report: Report) -> dict[str, Any]:
    """A report as one line of a log."""
    return {
        "batch": report.batch,
        "sequence": report.sequence,
        "messages": report.messages,
        "rows": report.rows,
        "tables": {str(name): rows for name, rows in report.tables.items()},
        "steps": report.steps,
        "applied": report.applied,
        "watermark": report.watermark,
        "rejected": report.rejected,
        "parked": report.parked,
        "held": [f"{hold.table or 'all tables'} at {hold.ts}: {hold.reason}" for hold in report.holds],
        "notes": list(report.notes),
        "seconds": {name: round(value, 3) for name, value in report.seconds.items()},
    }
