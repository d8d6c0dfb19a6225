"""One protocol's part of the tour: write the topic piece by piece, sync each, compare, and remember how it went."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tidewire.cli.generate import USUAL
from tidewire.cli.show import canonical
from tidewire.codec import Options, Resources
from tidewire.dispatch import Rule
from tidewire.model import Row, RowChange
from tidewire.model.types import TEMPORAL
from tidewire.plain import value_to_plain
from tidewire.registry import open_registry
from tidewire.spark.loop import Job, Loop, PassReport, Point
from tidewire.spark.snapshot import Snapshot, snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.source.detect import has_watermarks
from tidewire.spark.targets import open_target
from tidewire.topic.files import FileTopics
from tidewire.workload import Delivery, Production, Workload, events, produce, rule_for_all, states
from tidewire.workload.workload import START

_PIECES = 3
"""The number of parts that the topic is written in; the sync runs after each."""

_NO_DDL = (
    "Avro carries no DDL, no watermarks, and no deletes of tables without a primary key: "
    "compared with what its rows alone lead to"
)


class Pass(NamedTuple):
    """How far things were after a pass, in seconds since the workload began; ``staged`` rows wait for a watermark."""

    newest: float
    applied: float
    watermarks: Mapping[str, float]
    staged: int
    rows: int


class Verdict(NamedTuple):
    """What a comparison of a table found."""

    table: str
    right: bool
    text: str


@dataclass(slots=True)
class Outcome:
    """How one protocol's sync went."""

    protocol: str
    messages: int
    has_watermarks: bool
    passes: list[Pass] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""

    @property
    def right(self) -> bool:
        """Is every table what it should be?"""
        return all(verdict.right for verdict in self.verdicts)

    @property
    def summary(self) -> str:
        """The verdicts in a few words."""
        good = sum(verdict.right for verdict in self.verdicts)
        rows = sum(self.counts.values())
        return f"{good} of {len(self.verdicts)} tables right, {rows} rows"


