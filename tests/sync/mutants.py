"""Consumers that break one rule each. If their tables came out right, the comparison would be worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from sync.consumer import Batch, Clumsy
from sync.healing import Replayed, Retrying
from sync.histories import Message
from sync.reduce import Change
from sync.upstream import DdlEvent
from tidewire.model import Position, TableName
from tidewire.sync.frontier import Frontier
from tidewire.sync.manifest import Manifest, Partition, ReadRange, Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.state import State
from tidewire.sync.steps import Rename, Slice


class DdlWhenRead(Clumsy):
    """Executes a DDL when it is read, without waiting for the watermark."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest = super().stage(state, batch)
        now = [replace(each, ddl=replace(each.ddl, commit_ts=state.applied)) for each in manifest.ddls]
        return replace(manifest, ddls=tuple(now))


class DropsDdlOfTheBoundary(Clumsy):
    """Takes a DDL at the applied watermark for a replay."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest = super().stage(state, batch)
        return replace(manifest, ddls=tuple(each for each in manifest.ddls if _ts(each) > state.applied))


class IgnoresTheLastDdl(Clumsy):
    """Lets rows in that belong before a DDL which is done."""

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        return lambda partition, table, ts: False

    def plan(self, state: State, manifest: Manifest) -> Planned:
        return super().plan(replace(state, last_ddl_ts={}), manifest)


class DropsBelowTheMaximum(Clumsy):
    """Takes every row below the highest ts of its table in its partition for a replay."""

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        drops = state.replays().drops
        highest: dict[tuple[Partition, TableName], int] = {}

        def below(partition: Partition, table: TableName, ts: int) -> bool:
            before = highest.get((partition, table), 0)
            highest[partition, table] = max(before, ts)
            return drops(partition, table, ts) or ts < before

        return below


class BelievesOnePartition(Clumsy):
    """Takes the watermark of the partition that is furthest for all of them."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest = super().stage(state, batch)
        best = max((each.watermark for (each,) in manifest.read.values()), default=0)
        read = {at: (replace(each, watermark=best),) for at, (each,) in manifest.read.items()}
        return replace(manifest, read=read)


class LowersTheWatermark(Clumsy):
    """Follows a watermark that falls back."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        planned = super().plan(state, manifest)
        progress = dict(planned.state.frontier.partitions)
        for at, (read,) in manifest.read.items():
            if read.watermark:
                progress[at] = replace(progress[at], watermark=read.watermark)
        frontier = Frontier(progress, planned.state.frontier.retired)
        lowered = min(planned.state.applied, frontier.watermark)
        publication = planned.publication and replace(planned.publication, ts=lowered)
        return replace(
            planned, state=replace(planned.state, frontier=frontier, applied=lowered), publication=publication
        )


class PartitionByNumber(Clumsy):
    """Knows partitions by their numbers, whatever their topics."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest = super().stage(state, batch)
        best: dict[Partition, ReadRange] = {}
        for at, (each,) in manifest.read.items():
            same = Partition("any", at.number)
            best[same] = max(best.get(same, each), each, key=lambda each: each.watermark)
        progress = state.frontier.partitions
        read = {}
        for same, each in best.items():
            begin = (progress[same].next if same in progress else None) or 0
            read[same] = (replace(each, start=begin, end=begin + 1),)
        files = tuple(replace(each, partition=Partition("any", each.partition.number)) for each in manifest.files)
        ends = {Partition("any", at.number): 0 for at in manifest.ends}
        return replace(manifest, read=read, files=files, ends=ends)

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        drops = state.replays().drops
        return lambda partition, table, ts: drops(Partition("any", partition.number), table, ts)


class ListsTopicsBefore(Clumsy):
    """Knows only the partitions it has read, so a new topic's rows come as a surprise."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest = super().stage(state, batch)
        known = {*state.frontier.partitions, *manifest.read}
        return replace(manifest, ends={at: end for at, end in manifest.ends.items() if at in known})


class NeverRetires(Clumsy):
    """Waits for ever for the watermark of a topic that is no longer fed."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        ends = {at: end + 1 for at, end in manifest.ends.items()}
        return super().plan(state, replace(manifest, ends=ends))


class ForgetsTheBuffer(Clumsy):
    """Keeps staged rows in memory only."""

    def lose(self) -> None:
        self.staged = {path: [] for path in self.staged}


class ForgetsItsSteps(Clumsy):
    """Takes a step again that it took before it died."""

    def lose(self) -> None:
        self.target.done.clear()


class ForgetsTheBoundary(Clumsy):
    """Throws rows away once they are applied, so that a replay of half a transaction stays half."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        planned = super().plan(state, manifest)
        later = tuple(each for each in planned.state.pending if each.file.max_ts > planned.state.applied)
        return replace(planned, state=replace(planned.state, pending=later))


class ForgetsExecutedDdl(Clumsy):
    """Does not remember which DDL it has executed."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        return super().plan(replace(state, log=()), manifest)


