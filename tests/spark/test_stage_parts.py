"""What an executor does with messages, without Spark around it."""

from __future__ import annotations

import json
import pickle
import random
import string
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import topic_files
from staging import OTHER, TABLE, Messages, delete, encoded, insert, read_by_codec, record_batch, recorded, staged
from staging import reader as reader_of
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import FolderStore
from tidewire.codec.open_protocol.wire import LENGTH, VERSION, frame
from tidewire.errors import OptionError, RegistryError
from tidewire.model import Column, Ddl, Message, Position, RowChange, TableName, TableSchema, Watermark
from tidewire.spark.stage import Before, Reader, files
from tidewire.spark.stage.glance import Told, glance
from tidewire.spark.stage.reader import resources_of
from tidewire.spark.stage.report import Report
from tidewire.spark.stage.task import Task, by_partition
from tidewire.spark.work import Work
from tidewire.sync.floors import Floors
from tidewire.sync.manifest import Partition, ReadRange

CANAL = Reader("canal-json", {"enable-tidb-extension": "true"})
P0, P1 = Partition("t", 0), Partition("t", 1)


def report(
    batches: Iterable[Messages], folder: Path, reader: Reader = CANAL, floors: Floors = Floors(), *, batch: int = 0
) -> Report:
    """What one task finds in these record batches."""
    task = pickle.loads(pickle.dumps(Task(batch, reader, floors, Work(folder))))
    (found,) = task(iter([record_batch(messages) for messages in batches]))
    return Report.from_json(found.column("report")[0].as_py())


def rows(found: Report) -> dict[tuple[int, int], dict[str, object]]:
    """The rows in the staged files by partition and offset."""
    return {(at.partition, at.offset): row for (at, _), row in staged(found.manifest).items()}


TOPICS = [
    (topic, path.name.removesuffix(".jsonl.xz"))
    for topic in ("seed11", "seed11-classic")
    for path in sorted((topic_files.TOPICS / topic).glob("*.jsonl.xz"))
    if ".faults" not in path.name
]


@pytest.mark.parametrize(("topic", "name"), TOPICS)
def test_a_whole_topic_becomes_the_rows_of_the_codec(tmp_path: Path, topic: str, name: str) -> None:
    messages, how = recorded(topic, name), reader_of(topic, name, tmp_path)

    found = report([messages], tmp_path / "work", how)

    rows, misfits = read_by_codec(messages, how, Resources(registry=topic_files.registry(topic)))
    assert misfits == set()
    assert staged(found.manifest) == rows
    assert {rejected.at for rejected in found.manifest.rejected} == misfits
    assert found.manifest.parked == ()


def test_rows_below_the_floor_are_left_out(tmp_path: Path) -> None:
    messages = encoded(
        CANAL, *(insert(number, 10 + number, table=table) for number in range(4) for table in (TABLE, OTHER))
    )
    floors = Floors(partitions={P0: 11}, changed={TABLE.name: 12})

    found = report([messages], tmp_path, floors=floors)

    kept = sorted((row["table"], row["_ts"]) for row in rows(found).values())
    assert kept == [(OTHER.name, 11), (OTHER.name, 12), (OTHER.name, 13), (TABLE.name, 13)]
    assert found.manifest.read[P0].end == 8


def test_a_file_of_replays_only_is_not_written(tmp_path: Path) -> None:
    found = report([encoded(CANAL, insert(1, 10))], tmp_path, floors=Floors(partitions={P0: 11}))

    assert found.manifest.files == ()
    assert Work(tmp_path).files("staged") == []


def test_without_watermarks_the_offset_is_the_time(tmp_path: Path) -> None:
    plain = Reader("canal-json", gated=False)
    messages = encoded(plain, *(insert(number, None) for number in range(5)), first=100)

    found = report([messages], tmp_path, plain, Floors(partitions={P0: 102}))

    assert sorted((row["_ts"], offset) for (_, offset), row in rows(found).items()) == [
        (102, 102),
        (103, 103),
        (104, 104),
    ]


def test_a_row_or_ddl_without_commit_ts_is_no_use_where_watermarks_rule(tmp_path: Path) -> None:
    plain = Reader("canal-json")
    ddl = Ddl(TABLE.name, None, "TRUNCATE TABLE t")

    found = report([encoded(plain, insert(1, None), ddl)], tmp_path, plain)

    assert found.manifest.files == ()
    assert found.manifest.ddls == ()
    assert [(rejected.at.offset, rejected.table) for rejected in found.manifest.rejected] == [
        (0, TABLE.name),
        (1, TABLE.name),
    ]
    assert all("enable-tidb-extension" in rejected.reason for rejected in found.manifest.rejected)


