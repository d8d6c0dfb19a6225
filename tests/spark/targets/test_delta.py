"""What only the Delta target does."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark.targets.name_writer import TABLES, write_names
from spark.targets.rows import change, put
from spark.targets.tags import tag
from tidewire.errors import Fenced, StateError
from tidewire.model import TableName
from tidewire.spark.targets import AddColumn, DeltaTarget, Field, TargetError, WidenColumn, delta_commit
from tidewire.spark.targets.delta_catalogue import _KEPT, DeltaCatalogue, Names
from tidewire.spark.targets.delta_commit import epoch_id, sequence_id
from tidewire.spark.targets.delta_files import actions_of
from tidewire.spark.targets.files import DataFile
from tidewire.storage import open_storage

A, B, C = (TableName("db", table) for table in "abc")


def actions(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """What a table's log says, in order."""
    lines = (line for file in sorted(folder.glob("_delta_log/*.json")) for line in file.read_text().splitlines())
    return [item for line in lines for item in json.loads(line).items()]


def test_the_log_and_the_files_say_to_others_what_the_table_is(spark: SparkSession, tmp_path: Path) -> None:
    """Without Spark: columns by their physical names, live files, and how many rows their vectors delete."""
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "bigint"), Field("odd, name", "string")], tag("made", sync="s", sequence=3))
    session = target.session(tag("merged", sync="s", epoch=1, sequence=4))
    session.sql(f"INSERT INTO {target.relation(A)} VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    target.session().sql(f"DELETE FROM {target.relation(A)} WHERE id = 2")

    folder = tmp_path / "data" / target.version(A).partition("@")[0]
    log = actions(folder)
    live = {action["path"]: action for kind, action in log if kind == "add"}
    for file in (action["path"] for kind, action in log if kind == "remove" and not action.get("deletionVector")):
        if not live[file].get("deletionVector"):
            del live[file]
    (protocol,) = (action for kind, action in log if kind == "protocol")
    metadata = [action for kind, action in log if kind == "metaData"][-1]
    fields = json.loads(metadata["schemaString"])["fields"]
    physical = {field["metadata"]["delta.columnMapping.physicalName"]: field["name"] for field in fields}
    rows = [row for file in live for row in pq.read_table(folder / file).rename_columns(physical).to_pylist()]

    assert {"columnMapping", "deletionVectors", "timestampNtz"} == set(protocol["readerFeatures"])
    assert {row["id"]: row["odd, name"] for row in rows} == {1: "one", 2: "two", 3: "three"}
    assert sum((file.get("deletionVector") or {"cardinality": 0})["cardinality"] for file in live.values()) == 1
    transactions = [(action["appId"], action["version"]) for kind, action in log if kind == "txn"]
    assert transactions == [(epoch_id("s"), 1), (sequence_id("s"), 3)]
    noted = [json.loads(action.get("userMetadata", "{}")) for kind, action in log if kind == "commitInfo"]
    step = {"sync": "s", "epoch": 1, "sequence": 4, "step": "merged"}
    assert noted == [{"tidewire": {**step, "sequence": 3, "step": "made"}}, {"tidewire": step}, {}]


def test_columns_change_in_the_transaction_and_widening_is_switched_on_with_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "int")], tag())
    target.alter(A, [AddColumn(Field("n", "string")), WidenColumn("id", "bigint")], tag("wide"))

    log = actions(tmp_path / "data" / target.version(A).partition("@")[0])
    last = [kind for kind, _ in log][-5:]
    metadata = [action for kind, action in log if kind == "metaData"][-1]
    (first, second) = json.loads(metadata["schemaString"])["fields"]

    assert last == ["commitInfo", "metaData", "protocol", "txn", "txn"]
    assert "typeWidening" in [action for kind, action in log if kind == "protocol"][-1]["readerFeatures"]
    assert first["metadata"]["delta.typeChanges"] == [{"fromType": "integer", "toType": "long"}]
    assert second["metadata"]["delta.columnMapping.id"] == 2
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "2"


