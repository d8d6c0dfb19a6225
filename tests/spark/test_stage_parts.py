"""What a task does with offset ranges, without Spark around it."""

from __future__ import annotations

import pickle
import random
import string
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import topic_files
from object_stores import S3, Answer, http_server
from staging import OTHER, TABLE, MemoryFetcher, Messages, delete, encoded, insert, read_by_codec, recorded, staged
from staging import reader as reader_of
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import FolderStore, MemoryStore
from tidewire.codec.open_protocol.wire import LENGTH, VERSION, frame
from tidewire.errors import ClaimCheckError, OptionError, RegistryError, TidewireError
from tidewire.model import Column, Ddl, Message, Position, RowChange, TableName, TableSchema, Watermark
from tidewire.spark.decoding import resources_of
from tidewire.spark.stage import Before, Reader, files, fold, folded
from tidewire.spark.stage.task import FileInput, Input, RangeInput, Share, Task, TaskReport
from tidewire.spark.tasks import _run as done
from tidewire.storage import open_storage
from tidewire.sync.manifest import Manifest, Partition, ReadRange
from tidewire.sync.replays import Replays
from tidewire.sync.state import Pending

CANAL = Reader("canal-json", {"enable-tidb-extension": "true"})
P0, P1 = Partition("t", 0), Partition("t", 1)


def ranges(messages: Messages) -> list[Input]:
    """One range for each partition, over all its messages."""
    found = groupby(sorted(messages), key=Partition.of)
    offsets = {at: [each.offset for each in places] for at, places in found}
    return [RangeInput(at.topic, at.number, min(places), max(places) + 1) for at, places in offsets.items()]


def report(
    messages: Messages,
    folder: Path,
    reader: Reader = CANAL,
    replays: Replays = Replays(),
    *,
    inputs: list[Input] | None = None,
    at_once: int = 16384,
) -> TaskReport:
    """What one task finds, in all these messages unless it is told what to read."""
    task = Task(1, 2, reader, replays, open_storage(folder), MemoryFetcher(messages, at_once))
    travelled: Task = pickle.loads(pickle.dumps(task))
    return travelled.run(ranges(messages) if inputs is None else inputs)


def rows(found: TaskReport) -> dict[tuple[int, int], dict[str, object]]:
    """The rows in the staged files by partition and offset."""
    return {(at.partition, at.offset): row for (at, _), row in staged(found).items()}


def kept_files(folder: Path, kind: str) -> list[str]:
    """The paths of all files of a kind."""
    storage = open_storage(folder)
    return [storage.path(entry.name) for entry in storage.list(kind, recursive=True)]


TOPICS = [
    (topic, path.name.removesuffix(".jsonl.xz"))
    for topic in ("seed11", "seed11-classic")
    for path in sorted((topic_files.TOPICS / topic).glob("*.jsonl.xz"))
    if ".faults" not in path.name
]


@pytest.mark.parametrize(("topic", "name"), TOPICS)
def test_a_whole_topic_becomes_the_rows_of_the_codec(tmp_path: Path, topic: str, name: str) -> None:
    messages, how = recorded(topic, name), reader_of(topic, name, tmp_path)

    found = report(messages, tmp_path / "work", how)

    rows, misfits = read_by_codec(messages, how, Resources(registry=topic_files.registry(topic)))
    assert misfits == set()
    assert staged(found) == rows
    assert {rejected.at for rejected in found.rejected} == misfits
    assert found.parked == ()


def test_rows_below_the_floor_are_left_out(tmp_path: Path) -> None:
    messages = encoded(
        CANAL, *(insert(number, 10 + number, table=table) for number in range(4) for table in (TABLE, OTHER))
    )
    replays = Replays(partitions={P0: 11}, changed={TABLE.name: 12})

    found = report(messages, tmp_path, replays=replays)

    kept = sorted((row["table"], row["_ts"]) for row in rows(found).values())
    assert kept == [(OTHER.name, 11), (OTHER.name, 12), (OTHER.name, 13), (TABLE.name, 13)]
    assert found.ranges == ((P0, ReadRange(0, 8)),)


