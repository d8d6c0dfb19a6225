"""A model of TiCDC: a random history of an upstream, written to topics the way a changefeed does.

Every message has a time. What must precede what is a matter of those times: a table's rows of their DDL, everything of
its watermark. Whatever need not be in order is not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeAlias

from sync.upstream import DdlEvent, Entry, Habits, Picture, RowEvent, Upstream
from tidewire.model import Bootstrap, TableName, Watermark
from tidewire.sync.manifest import Partition

DEFAULT_TOPIC = "feed"

Event: TypeAlias = RowEvent | DdlEvent | Watermark | Bootstrap


class Message(NamedTuple):
    """When a message could be read, and what is in it."""

    time: float
    events: tuple[Event, ...]


class Sent(NamedTuple):
    """One event on its way. What others wait for is ``awaited``: when it is out, so is all that precedes it."""

    time: float
    to: Partition
    event: Event
    awaited: bool


@dataclass(frozen=True, slots=True)
class Manners:
    """How a changefeed writes."""

    classic: bool
    topics: str
    dispatcher: str
    ddl_everywhere: bool
    early_watermarks: bool
    by_key: bool
    batched: bool
    duplicates: float
    watermarks: float
    restarts: int
    grows: bool
    bootstrap_everywhere: bool

    @classmethod
    def draw(cls, random: Random, habits: Habits) -> Manners:
        """Random manners."""
        chance = random.random
        classic = not habits.swaps
        everywhere = habits.simple or chance() < 0.6
        return cls(
            classic=classic,
            topics=random.choice(("one", "one", "schema", "table", "mixed")),
            dispatcher=random.choice(("table", "index-value", "columns", "ts")),
            ddl_everywhere=everywhere,
            early_watermarks=classic and chance() < 0.7,
            by_key=chance() < 0.4,
            batched=everywhere and chance() < 0.3,
            duplicates=random.choice((0.0, 0.1)),
            watermarks=random.choice((0.2, 0.4, 0.7)),
            restarts=random.choice((0, 1, 1, 2, 3)),
            grows=chance() < 0.2,
            bootstrap_everywhere=chance() < 0.5,
        )


@dataclass(slots=True)
class History:
    """An upstream, and the topics its changefeed wrote. ``born`` is when a partition came to be."""

    upstream: Upstream
    manners: Manners
    log: dict[Partition, list[Message]] = field(default_factory=dict)
    born: dict[Partition, float] = field(default_factory=dict)
    end: float = 0.0
    last: int = 0
    """The last watermark."""

    def available(self, partition: Partition, time: float) -> int:
        """How many messages a partition has at a time."""
        return bisect_right(self.log.get(partition, []), time, key=lambda message: message.time)

    def entry(self, ts: int) -> Entry | None:
        """What happened at a moment."""
        at = self._past(ts)
        return self.upstream.entries[at - 1] if at and self.upstream.entries[at - 1].ts == ts else None

    def pictures(self, ts: int) -> list[Picture]:
        """The tables at a moment: after its transaction, and after each part of its statement."""
        at, entry = self._past(ts), self.entry(ts)
        if entry is not None:
            return entry.pictures
        return self.upstream.entries[at - 1].pictures[-1:] if at else [self.upstream.start]

    def _past(self, ts: int) -> int:
        return bisect_right(self.upstream.entries, ts, key=lambda entry: entry.ts)


def changefeed(seed: int) -> Changefeed:
    """The changefeed of a seed, with its history written."""
    random = Random(seed)
    habits = Habits(
        simple=random.random() < 0.25,
        split=random.random() < 0.6,
        swaps=random.random() < 0.5,
        partial_old=random.random() < 0.3,
        key_only_deletes=random.random() < 0.3,
        partitioned=random.random() < 0.3,
    )
    upstream = Upstream(random, habits)
    upstream.live(random.choice((4, 8, 8, 12, 16, 24)))
    return Changefeed(random, upstream, Manners.draw(random, habits))


class Changefeed:
    """Writes an upstream's history, with restarts on the way."""

    def __init__(self, random: Random, upstream: Upstream, manners: Manners) -> None:
        self.random = random
        self.entries = upstream.entries
        self.manners = manners
        self.history = History(upstream, manners)
        self.counts: dict[str, int] = {}
        self.growth: dict[str, tuple[float, float]] = {}
        self.passes: list[tuple[float, int]] = [(-1.0, 0)]
        now = 0.0
        for _ in range(manners.restarts):
            now = self._deliver(self._cut(self._run(self._checkpoint(), now))) + 1
        sent = self._run(self._checkpoint(), now, final=True)
        self.history.end = self._deliver(sent) + 1

    def replay(self) -> None:
        """Write everything once more."""
        self.restart(0)

    def restart(self, checkpoint: int) -> None:
        """Write everything after a checkpoint once more."""
        self.history.end = self._deliver(self._run(checkpoint, self.history.end, final=True)) + 1

    def _checkpoint(self) -> int:
        """Where a restart begins: at a watermark that was on its way by then."""
        started = [ts for _, ts in self.passes]
        return self.random.choice(started[-2:] if self.random.random() < 0.6 else started)

    def _cut(self, sent: list[Sent]) -> list[Sent]:
        """What is out when the producer dies. Of the rest each partition has lost another part of its tail."""
        random = self.random
        dies = sent[int(len(sent) * random.uniform(0.2, 0.95))].time
        safe = max((each.time for each in sent if each.awaited and each.time <= dies), default=sent[0].time)
        self.passes = [(time, ts) for time, ts in self.passes if time < safe]
        ends: dict[Partition, float] = {}
        for each in sent:
            if each.to not in ends:
                ends[each.to] = random.uniform(safe, dies)
        return [each for each in sent if each.time <= (dies if each.awaited else ends[each.to])]

    def _deliver(self, sent: list[Sent]) -> float:
        """Put events into partitions, in the order of their times."""
        log, random, batched = self.history.log, self.random, self.manners.batched
        barrier = 0.0
        for time, to, event, awaited in sent:
            messages = self._messages(to, time)
            mergeable = batched and isinstance(event, RowEvent) and messages and messages[-1].time > barrier
            if mergeable and isinstance(messages[-1].events[0], RowEvent) and random.random() < 0.6:
                messages[-1] = Message(messages[-1].time, (*messages[-1].events, event))
            else:
                messages.append(Message(time, (event,)))
            if awaited:
                barrier = time
        return max((messages[-1].time for messages in log.values() if messages), default=0.0)

    def _messages(self, to: Partition, time: float) -> list[Message]:
        history = self.history
        if to not in history.log:
            for number in range(max(self.counts[to.topic], to.number + 1)):
                partition = Partition(to.topic, number)
                if partition not in history.log and number < self.counts[to.topic]:
                    history.log[partition] = []
                    history.born[partition] = time
            if to not in history.log:
                history.log[to] = []
                history.born[to] = self.growth[to.topic][0]
        return history.log[to]

    # One run

    def _run(self, checkpoint: int, start: float, *, final: bool = False) -> list[Sent]:
        """Everything after a checkpoint, sent from a time on."""
        run = _Run(self, start)
        # A producer keeps its checkpoint, so the next restart is not after one that this run has yet to reach.
        self.passes = [(time, ts) for time, ts in self.passes if ts <= checkpoint]
        picture = self.history.pictures(checkpoint)[-1]
        if checkpoint:
            run.send_watermark(checkpoint, picture)
        if self.history.upstream.habits.simple:
            run.send_schemas(picture)
        for entry in self.entries:
            if entry.ts < checkpoint:
                continue
            run.base += 1
            if entry.ts > checkpoint:
                run.send_rows(entry)
            if entry.ddls:
                if self.manners.early_watermarks and entry.ts > checkpoint and self.random.random() < 0.7:
                    run.send_watermark(entry.ts, entry.pictures[0])
                run.send_ddls(entry)
            if self.random.random() < self.manners.watermarks:
                run.send_watermark(entry.ts + self.random.choice((0, 0, 0, 3)), entry.pictures[-1])
        if final:
            last = self.entries[-1]
            # By the end all parts of the producer know the new partitions, and there are no newer ones.
            now = max((each.time for each in run.sent), default=run.base)
            self.growth = {topic: (grown, grown) for topic, (grown, _) in self.growth.items() if grown <= now}
            for ts in range(last.ts + 5, last.ts + 8):
                run.send_watermark(ts, last.pictures[-1])
            self.history.last = last.ts + 7
        return sorted(run.sent, key=lambda each: each.time)

    def topic(self, name: TableName | None) -> str:
        """The topic of a table, or the default one."""
        topics = self.manners.topics
        if name is None or topics == "one" or (topics == "mixed" and name.schema == "d1"):
            return DEFAULT_TOPIC
        return f"{DEFAULT_TOPIC}-{name.schema}" + ("" if topics == "schema" else f"-{name.table}")

    def count(self, topic: str, time: float, *, rows: bool = False) -> int:
        """How many partitions a topic has at a time; those who write rows hear of a new one first."""
        if topic not in self.counts:
            self.counts[topic] = self.random.choice((1, 2, 2, 3, 4))
            if self.manners.grows and self.random.random() < 0.5:
                grown = time + self.random.uniform(1, 15)
                self.growth[topic] = (grown, grown + self.random.uniform(0, 6))
        known = self.growth.get(topic, (float("inf"), float("inf")))[0 if rows else 1]
        return self.counts[topic] + (time >= known)


