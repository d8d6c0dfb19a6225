"""How a sync goes: a live table on a terminal, lines of JSON elsewhere."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, Protocol

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidewire.model import TableName
from tidewire.model.tso import physical_ms, to_datetime
from tidewire.sync.toml_section import without_secrets

if TYPE_CHECKING:
    from tidewire.spark.report import PassReport, Point
    from tidewire.sync.state import Hold

IDLE_SECONDS: Final = 10.0
"""The seconds between two lines of JSON about passes in which only watermarks moved."""

_LINES_AROUND: Final = 8
"""Lines of the screen that tables do not get: the header, the summary, the beginning of the list of holds."""


class Progress(Protocol):
    """An observer of a sync that can say something before the sync runs."""

    def reached(self, point: Point) -> None:
        """A pass came to a point."""
        ...

    def finished(self, report: PassReport) -> None:
        """A pass is done."""
        ...

    def note(self, line: str) -> None:
        """There is something to say, such as what the sync waits for."""
        ...

    def begin(self, *, has_watermarks: bool) -> None:
        """The sync begins."""
        ...


@contextmanager
def progress(target: str) -> Iterator[Progress]:
    """What shows people, or programs, how a sync into a target goes."""
    if sys.stdout.isatty():
        screen = Screen(Console(), target)
        try:
            yield screen
        finally:
            screen.close()
        return
    lines = Lines()
    try:
        yield lines
    finally:
        lines.close()


class Lines:
    """Lines of JSON on standard output, each with the time.

    A pass in which something happened makes a line; passes in which only watermarks moved make one now and then.
    """

    def __init__(self, write: Callable[[str], None] = click.echo, clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._written = float("-inf")
        self._holds: frozenset[str] = frozenset()
        self._unwritten: PassReport | None = None

    def begin(self, *, has_watermarks: bool) -> None:
        """The lines before it have said it."""

    def reached(self, point: Point) -> None:
        """Only finished passes make a line."""

    def note(self, line: str) -> None:
        """Write a note."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": now, "note": line}, ensure_ascii=False))

    def finished(self, report: PassReport) -> None:
        """Write the line of a pass, if it is not one of many idle ones."""
        holds = frozenset(hold.id for hold in report.holds)
        news = report.steps or report.staged or report.rejected or report.notes or holds != self._holds
        self._unwritten = report
        if news or self._clock() - self._written >= IDLE_SECONDS:
            self.close()
        self._holds = holds

    def close(self) -> None:
        """Write the last pass, if that was not done."""
        from tidewire.spark.report import describe

        if self._unwritten is not None:
            self._write(json.dumps(describe(self._unwritten), ensure_ascii=False))
            self._written, self._unwritten = self._clock(), None