def test_a_row_of_which_only_the_key_was_sent_cannot_be_written(tmp_path: Path) -> None:
    large = replace(
        CANAL,
        options={**CANAL.options, "max-message-bytes": "1000", "large-message-handle-option": "handle-key-only"},
    )
    messages = encoded(large, insert(1, 10, "x" * 1500), delete(2, 11, "x" * 1500), insert(3, 9, "x" * 1500))

    found = report([messages], tmp_path, large, Floors(partitions={P0: 10}))

    ((_, row),) = rows(found).items()
    assert (row["_op"], row["before"]) == (2, {"id": 2})
    (rejected,) = found.manifest.rejected
    assert (rejected.at.offset, rejected.table, rejected.commit_ts) == (0, TABLE.name, 10)
    assert "claim-check" in rejected.reason


def test_a_message_is_taken_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    open_protocol = Reader("open-protocol")
    first, second = encoded(open_protocol, insert(1, 11), insert(2, 12)).values()
    keys = [(message.key or b"")[len(VERSION) + LENGTH.size :] for message in (first, second)]
    key_only = keys[1].removesuffix(b"}") + b',"ohk":true}'
    key = VERSION + frame(keys[0]) + frame(key_only)
    joined = {Position("t", 0, 0): Message(key, (first.value or b"") + (second.value or b""))}

    found = report([joined], tmp_path, open_protocol)

    assert found.manifest.files == ()
    assert [(rejected.table, rejected.commit_ts) for rejected in found.manifest.rejected] == [(TABLE.name, 11)]
    assert "only the handle key" in found.manifest.rejected[0].reason


def test_a_value_that_fits_no_column_tells_its_table_and_time(tmp_path: Path) -> None:
    (good,) = encoded(CANAL, insert(1, 10)).values()
    bad = Message(None, (good.value or b"").replace(b'"id":"1"', b'"id":"one"'))
    assert bad != good

    found = report([{Position("t", 0, 8): bad}], tmp_path)

    (rejected,) = found.manifest.rejected
    assert (rejected.at, rejected.table, rejected.commit_ts) == (Position("t", 0, 8), TABLE.name, 10)


def test_partitions_and_record_batches_may_come_in_any_order(tmp_path: Path) -> None:
    messages = {
        **encoded(CANAL, Watermark(5), insert(1, 6), Watermark(4), Watermark(8)),
        **encoded(CANAL, insert(2, 6), Watermark(7), partition=1),
    }
    pairs = list(messages.items())
    mixed = [dict(pairs[start::3]) for start in (2, 0, 1)]

    found = report(mixed, tmp_path)

    assert sorted(rows(found)) == [(0, 1), (1, 0)]
    assert found.manifest.read == {P0: ReadRange(0, 4, 8, 5), P1: ReadRange(0, 2, 7)}
    assert found.rising == {P0: [(0, 5), (3, 8)], P1: [(1, 7)]}


def test_a_record_batch_is_taken_apart_by_partition() -> None:
    messages = {Position(topic, number, 0): Message(None, b"") for topic in ("a", "b") for number in (0, 1)}
    del messages[Position("b", 0, 0)]

    found = {partition: batch.num_rows for partition, batch in by_partition(record_batch(messages))}

    assert found == {Partition("a", 0): 1, Partition("a", 1): 1, Partition("b", 1): 1}


def test_old_rows_can_be_cut_down_to_their_keys(tmp_path: Path) -> None:
    keyless = replace(
        TABLE, name=TableName("test", "keyless"), columns=tuple(replace(c, handle_key=False) for c in TABLE.columns)
    )
    update = RowChange(TABLE, 10, before={"id": 1, "v": "old"}, after={"id": 2, "v": "new"})
    open_protocol = Reader("open-protocol", before=Before.KEY)

    found = report(
        [encoded(open_protocol, update, delete(3, 11), insert(4, 12), delete(5, 13, table=keyless))],
        tmp_path,
        open_protocol,
    )

    assert [rows(found)[0, offset]["before"] for offset in range(4)] == [
        {"id": 1},
        {"id": 3},
        None,
        {"id": 5, "v": "x"},
    ]


def test_rows_with_other_columns_get_files_of_their_own(tmp_path: Path) -> None:
    wider = replace(TABLE, columns=(*TABLE.columns, Column.of("w", "int")))
    changed = RowChange(wider, 11, after={"id": 2, "v": "x", "w": 3})

    found = report([encoded(CANAL, insert(1, 10), changed)], tmp_path)

    assert [[column.name for column in file.shape.columns] for file in found.manifest.files] == [
        ["id", "v"],
        ["id", "v", "w"],
    ]
    assert {file.table for file in found.manifest.files} == {TABLE.name}


def test_a_row_without_columns_is_set_aside(tmp_path: Path) -> None:
    empty = RowChange(TableSchema(TABLE.name), 10, after={})

    found = report([encoded(Reader("open-protocol"), empty)], tmp_path, Reader("open-protocol"))

    assert found.manifest.files == ()
    assert [rejected.reason for rejected in found.manifest.rejected] == ["a row without any column"]