class ParkedRowsHoldNothing(Clumsy):
    """Lets the watermark pass a row that waits for its schema."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        ends_of_time = tuple(replace(each, commit_ts=2**62) for each in manifest.parked)
        return super().plan(state, replace(manifest, parked=ends_of_time))


class DeleteWins(Clumsy):
    """Gives a delete the last word at its ts."""

    def rows(self, piece: Slice) -> Iterable[Change]:
        def shifted(change: Change) -> Change:
            return change._replace(ts=2 * change.ts + (change.after is None))

        return map(shifted, super().rows(piece))


class KeepsTheOldKey(Clumsy):
    """Takes an update that moves a row for one of the new key alone."""

    def rows(self, piece: Slice) -> Iterable[Change]:
        return [change._replace(before=None) if change.after else change for change in super().rows(piece)]


class SequentialRenames(Clumsy):
    """Renames the tables of one statement one after the other."""

    def execute(self, planned: Planned, count: int | None = None) -> None:
        tables = self.target.tables
        for step in planned.steps[:count]:
            if isinstance(step, Rename) and step.id not in self.target.done:
                for old, new in step.moves:
                    tables[new] = tables.pop(old)
                self.target.done.add(step.id)
            self.target.execute(step)


class ReportsTheHull(Clumsy):
    """Leaves a hole in what it reads of a partition, reports the whole range, and reads the hole in the next batch."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        random = Random(batch.number)
        left = {at: (start + end) // 2 for at, (start, end) in batch.read.items() if end - start > 2}
        self.holes = {at: hole for at, hole in left.items() if random.random() < 0.3}
        behind = tuple(Position(at.topic, at.number, offset) for at, offset in self.behind.items())
        return replace(super().stage(state, replace(batch, again=behind)), retried=())

    def reject(self, at: Position, message: Message) -> Rejected | None:
        in_hole = self.holes.get(Partition.of(at)) == at.offset
        return Rejected(at, "not read yet") if in_hole else None

    def plan(self, state: State, manifest: Manifest) -> Planned:
        return super().plan(state, replace(manifest, rejected=()))

    def commit(self, planned: Planned) -> None:
        super().commit(planned)
        self.behind = self.holes

    holes: Mapping[Partition, int] = {}
    behind: Mapping[Partition, int] = {}


# Holds


class OneFloorForAllTables(Replayed):
    """Takes everything below the applied watermark for a replay, also of tables that are held."""

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        return replace(state.replays(), held={}).drops


class RetriesOutOfOrder(Retrying):
    """Applies a message that it reads again as if it had just happened."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest = super().stage(state, batch)
        files = []
        for file in manifest.files:
            rows = self.staged[file.path]
            late = [change.at in batch.again and change.ts < state.applied for change in rows]
            self.staged[file.path] = [
                change._replace(ts=state.applied) if again else change for change, again in zip(rows, late, strict=True)
            ]
            times = [change.ts for change in self.staged[file.path]]
            files.append(replace(file, min_ts=min(times), max_ts=max(times)))
        return replace(manifest, files=tuple(files))


class EndsHoldsAtTheFall(Replayed):
    """Takes a message for sent again as soon as the producer has restarted."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        holds = tuple(replace(hold, resent={}) if hold.fell else hold for hold in state.holds)
        return super().plan(replace(state, holds=holds), manifest)


class EndsHoldsByAnyWatermark(Replayed):
    """Takes a message for sent again when a later watermark comes, whether the producer has restarted or not."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        return super().plan(replace(state, holds=tuple(replace(hold, fell=True) for hold in state.holds)), manifest)


class ForgetsTheEnds(Replayed):
    """Does not wait for partitions to which a message may have been sent again."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        planned = super().plan(state, manifest)
        holds = tuple(hold for hold in planned.state.holds if hold.resent is None)
        return replace(planned, state=replace(planned.state, holds=holds))


class HoldsOnlyTheTable(Replayed):
    """Takes a bad DDL for one of its own table alone."""

    def reject(self, at: Position, message: Message) -> Rejected | None:
        rejected = super().reject(at, message)
        event = message.events[0]
        return replace(rejected, table=event.ddl.table) if rejected and isinstance(event, DdlEvent) else rejected


MUTANTS: tuple[type[Clumsy], ...] = tuple(
    kind
    for kind in globals().copy().values()
    if isinstance(kind, type) and issubclass(kind, Clumsy) and kind.__module__ == __name__
)


def _ts(found: Any) -> int:
    return found.ddl.commit_ts or 0