def test_a_file_of_replays_only_is_not_written(tmp_path: Path) -> None:
    found = report(encoded(CANAL, insert(1, 10)), tmp_path, replays=Replays(partitions={P0: 11}))

    assert found.files == ()
    assert kept_files(tmp_path, "staged") == []


def test_without_watermarks_the_offset_is_the_time(tmp_path: Path) -> None:
    plain = Reader("canal-json", has_watermarks=False)
    messages = encoded(plain, *(insert(number, None) for number in range(5)), first=100)

    found = report(messages, tmp_path, plain, Replays(partitions={P0: 102}))

    assert sorted((row["_ts"], offset) for (_, offset), row in rows(found).items()) == [
        (102, 102),
        (103, 103),
        (104, 104),
    ]


def test_a_row_or_ddl_without_commit_ts_is_no_use_where_watermarks_rule(tmp_path: Path) -> None:
    plain = Reader("canal-json")
    ddl = Ddl(TABLE.name, None, "TRUNCATE TABLE t")

    found = report(encoded(plain, insert(1, None), ddl), tmp_path, plain)

    assert found.files == ()
    assert found.ddls == ()
    assert [(rejected.at.offset, rejected.table) for rejected in found.rejected] == [
        (0, TABLE.name),
        (1, None),  # a statement may be about more tables than the one it names
    ]
    assert all("enable-tidb-extension" in rejected.reason for rejected in found.rejected)


def test_a_row_of_which_only_the_key_was_sent_cannot_be_written(tmp_path: Path) -> None:
    large = replace(
        CANAL,
        options={**CANAL.options, "max-message-bytes": "1000", "large-message-handle-option": "handle-key-only"},
    )
    messages = encoded(large, insert(1, 10, "x" * 1500), delete(2, 11, "x" * 1500), insert(3, 9, "x" * 1500))

    found = report(messages, tmp_path, large, Replays(partitions={P0: 10}))

    ((_, row),) = rows(found).items()
    assert (row["_op"], row["before"]) == (2, {"id": 2})
    (rejected,) = found.rejected
    assert (rejected.at.offset, rejected.table, rejected.commit_ts) == (0, TABLE.name, 10)
    assert "claim-check" in rejected.reason


def test_a_message_is_taken_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    open_protocol = Reader("open-protocol")
    first, second = encoded(open_protocol, insert(1, 11), insert(2, 12)).values()
    keys = [(message.key or b"")[len(VERSION) + LENGTH.size :] for message in (first, second)]
    key_only = keys[1].removesuffix(b"}") + b',"ohk":true}'
    key = VERSION + frame(keys[0]) + frame(key_only)
    joined = {Position("t", 0, 0): Message(key, (first.value or b"") + (second.value or b""))}

    found = report(joined, tmp_path, open_protocol)

    assert found.files == ()
    assert [(rejected.table, rejected.commit_ts) for rejected in found.rejected] == [(TABLE.name, 11)]
    assert "only the handle key" in found.rejected[0].reason


def test_a_value_that_fits_no_column_tells_its_table_and_time(tmp_path: Path) -> None:
    (good,) = encoded(CANAL, insert(1, 10)).values()
    bad = Message(None, (good.value or b"").replace(b'"id":"1"', b'"id":"one"'))
    assert bad != good

    found = report({Position("t", 0, 8): bad}, tmp_path)

    (rejected,) = found.rejected
    assert (rejected.at, rejected.table, rejected.commit_ts) == (Position("t", 0, 8), TABLE.name, 10)