def test_a_merge_that_an_older_driver_has_begun_fails_after_a_fence(spark: SparkSession, tmp_path: Path) -> None:
    """The first commit of an epoch changes the metadata, which every transaction has read."""
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "int")], tag(epoch=1))
    target.session().sql(f"INSERT INTO {target.relation(A)} VALUES (1)")
    path = str(tmp_path / "data" / target.version(A).partition("@")[0])
    begun = delta_commit.Transaction(target.session(), path)
    begun.remove_files()  # as a MERGE does, without a look at epochs

    target.fence(A, tag(epoch=2))

    with pytest.raises(Exception, match="MetadataChangedException"):
        begun.commit(tag(epoch=1))
    assert target.read(A).count() == 1


def test_two_tries_of_a_step_that_only_adds_rows_cannot_both_land(spark: SparkSession, tmp_path: Path) -> None:
    """The first try raised and is still on its way while the second one is made."""
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "int")], tag(epoch=1))
    path = str(tmp_path / "data" / target.version(A).partition("@")[0])
    actions = list(actions_of(change(target, A, {"id": [1]})))
    tries = [delta_commit.Transaction(target.session(), path) for _ in range(2)]
    for each in tries:
        each.check_epoch(A, tag(epoch=1))
        each.add(actions)
    tries[0].commit(tag(epoch=1))

    with pytest.raises(Exception, match="ConcurrentTransactionException"):
        tries[1].commit(tag(epoch=1))
    assert target.read(A).count() == 1


@pytest.mark.parametrize("cut", [False, True])
def test_delta_and_the_log_list_the_same_files(spark: SparkSession, tmp_path: Path, cut: bool) -> None:
    """Files with dead rows, files that are gone, files in an older type, and a log without its first versions."""
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "int"), Field("name", "string")], tag())
    put(target, A, tag("one"), {"id": pa.array([1, 2, 3], pa.int32()), "name": ["a", "b", "c"]})
    put(target, A, tag("two"), {"id": pa.array([2, 4], pa.int32()), "name": ["B", "D"]})
    target.alter(A, [WidenColumn("id", "bigint")], tag("wide"))
    put(target, A, tag("three"), {"id": pa.array([2**40], pa.int64()), "name": ["E"]})
    id_ = target.version(A).partition("@")[0]
    log = delta_commit.Transaction(target.session(), str(tmp_path / "data" / id_)).java.deltaLog()

    by_log = DeltaTarget(spark, tmp_path).stored(A)
    log.checkpoint()
    if cut:
        (tmp_path / "data" / id_ / "_delta_log" / f"{1:020}.json").unlink()
        by_delta = DeltaTarget(spark, tmp_path).stored(A)
    else:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("tidewire.spark.targets.delta_files._SHORT_LOG", 0)
            by_delta = DeltaTarget(spark, tmp_path).stored(A)

    assert len(by_log.files) == 3
    assert sum(file.rows - file.live for file in by_log.files) == 1
    assert {file.path: comparable(file) for file in by_delta.files} == {
        file.path: comparable(file) for file in by_log.files
    }
    assert replace(by_delta, files=()) == replace(by_log, files=())


def comparable(file: DataFile) -> tuple[DataFile, dict[str, Any]]:
    """A file, and what Delta keeps of it, whatever the order of its members and the commit that it comes from."""
    kept = {name: value for name, value in json.loads(file.document).items() if name != "dataChange"}
    return replace(file, document=""), kept


def test_a_table_whose_making_failed_has_no_name_and_is_purged(spark: SparkSession, tmp_path: Path) -> None:
    target = DeltaTarget(spark, tmp_path)
    with pytest.raises(Exception, match="nonsense"):
        target.create(A, [Field("id", "nonsense")], tag())

    assert target.names() == ()
    assert len(DeltaCatalogue(open_storage(tmp_path)).names().dropped) == 1


