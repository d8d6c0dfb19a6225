"""Segments: the Parquet files a partition is made of, and what their names and footers tell.

::

    DIR/<topic>/partition=<number>/<first offset, 20 digits>.parquet

The offsets of a segment are consecutive and the next segment goes on where it ends, so the name and the number of rows
of the last one tell where a partition ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.errors import TopicError

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
MESSAGES = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        "headers": HEADERS,
    }
)
"""The columns of Spark's Kafka source."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PARTITION = re.compile(r"partition=(0|[1-9]\d{0,9})")
_SEGMENT = re.compile(r"(\d{20})\.parquet")
_LARGEST_PARTITION = (1 << 31) - 1


def checked_topic(name: str) -> str:
    """A name that Kafka allows a topic, and that Spark does not take for a hidden folder."""
    if not isinstance(name, str) or _TOPIC.fullmatch(name) is None or name in (".", ".."):
        raise TopicError(str(name), "not a topic's name: 1 to 249 letters, digits, dots, hyphens and underscores")
    if name[0] in "._":
        raise TopicError(name, "a topic in files cannot begin with a dot or underscore: Spark would not see its folder")
    return name


def checked_partition(topic: str, number: int) -> int:
    """A number that Kafka allows a partition."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _LARGEST_PARTITION:
        raise TopicError(topic, f"{number!r} is not a partition's number")
    return number


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a partition."""

    path: Path
    first: int

    def rows(self) -> int:
        """How many messages are in it."""
        return int(self.open().metadata.num_rows)

    def open(self) -> pq.ParquetFile:
        """The file, its footer read."""
        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            raise TopicError(self.path.parent.parent.name, f"{self.path} cannot be read: {error}") from error


def topics_in(folder: Path) -> list[str]:
    """The names of the topics in a folder."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._")


def partitions_in(topic: Path) -> list[int]:
    """The numbers of the partitions in a topic's folder."""
    names = (_PARTITION.fullmatch(path.name) for path in topic.iterdir() if path.is_dir())
    return sorted(int(name[1]) for name in names if name)


def partition_folder(folder: Path, topic: str, partition: int) -> Path:
    """Where the segments of a partition are."""
    return folder / topic / f"partition={partition}"


def segment_name(first: int) -> str:
    """The name of a segment that begins with an offset."""
    return f"{first:020}.parquet"


def segments_in(partition: Path) -> Sequence[Segment]:
    """The segments of a partition in order. Files that are still being written have other names."""
    if not partition.is_dir():
        return []
    found = ((path, _SEGMENT.fullmatch(path.name)) for path in partition.iterdir())
    return sorted((Segment(path, int(name[1])) for path, name in found if name), key=lambda segment: segment.first)


def end_of(partition: Path) -> int:
    """The offset that the next message gets."""
    segments = segments_in(partition)
    return segments[-1].first + segments[-1].rows() if segments else 0