def test_ranges_may_come_in_any_order_and_record_batches_may_be_small(tmp_path: Path) -> None:
    messages = {
        **encoded(CANAL, Watermark(5), insert(1, 6), Watermark(4), Watermark(8)),
        **encoded(CANAL, insert(2, 6), Watermark(7), partition=1),
    }
    inputs: list[Input] = [RangeInput("t", 0, 2, 4), RangeInput("t", 1, 0, 2), RangeInput("t", 0, 0, 2)]

    found = report(messages, tmp_path, inputs=inputs, at_once=1)

    assert sorted(rows(found)) == [(0, 1), (1, 0)]
    assert found.ranges == (
        (P0, ReadRange.of(2, 4, [(2, 4), (3, 8)])),
        (P1, ReadRange.of(0, 2, [(1, 7)])),
        (P0, ReadRange.of(0, 2, [(0, 5)])),
    )


def test_ranges_with_a_hole_between_them_are_not_reported_as_one(tmp_path: Path) -> None:
    messages = encoded(CANAL, *(insert(number, 10) for number in range(9)))

    found = report(messages, tmp_path, inputs=[RangeInput("t", 0, 0, 3), RangeInput("t", 0, 6, 9)])

    assert found.ranges == ((P0, ReadRange(0, 3)), (P0, ReadRange(6, 9)))
    assert sorted(offset for _, offset in rows(found)) == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("gone", [range(7), range(3, 7), (0, 6)])
def test_a_range_counts_as_read_to_its_end_whatever_messages_there_are(tmp_path: Path, gone: Any) -> None:
    messages = encoded(CANAL, *(insert(number, 10) for number in range(7)))
    left = {at: message for at, message in messages.items() if at.offset not in gone}

    found = report(left, tmp_path, inputs=[RangeInput("t", 0, 0, 7)])

    assert found.ranges == ((P0, ReadRange(0, 7)),)
    assert sorted(offset for _, offset in rows(found)) == sorted(set(range(7)) - set(gone))


def test_a_bad_message_knows_the_largest_watermark_before_it_in_its_range(tmp_path: Path) -> None:
    messages = encoded(CANAL, b"a", Watermark(5), Watermark(9), b"b", Watermark(7), b"c", Watermark(20), b"d")

    found = report(messages, tmp_path, at_once=2)

    assert [(rejected.at.offset, rejected.after) for rejected in found.rejected] == [(0, 0), (3, 9), (5, 9), (7, 20)]


def test_messages_of_a_file_are_read_again(tmp_path: Path) -> None:
    """Only those that are asked for: a file has the messages of several partitions and tables."""
    simple = Reader("simple")
    messages = {
        **encoded(simple, insert(1, 10), insert(2, 11), insert(3, 12), b"garbage"),
        **encoded(simple, insert(4, 10), partition=1),
    }
    first = report(messages, tmp_path, simple)
    (path,) = {parked.path for parked in first.parked}

    again = report({}, tmp_path, replace(simple, schemas=(TABLE,)), inputs=[FileInput(path, "t", 0, (0, 2))])

    assert sorted(rows(again)) == [(0, 0), (0, 2)]
    assert (again.ranges, again.parked, again.rejected) == ((), (), ())
    (rejects,) = first.reject_files
    bad = report({}, tmp_path, simple, inputs=[FileInput(rejects, "t", 0, (3,))])
    assert [rejected.at.offset for rejected in bad.rejected] == [3]


def test_old_rows_can_be_cut_down_to_their_keys(tmp_path: Path) -> None:
    keyless = replace(
        TABLE, name=TableName("test", "keyless"), columns=tuple(replace(c, handle_key=False) for c in TABLE.columns)
    )
    update = RowChange(TABLE, 10, before={"id": 1, "v": "old"}, after={"id": 2, "v": "new"})
    open_protocol = Reader("open-protocol", before=Before.KEY)

    messages = encoded(open_protocol, update, delete(3, 11), insert(4, 12), delete(5, 13, table=keyless))
    found = report(messages, tmp_path, open_protocol)

    assert [rows(found)[0, offset]["before"] for offset in range(4)] == [
        {"id": 1},
        {"id": 3},
        None,
        {"id": 5, "v": "x"},
    ]