def test_memory_and_open_files_stay_few_however_many_tables_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_GROUP_BYTES", 300)
    monkeypatch.setattr(files, "_WAITING_BYTES", 1000)
    monkeypatch.setattr(files, "_MOST_OPEN", 3)
    tables = [replace(TABLE, name=TableName("test", f"t{number}")) for number in range(10)]
    batches = [
        encoded(CANAL, *(insert(number, 10, table=table) for table in tables), first=10 * number) for number in range(6)
    ]

    found = report(batches, tmp_path)

    assert len(rows(found)) == 60
    assert {file.table for file in found.manifest.files} == {table.name for table in tables}
    assert len(found.manifest.files) > len(tables)
    assert sorted(Work(tmp_path).files("staged")) == sorted(file.path for file in found.manifest.files)


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
    found = report([messages], tmp_path / "work", packed)

    assert [row["after"] for _, row in sorted(rows(found).items())] == [{"id": 1, "v": "x"}, {"id": 2, "v": noise}]
    (kept,) = store.iterdir()
    kept.unlink()
    lost = report([messages], tmp_path / "work", packed)
    assert [rejected.at.offset for rejected in lost.manifest.rejected] == [1]
    assert "claim check" in lost.manifest.rejected[0].reason


def test_a_registry_that_does_not_answer_stops_the_task(tmp_path: Path) -> None:
    (tmp_path / "schemas.json").write_text("no JSON")
    avro = Reader("avro", {"schema-registry": f"file:{tmp_path}/schemas.json"})

    with pytest.raises(RegistryError):
        report([{Position("t", 0, 0): Message(None, b"\x00\x00\x00\x00\x01")}], tmp_path, avro)


def test_schemas_of_one_task_are_unknown_to_the_next(tmp_path: Path) -> None:
    simple = Reader("simple")
    topic = recorded("seed11", "simple-json")

    report([topic], tmp_path, simple)
    again = report([{at: m for at, m in topic.items() if b'"INSERT"' in (m.value or b"")}], tmp_path, simple)

    assert again.manifest.files == ()
    assert again.manifest.parked


def test_a_parked_replay_is_left_out(tmp_path: Path) -> None:
    simple = Reader("simple")

    found = report([encoded(simple, insert(1, 10), insert(2, 11))], tmp_path, simple, Floors(partitions={P0: 11}))

    assert [parked.commit_ts for parked in found.manifest.parked] == [11]


def test_options_are_checked_where_the_claims_are_kept() -> None:
    with pytest.raises(OptionError, match="claim-check-storage-uri"):
        resources_of(Options(claim_check_storage_uri="gopher://hole/x"))


GLANCED = [
    ("seed11", "canal-json"),
    ("seed11", "open-protocol"),
    ("seed11", "simple-json"),
    ("seed11", "simple-avro"),
    ("seed11-classic", "craft"),
]


@pytest.mark.parametrize(("topic", "name"), GLANCED)
def test_a_glance_tells_table_and_time_of_every_row_message(topic: str, name: str) -> None:
    how, options = topic_files.PROTOCOLS.get(name, name), topic_files.options(topic, name)
    seen = 0
    for (_, message), (_, events) in zip(recorded(topic, name).items(), topic_files.events(topic, name), strict=True):
        changes = [event for event in events if isinstance(event, RowChange)]
        if changes and len(changes) == len(events):
            seen += 1
            tables = {change.table.name for change in changes}
            times = [change.commit_ts or 0 for change in changes]
            assert glance(how, message, options) == Told(tables.pop() if len(tables) == 1 else None, min(times))
    assert seen > 100


def test_a_glance_at_avro_tells_the_table(tmp_path: Path) -> None:
    options = Options.parse(reader_of("seed11", "avro", tmp_path).options)
    resources = resources_of(options)
    for message, (_, events) in zip(
        recorded("seed11", "avro").values(), topic_files.events("seed11", "avro"), strict=True
    ):
        for event in events:  # none for a delete of a table without a key
            assert isinstance(event, RowChange)
            assert glance("avro", message, options, resources) == Told(event.table.name)


@pytest.mark.parametrize(("topic", "name"), [*GLANCED, ("seed11", "avro")])
def test_a_glance_at_a_broken_message_never_fails_or_guesses(topic: str, name: str) -> None:
    how, options = topic_files.PROTOCOLS.get(name, name), topic_files.options(topic, name)
    resources = Resources(registry=topic_files.registry(topic))
    tables = {
        change.table.name
        for _, events in topic_files.events(topic, name)
        for change in events
        if isinstance(change, RowChange)
    }
    for message in list(recorded(topic, name).values())[100:400:50]:
        key, value = message.key or b"", message.value or b""
        broken = [
            *(Message(key[:cut], value) for cut in range(0, len(key), 7)),
            *(Message(key, value[:cut]) for cut in range(0, len(value), 7)),
        ]
        for half in broken:
            assert glance(how, half, options, resources).table in {None, *tables}


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", json.dumps({"database": 1, "table": [], "_tidb": 3})])
def test_a_glance_at_other_json_tells_nothing(text: str) -> None:
    for how in ("canal-json", "simple"):
        assert glance(how, Message(None, text.encode()), Options()) == Told()
