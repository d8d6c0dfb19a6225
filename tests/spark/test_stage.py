"""Staging: whole topics become exactly the rows of the codec, and everything else is in the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import staging
import topic_files
from staging import (
    OTHER,
    TABLE,
    MemorySource,
    Messages,
    encoded,
    ends,
    insert,
    read_by_codec,
    reader,
    recorded,
    staged,
    without_paths,
    written,
)
from tidewire.codec import Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import BrokerError, ClaimCheckError, TidewireError
from tidewire.model import Bootstrap, Ddl, Message, Position, Watermark
from tidewire.spark.source import FileSource, OffsetRange, planned_ranges
from tidewire.spark.stage import Reader, Stage, job
from tidewire.storage import Storage, open_storage
from tidewire.sync.manifest import Manifest, Parked, Partition, ReadRange
from tidewire.sync.replays import Replays

TOPICS = [
    ("seed11", "avro"),
    ("seed11", "canal-json"),
    ("seed11", "open-protocol"),
    ("seed11-classic", "craft"),
    ("seed11-classic", "simple-avro"),
    ("seed11", "simple-json"),
]
"""One of each protocol; all others are staged without Spark."""

CANAL = Reader("canal-json", {"enable-tidb-extension": "true"})
SIMPLE = Reader("simple")
P0, P1 = Partition("t", 0), Partition("t", 1)


@pytest.fixture(params=["driver", "spark"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession | None]:
    """Where messages are staged: in the driver, which has no session then, or in Spark tasks, however few they are."""
    if request.param == "driver":
        yield None
        return
    monkeypatch.setattr(job, "FEW_MESSAGES", 0)
    with fetchers_travel():
        yield request.getfixturevalue("spark")


@contextmanager
def fetchers_travel() -> Iterator[None]:
    """Spark's workers do not have the tests' modules, so what is in them is sent along."""
    cloudpickle.register_pickle_by_value(staging)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(staging)  # type: ignore[no-untyped-call]


def over(messages: Messages, pieces: int = 1) -> list[OffsetRange]:
    """The ranges of all messages, each partition in pieces."""
    found = []
    for partition, group in groupby(sorted(messages), key=Partition.of):
        offsets = [at.offset for at in group]
        first, end = offsets[0], offsets[-1] + 1
        cuts = [first + (end - first) * number // pieces for number in range(pieces + 1)]
        found += [OffsetRange(partition, *piece) for piece in pairwise(cuts)]
    return found


def run(
    place: SparkSession | None,
    messages: Messages,
    folder: Path,
    reader: Reader,
    *,
    ranges: Sequence[OffsetRange] | None = None,
    number: int = 0,
    parked: tuple[Parked, ...] = (),
    again: Mapping[Position, str] = {},
) -> Manifest:
    """A pass that stages these messages."""
    stage = Stage(place, MemorySource(dict(messages)), open_storage(folder), 1)  # type: ignore[arg-type]
    wanted = over(messages) if ranges is None else ranges
    return stage.run(wanted, number, reader, Replays(), ends=dict, parked=parked, again=again)


def files(storage: Storage, *folders: str) -> set[str]:
    return {storage.path(entry.name) for folder in folders for entry in storage.list(folder, recursive=True)}


@pytest.mark.parametrize(("topic", "name"), TOPICS)
def test_a_whole_topic_becomes_the_rows_of_the_codec(
    spark: SparkSession, tmp_path: Path, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, how = recorded(topic, name), reader(topic, name, tmp_path)
    topics = written(messages, tmp_path / "topics")
    source = FileSource(topics)
    monkeypatch.setattr(job, "FEW_MESSAGES", 0)
    stage = Stage(spark, source, open_storage(tmp_path / "work"), 1)

    ranges = planned_ranges(source.partitions(), {}, 1_000_000, per_task=400)
    manifest = stage.run(ranges, 3, how, Replays(), ends=lambda: ends(topics))

    rows, misfits = read_by_codec(messages, how, Resources(registry=topic_files.registry(topic)))
    assert misfits == set() or name == "craft"  # whose FLOATs the server corrupts
    assert staged(manifest) == rows
    assert {rejected.at for rejected in manifest.rejected} == misfits
    events = [event for _, found in topic_files.events(topic, name) for event in found]
    assert len(manifest.ddls) == sum(isinstance(event, Ddl) for event in events)
    assert Counter(found.ddl.query for found in manifest.ddls) == Counter(
        event.query for event in events if isinstance(event, Ddl)
    )
    assert set(manifest.schemas) == {
        schema
        for event in events
        for schema in (
            (event.table_schema,)
            if isinstance(event, Bootstrap)
            else (event.table_schema, event.pre_table_schema)
            if isinstance(event, Ddl)
            else ()
        )
        if schema is not None
    }
    assert manifest.parked == ()
    assert manifest.batch == 3
    assert manifest.ends == ends(topics)
    read = [OffsetRange(at, each.start, each.end) for at, found in manifest.read.items() for each in found]
    assert read == ranges
    watermarks: dict[Partition, int] = dict.fromkeys(manifest.read, 0)
    for (of, number), found in topic_files.events(topic, name):
        partition = Partition(of or "t", number)
        marks = (event.ts for event in found if isinstance(event, Watermark))
        watermarks[partition] = max(watermarks[partition], *marks, 0)
    assert {at: max(each.watermark for each in found) for at, found in manifest.read.items()} == watermarks


def test_the_same_offsets_give_the_same_manifest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged again, in the driver or in Spark tasks."""
    messages = dict(recorded("seed11", "canal-json"))
    for at in list(messages)[100:1000:100]:
        messages[at] = Message(None, b"garbage")
    source = FileSource(written(messages, tmp_path / "topics"))
    ranges = over(messages, pieces=3)

    def once(epoch: int, few: int) -> Manifest:
        monkeypatch.setattr(job, "FEW_MESSAGES", few)
        stage = Stage(spark, source, open_storage(tmp_path / "work"), epoch)
        return stage.run(ranges, 0, CANAL, Replays(), ends=dict)

    first, second, here = once(1, 0), once(2, 0), once(3, len(messages))

    assert len(first.rejected) == 9
    assert without_paths(first)[1:] == without_paths(second)[1:] == without_paths(here)[1:]
    assert staged(first) == staged(second) == staged(here)


