"""Syncs whose tables are in an object store, their names in a catalog: S3 (moto) and Iceberg's REST server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import topic_files
from integration.rest_catalog import rest_catalog
from object_stores import BUCKET, S3, s3_server
from sync_checks import assert_equal, comparable, job_of, rows_of, written
from tidewire.cli.app import app
from tidewire.cli.show import canonical
from tidewire.spark.loop import Loop
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage
from tidewire.sync.catalog_settings import CatalogSettings

pytestmark = [pytest.mark.slow, pytest.mark.integration]


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def server(store: S3) -> Iterator[str]:
    """The URI of a REST catalog."""
    with rest_catalog(f"s3://{BUCKET}/warehouse", file_io(store)) as uri:
        yield uri


@pytest.fixture
def catalog(server: str) -> CatalogSettings:
    """The catalog under a name of its own; Spark remembers catalogs by name."""
    settings = {"type": "rest", "uri": server}
    return CatalogSettings(f"rest_{uuid.uuid4().hex[:8]}", settings, settings)


@pytest.fixture(autouse=True)
def empty(server: str) -> Iterator[None]:
    """Tables of one test are not those of the next."""
    yield
    names = load_catalog("rest", type="rest", uri=server)
    for namespace in names.list_namespaces():
        for name in names.list_tables(namespace):
            names.drop_table(name)


def file_io(store: S3) -> dict[str, str]:
    """What a catalog's file IO must know of the store."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": store.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "client.region": "us-east-1",
    }


def tidewire(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("topic", "name", "version"), [("seed11", "canal-json.faults", 3), ("seed23", "simple-json.faults", 2)]
)
def test_recorded_topics_are_right_for_spark_and_pyiceberg(
    spark: SparkSession,
    tmp_path: Path,
    store: S3,
    catalog: CatalogSettings,
    server: str,
    topic: str,
    name: str,
    version: int,
) -> None:
    end = topic_files.expected(topic)["end"]
    topics, target = written(tmp_path / "topics", topic, name), store.uri()
    job = job_of(topic, name, tmp_path, catalog=catalog, format_version=version)

    Loop(spark, FileSource(topics), open_target(spark, target, "iceberg", catalog, version), job).run(once=True)

    assert_equal(spark, target, end)
    found = snapshot(spark, target)
    others = load_catalog("rest", type="rest", uri=server, **file_io(store))
    for table, published in found.tables.items():
        read = others.load_table((table.schema, table.table))
        assert read.format_version == version
        rows = canonical(read.scan().to_arrow(), published.schema, found.time_zone)
        columns = published.schema.columns
        assert rows_of(rows, columns) == comparable(end["tables"][str(table)]["rows"], columns, True)


def test_a_target_in_s3_is_synced_shown_and_maintained_by_its_uri(
    spark: SparkSession, tmp_path: Path, store: S3, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG_TOKEN", "hush-hush")
    recorded = topic_files.expected("seed11")
    written(tmp_path / "topics", "seed11", "canal-json")
    name, target = f"lake_{uuid.uuid4().hex[:8]}", store.uri()
    config = tmp_path / "sync.toml"
    config.write_text(f'[catalog.{name}]\ntype = "rest"\nuri = "{server}"\ntoken = "${{CATALOG_TOKEN}}"\n')
    options = ("-o", "enable-tidb-extension=true", "-o", f"time-zone={recorded['time_zone']}")

    done = tidewire(
        "sync", f"file://{tmp_path}/topics", target, "-p", "canal-json", "--once", "--config", config, *options
    )

    assert done.exit_code == 0, done.output
    shown = tidewire("show", target, "--output", "json")
    assert shown.exit_code == 0, shown.output
    rows = {line["table"]: line["rows"] for line in map(json.loads, shown.stdout.splitlines())}
    assert rows == {name: len(table["rows"]) for name, table in recorded["end"]["tables"].items()}
    maintained = tidewire("maintain", target, "--output", "json")
    assert maintained.exit_code == 0, maintained.output
    storage = open_storage(target)
    documents = {each.name: storage.read(each.name) or b"" for each in storage.list("_tidewire", recursive=True)}
    assert "_tidewire/catalog" in documents
    assert not [each for each, data in documents.items() if b"hush-hush" in data or b"access-key=" in data]
