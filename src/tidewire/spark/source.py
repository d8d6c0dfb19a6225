"""Where messages come from: streams of messages, or of files with messages, for staging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from tidewire.errors import OptionError
from tidewire.model import Message, Position
from tidewire.spark.kafka_place import SCHEMES, KafkaPlace
from tidewire.spark.stage import SEGMENT
from tidewire.sync.manifest import Partition
from tidewire.topic import open_topics
from tidewire.topic.files import FileTopics, messages_of

_FOREVER = "36500d"


class Source(Protocol):
    """A place with topics."""

    @property
    def uri(self) -> str:
        """What it is called; without credentials."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """The codec options its URI carries, by TiCDC's names."""
        ...

    @property
    def contiguous(self) -> bool:
        """Do the offsets of a partition have no gaps?"""
        ...

    def stream(self, spark: SparkSession) -> DataFrame:
        """The messages from the beginning, as a stream."""
        ...

    def batch(self, messages: DataFrame) -> DataFrame:
        """A micro-batch of the stream, as staging takes it best."""
        ...

    def ends(self) -> Mapping[Partition, int]:
        """All partitions there are, each with the offset after its last message."""
        ...

    def sample(self, count: int) -> Iterable[Message]:
        """Some of the first messages of every partition."""
        ...

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some places."""
        ...

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Hear how far the sync is; nothing depends on it."""
        ...


class FileSource:
    """Topics in files. Spark's file stream takes the segments in the order they were written."""

    contiguous = True

    def __init__(self, topics: FileTopics, *, files_per_batch: int = 200) -> None:
        self._topics = topics
        self._files_per_batch = files_per_batch
        self.uri = topics.folder.as_uri()
        self.options: Mapping[str, str] = {}

    def stream(self, spark: SparkSession) -> DataFrame:
        """The messages from the beginning, as a stream."""
        if not self._topics.folder.is_dir():
            raise OptionError("source", f"there are no topics in {self.uri}")
        return (
            # Only the names: tasks open the files themselves, so that messages do not pass through Java.
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", self._files_per_batch)
            # Files older than the newest one by this much would be passed over without a word.
            .option("maxFileAge", _FOREVER)
            .load(str(self._topics.folder))
            .selectExpr(f"path AS {SEGMENT}")
        )

    def batch(self, messages: DataFrame) -> DataFrame:
        """A micro-batch of the stream: the names of files."""
        return messages

    def ends(self) -> Mapping[Partition, int]:
        """All partitions there are, each with the offset after its last message."""
        return {Partition(topic, number): end for (topic, number), end in self._topics.ends().items()}

    def sample(self, count: int) -> Iterable[Message]:
        """Some of the first messages of every partition."""
        for topic, partition in self._topics.ends():
            yield from islice(self._messages(topic, partition), count)

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some places."""
        return {at: next(self._messages(at.topic, at.partition, at.offset)) for at in positions}

    def _messages(self, topic: str, partition: int, start: int = 0) -> Iterator[Message]:
        return (m for batch in self._topics.read(topic, partition, start) for m in messages_of(batch))

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Files do not ask."""


def open_source(spark: SparkSession, uri: str) -> Source:
    """The source behind a URI."""
    if uri.startswith(SCHEMES):
        from tidewire.spark.kafka import KafkaSource

        return KafkaSource(spark, KafkaPlace.parse(uri))
    return FileSource(open_topics(uri))
