"""What only the Iceberg target does."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from spark.targets.rows import change as changed
from spark.targets.rows import put
from spark.targets.tags import tag
from tidewire.errors import Fenced, OptionError, Retry
from tidewire.model import TableName
from tidewire.spark.apply.compact import compact
from tidewire.spark.sessions import iceberg_catalog_conf
from tidewire.spark.targets import AddColumn, CommitTag, Field, IcebergTarget, TargetError, iceberg_swap
from tidewire.spark.targets.iceberg_catalog import IcebergTable
from tidewire.spark.targets.iceberg_rename import DROPPED, MOVING
from tidewire.spark.targets.iceberg_swap import Facts, Note, Record, facts_of, notes, swap

FIELDS = (Field("id", "bigint"), Field("s", "string"))
NAME = TableName("shop", "orders")


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> IcebergTarget:
    return IcebergTarget(spark, tmp_path_factory.mktemp("Lake 1"))


def insert(target: IcebergTarget, name: TableName, key: int, step: CommitTag | None = None) -> None:
    statement = f"INSERT INTO {target.relation(name)} VALUES ({key}, '{key}')"
    if step is None:
        target.session().sql(statement)
    else:
        put(target, name, step, {"id": [key], "s": [str(key)]})


def loaded(target: IcebergTarget, name: TableName) -> IcebergTable:
    table = target._catalog.table(name)
    assert table is not None
    return table


def noted_in(target: IcebergTarget, name: TableName) -> list[Note]:
    table = loaded(target, name)
    return [*notes(facts_of(table.java_named, table.state))]


def expire_all_but_the_newest(target: IcebergTarget, name: TableName) -> None:
    """As another program does it."""
    loaded(target, name).java.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()


def test_pyiceberg_reads_the_same_tables_deletions_included(target: IcebergTarget) -> None:
    target.create(NAME, FIELDS, tag())
    session = target.session()
    session.sql(f"INSERT INTO {target.relation(NAME)} VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    session.sql(f"DELETE FROM {target.relation(NAME)} WHERE id = 2")
    session.sql(f"UPDATE {target.relation(NAME)} SET s = 'drei' WHERE id = 3")
    target.rename([(NAME, TableName("shop", "sold"))], tag())

    outside = SqlCatalog(target.catalog, uri=f"sqlite:///{target.uri}/catalog.db", warehouse=target.uri)
    table = outside.load_table(("shop", "sold"))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    files = table.inspect.delete_files().to_pylist()
    outside.close()

    assert rows == [{"id": 1, "s": "one"}, {"id": 3, "s": "drei"}]
    assert {file["file_format"] for file in files} == {"PUFFIN"}
    assert table.metadata.format_version == 3


def test_steps_and_epochs_outlive_the_snapshots_they_were_on(target: IcebergTarget) -> None:
    name = TableName("shop", "expiring")
    target.create(name, FIELDS, tag("made", sequence=4))
    insert(target, name, 1, tag("merged", epoch=2, sequence=5))
    altered = target.alter(name, [AddColumn(Field("n", "int"))], tag("altered", epoch=2, sequence=5))
    target.alter(name, [AddColumn(Field("m", "int"))], tag("begun", epoch=2, sequence=5, part=0))
    merged = target.find(name, "merged")

    target.session().sql(f"INSERT INTO {target.relation(name)} VALUES (3, '3', 3, 3)")
    expire_all_but_the_newest(target, name)
    iceberg_swap._links.clear()  # as another process begins

    assert noted_in(target, name) == []
    assert (target.find(name, "merged"), target.find(name, "altered")) == (merged, altered)
    assert (target.parts(name, "begun"), target.find(name, "begun"), target.find(name, "other")) == (1, None, None)
    assert target.find(name, "made") is None  # a step of an earlier sequence
    with pytest.raises(Fenced, match="epoch 2"):
        target.truncate(name, tag(epoch=1))


def test_the_record_of_a_table_stays_small(target: IcebergTarget) -> None:
    name = TableName("shop", "recorded")
    target.create(name, FIELDS, tag())
    for sequence in range(2, 12):
        for number in range(2):
            target.alter(name, (), tag(f"{sequence}/{number}", sequence=sequence))

    record = json.loads(loaded(target, name).state.properties().get(Record.key("a/sync")))

    assert (record["epoch"], record["sequence"], sorted(record["steps"])) == (1, 11, ["11/0", "11/1"])
    assert target.find(name, "10/1") is not None


def test_a_step_is_looked_for_in_the_last_plans_only(target: IcebergTarget) -> None:
    name = TableName("shop", "long")
    target.create(name, FIELDS, tag("made", sequence=0))
    for sequence in range(1, 8):
        insert(target, name, sequence, tag(f"step {sequence}", sequence=sequence))
        insert(target, name, sequence)

    looked_at = [note.step for note in noted_in(target, name)]

    assert looked_at == ["step 7", "step 6", "step 5"]
    assert target.find(name, "step 5") is not None


def test_snapshots_expire_by_a_swap_and_their_files_are_swept_later(target: IcebergTarget) -> None:
    name = TableName("shop", "swept")
    target.create(name, FIELDS, tag(sync="swept"))
    insert(target, name, 1, tag("merged", sync="swept"))
    target.truncate(name, tag("emptied", sync="swept"))
    folder = Path(loaded(target, name).location)
    rows = list(folder.rglob("*.parquet"))
    version, later = target.version(name), datetime.now(timezone.utc) + timedelta(minutes=1)

    target.fence(name, tag(sync="swept", epoch=2))
    with pytest.raises(Fenced):
        target.expire(name, later, {}, tag(sync="swept", epoch=1))
    fenced = target.version(name)
    target.expire(name, later, {version: None}, tag(sync="swept", epoch=2))

    assert target.version(name) == fenced
    assert {snapshot["snapshot-id"] for snapshot in loaded(target, name).metadata()["snapshots"]} == {
        int(each.partition("@")[2]) for each in (version, fenced)
    }
    assert list(folder.rglob("*.parquet")) == rows != []
    assert target.find(name, "merged") is not None


def test_versions_of_0_1_are_read(target: IcebergTarget) -> None:
    """They name a schema too: 0.1 changed columns without a new snapshot."""
    name = TableName("shop", "before")
    first = target.create(name, FIELDS, tag())
    insert(target, name, 1)
    loaded(target, name).change_column(AddColumn(Field("n", "int")))

    version = target.version(name)

    identity, snapshot, schema = version.split("@")
    assert (identity, schema) == (first.partition("@")[0], "1")
    assert target.read(name, version).columns == ["id", "s", "n"]
    assert target.read(name, f"{identity}@{snapshot}@0").columns == ["id", "s"]
    assert target.read(name, f"{identity}@0@1").columns == ["id", "s", "n"]
    target.alter(name, (), tag())
    assert target.version(name).count("@") == 1


def test_a_commit_that_does_not_fit_the_files_asks_for_another_search(target: IcebergTarget) -> None:
    """Here a commit removes files by a condition that only some of their rows meet."""
    name = TableName("shop", "searched")
    target.create(name, FIELDS, tag())
    rows = "SELECT /*+ COALESCE(1) */ * FROM VALUES (1, '1'), (2, '2')"
    target.session().sql(f"INSERT INTO {target.relation(name)} {rows}")

    def update(transaction: Any, state: Facts) -> None:
        some = target._catalog.java_named("org.apache.iceberg.expressions.Expressions.equal")("id", 1)
        transaction.newDelete().deleteFromRowFilter(some).commit()

    with pytest.raises(Retry, match=r"shop\.searched: another program changed the files of a commit"):
        swap(target._catalog, name, tag("late"), update)

    assert target.find(name, "late") is None
    assert target.read(name).count() == 2


def test_a_fault_in_the_making_of_a_commit_is_not_tried_again(target: IcebergTarget) -> None:
    name, tries = TableName("shop", "faulty"), []
    target.create(name, FIELDS, tag())

    def update(transaction: Any, state: Facts) -> None:
        tries.append(state)
        raise AttributeError("a mistake")

    with pytest.raises(AttributeError, match="a mistake"):
        swap(target._catalog, name, tag(), update)

    assert len(tries) == 1


def test_a_commit_takes_few_calls_to_java_whatever_its_files(
    target: IcebergTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, calls = TableName("shop", "small"), list[str]()
    target.create(name, FIELDS, tag())
    for number in range(8):
        put(target, name, tag(f"{number}"), {"id": [number, number + 10], "s": ["a", "b"]})
    change = changed(target, name, {"id": [*range(8)], "s": ["c"] * 8})
    send = JavaClient.send_command

    def counted(client: JavaClient, command: str, *arguments: Any, **named: Any) -> Any:
        calls.extend(command.split("\n")[:1])
        return send(client, command, *arguments, **named)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    target.write(name, change, tag("last"))

    assert len(change.dead) == 8
    assert 0 < calls.count("c") < 20  # the others tell Java that an object is not needed any more
    monkeypatch.undo()
    assert sorted(row.s for row in target.read(name).collect()) == ["b"] * 8 + ["c"] * 8


def test_a_compaction_says_who_made_it(target: IcebergTarget) -> None:
    name = TableName("shop", "compacted")
    target.create(name, FIELDS, tag())
    for number in range(6):
        insert(target, name, number)

    compact(target, name, tag(epoch=3, sequence=9))

    (note, *_) = noted_in(target, name)
    assert (note.epoch, note.sequence, note.step) == (3, 9, None)
    assert target.size(name).files < 6
    assert target.row_count(name) == 6
    with pytest.raises(Fenced, match="epoch 3"):
        target.check_epoch(name, tag(epoch=2))


def test_every_table_name_can_be_made_and_found(target: IcebergTarget) -> None:
    odd = [
        "sp ace",
        "do.t",
        "back`tick",
        'it\'s \\ "q"',
        "select",
        "é𝄞",
        "UPPER",
        "../up/",
        "100%",
        "#x?y=z",
        "snapshots",
    ]
    names = {TableName(f"odd.{schema}", table) for schema, table in zip(odd, reversed(odd), strict=True)}

    for name in names:
        target.create(name, FIELDS, tag())

    assert names <= set(target.names())
    for name in names:
        assert target.fields(name) == FIELDS
        assert target.session().table(target.relation(name)).columns == ["id", "s"]


@pytest.mark.parametrize("schema", [DROPPED, MOVING])
def test_the_databases_that_tidewire_needs_are_refused(target: IcebergTarget, schema: str) -> None:
    with pytest.raises(TargetError, match="is reserved for tidewire"):
        target.create(TableName(schema, "t"), FIELDS, tag())
    target.create(TableName("shop", "moves"), FIELDS, tag())
    with pytest.raises(TargetError, match="is reserved for tidewire"):
        target.rename([(TableName("shop", "moves"), TableName(schema, "t"))], tag())

    assert target.exists(TableName("shop", "moves"))


def test_one_session_has_several_targets_each_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "Ein Träger"
    one, two = IcebergTarget(spark, folder.as_uri()), IcebergTarget(spark, tmp_path / "two")

    one.create(NAME, FIELDS, tag())

    assert one.catalog == f"ein_tr_ger_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    assert (one.names(), two.names()) == ((NAME,), ())
    assert IcebergTarget(spark, folder).names() == (NAME,)


def test_any_other_catalog_is_given_by_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    target = IcebergTarget(spark, "s3://bucket/lake", iceberg_catalog_conf("mine", tmp_path))

    for _ in range(2):
        target.create(NAME, FIELDS, tag())

    assert target.catalog == "mine"
    assert target.relation(NAME) == "`mine`.`shop`.`orders`"
    assert len(list((tmp_path / "shop").glob("orders*"))) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.catalog.a.type": "rest", "spark.sql.catalog.b.type": "rest"},
        {"spark.sql.catalog.a.type": "rest", "type": "rest"},
        {"type": "rest"},
    ],
    ids=str,
)
def test_settings_of_no_or_many_catalogs_are_refused(spark: SparkSession, settings: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="settings of one catalog"):
        IcebergTarget(spark, "folder", settings)


def test_an_embedded_catalog_needs_a_local_folder(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="local folder"):
        IcebergTarget(spark, "s3a://bucket/lake")