class _Recorder:
    """Remembers how far things are after each pass."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self.newest = START
        self.running: Loop | None = None

    def reached(self, point: Point) -> None:
        """Only finished passes count."""

    def note(self, line: str) -> None:
        """Only finished passes count."""

    def finished(self, report: PassReport) -> None:
        """Look at the state that the pass left."""
        assert self.running is not None
        state = self.running.execution.state
        watermarks = {
            f"{at.topic} {at.number}": _since_start(progress.watermark)
            for at, progress in sorted(state.frontier.partitions.items())
        }
        self._outcome.passes.append(
            Pass(
                _since_start(self.newest),
                _since_start(report.applied),
                watermarks,
                sum(each.file.rows for each in state.pending),
                sum(report.tables.values()),
            )
        )


def _since_start(ts: int) -> float:
    return max(0.0, ((ts >> 18) - (START >> 18)) / 1000)


def run(spark: Any, folder: Path, name: str, workload: Workload, faults: Iterable[str]) -> Outcome:
    """Take a workload through a protocol and a sync into tables, and compare."""
    began = time.perf_counter()
    options = dict(USUAL.get(name, {}))
    if name == "avro":
        options["schema-registry"] = (folder / "schemas.json").as_uri()
    parsed = Options.parse(options)
    resources = Resources(registry=open_registry(parsed.schema_registry) if parsed.schema_registry else None)
    delivery = Delivery(name, parsed, rule_of=rule_for_all(Rule.parse("index-value")))
    production = produce(workload, delivery, faults, resources)

    job = Job(name, options, has_watermarks=has_watermarks(name, options))
    outcome = Outcome(name, len(production.sent), job.has_watermarks)
    lake = folder / "lake"
    recorder = _Recorder(outcome)
    topics = FileTopics(folder / "topics")
    for newest, piece in _pieces(production):
        with topics.appending() as appending:
            for at, sent in piece:
                appending.add(at, sent.message)
        recorder.newest = newest
        target = open_target(spark, str(lake), job.format)
        recorder.running = Loop(spark, FileSource(topics), target, job, recorder)
        recorder.running.run(once=True)
    _compare(outcome, production, snapshot(spark, str(lake)))
    outcome.seconds = time.perf_counter() - began
    return outcome


def _pieces(production: Production) -> Iterable[tuple[int, Sequence[Any]]]:
    """The messages in a few pieces, each with about how far the upstream was by then."""
    placed, moments = list(production.placed()), [entry.ts for entry in production.entries]
    for number in range(1, _PIECES + 1):
        part = placed[len(placed) * (number - 1) // _PIECES : len(placed) * number // _PIECES]
        yield moments[len(moments) * number // _PIECES - 1], part


def _compare(outcome: Outcome, production: Production, found: Snapshot) -> None:
    tables = {
        str(name): canonical(found[str(name)].toArrow(), table.schema, found.time_zone)
        for name, table in found.tables.items()
    }
    outcome.counts = {name: len(rows) for name, rows in sorted(tables.items())}
    outcome.samples = {name: rows[:3] for name, rows in sorted(tables.items())}
    if outcome.has_watermarks:
        last = production.marks[-1]
        if found.ts != last:
            outcome.verdicts.append(Verdict("all tables", False, f"they are at {found.ts}, upstream is at {last}"))
        (upstream,) = states(production.entries, [last])
        outcome.verdicts += compare_tables(tables, upstream["tables"])
    else:
        outcome.note = _NO_DDL
        outcome.verdicts += compare_rows(tables, production)


def compare_tables(tables: Mapping[str, list[dict[str, Any]]], upstream: Mapping[str, Any]) -> Iterable[Verdict]:
    """Is every table there, with the same rows, and no other?"""
    for name in sorted({*tables, *upstream}):
        if name not in upstream or name not in tables:
            yield Verdict(name, False, "should not be there" if name in tables else "is missing")
            continue
        wanted = [dict(zip(upstream[name]["columns"], row, strict=True)) for row in upstream[name]["rows"]]
        wrong = _difference(tables[name], wanted)
        yield Verdict(name, not wrong, f"{wrong} rows differ" if wrong else "equal")


def _difference(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> int:
    one, other = ({repr(sorted(row.items())) for row in rows} for rows in (found, wanted))
    return max(len(one - other), len(other - one), abs(len(found) - len(wanted)))


def compare_rows(tables: Mapping[str, list[dict[str, Any]]], production: Production) -> Iterable[Verdict]:
    """Does a table have the last image of every row that was not deleted? Statements alone changed nothing then."""
    last: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    timed: dict[str, set[str]] = {}
    for event in events(production.entries):
        if isinstance(event, RowChange) and event.table.primary_key:
            name = str(event.table.name)
            key = keys[name] = event.table.handle_key
            rows = last.setdefault(name, {})
            timed.setdefault(name, set()).update(each.name for each in event.table.columns if each.type in TEMPORAL)
            if event.before is not None:
                rows.pop(_key(_plain(event.before, event), key), None)
            if event.after is not None:
                after = _plain(event.after, event)
                rows[_key(after, key)] = after
    for name, rows in sorted(last.items()):
        found = {_key(row, keys[name]): row for row in tables.get(name, ())}
        wrong = len(found.keys() ^ rows.keys()) + sum(
            any(_bare(found[key].get(each), each, timed[name]) != value for each, value in row.items())
            for key, row in rows.items()
            if key in found
        )
        yield Verdict(name, not wrong, f"{wrong} rows differ" if wrong else "equal as far as rows tell")


def _plain(row: Row, event: RowChange) -> dict[str, Any]:
    timed = {column.name for column in event.table.columns if column.type in TEMPORAL}
    values = {column.name: value_to_plain(row[column.name], column) for column in event.table.columns}
    return {name: _bare(value, name, timed) for name, value in values.items()}


def _bare(value: Any, name: str, timed: Container[str]) -> Any:
    """A time without zeros at the end of its fraction, so that only the moment counts."""
    return value.rstrip("0").rstrip(".") if name in timed and value is not None and "." in value else value


def _key(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
