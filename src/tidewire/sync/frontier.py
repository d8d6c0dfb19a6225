"""The frontier: how far every partition has been read, and up to which moment everything is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidewire.errors import SyncError
from tidewire.sync.manifest import Partition, ReadRange, newest


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one partition has been read.

    ``next`` is the offset to read next, ``None`` before anything was read: the source's first offset then.
    ``watermark`` is the largest watermark read, ``previous`` the largest below it. ``joined_at`` is the watermark that
    was applied when the partition was discovered.
    """

    next: int | None = None
    watermark: int = 0
    previous: int = 0
    joined_at: int = 0

    @property
    def late(self) -> bool:
        """Was the partition discovered when the tables were further than it is? Its old rows are then new."""
        return self.watermark < self.joined_at

    def read(self, at: Partition, ranges: Iterable[ReadRange]) -> Progress:
        """The progress after reading more; :class:`SyncError` if offsets are missing, or are read twice."""
        progress = self
        for found in sorted(ranges, key=lambda range_: range_.start):
            if progress.next not in (None, found.start):
                raise SyncError(
                    f"{at} was read from offset {found.start} on, but the next offset is {progress.next}: messages "
                    "would be lost or counted twice. Nothing of this pass was applied; start the sync again"
                )
            watermark, previous = newest([progress.watermark, progress.previous, found.watermark, found.previous])
            progress = Progress(found.end, watermark, previous, progress.joined_at)
        return progress


@dataclass(frozen=True, slots=True)
class Frontier:
    """All partitions, and the topics that the producer no longer feeds."""

    partitions: Mapping[Partition, Progress] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()

    @property
    def watermark(self) -> int:
        """Everything up to here has been read: the least watermark of all partitions of topics still fed."""
        return min((progress.watermark for _, progress in self.active()), default=0)

    def active(self) -> Iterable[tuple[Partition, Progress]]:
        """The partitions that count."""
        return ((at, progress) for at, progress in self.partitions.items() if at.topic not in self.retired)

    def read(
        self, ranges: Mapping[Partition, Iterable[ReadRange]], ends: Mapping[Partition, int], *, applied: int
    ) -> Frontier:
        """The frontier after a batch. ``ends`` lists all partitions, as of after the batch was read."""
        partitions = dict(self.partitions)
        for at in sorted({*ends, *ranges} - partitions.keys()):
            partitions[at] = Progress(joined_at=applied)
        for at, found in ranges.items():
            partitions[at] = partitions[at].read(at, found)
        return Frontier(partitions, _idle(partitions, ends))


def _idle(partitions: Mapping[Partition, Progress], ends: Mapping[Partition, int]) -> frozenset[str]:
    """The topics that are read to their ends and yet lack a watermark that every topic in use has received.

    Watermarks go out in passes, one topic after the other. Two growing ones in a partition say that the pass of the
    first is complete. The ends were listed after that, so a topic without it was not in use; and since rows are sent
    before the watermark that covers them, nothing up to the newest watermark is missing from it.
    """
    complete = max((progress.previous for progress in partitions.values()), default=0)
    by_topic: dict[str, list[tuple[Partition, Progress]]] = {}
    for at, progress in partitions.items():
        by_topic.setdefault(at.topic, []).append((at, progress))
    return frozenset(
        topic
        for topic, members in by_topic.items()
        if all(progress.watermark < complete and (progress.next or 0) >= ends.get(at, 0) for at, progress in members)
    )