def test_rows_with_other_columns_get_files_of_their_own(tmp_path: Path) -> None:
    wider = replace(TABLE, columns=(*TABLE.columns, Column.of("w", "int")))
    changed = RowChange(wider, 11, after={"id": 2, "v": "x", "w": 3})

    found = report(encoded(CANAL, insert(1, 10), changed), tmp_path)

    assert [[column.name for column in file.shape.columns] for file in found.files] == [
        ["id", "v"],
        ["id", "v", "w"],
    ]
    assert {file.table for file in found.files} == {TABLE.name}


def test_a_row_without_columns_is_set_aside(tmp_path: Path) -> None:
    empty = RowChange(TableSchema(TABLE.name), 10, after={})

    found = report(encoded(Reader("open-protocol"), empty), tmp_path, Reader("open-protocol"))

    assert found.files == ()
    assert [rejected.reason for rejected in found.rejected] == ["a row without any column"]


def test_memory_and_open_files_stay_few_however_many_tables_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_GROUP_BYTES", 300)
    monkeypatch.setattr(files, "_WAITING_BYTES", 1000)
    monkeypatch.setattr(files, "_MOST_OPEN", 3)
    tables = [replace(TABLE, name=TableName("test", f"t{number}")) for number in range(10)]
    messages = encoded(CANAL, *(insert(number, 10, table=table) for number in range(6) for table in tables))

    found = report(messages, tmp_path, at_once=10)

    assert len(rows(found)) == 60
    assert {file.table for file in found.files} == {table.name for table in tables}
    assert len(found.files) > len(tables)
    assert sorted(kept_files(tmp_path, "staged")) == sorted(file.path for file in found.files)


def pending(found: TaskReport) -> list[Pending]:
    """The staged files of a task as files that wait."""
    return [Pending(file) for file in found.files]


def test_the_files_of_a_table_that_waits_for_long_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MANY_FILES", 4)
    storage, waiting = open_storage(tmp_path), list[Pending]()
    for number in range(4):
        rows_of_both = [insert(number, 10 + number), insert(number, 10 + number, table=OTHER)]
        for partition in (0, 1):
            messages = encoded(CANAL, *rows_of_both, first=2 * number, partition=partition)
            waiting += pending(report(messages, tmp_path))
    waiting = [each for each in waiting if each.file.table == TABLE.name or each.file.partition == P0]
    later = replace(waiting[0], fresh=11)

    found, gone = folded(storage, "00000001/00000009", [*waiting, later])

    assert [(each.file.table, each.file.partition, each.file.rows, each.fresh) for each in found] == [
        (TABLE.name, P0, 4, 0),
        (OTHER.name, P0, 1, 0),
        (TABLE.name, P1, 4, 0),
        (OTHER.name, P0, 1, 0),
        (OTHER.name, P0, 1, 0),
        (OTHER.name, P0, 1, 0),
        (TABLE.name, P0, 1, 11),
    ]
    assert staged(manifest_of(found[:-1])) == staged(manifest_of(waiting))
    assert len(gone) == 8
    assert folded(storage, "00000001/00000010", found) == (found, ())


def test_files_are_joined_only_if_they_have_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "MANY_FILES", 1)
    storage, key_only = open_storage(tmp_path), replace(CANAL, before=Before.KEY)
    waiting = [
        *pending(report(encoded(CANAL, insert(1, 10)), tmp_path)),
        *pending(report(encoded(CANAL, insert(2, 10), first=1), tmp_path, key_only)),
        *pending(report(encoded(CANAL, insert(3, 10), first=2), tmp_path)),
    ]

    found, gone = folded(storage, "00000001/00000009", waiting)

    assert [each.file.rows for each in found] == [2, 1]
    assert gone == (waiting[0].file.path, waiting[2].file.path)
    assert staged(manifest_of(found)) == staged(manifest_of(waiting))


def manifest_of(waiting: Iterable[Pending]) -> Manifest:
    """A manifest with files that wait."""
    return Manifest(0, files=tuple(each.file for each in waiting))