def test_names_survive_being_written(tmp_path: Path) -> None:
    catalogue = DeltaCatalogue(open_storage(tmp_path))
    assert catalogue.names() == Names()
    step = tag("swap", sync="a/b", epoch=5, sequence=3)

    catalogue.update(lambda names: names.with_unnamed("1", 10).with_table(A, "1", step, 11))
    catalogue.update(lambda names: names.with_table(B, "2", step, 12))
    catalogue.update(lambda names: names.with_moves([(A, B), (B, A)], step))
    catalogue.update(lambda names: names.without_table(A, tag("gone", sync="a/b", epoch=5, sequence=3), 13))

    expected = Names({B: "1"}, {"2": 13}, {"a/b": 5}, {"a/b": {3: ("swap", "gone")}})
    assert catalogue.names() == DeltaCatalogue(open_storage(tmp_path)).names() == expected
    assert expected.has_moved(tag("swap", sync="a/b", sequence=7))
    assert not expected.has_moved(tag("swap", sync="another"))


def test_an_update_that_fails_leaves_the_names_as_they_were(tmp_path: Path) -> None:
    catalogue = DeltaCatalogue(open_storage(tmp_path))
    catalogue.update(lambda names: names.with_table(A, "1", tag(epoch=3), 1))
    before = catalogue.names()

    with pytest.raises(TargetError):
        catalogue.update(lambda names: names.without_table(A, tag(epoch=3), 2).with_moves([(A, B)], tag(epoch=3)))
    with pytest.raises(Fenced, match=r"epoch 3 has taken over db\.a"):
        catalogue.update(lambda names: names.without_table(A, tag(epoch=2), 2))
    catalogue.update(lambda names: names.without_table(C, tag(epoch=3), 3))

    assert catalogue.names() == before


def test_processes_that_write_at_the_same_time_lose_no_table(tmp_path: Path) -> None:
    """As maintenance beside a sync. Both have read the names before either of them writes."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    writers = [context.Process(target=write_names, args=(str(tmp_path), schema, together)) for schema in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0, 0]
    written = DeltaCatalogue(open_storage(tmp_path)).names().tables
    assert {*written} == {TableName(schema, str(number)) for schema in "ab" for number in range(TABLES)}


def test_targets_with_their_own_view_of_the_names_lose_no_table(spark: SparkSession, tmp_path: Path) -> None:
    """As maintenance beside a sync: one has read the names before the other one makes a table."""
    one, two = DeltaTarget(spark, tmp_path), DeltaTarget(spark, tmp_path)
    one.create(A, [Field("id", "int")], tag())
    two.names()
    one.create(B, [Field("id", "int")], tag())

    two.create(C, [Field("id", "int")], tag())

    assert set(one.names()) == set(two.names()) == {A, B, C}


def test_few_documents_stay_and_a_writer_that_slept_is_noticed(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    sleeper, catalogue = DeltaCatalogue(storage), DeltaCatalogue(storage)
    sleeper.update(lambda names: names.with_table(A, "a", tag(), 1))

    def asleep(names: Names) -> Names:
        """The names change many times between the reading and the writing of them, but only the first time."""
        if B not in names.tables:
            for number in range(2 * _KEPT):
                catalogue.update(lambda now: now.with_table(B, str(number), tag(), 1))  # noqa: B023
        return names.with_table(C, "c", tag(), 1)

    sleeper.update(asleep)

    assert set(catalogue.names().tables) == {A, B, C}
    assert len(storage.list("catalog")) == _KEPT


def test_the_names_of_0_1_are_taken_over(tmp_path: Path) -> None:
    table = {"schema": "db", "table": "a", "id": "1", "marks": ["s/1/2"]}
    (tmp_path / "catalog.json").write_text(
        json.dumps({"tables": [table], "dropped": {"2": 7}, "renamed": {"s": "1/2"}})
    )
    catalogue = DeltaCatalogue(open_storage(tmp_path))

    assert catalogue.names() == Names({A: "1"}, {"2": 7})
    catalogue.update(lambda names: names.with_table(B, "3", tag(), 8))
    assert set(DeltaCatalogue(open_storage(tmp_path)).names().tables) == {A, B}


def test_names_that_a_newer_release_wrote_are_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "000000000001.json").write_text('{"version": 9, "tables": [], "dropped": {}}')

    with pytest.raises(StateError, match=r"version 9.*Use a newer tidewire"):
        DeltaCatalogue(open_storage(tmp_path)).names()