class _Run:
    """One run of the producer: when each event goes out."""

    def __init__(self, feed: Changefeed, start: float) -> None:
        self.feed = feed
        self.random = feed.random
        self.base = start
        self.sent: list[Sent] = []
        self.clock: dict[tuple[object, ...], float] = {}
        self.latest: dict[TableName, float] = {}
        self.barrier: dict[TableName, float] = {}
        self.whole = start
        self.everything = start
        self.passed = start

    def send_schemas(self, picture: Picture) -> None:
        """Bootstraps of all tables, some time soon."""
        for name, told in picture.items():
            time = self.base + self.random.uniform(0, 9)
            topic = self.feed.topic(name)
            count = self.feed.count(topic, time)
            for number in range(count if self.feed.manners.bootstrap_everywhere else 1):
                self.sent.append(Sent(time, Partition(topic, number), Bootstrap(told.schema), False))

    def send_rows(self, entry: Entry) -> None:
        """The rows of a transaction, those of one physical table or of one key in order."""
        rows = entry.rows
        if len(rows) > 1 and self.random.random() < 0.3:
            rows = self.random.sample(rows, len(rows))
        for row in rows:
            name = row.table.name
            chains = list(self._chains(row))
            clocks = [self.clock.get(chain, 0.0) for chain in chains]
            soon = self.base + self.random.uniform(0, 2.5)
            time = max(soon, self.barrier.get(name, 0.0), self.whole, *clocks) + 1e-3
            for chain in chains:
                self.clock[chain] = time
            self.latest[name] = max(self.latest.get(name, 0.0), time)
            self.everything = max(self.everything, time)
            self._send(time, self._partition(row, time), row, awaited=False)

    def _chains(self, row: RowEvent) -> Iterator[tuple[object, ...]]:
        if not self.feed.manners.by_key:
            yield row.table.name, row.physical
            return
        key = row.table.handle_key
        images = [row.after, {**(row.after or {}), **(row.before or {})}]
        for image in images:
            if image is not None:
                yield row.table.name, *(image[name] for name in key)

    def _partition(self, row: RowEvent, time: float) -> Partition:
        name = row.table.name
        topic = self.feed.topic(name)
        image = row.after or row.before or {}
        column = row.table.columns[-1].name
        spread = {
            "table": lambda: sum(str(name).encode()),
            "index-value": lambda: sum(str([image[each] for each in row.table.handle_key]).encode()),
            "columns": lambda: sum(str(image.get(column)).encode()),
            "ts": lambda: row.ts // 10,
        }[self.feed.manners.dispatcher]()
        return Partition(topic, spread % self.feed.count(topic, time, rows=True))

    def send_ddls(self, entry: Entry) -> None:
        """A statement, after the rows of its tables up to it; later rows of those come after it."""
        alone = len(entry.ddls) == 1 and entry.ddls[0].home is not None
        touched = {name for each in entry.ddls for name in each.touches}
        time = max(self.base, self.whole, *(self.latest.get(name, 0.0) for name in touched))
        if self.feed.manners.classic or not alone:
            time = max(time, self.everything, self.passed)
        time += self.random.uniform(0, 2)
        for each in entry.ddls:
            topic = self.feed.topic(each.home)
            count = self.feed.count(topic, time)
            for number in range(count if self.feed.manners.ddl_everywhere else 1):
                time += 0.01
                self._send(time, Partition(topic, number), each, awaited=True)
        for name in touched:
            self.latest[name] = self.barrier[name] = time
        if self.feed.manners.classic or not alone:
            self.whole = time
        self.everything = max(self.everything, time)

    def send_watermark(self, ts: int, picture: Picture) -> None:
        """A pass of watermarks: every topic in use, the default one last."""
        time = max(self.everything, self.passed) + self.random.uniform(0, 2)
        self.feed.passes.append((time, ts))
        topics = dict.fromkeys(self.feed.topic(name) for name in self._shuffled(picture))
        topics.pop(DEFAULT_TOPIC, None)
        for topic in [*topics, DEFAULT_TOPIC]:
            for number in range(self.feed.count(topic, time)):
                time += 0.01
                self._send(time, Partition(topic, number), Watermark(ts), awaited=True)
        self.passed = time

    def _shuffled(self, names: Iterable[TableName]) -> list[TableName]:
        listed = list(names)
        return self.random.sample(listed, len(listed))

    def _send(self, time: float, to: Partition, event: Event, *, awaited: bool) -> None:
        self.sent.append(Sent(time, to, event, awaited))
        if self.feed.manners.duplicates and self.random.random() < self.feed.manners.duplicates:
            self.sent.append(Sent(time + 1e-6, to, event, awaited))


def described(history: History) -> str:
    """A history for people: what happened upstream, and what each partition holds."""
    lines = [str(history.manners), str(history.upstream.habits)]
    lines += [f"{each.ts}: {_texts([*each.rows, *each.ddls])}" for each in history.upstream.entries]
    for partition, messages in sorted(history.log.items()):
        lines.append(f"{partition}, from {history.born[partition]:.2f} on")
        lines += [f"  {offset} at {each.time:.2f}: {_texts(each.events)}" for offset, each in enumerate(messages)]
    return "\n".join(lines)


def _texts(events: Iterable[Event]) -> str:
    return "; ".join(map(_text, events))


def _text(event: Event) -> str:
    match event:
        case RowEvent(ts, table, before, after):
            return f"{ts} {table.name} {before} -> {after}"
        case DdlEvent(ts, ddl):
            return f"{ts} {ddl.query}"
        case Watermark(ts):
            return f"watermark {ts}"
        case Bootstrap(schema):
            return f"schema of {schema.name}, version {schema.version}"