class Screen:
    """A live list of the tables on a terminal: their rows now, the changes since the start, and their state."""

    def __init__(self, console: Console, target: str) -> None:
        self._console = console
        self._target = target
        self._live: Live | None = None
        self._has_watermarks = True
        self._rows: dict[TableName, int | None] = {}
        self._changes: Counter[TableName] = Counter()
        self._messages = 0
        self._began = time.monotonic()
        self._report: PassReport | None = None
        self._doing = "reading"
        self._closed = False

    def begin(self, *, has_watermarks: bool) -> None:
        """Show the table from now on."""
        self._has_watermarks = has_watermarks
        self._live = Live(console=self._console, get_renderable=self.picture, refresh_per_second=4)
        self._live.start()

    def close(self) -> None:
        """Leave the last picture on the screen; the command lists the holds after it."""
        self._closed, self._doing = True, "ended"
        if self._live is not None:
            self._live.stop()

    def note(self, line: str) -> None:
        """Print a line, or show it below the table."""
        self._doing = line
        if self._live is None:
            self._console.print(Text(line))

    def reached(self, point: Point) -> None:
        """Show where the pass is."""
        self._doing = str(point)

    def finished(self, report: PassReport) -> None:
        """Take in a pass."""
        self._report = report
        self._messages += report.messages
        self._changes.update(report.tables)
        counts = dict.fromkeys(report.tables) | dict(report.rows)
        self._rows = {name: counts.get(name, self._rows.get(name)) for name in report.known}
        self._doing = "waiting for messages"

    def picture(self) -> Group:
        """What is on the screen now."""
        report = self._report
        parts: list[Any] = []
        if report is not None and self._rows:
            parts.append(self._table(report))
        if report is not None and report.holds:
            parts.append(Text(held_line(report.holds), style="bold yellow"))
            if not self._closed:
                parts += [Text(f"  {line}", style="yellow") for line in self._ways_out(report.holds)]
        if report is not None and report.incomplete:
            names = _count(len(report.incomplete), "table")
            parts.append(Text(f"older rows missing in {names}: tidewire load brings them", style="yellow"))
        if report is not None and report.rejected_total:
            parts.append(
                Text(
                    f"{_count(report.rejected_total, 'message')} rejected: "
                    f"tidewire rejects ls {as_argument(self._target)}",
                    style="yellow",
                )
            )
        parts.append(Text(self._summary(), style="dim"))
        return Group(*parts)

    def _table(self, report: PassReport) -> Table:
        table = Table(box=None, header_style="bold")
        table.add_column("table", overflow="fold")
        table.add_column("rows", justify="right")
        table.add_column("changes", justify="right")
        table.add_column("state")
        held = {hold.table: hold for hold in reversed(report.holds)}
        order = sorted(self._rows, key=lambda name: (name not in held, -self._changes[name], name))
        room = max(3, self._console.height - _LINES_AROUND - 2 * len(report.holds))
        for name in sorted(order[:room]):
            hold, rows = held.get(name) or held.get(None), self._rows[name]
            state = Text("older rows missing", "yellow") if name in report.incomplete else Text("ok", "green")
            if hold:
                state = Text(f"held since {_clock_time(hold.since)}", "yellow")
            table.add_row(Text(str(name)), "" if rows is None else f"{rows:,}", f"{self._changes[name]:,}", state)
        if len(order) > room:
            table.add_row(Text(f"and {len(order) - room} more", style="dim"))
        return table

    def _ways_out(self, holds: tuple[Hold, ...]) -> Iterator[str]:
        room = max(1, (self._console.height - _LINES_AROUND) // 3)
        for hold in holds[:room]:
            yield f"{hold.table or 'all tables'}: {hold.reason}"
            yield f"  {way_out(hold, self._target)}"
        if len(holds) > room:
            yield f"and {len(holds) - room} more: tidewire holds ls {as_argument(self._target)}"

    def _summary(self) -> str:
        seconds = max(time.monotonic() - self._began, 0.001)
        parts = [_count(self._messages, "message"), f"{self._messages / seconds:,.0f} a second", self._doing]
        if self._has_watermarks and self._report is not None and self._report.applied:
            applied = self._report.applied
            lag = _duration(max(0.0, time.time() - physical_ms(applied) / 1000))
            parts.insert(0, f"complete up to {to_datetime(applied):%Y-%m-%d %H:%M:%S.%f} UTC ({lag} ago)")
        return " · ".join(parts)


def held_line(holds: tuple[Hold, ...]) -> str:
    """How many tables are held."""
    tables = {hold.table for hold in holds}
    return "all tables are held" if None in tables else f"{_count(len(tables), 'table')} held"


def as_argument(uri: str) -> str:
    """A URI as it is typed in a shell, its secrets hidden."""
    return shlex.quote(without_secrets(uri))


def way_out(hold: Hold, target: str) -> str:
    """What to do about a hold, as commands for this target."""
    return hold.way_out.replace("TARGET", as_argument(target))


def ways_out(holds: Iterable[Hold], target: str) -> list[str]:
    """What to do about holds, each kind of them once. One of a kind is named, several are ``ID``."""
    found: dict[str, list[Hold]] = {}
    for hold in holds:
        found.setdefault(hold.kind, []).append(hold)
    lines = []
    for kind, alike in found.items():
        text = way_out(alike[0], target)
        lines.append(f"{kind}: {text if len(alike) == 1 else text.replace(alike[0].id, 'ID')}")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _duration(seconds: float) -> str:
    """A time span in the largest unit that says enough."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.1f} s"


def _clock_time(since: str) -> str:
    """A time of the ledger as people read it."""
    return since[:19].replace("T", " ") + " UTC"
