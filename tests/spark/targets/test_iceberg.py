"""What only the Iceberg target does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.session import iceberg_catalog_conf
from tidewire.spark.targets import Field, IcebergTarget, Mark, TargetError
from tidewire.spark.targets.iceberg import DROPPED
from tidewire.spark.targets.iceberg_catalog import SNAPSHOT_MARK, IcebergTable
from tidewire.spark.targets.iceberg_rename import MOVING

FIELDS = (Field("id", "bigint"), Field("s", "string"))
NAME = TableName("shop", "orders")


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> IcebergTarget:
    return IcebergTarget(spark, tmp_path_factory.mktemp("Lake 1"))


def insert(target: IcebergTarget, name: TableName, key: int, mark: Mark | None = None) -> None:
    target.session(mark).sql(f"INSERT INTO {target.relation(name)} VALUES ({key}, '{key}')")


def test_pyiceberg_reads_the_same_tables_deletions_included(target: IcebergTarget) -> None:
    target.create(NAME, FIELDS)
    session = target.session()
    session.sql(f"INSERT INTO {target.relation(NAME)} VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    session.sql(f"DELETE FROM {target.relation(NAME)} WHERE id = 2")
    session.sql(f"UPDATE {target.relation(NAME)} SET s = 'drei' WHERE id = 3")
    target.rename([(NAME, TableName("shop", "sold"))], Mark("pyiceberg", 1, 1))

    outside = SqlCatalog(target.catalog, uri=f"sqlite:///{target.uri}/catalog.db", warehouse=target.uri)
    table = outside.load_table(("shop", "sold"))
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    files = table.inspect.delete_files().to_pylist()
    outside.close()

    assert rows == [{"id": 1, "s": "one"}, {"id": 3, "s": "drei"}]
    assert {file["file_format"] for file in files} == {"PUFFIN"}
    assert table.metadata.format_version == 3


def test_marks_outlive_the_snapshots_they_were_on(target: IcebergTarget) -> None:
    name = TableName("shop", "expiring")
    target.create(name, FIELDS)
    insert(target, name, 1, Mark("s", 4, 2))
    insert(target, name, 2, Mark("another", 1, 1))
    insert(target, name, 3)
    target.stamp(name, Mark("s", 4, 5))

    target.keep_marks(name)
    table = target._catalog.table(name)
    assert table is not None
    kept = table._java.currentSnapshot().snapshotId()
    older = [snapshot.snapshotId() for snapshot in table._java.snapshots() if snapshot.snapshotId() != kept]
    expiry = table._java.expireSnapshots()
    for snapshot in older:
        expiry = expiry.expireSnapshotId(snapshot)
    expiry.commit()

    left = target._catalog.table(name)
    assert left is not None
    assert list(left.summaries(SNAPSHOT_MARK)) == []
    assert len(older) == 2
    assert target.has(name, Mark("s", 4, 5))
    assert not target.has(name, Mark("s", 4, 6))
    assert target.has(name, Mark("another", 1, 1))


def test_the_search_for_a_mark_ends_with_the_newest(target: IcebergTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    name = TableName("shop", "long")
    target.create(name, FIELDS)
    for number in range(3):
        insert(target, name, number, Mark("s", number, 0))
    table = target._catalog.table(name)
    assert table is not None
    looked_at = []
    summaries = type(table).summaries

    def watched(self: IcebergTable, key: str) -> Iterator[str]:
        for text in summaries(self, key):
            looked_at.append(text)
            yield text

    monkeypatch.setattr(type(table), "summaries", watched)

    assert target.has(name, Mark("s", 2, 0))
    assert not target.has(name, Mark("s", 3, 0))
    assert looked_at == ["s/2/0", "s/2/0"]


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
        target.create(name, FIELDS)

    assert names <= set(target.names())
    for name in names:
        assert target.fields(name) == FIELDS
        assert target.session().table(target.relation(name)).columns == ["id", "s"]


@pytest.mark.parametrize("schema", [DROPPED, MOVING])
def test_the_databases_that_tidewire_needs_are_refused(target: IcebergTarget, schema: str) -> None:
    with pytest.raises(TargetError, match="for itself"):
        target.create(TableName(schema, "t"), FIELDS)
    target.create(TableName("shop", "moves"), FIELDS)
    with pytest.raises(TargetError, match="for itself"):
        target.rename([(TableName("shop", "moves"), TableName(schema, "t"))], Mark("s", 1, 1))

    assert target.exists(TableName("shop", "moves"))


def test_one_session_has_several_targets_each_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "Ein Träger"
    one, two = IcebergTarget(spark, folder.as_uri()), IcebergTarget(spark, tmp_path / "two")

    one.create(NAME, FIELDS)

    assert one.catalog == f"ein_tr_ger_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    assert (one.names(), two.names()) == ((NAME,), ())
    assert IcebergTarget(spark, folder).names() == (NAME,)


def test_any_other_catalog_is_given_by_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    target = IcebergTarget(spark, "s3://bucket/lake", iceberg_catalog_conf("mine", tmp_path))

    for _ in range(2):
        target.create(NAME, FIELDS)

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
