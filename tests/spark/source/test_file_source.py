"""Topics in files as a source: segments in any order of arrival, holes, ranges."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pyarrow as pa
import pytest

from tidewire.errors import OptionError, SyncError, TopicError
from tidewire.model import Message, Position
from tidewire.spark.source import Extent, FileSource, OffsetRange, open_source, planned_ranges
from tidewire.sync.manifest import Partition
from tidewire.topic import appending
from tidewire.topic.files import FileTopics

AT = Partition("feed", 0)


@pytest.fixture
def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileTopics:
    """100 messages in segments of 10."""
    monkeypatch.setattr(appending, "MOST_MESSAGES", 10)
    topics = FileTopics(tmp_path / "topics")
    topics.append("feed", 0, [Message(None, b"%d" % number) for number in range(100)])
    return topics


def segment(topics: FileTopics, first: int) -> Path:
    return topics.folder / "feed" / "partition=0" / f"{first:020}.parquet"


def read(source: FileSource, start: int, end: int) -> list[tuple[int, bytes]]:
    rows = pa.Table.from_batches(pickle.loads(pickle.dumps(source.fetcher)).batches(OffsetRange(AT, start, end)))
    assert rows.column_names == ["key", "value", "topic", "partition", "offset"]
    return list(zip(rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True))


@pytest.mark.parametrize(("start", "end"), [(0, 100), (0, 1), (9, 11), (10, 20), (37, 83), (99, 100)])
def test_a_range_is_read_whole_and_nothing_else(topics: FileTopics, start: int, end: int) -> None:
    assert read(FileSource(topics), start, end) == [(at, b"%d" % at) for at in range(start, end)]


def test_a_range_opens_only_the_segments_it_needs(topics: FileTopics) -> None:
    for first in (0, 10, 50):
        segment(topics, first).write_bytes(b"not Parquet")

    assert [at for at, _ in read(FileSource(topics), 25, 45)] == list(range(25, 45))


def test_segments_that_arrive_in_any_order_are_read_in_order_and_each_once(topics: FileTopics, tmp_path: Path) -> None:
    source = FileSource(FileTopics(tmp_path / "copy"))
    chance = random.Random(4)
    names = [path.relative_to(topics.folder) for path in sorted(topics.folder.rglob("*.parquet"))]
    later = names[1:]
    chance.shuffle(later)
    found: list[int] = []
    known: dict[Partition, int] = {}
    for name in [names[0], *later]:
        place = tmp_path / "copy" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((topics.folder / name).read_bytes())
        os.utime(place, ns=(1, chance.randrange(10**9)))
        for range_ in planned_ranges(source.partitions(), known, 1000):
            found += [at for at, _ in read(source, range_.start, range_.end)]
            known[AT] = range_.end

    assert found == list(range(100))


def test_what_lies_behind_a_hole_does_not_count_yet(topics: FileTopics) -> None:
    source = FileSource(topics)
    hidden = topics.folder / "hidden"
    segment(topics, 30).rename(hidden)

    assert source.partitions() == {AT: Extent(0, 30)}
    assert source.holes() == {AT: 30}

    hidden.rename(segment(topics, 30))
    assert source.partitions() == {AT: Extent(0, 100)}
    assert source.holes() == {}


def test_a_topic_need_not_begin_at_offset_0(topics: FileTopics) -> None:
    segment(topics, 0).unlink()

    assert FileSource(topics).partitions() == {AT: Extent(10, 100)}


def test_segments_before_the_first_one_are_not_passed_over(topics: FileTopics) -> None:
    source = FileSource(topics)
    hidden = topics.folder / "hidden"
    segment(topics, 0).rename(hidden)
    source.partitions()
    hidden.rename(segment(topics, 0))

    with pytest.raises(TopicError, match="came after partition 0 had been read from offset 10"):
        source.partitions()


def test_overlapping_segments_are_an_error(topics: FileTopics) -> None:
    segment(topics, 40).rename(segment(topics, 45))
    segment(topics, 30).rename(segment(topics, 38))
    segment(topics, 20).rename(segment(topics, 28))

    assert FileSource(topics).partitions() == {AT: Extent(0, 20)}
    segment(topics, 28).rename(segment(topics, 15))
    with pytest.raises(TopicError, match="begins before offset 20"):
        FileSource(topics).partitions()


def test_a_range_whose_segment_is_gone_is_an_error(topics: FileTopics) -> None:
    source = FileSource(topics)
    segment(topics, 50).unlink()

    with pytest.raises(SyncError, match=r"feed\[0\]: the segment with offset 50 is gone"):
        read(source, 42, 70)
    with pytest.raises(SyncError, match=r"the segment with offset 100 is gone"):
        read(source, 95, 101)


def test_growing_partitions_and_new_topics_are_found(topics: FileTopics) -> None:
    source = FileSource(topics)
    assert source.partitions() == {AT: Extent(0, 100)}

    topics.append("feed", 0, [Message(None, b"more")])
    topics.append("other", 2, [Message(None, b"new")])

    assert source.partitions() == {AT: Extent(0, 101), Partition("other", 2): Extent(0, 1)}


def test_a_folder_that_has_not_changed_is_not_read_again(topics: FileTopics) -> None:
    source = FileSource(topics)
    folder = segment(topics, 0).parent
    os.utime(folder, ns=(1, 1))
    source.partitions()
    segment(topics, 90).unlink()
    os.utime(folder, ns=(1, 1))

    assert source.partitions() == {AT: Extent(0, 100)}
    os.utime(folder, ns=(1, 2))
    assert source.partitions() == {AT: Extent(0, 90)}


def test_messages_are_found_by_their_positions_and_gone_ones_left_out(topics: FileTopics) -> None:
    source = open_source(topics.folder.as_uri())
    segment(topics, 0).unlink()
    wanted = [Position("feed", 0, at) for at in (3, 10, 55, 99, 100)] + [Position("feed", 1, 0), Position("no", 0, 0)]

    assert source.fetch(wanted) == {Position("feed", 0, at): Message(None, b"%d" % at) for at in (10, 55, 99)}
    assert source.sample(2) == [Message(None, b"10"), Message(None, b"11")]
    assert source.identity == source.uri == topics.folder.as_uri()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"there is no folder /.*missing: check the path"):
        open_source(f"file:{tmp_path}/missing").partitions()
