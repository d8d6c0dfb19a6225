"""Consumers that break one rule each. If their tables came out right, the comparison would be worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sync.consumer import Batch, Clumsy
from tidewire.model import TableName
from tidewire.sync.floors import Floors
from tidewire.sync.frontier import Frontier
from tidewire.sync.manifest import Manifest, Partition, ReadRange
from tidewire.sync.plan import Planned, Settings
from tidewire.sync.reduce import Change
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
        return Floors(dict.fromkeys(state.frontier.partitions, state.applied)).drops


class DropsBelowTheMaximum(Clumsy):
    """Takes every row below the highest ts of its table in its partition for a replay."""

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        drops = state.floors().drops
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
        best = max((each.watermark for each in manifest.read.values()), default=0)
        return replace(manifest, read={at: replace(each, watermark=best) for at, each in manifest.read.items()})


class LowersTheWatermark(Clumsy):
    """Follows a watermark that falls back."""

    def plan(self, state: State, manifest: Manifest) -> Planned:
        planned = super().plan(state, manifest)
        progress = dict(planned.state.frontier.partitions)
        for at, read in manifest.read.items():
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

    settings: Settings

    def stage(self, state: State, batch: Batch) -> Manifest:
        self.settings = replace(self.settings, contiguous=False)
        manifest = super().stage(state, batch)
        read: dict[Partition, ReadRange] = {}
        for at, each in manifest.read.items():
            same = Partition("any", at.number)
            read[same] = max(read.get(same, each), each, key=lambda each: each.watermark)
        files = tuple(replace(each, partition=Partition("any", each.partition.number)) for each in manifest.files)
        ends = {Partition("any", at.number): 0 for at in manifest.ends}
        return replace(manifest, read=read, files=files, ends=ends)

    def drops(self, state: State) -> Callable[[Partition, TableName, int], bool]:
        drops = state.floors().drops
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

    def execute(self, batch: Batch, planned: Planned, count: int | None = None) -> None:
        tables = self.target.tables
        for number, step in enumerate(planned.steps[:count]):
            if isinstance(step, Rename) and (batch.number, number) not in self.target.done:
                for old, new in step.moves:
                    tables[new] = tables.pop(old)
                self.target.done.add((batch.number, number))
            self.target.execute(batch.number, number, step)


MUTANTS: tuple[type[Clumsy], ...] = tuple(kind for kind in Clumsy.__subclasses__() if kind.__module__ == __name__)


def _ts(found: Any) -> int:
    return found.ddl.commit_ts or 0