def test_compressed_messages_and_claim_checks_are_read(tmp_path: Path) -> None:
    store = tmp_path / "claims"
    packed = Reader(
        "canal-json",
        {
            **CANAL.options,
            "large-message-handle-option": "claim-check",
            "large-message-handle-compression": "lz4",
            "claim-check-storage-uri": f"file://{store}",
            "max-message-bytes": "900",
        },
    )
    resources = Resources(claim_check=FolderStore(store))
    noise = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=1500))

    messages = encoded(packed, insert(1, 10), insert(2, 11, noise), resources=resources)
    found = report(messages, tmp_path / "work", packed)

    assert [row["after"] for _, row in sorted(rows(found).items())] == [{"id": 1, "v": "x"}, {"id": 2, "v": noise}]
    (kept,) = store.iterdir()
    kept.unlink()
    lost = report(messages, tmp_path / "work", packed)
    assert [rejected.at.offset for rejected in lost.rejected] == [1]
    assert "claim check" in lost.rejected[0].reason


def test_a_registry_that_cannot_be_read_stops_the_task(tmp_path: Path) -> None:
    (tmp_path / "schemas.json").write_text("no JSON")
    avro = Reader("avro", {"schema-registry": f"file:{tmp_path}/schemas.json"})

    with pytest.raises(RegistryError):
        report({Position("t", 0, 0): Message(None, b"\x00\x00\x00\x00\x01")}, tmp_path, avro)


def large(endpoint: str) -> tuple[Reader, Messages]:
    """A topic whose rows are in a claim-check store."""
    options = {
        **CANAL.options,
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": S3(endpoint).uri("claims"),
        "max-message-bytes": "900",
    }
    reader = Reader("canal-json", options)
    return reader, encoded(reader, insert(1, 10, "x" * 1500), resources=Resources(claim_check=MemoryStore()))


def avro(endpoint: str) -> tuple[Reader, Messages]:
    """A topic whose schemas are in a registry."""
    return Reader("avro", {"schema-registry": endpoint}, has_watermarks=False), recorded("seed11", "avro")


@pytest.mark.parametrize(("topic", "error"), [(large, ClaimCheckError), (avro, RegistryError)])
def test_a_server_that_does_not_answer_is_not_the_messages_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: Any, error: type[TidewireError]
) -> None:
    """It comes out of a task as an error that says whether waiting helps; no message is set aside."""
    monkeypatch.setattr("tidewire.storage.bucket._FIRST_DELAY_SECONDS", 0.001)
    monkeypatch.setattr("tidewire.registry.confluent._FIRST_DELAY_SECONDS", 0.001)
    with http_server(lambda _: Answer(503)) as server:
        reader, messages = topic(server.endpoint)
        with pytest.raises(error) as caught:
            report(messages, tmp_path, reader)
        assert caught.value.transient  # type: ignore[attr-defined]

        task = Task(1, 2, reader, Replays(), open_storage(tmp_path), MemoryFetcher(messages))
        told, _ = pickle.loads(done(pickle.dumps(Share(task, tuple(ranges(messages))))))

    assert (type(told), told.transient, str(told)) == (error, True, str(caught.value))
    assert kept_files(tmp_path, "rejects") == []


def test_schemas_of_one_task_are_unknown_to_the_next(tmp_path: Path) -> None:
    simple = Reader("simple")
    topic = recorded("seed11", "simple-json")

    report(topic, tmp_path, simple)
    again = report({at: m for at, m in topic.items() if b'"INSERT"' in (m.value or b"")}, tmp_path, simple)

    assert again.files == ()
    assert again.parked


def test_a_parked_replay_is_left_out(tmp_path: Path) -> None:
    simple = Reader("simple")

    found = report(encoded(simple, insert(1, 10), insert(2, 11)), tmp_path, simple, Replays(partitions={P0: 11}))

    assert [parked.commit_ts for parked in found.parked] == [11]


def test_options_are_checked_where_the_claims_are_kept() -> None:
    with pytest.raises(OptionError, match="claim-check-storage-uri"):
        resources_of(Options(claim_check_storage_uri="gopher://hole/x"))
