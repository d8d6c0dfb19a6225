"""Consumers of histories: a plain one that does what it is told, and one that has accidents and compares the tables.

What staging, the driver and a target do is here in its plainest form; the planner is the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from sync.histories import Changefeed, Message
from sync.memory_target import MemoryTarget, cast
from sync.reduce import Change, Key
from sync.upstream import DdlEvent, Picture, RowEvent, Told
from tidewire.ddl.edits import Edit
from tidewire.model import Bootstrap, Column, Ddl, Position, Row, TableName, TableSchema, Value, Watermark
from tidewire.sync.documents import decode, encode
from tidewire.sync.manifest import FoundDdl, Manifest, Parked, Partition, ReadRange, Rejected, StagedFile
from tidewire.sync.plan import Planned, PlanSettings, plan
from tidewire.sync.rules import Mask, Rules, hashed, redaction, routed
from tidewire.sync.state import State
from tidewire.sync.steps import Slice


class Wrong(AssertionError):
    """The tables are not what the upstream was."""


class Seen(NamedTuple):
    """A row that was read, and where."""

    at: Position
    sub: int
    row: RowEvent


@dataclass(frozen=True, slots=True)
class Batch:
    """Which offsets were read of each partition, and the ends of all, listed afterwards.

    ``again`` are messages that could not be read before and can be now.
    """

    number: int
    read: Mapping[Partition, tuple[int, int]]
    ends: Mapping[Partition, int]
    again: tuple[Position, ...] = ()


class Consumer:
    """Stages, plans, executes and commits batches. A mutant replaces one of the methods.

    ``schemas_first``: rows cannot be read before their table's schema came. ``rules`` say what becomes of tables.
    """

    rules = Rules()

    def __init__(self, log: Mapping[Partition, Sequence[Message]], *, schemas_first: bool = False) -> None:
        self.log = log
        self.schemas_first = schemas_first
        self.settings = PlanSettings(understand=self.understand, rules=self.rules)
        self.target = MemoryTarget(self.rows)
        self.document, self._read, self._state = encode(State("model")), b"", State("")
        self.staged: dict[str, list[Change]] = {}
        self.parking: dict[str, Seen] = {}
        self.queries: dict[tuple[TableName, str], tuple[Edit, ...]] = {}

    @property
    def state(self) -> State:
        """The state after the last batch."""
        if self._read is not self.document:
            self._read, self._state = self.document, decode(self.document, State)
        return self._state

    def rows(self, piece: Slice) -> Iterable[Change]:
        """The staged rows of a slice."""
        return [change for change in self.staged[piece.file.path] if piece.from_ts <= change.ts <= piece.to_ts]

    def understand(self, ddl: Ddl) -> tuple[Edit, ...]:
        """What a statement does; the upstream has said it."""
        return self.queries[ddl.table, ddl.query]

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        """Which rows are not staged."""
        return state.replays().drops

    def reject(self, at: Position, message: Message) -> Rejected | None:
        """What can be told of a message that cannot be read; nothing if it can."""
        return None

    def stage(self, state: State, batch: Batch) -> Manifest:
        """Read a batch: rows into files, everything else into the manifest."""
        ddls: list[FoundDdl] = []
        schemas: list[TableSchema] = []
        read: dict[Partition, tuple[ReadRange, ...]] = {}
        rejected: list[Rejected] = []
        seen = [self.parking[each.path] for each in state.parked]
        watermarks: list[tuple[int, int]] = []

        def take(at: Position, message: Message) -> None:
            for sub, event in enumerate(message.events):
                match event:
                    case RowEvent():
                        seen.append(Seen(at, sub, event))
                    case DdlEvent():
                        ddls.append(FoundDdl(at, sub, event.ddl))
                        self.queries[event.ddl.table, event.ddl.query] = event.edits
                        schemas.extend(s for s in (event.ddl.table_schema, event.ddl.pre_table_schema) if s)
                    case Watermark(ts):
                        watermarks.append((at.offset, ts))
                    case Bootstrap(schema):
                        schemas.append(schema)

        for at in batch.again:
            take(at, self.log[Partition.of(at)][at.offset])
        for partition, (start, end) in batch.read.items():
            watermarks = []
            for offset, message in enumerate(self.log[partition][start:end], start):
                at = Position(partition.topic, partition.number, offset)
                bad = self.reject(at, message)
                if bad is None:
                    take(at, message)
                else:
                    rejected.append(replace(bad, after=max((ts for _, ts in watermarks), default=0)))
            read[partition] = (ReadRange.of(start, end, watermarks),)
        files, parked = self._files(seen, state, schemas, batch.number)
        return Manifest(
            batch.number,
            files=files,
            read=read,
            ends=batch.ends,
            ddls=tuple(ddls),
            schemas=tuple(dict.fromkeys(schemas)),
            parked=parked,
            rejected=tuple(rejected),
            retried=batch.again,
        )

    def _files(
        self, seen: list[Seen], state: State, new: list[TableSchema], number: int
    ) -> tuple[tuple[StagedFile, ...], tuple[Parked, ...]]:
        drops = self.drops(state)
        known = {(each.name, each.version) for each in (*state.schemas, *new)} if self.schemas_first else set()
        parked: list[Parked] = []
        groups: dict[tuple[Partition, TableSchema], list[Change]] = {}
        for each in seen:
            at, sub, row = each
            partition, table = Partition.of(at), row.table
            if drops(partition, table.name, row.ts):
                continue
            if self.schemas_first and (table.name, table.version) not in known:
                path = f"parked/{at}/{sub}"
                self.parking[path] = each
                parked.append(Parked(at, table.name, table.version or 0, row.ts, path))
                continue
            images = [self.masked(table, image) for image in (row.before, row.after)]
            groups.setdefault((partition, table), []).append(Change(row.ts, at, sub, *images))
        files = []
        for (partition, table), changes in groups.items():
            path = f"{number}/{len(self.staged)}"
            self.staged[path] = changes
            times = [change.ts for change in changes]
            offsets = [change.at.offset for change in changes]
            spans = (min(times), max(times), min(offsets), max(offsets))
            files.append(StagedFile(path, table, partition, len(changes), *spans))
        return tuple(files), tuple(parked)

    def masked(self, table: TableSchema, row: Row | None) -> Row | None:
        """A row as it may be seen."""
        masks = self.rules.masks(table)
        if row is None or not masks:
            return row
        return {
            name: hide(masks[name], value, table.column(name), self.rules.salt) if name in masks else value
            for name, value in row.items()
            if masks.get(name) is not Mask.DROP
        }

    def plan(self, state: State, manifest: Manifest) -> Planned:
        """The planner."""
        return plan(state, manifest, self.settings)

    def planned(self, batch: Batch) -> Planned:
        """Stage and plan, from the state that was committed last."""
        state = self.state
        return self.plan(state, self.stage(state, batch))

    def execute(self, planned: Planned, count: int | None = None) -> None:
        """Take the first steps of a plan, or all."""
        for step in planned.steps[:count]:
            self.target.execute(routed(step, self.rules.route))

    def commit(self, planned: Planned) -> None:
        """Keep the state."""
        self.document = encode(planned.state)

    def work(self, batch: Batch) -> Planned:
        """One batch without accidents."""
        planned = self.planned(batch)
        self.execute(planned)
        self.commit(planned)
        return planned


def hide(mask: Mask, value: Value, column: Column, salt: str) -> Value:
    """A value behind its mask."""
    return hashed(value, salt) if mask is Mask.HASH else cast(redaction(column), column)


class Clumsy(Consumer):
    """Follows a history in random pieces, dies at random places, and compares whatever is published."""

    def __init__(self, feed: Changefeed, seed: int) -> None:
        super().__init__(feed.history.log, schemas_first=feed.history.upstream.habits.simple)
        self.history = feed.history
        self.random = Random(seed)
        self.positions: dict[Partition, int] = {}
        self.heard: set[tuple[int, TableName]] = set()
        self.number = 0
        self.now = 0.0
        self.applied = 0

    def lose(self) -> None:
        """Die: what is in memory is gone. Files, tables and documents stay."""

    def run(self) -> None:
        """Read to the end; then there is nothing left to do."""
        while self.now < self.history.end:
            self.now += self.random.choice((1.0, 2.0, 4.0, 20.0))
            batch = self._next(everything=False)
            if batch.read or self.random.random() < 0.2:
                self.work(batch)
        self.now = self.history.end
        self.work(self._next(everything=True))
        if self.applied != self.history.last:
            raise Wrong(f"the tables stay at {self.applied}; the last watermark is {self.history.last}")
        planned = self.work(self._next(everything=True))
        if planned.steps or planned.publication:
            raise Wrong(f"nothing was new, and yet there is to do: {planned.steps}")

    def _next(self, *, everything: bool) -> Batch:
        random, born = self.random, self.history.born
        read = {}
        for partition in born:
            start = self.positions.get(partition, 0)
            end = self._end(partition, self.now) or start
            if not everything and random.random() < 0.4:
                end = random.randint(start, end)
            if end > start:
                read[partition] = (start, end)
        self.number += 1
        return Batch(self.number, read, self._ends(0.0 if everything else random.choice((0.0, 2.0))))

    def _end(self, partition: Partition, time: float) -> int:
        return self.history.available(partition, time) if self.history.born[partition] <= time else 0

    def _ends(self, later: float) -> dict[Partition, int]:
        time = self.now + later
        return {partition: self._end(partition, time) for partition, born in self.history.born.items() if born <= time}

    def work(self, batch: Batch) -> Planned:
        """One batch; an accident may come first, and then it is done again."""
        random, planned = self.random, self.planned(batch)
        if random.random() < 0.25:
            self.lose()
            if random.random() < 0.3:
                planned = self.planned(replace(batch, ends={**batch.ends, **self._ends(3.0)}))
            self.execute(planned, random.randint(0, len(planned.steps)))
            self.lose()
        self.execute(planned)
        self.commit(planned)
        self.positions |= {partition: end for partition, (_, end) in batch.read.items()}
        self._hear(batch)
        if planned.publication is not None:
            self._check(planned)
        return planned

    def _hear(self, batch: Batch) -> None:
        for at in batch.again:
            self._hear_message(self.log[Partition.of(at)][at.offset])
        for partition, (start, end) in batch.read.items():
            for offset, message in enumerate(self.log[partition][start:end], start):
                at = Position(partition.topic, partition.number, offset)
                if isinstance(message.events[0], DdlEvent) and self.reject(at, message) is None:
                    self._hear_message(message)

    def _hear_message(self, message: Message) -> None:
        self.heard |= {(event.ts, event.ddl.table) for event in message.events if isinstance(event, DdlEvent)}

    def _check(self, planned: Planned) -> None:
        """The tables are those of the upstream at the published moment, columns, rows and all."""
        publication = planned.publication
        assert publication is not None
        assert publication.ts is not None
        ts = publication.ts
        if ts < self.applied:
            raise Wrong(f"after {self.applied} came {ts}")
        self.applied = ts
        route = self.rules.route
        told = {route(table.name): [column.name for column in table.columns] for table in publication.tables}
        made = {name: table.names for name, table in self.target.tables.items() if "__dropped_" not in name.table}
        if told != made:
            raise Wrong(f"at {ts} the publication says {told}, the tables are {made}")
        pictures = self.history.pictures(ts)
        if self._heard_all(ts):
            pictures = pictures[-1:]
        differences = [self._difference(picture) for picture in pictures]
        if all(differences):
            raise Wrong(f"at {ts}: {differences[-1]}")

    def _heard_all(self, ts: int) -> bool:
        """Has every part of a statement of this moment been read? A watermark may come before its DDL."""
        entry = self.history.entry(ts)
        return entry is None or all((each.ts, each.ddl.table) in self.heard for each in entry.ddls)

    def _difference(self, picture: Picture) -> str:
        """What is wrong with the tables, nothing if they are right."""
        tables = self.target.tables
        for name in tables.keys() - {self.rules.route(name) for name in picture}:
            return f"{name} should not be there"
        for name, told in picture.items():
            table = tables.get(self.rules.route(name))
            if table is None:
                if told.told:
                    return f"{name} is missing"
                continue
            if tuple(table.names) != told.columns:
                return f"{name} has the columns {table.names}, not {told.columns}"
            rows = self.seen(told)
            if table.rows != rows:
                return f"{name} has the rows {table.rows}, not {rows}"
        return ""

    def seen(self, told: Told) -> dict[Key, Row]:
        """The rows of a table as its target has them."""
        if not self.rules.masks(told.schema):
            return dict(told.rows)
        rows = [self.masked(told.schema, row) or {} for row in told.rows.values()]
        return {tuple([row[name] for name in told.schema.handle_key]): row for row in rows}


def follow(feed: Changefeed, seed: int, kind: Callable[[Changefeed, int], Clumsy] = Clumsy) -> None:
    """Follow a history to its end, and for one seed in four through a replay of everything."""
    consumer = kind(feed, seed)
    consumer.run()
    if seed % 4 == 0:
        feed.replay()
        consumer.run()
