"""How a sync goes: a live table on a terminal, one line of JSON per batch elsewhere."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidewire.model import TableName
from tidewire.model.tso import physical_ms, to_datetime
from tidewire.spark.sync import Observer, Point, Report, describe


@contextmanager
def progress(gated: bool) -> Iterator[Observer]:
    """An observer that tells people."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield Picture(live, gated)


class Lines:
    """One line of JSON per batch on standard output."""

    def reached(self, point: Point) -> None:
        """Only finished batches make a line."""

    def finished(self, report: Report) -> None:
        """Write the line."""
        click.echo(json.dumps(describe(report), ensure_ascii=False))


class Picture:
    """A table of the tables, redrawn as the sync goes on."""

    def __init__(self, live: Live, gated: bool) -> None:
        self._live = live
        self._gated = gated
        self._rows: Counter[TableName] = Counter()
        self._messages = 0
        self._began = time.monotonic()
        self._report: Report | None = None
        self._point = "reading"

    def reached(self, point: Point) -> None:
        """Show where the batch is."""
        self._point = str(point)
        self._draw()

    def finished(self, report: Report) -> None:
        """Take in a batch."""
        self._report = report
        self._messages += report.messages
        self._rows.update(report.tables)
        self._point = "waiting for messages"
        self._draw()

    def _draw(self) -> None:
        table = Table(box=None, header_style="bold")
        table.add_column("table")
        table.add_column("rows", justify="right")
        table.add_column("this batch", justify="right")
        table.add_column("state")
        last = {} if self._report is None else self._report.tables
        held = {} if self._report is None else {hold.table: hold for hold in self._report.holds}
        for name, rows in sorted(self._rows.items()):
            hold = held.get(name) or held.get(None)
            state = Text(f"held at {hold.ts}", style="yellow") if hold else Text("ok", style="green")
            table.add_row(str(name), f"{rows:,}", f"{last.get(name, 0):,}", state)
        self._live.update(Group(table, Text(self._summary(), style="dim")))

    def _summary(self) -> str:
        seconds = max(time.monotonic() - self._began, 0.001)
        parts = [f"{self._messages:,} messages", f"{self._messages / seconds:,.0f} a second", self._point]
        if self._gated and self._report is not None and self._report.applied:
            applied = self._report.applied
            lag = time.time() - physical_ms(applied) / 1000
            parts.insert(0, f"complete up to {to_datetime(applied):%Y-%m-%d %H:%M:%S.%f} UTC ({lag:,.1f} s ago)")
        if self._report is not None and self._report.rejected:
            parts.append(f"{self._report.rejected} rejected")
        return " · ".join(parts)
