"""Topics in files: what is appended is there, whole and in order, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import topic_files
from tidewire.errors import OptionError, TopicError
from tidewire.model import Message, Position
from tidewire.plain import message_from_plain
from tidewire.topic import appending, open_topics
from tidewire.topic.files import FileTopics, PartitionFacts, messages_of

MESSAGES = [
    Message(b"a", b"1"),
    Message(None, b""),
    Message(b"", None),
    Message(None, None, (("h", b"\x00"), ("h", b""))),
]


@pytest.fixture
def topics(tmp_path: Path) -> FileTopics:
    return FileTopics(tmp_path / "topics")


def read(topics: FileTopics, topic: str, partition: int, start: int = 0) -> list[tuple[int, Message]]:
    return [
        found
        for batch in topics.read(topic, partition, start)
        for found in zip(batch.column("offset").to_pylist(), messages_of(batch), strict=True)
    ]


def segments(topics: FileTopics) -> list[str]:
    return sorted(str(path.relative_to(topics.folder)) for path in topics.folder.rglob("*.parquet"))


def test_what_is_appended_is_read(topics: FileTopics) -> None:
    assert topics.append("t", 3, MESSAGES) == 4
    assert topics.append("t", 3, MESSAGES[:1]) == 5

    assert read(topics, "t", 3) == list(enumerate([*MESSAGES, MESSAGES[0]]))
    assert read(topics, "t", 3, start=3) == [(3, MESSAGES[3]), (4, MESSAGES[0])]
    assert read(topics, "t", 3, start=4) == [(4, MESSAGES[0])]
    assert read(topics, "t", 3, start=5) == []
    assert segments(topics) == [
        "t/partition=3/00000000000000000000.parquet",
        "t/partition=3/00000000000000000004.parquet",
    ]


def test_a_record_batch_can_be_appended(topics: FileTopics) -> None:
    batch = pa.record_batch({"value": pa.array([b"1", None]), "key": pa.array([None, b"k"])})

    topics.append("t", 0, batch)

    assert read(topics, "t", 0) == [(0, Message(None, b"1")), (1, Message(b"k", None))]


def test_segments_have_the_columns_of_sparks_kafka_source(topics: FileTopics) -> None:
    topics.append("t", 1, MESSAGES)

    (batch,) = topics.read("t", 1)

    types = {field.name: str(field.type) for field in batch.schema}
    assert types.pop("headers").startswith("list<")
    assert types == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
    }
    assert set(batch.column("topic").to_pylist()) == {"t"}
    assert set(batch.column("partition").to_pylist()) == {1}
    assert batch.column("timestamp").null_count == 0


def test_topics_partitions_and_ends_are_listed(topics: FileTopics) -> None:
    assert topics.topics() == []
    assert topics.ends() == {}
    topics.append("b", 10, MESSAGES)
    topics.append("b", 2, MESSAGES[:2])
    topics.append("a.b-c_D", 0, MESSAGES[:1])

    assert topics.topics() == ["a.b-c_D", "b"]
    assert topics.partitions("b") == [2, 10]
    assert topics.ends() == {("a.b-c_D", 0): 1, ("b", 2): 2, ("b", 10): 4}
    facts = list(topics.facts())
    assert [(fact.topic, fact.partition, fact.first, fact.end, fact.segments) for fact in facts] == [
        ("a.b-c_D", 0, 0, 1, 1),
        ("b", 2, 0, 2, 1),
        ("b", 10, 0, 4, 1),
    ]
    assert all(isinstance(fact, PartitionFacts) and fact.bytes > 0 for fact in facts)


@pytest.mark.parametrize(("first", "why"), [(1, "there would be a gap"), (-1, "that offset is taken")])
def test_an_append_goes_on_where_the_partition_ends_or_is_refused(topics: FileTopics, first: int, why: str) -> None:
    topics.append("t", 0, MESSAGES)
    before = segments(topics)

    with pytest.raises(TopicError, match=f"t\\[0\\]@{4 + first} cannot be appended: partition 0 ends at 4, so {why}"):
        topics.append("t", 0, MESSAGES, first=4 + first)

    assert segments(topics) == before
    assert topics.append("t", 0, MESSAGES, first=4) == 8


def test_what_fails_leaves_nothing_behind(topics: FileTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "MOST_MESSAGES", 2)
    topics.append("t", 0, MESSAGES)
    before = sorted(topics.folder.rglob("*"))

    def append_with_a_gap() -> None:
        with topics.appending() as block:
            for offset in (4, 5, 6, 7, 9):
                block.add(Position("t", 0, offset), MESSAGES[0])
                block.add(Position("new", 0, offset - 4), MESSAGES[0])

    with pytest.raises(TopicError, match="gap"):
        append_with_a_gap()

    assert sorted(topics.folder.rglob("*")) == before


def test_two_who_append_at_once_do_not_overwrite_each_other(topics: FileTopics) -> None:
    def append_while_another_does() -> None:
        with topics.appending() as block:
            block.add(Position("t", 0, 0), MESSAGES[0])
            topics.append("t", 0, MESSAGES[1:])

    with pytest.raises(TopicError, match="another program"):
        append_while_another_does()

    assert read(topics, "t", 0) == list(enumerate(MESSAGES[1:]))


def test_much_is_cut_into_segments_by_count_and_by_bytes(topics: FileTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "MOST_MESSAGES", 10)
    monkeypatch.setattr(appending, "MOST_BYTES", 1000)
    many = [Message(None, bytes(1)) for _ in range(25)] + [Message(None, bytes(600)) for _ in range(4)]

    topics.append("t", 0, many)

    firsts = [int(Path(name).stem) for name in segments(topics)]
    assert firsts == [0, 10, 20, 27]
    assert read(topics, "t", 0) == list(enumerate(many))
    assert read(topics, "t", 0, 19) == list(enumerate(many))[19:]


def test_messages_of_many_partitions_do_not_pile_up(topics: FileTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "MOST_WAITING", 1000)

    with topics.appending() as block:
        for offset in range(4):
            for partition in range(5):
                block.add(Position("t", partition, offset), Message(None, bytes(100)))

    assert [fact.segments for fact in topics.facts()] == [2] * 5
    assert topics.ends() == {("t", partition): 4 for partition in range(5)}


def test_segments_get_later_times_in_the_order_they_are_appended(
    topics: FileTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "MOST_MESSAGES", 1)
    for number in range(4):
        topics.append(f"t{3 - number}", number, MESSAGES)

    paths = [
        topics.folder / f"t{3 - number}" / f"partition={number}" / f"{offset:020}.parquet"
        for number in range(4)
        for offset in range(4)
    ]
    times = [path.stat().st_mtime_ns // 1_000_000 for path in paths]
    assert times == sorted(set(times))


def test_a_clock_that_went_back_does_not_disturb_the_order(topics: FileTopics) -> None:
    topics.append("t", 0, MESSAGES)
    first = topics.folder / "t" / "partition=0" / f"{0:020}.parquet"
    ahead = first.stat().st_mtime_ns + 3_600 * 10**9
    os.utime(topics.folder / ".lock", ns=(ahead, ahead))

    topics.append("t", 0, MESSAGES)

    assert first.with_name(f"{4:020}.parquet").stat().st_mtime_ns > ahead


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n", "_hidden", ".hidden"])
def test_a_name_no_topic_may_have_is_refused(topics: FileTopics, name: str) -> None:
    with pytest.raises(TopicError):
        topics.append(name, 0, MESSAGES)
    with pytest.raises(TopicError):
        topics.partitions(name)

    assert not topics.folder.exists()


@pytest.mark.parametrize("partition", [-1, 1 << 31, True, "0"])
def test_a_number_no_partition_may_have_is_refused(topics: FileTopics, partition: int) -> None:
    with pytest.raises(TopicError, match="not a partition's number"):
        topics.append("t", partition, MESSAGES)


def test_what_is_not_there_is_said_to_be_missing(topics: FileTopics) -> None:
    topics.append("t", 0, MESSAGES)

    with pytest.raises(TopicError, match="topic 'u': not in "):
        topics.partitions("u")
    with pytest.raises(TopicError, match="topic 't': there is no partition 7"):
        next(topics.read("t", 7))


def test_a_segment_that_is_no_parquet_is_named(topics: FileTopics) -> None:
    topics.append("t", 0, MESSAGES)
    bad = topics.folder / "t" / "partition=0" / f"{4:020}.parquet"
    bad.write_bytes(b"not Parquet")

    with pytest.raises(TopicError, match=bad.name):
        topics.ends()


def test_files_that_are_no_segments_are_overlooked(topics: FileTopics) -> None:
    topics.append("t", 0, MESSAGES)
    folder = topics.folder / "t" / "partition=0"
    for name in (".00000000000000000004.parquet", "_SUCCESS", "4.parquet", "notes.txt"):
        (folder / name).write_bytes(b"?")
    (topics.folder / "t" / "partition=01").mkdir()
    (topics.folder / "_tidewire").mkdir()

    assert topics.ends() == {("t", 0): 4}


def test_a_topic_of_the_workload_comes_back_as_it_was(topics: FileTopics) -> None:
    lines = topic_files.lines("seed11", "avro")

    with topics.appending() as block:
        for line in lines:
            block.add(Position(line["topic"], line["partition"], line["offset"]), message_from_plain(line))

    got = {
        (topic, partition, offset): message
        for topic, partition in topics.ends()
        for offset, message in read(topics, topic, partition)
    }
    assert got == {(line["topic"], line["partition"], line["offset"]): message_from_plain(line) for line in lines}
    assert pq.read_table(next(topics.folder.rglob("*.parquet"))).num_rows > 0


@pytest.mark.parametrize(
    "uri", ["file:///{}/topics", "file://localhost/{}/topics", "file:/{}/topics", "FILE:/{}/topics"]
)
def test_a_uri_names_a_folder(tmp_path: Path, uri: str) -> None:
    assert open_topics(uri.format(str(tmp_path)[1:])).folder == tmp_path / "topics"


def test_a_uri_may_be_relative_or_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert open_topics("file:my%20topics").folder == tmp_path / "my topics"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("kafka://127.0.0.1:9092/t", "is not file:FOLDER"),
        ("topics", "is not file:FOLDER; write file:topics"),
        ("file://topics", "file:folder or file:///"),
        ("file:", "file:folder or file:///"),
        ("file:t?x=1", "file:folder or file:///"),
    ],
)
def test_a_uri_that_names_no_folder_is_refused(uri: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        open_topics(uri)