def test_few_messages_need_no_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    messages = encoded(CANAL, *(insert(number, 10) for number in range(50)), Watermark(20))
    tracker = spark.sparkContext.statusTracker()
    source = MemorySource(dict(messages))

    def staged_in(group: str, few: int) -> tuple[Manifest, int]:
        spark.sparkContext.setJobGroup(group, "staging")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "FEW_MESSAGES", few)
            found = Stage(spark, source, open_storage(tmp_path / group), 1).run(
                over(messages), 0, CANAL, Replays(), ends=dict
            )
        return found, len(tracker.getJobIdsForGroup(group))

    here, no_jobs = staged_in("in the driver", job.FEW_MESSAGES)
    with fetchers_travel():
        there, jobs = staged_in("in tasks", 50)

    assert (no_jobs, jobs > 0) == (0, True)
    assert without_paths(here) == without_paths(there)
    assert staged(here) == staged(there)


def test_disjoint_ranges_stay_disjoint(place: SparkSession | None, tmp_path: Path) -> None:
    """Two tasks with a hole between them: its messages must not count as read."""
    messages = encoded(CANAL, *(insert(number, 10) for number in range(8)), Watermark(20))
    ranges = [OffsetRange(P0, 6, 9), OffsetRange(P0, 0, 3)]

    manifest = run(place, messages, tmp_path, CANAL, ranges=ranges)

    assert manifest.read == {P0: (ReadRange(0, 3), ReadRange.of(6, 9, [(8, 20)]))}
    assert sorted(at.offset for at, _ in staged(manifest)) == [0, 1, 2, 6, 7]


def test_offsets_without_messages_at_the_end_of_a_range_count_as_read(
    place: SparkSession | None, tmp_path: Path
) -> None:
    messages = encoded(CANAL, insert(1, 10), Watermark(20))

    manifest = run(place, messages, tmp_path, CANAL, ranges=[OffsetRange(P0, 0, 5), OffsetRange(P1, 3, 4)])

    assert manifest.read == {P0: (ReadRange.of(0, 5, [(1, 20)]),), P1: (ReadRange(3, 4),)}


