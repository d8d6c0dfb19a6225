"""How many partitions topics have, as a changefeed sees it.

The default topic keeps the number it had when the sink began; others are asked for theirs again every ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from tidewire.errors import ChangefeedError

REFRESH_SECONDS = 600.0
NEW_TOPIC = 3
"""The partitions of a topic the changefeed makes, where ``partition-num`` says nothing."""

INVALID = "CDC:ErrKafkaInvalidConfig"


class PartitionCounts:
    """Partition counts with a memory; ``count`` finds out, and makes a topic that is not there."""

    def __init__(
        self,
        count: Callable[[str], int],
        default_topic: str,
        partition_num: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if partition_num is not None and partition_num < 1:
            raise ChangefeedError(INVALID, f"partition-num must be at least 1, not {partition_num}")
        self._count = count
        self._clock = clock
        self._fixed = {default_topic: _checked(default_topic, partition_num, count(default_topic))}
        self._known: dict[str, tuple[float, int]] = {}

    def of(self, topic: str) -> int:
        """The partitions of a topic."""
        fixed = self._fixed.get(topic)
        if fixed is not None:
            return fixed
        at, count = self._known.get(topic, (None, 0))
        now = self._clock()
        if at is None or now - at >= REFRESH_SECONDS:
            count = self._count(topic)
            self._known[topic] = now, count
        return count


def _checked(topic: str, wanted: int | None, real: int) -> int:
    """What the default topic uses: fewer than there are is allowed, more is not."""
    if wanted is not None and wanted > real:
        raise ChangefeedError(
            INVALID, f"partition-num is {wanted}, but topic {topic} has {real}; add partitions or ask for fewer"
        )
    return real if wanted is None else wanted