def test_a_message_that_cannot_be_read_is_set_aside_with_its_reason(place: SparkSession | None, tmp_path: Path) -> None:
    messages = encoded(
        CANAL, Watermark(5), insert(1, 6), b"\x00garbage", Watermark(9), Watermark(7), b"{}", insert(2, 10)
    )

    manifest = run(place, messages, tmp_path, CANAL, number=4)

    assert sorted(at.offset for at, _ in staged(manifest)) == [1, 6]
    assert [(rejected.at.offset, rejected.after, rejected.table) for rejected in manifest.rejected] == [
        (2, 5, None),
        (5, 9, None),
    ]
    assert manifest.read == {P0: (ReadRange.of(0, 7, [(0, 5), (3, 9), (4, 7)]),)}
    kept = [row for path in manifest.reject_files for row in pq.read_table(path).to_pylist()]
    assert sorted((row["offset"], row["value"], row["batch"]) for row in kept) == [
        (2, b"\x00garbage", 4),
        (5, b"{}", 4),
    ]
    assert {row["offset"]: row["reason"] for row in kept} == {
        rejected.at.offset: rejected.reason for rejected in manifest.rejected
    }


def test_a_watermark_of_another_task_counts_for_bad_messages_behind_it(
    place: SparkSession | None, tmp_path: Path
) -> None:
    messages = {
        **encoded(CANAL, b"a", Watermark(9), Watermark(7), b"b", insert(1, 10), b"c", Watermark(12), b"d"),
        **encoded(CANAL, b"e", partition=1),
    }
    ranges = [OffsetRange(P0, *cut) for cut in ((6, 8), (3, 5), (0, 3), (5, 6))] + [OffsetRange(P1, 0, 1)]

    manifest = run(place, messages, tmp_path, CANAL, ranges=ranges)

    assert [(rejected.at.partition, rejected.at.offset, rejected.after) for rejected in manifest.rejected] == [
        (0, 0, 0),
        (0, 3, 9),
        (0, 5, 9),
        (0, 7, 12),
        (1, 0, 0),
    ]


def test_a_row_waits_for_its_schema_over_passes(place: SparkSession | None, tmp_path: Path) -> None:
    early = encoded(SIMPLE, insert(1, 11), insert(1, 12, table=OTHER), insert(2, 13), Watermark(14))

    first = run(place, early, tmp_path, SIMPLE)
    second = run(place, encoded(SIMPLE, insert(3, 15), first=4), tmp_path, SIMPLE, number=1, parked=first.parked)
    late = encoded(SIMPLE, Bootstrap(TABLE), insert(4, 16), first=5)
    third = run(place, late, tmp_path, SIMPLE, number=2, parked=second.parked)
    known = replace(SIMPLE, schemas=third.schemas)
    last = encoded(known, Bootstrap(OTHER), partition=1)
    fourth = run(place, last, tmp_path, known, number=3, parked=third.parked)

    assert (first.files, second.files) == ((), ())
    assert [(parked.at.offset, parked.table, parked.version, parked.commit_ts) for parked in second.parked] == [
        (0, TABLE.name, 100, 11),
        (1, OTHER.name, 100, 12),
        (2, TABLE.name, 100, 13),
        (4, TABLE.name, 100, 15),
    ]
    assert sorted((at.offset, row["_ts"]) for (at, _), row in staged(third).items()) == [
        (0, 11),
        (2, 13),
        (4, 15),
        (6, 16),
    ]
    assert [parked.at.offset for parked in third.parked] == [1]
    assert [range_.start for range_ in third.read[P0]] == [5]
    assert [(at, row["table"]) for (at, _), row in staged(fourth).items()] == [(Position("t", 0, 1), OTHER.name)]
    assert fourth.parked == ()
    assert [schema.name for schema in (*third.schemas, *fourth.schemas)] == [TABLE.name, OTHER.name]


def test_a_schema_may_come_in_another_partition_of_the_same_pass(place: SparkSession | None, tmp_path: Path) -> None:
    messages = {
        **encoded(SIMPLE, insert(1, 11), b"garbage"),
        **encoded(SIMPLE, Bootstrap(TABLE), insert(2, 12), partition=1),
    }

    manifest = run(place, messages, tmp_path, SIMPLE)

    assert sorted(row["after"]["id"] for row in staged(manifest).values()) == [1, 2]
    assert manifest.parked == ()
    assert len(manifest.rejected) == len(manifest.reject_files) == 1


def test_messages_are_tried_again_with_other_options(place: SparkSession | None, tmp_path: Path) -> None:
    """Rows, DDL and watermarks among them; those that still cannot be read are not counted a second time."""
    packed = replace(CANAL, options={**CANAL.options, "large-message-handle-compression": "lz4"})
    ddl = Ddl(TABLE.name, 12, "TRUNCATE TABLE t")
    messages = {
        **encoded(packed, insert(1, 11), ddl),
        **encoded(packed, insert(2, 13), b"garbage", partition=1, first=7),
    }
    first = run(place, messages, tmp_path, CANAL)
    bad = {rejected.at for rejected in first.rejected}
    paths = {
        Position(row["topic"], row["partition"], row["offset"]): path
        for path in first.reject_files
        for row in pq.read_table(path).to_pylist()
    }

    again = run(place, {}, tmp_path, packed, number=1, again=paths)

    assert bad == paths.keys() == messages.keys()
    assert {(at.partition, at.offset): row["after"]["id"] for (at, _), row in staged(again).items()} == {
        (0, 0): 1,
        (1, 7): 2,
    }
    assert [(found.at, found.ddl.query) for found in again.ddls] == [(Position("t", 0, 1), ddl.query)]
    assert again.retried == tuple(sorted(bad - {Position("t", 1, 8)}))
    assert (again.rejected, again.reject_files, again.read) == ((), (), {})


def test_a_message_that_is_tried_again_may_wait_for_its_schema(place: SparkSession | None, tmp_path: Path) -> None:
    avro = replace(SIMPLE, options={"encoding-format": "avro"})
    messages = encoded(avro, insert(1, 11))
    first = run(place, messages, tmp_path, SIMPLE)
    again = dict.fromkeys(messages, first.reject_files[0])

    waits = run(place, {}, tmp_path, avro, number=1, again=again)
    known = run(place, encoded(avro, Bootstrap(TABLE), first=1), tmp_path, avro, number=2, parked=waits.parked)

    assert (waits.retried, [parked.at for parked in waits.parked]) == ((), [*messages])
    assert [at for at, _ in staged(known)] == [*messages]


def test_files_of_failed_attempts_are_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = {
        **encoded(SIMPLE, Bootstrap(TABLE), insert(1, 11), b"garbage"),
        **encoded(SIMPLE, insert(1, 12, table=OTHER), partition=1),
    }
    monkeypatch.setattr(job, "FEW_MESSAGES", 0)
    storage, source = open_storage(tmp_path / "work"), FileSource(written(messages, tmp_path / "topics"))
    left = [f"{kind}/00000001/{number:08}/failed.parquet" for kind in job.FOLDERS for number in (0, 1)]
    left += [f"{kind}/00000002/00000000/of-another-epoch.parquet" for kind in job.FOLDERS]
    for name in left:
        storage.put(name, b"")

    manifest = Stage(spark, source, storage, 1).run(over(messages), 0, SIMPLE, Replays(), ends=dict)

    named = {
        *(file.path for file in manifest.files),
        *(parked.path for parked in manifest.parked),
        *manifest.reject_files,
    }
    assert len(named) == 3
    others = {storage.path(name) for name in left if "/00000001/00000000/" not in name}
    assert files(storage, *job.FOLDERS) == named | others


def unmounted_claims(folder: Path) -> tuple[MemorySource, Reader]:
    """A row in a claim-check store whose disk is not mounted."""
    options = {
        **CANAL.options,
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": f"file://{folder}/not-mounted",
        "max-message-bytes": "900",
    }
    how = replace(CANAL, options=options)
    messages = encoded(how, insert(1, 11, "x" * 1500), resources=Resources(claim_check=MemoryStore()))
    return MemorySource(dict(messages)), how


def silent_brokers(_: Path) -> tuple[MemorySource, Reader]:
    """Brokers that do not answer."""
    messages = encoded(CANAL, insert(1, 11))
    return MemorySource(dict(messages), trouble=BrokerError("127.0.0.1:1", "no answer", transient=True)), CANAL


@pytest.mark.parametrize(
    ("source", "error", "transient"), [(silent_brokers, BrokerError, True), (unmounted_claims, ClaimCheckError, False)]
)
def test_a_server_that_does_not_answer_is_heard_of_in_the_driver(
    place: SparkSession | None, tmp_path: Path, source: Any, error: type[TidewireError], transient: bool
) -> None:
    """As the error it is, with its facts: it is not a message's fault, and not a Java stack."""
    topic, how = source(tmp_path)
    storage = open_storage(tmp_path / "work")
    stage = Stage(place, topic, storage, 1)  # type: ignore[arg-type]

    with pytest.raises(error) as caught:
        stage.run(over(topic.messages), 0, how, Replays(), ends=dict)

    assert caught.value.transient is transient  # type: ignore[attr-defined]
    assert files(storage, "rejects") == set()
