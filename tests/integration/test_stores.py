"""Syncs whose tables are in an object store, their names in a catalog: S3 (moto) and Iceberg's REST server."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import topic_files
from integration.rest_catalog import rest_catalog
from object_stores import BUCKET, S3, Answer, Request, http_server, s3_server, send
from scripted import OPTIONS
from spark.test_ledger_windows import EXPECTED, Death, Dies, script
from sync_checks import assert_equal, comparable, job_of, rows_of, written
from tidewire.cli.app import app
from tidewire.cli.show import canonical
from tidewire.errors import Fenced
from tidewire.spark.loop import Job, Loop, Observer, Point, Silent
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


def forwarded(request: Request, endpoint: str) -> Answer:
    """What the server behind a proxy says."""
    headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
    return send(endpoint, request._replace(headers=headers))


def test_a_store_that_refuses_one_request_in_five_costs_time_and_nothing_else(
    spark: SparkSession, tmp_path: Path, store: S3, catalog: CatalogSettings
) -> None:
    requests, refused = count(1), []

    def answer(request: Request) -> Answer:
        if next(requests) % 5 == 0:
            refused.append(request.method)
            return Answer(
                503, {}, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate</Message></Error>"
            )
        return forwarded(request, store.endpoint)

    recorded = topic_files.expected("seed23")
    topics = written(tmp_path / "topics", "seed23", "open-protocol.faults")
    job = job_of("seed23", "open-protocol.faults", tmp_path, catalog=catalog, patience=120.0)
    with http_server(answer) as proxy:
        target = S3(proxy.endpoint).uri()
        place = open_target(spark, target, "iceberg", catalog)
        state = Loop(spark, FileSource(topics, max_messages=400), place, job).run(once=True)

        assert_equal(spark, target, recorded["end"])

    assert (state.holds, state.rejected) == ((), 0)
    assert {"GET", "PUT"} <= set(refused)


def test_files_are_opened_with_the_credentials_that_the_catalog_lends(
    spark: SparkSession, tmp_path: Path, store: S3, server: str
) -> None:
    loads = count(1)

    def lend(request: Request) -> Answer:
        """A table with credentials that end before a job might."""
        answer = forwarded(request, server)
        document = json.loads(answer.body) if answer.status == 200 and answer.body else {}
        if "metadata-location" in document or "metadata" in document:
            soon = int((time.time() + 300) * 1000)
            lent = {
                "s3.access-key-id": f"lent-{next(loads)}",
                "s3.secret-access-key": "hush-hush",
                "s3.session-token": "hush",
                "s3.session-token-expires-at-ms": str(soon),
            }
            document["storage-credentials"] = [{"prefix": f"s3://{BUCKET}/", "config": lent}]
            return Answer(200, {"Content-Type": "application/json"}, json.dumps(document).encode())
        return answer

    keys: set[str] = set()

    def watch(request: Request) -> Answer:
        if "/warehouse/" in request.target and "_tidewire" not in request.target:
            keys.add(request.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0])
        return forwarded(request, store.endpoint)

    topics = written(tmp_path / "topics", "seed11", "canal-json")
    middle = topic_files.expected("seed11")["watermarks"][2]
    with http_server(lend) as proxy, http_server(watch) as watched:
        settings = {"type": "rest", "uri": proxy.endpoint}
        catalog = CatalogSettings(f"lent_{uuid.uuid4().hex[:8]}", settings, settings)
        job = job_of("seed11", "canal-json", tmp_path, catalog=catalog, until=middle["ts"])
        target = S3(watched.endpoint).uri()
        place = open_target(spark, target, "iceberg", catalog)

        Loop(spark, FileSource(topics, max_messages=100), place, job).run(once=True)

        assert_equal(spark, target, middle)
    assert len(keys) > 2
    assert {key.partition("-")[0] for key in keys} == {"lent"}


def test_an_older_driver_that_wakes_up_is_refused_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, store: S3, catalog: CatalogSettings
) -> None:
    topics, target = script(tmp_path / "topics"), store.uri()
    job = Job("canal-json", OPTIONS, catalog=catalog)

    def loop(observer: Observer = Silent()) -> Loop:
        return Loop(spark, FileSource(topics), open_target(spark, target, "iceberg", catalog), job, observer)

    class Sleeps(Silent):
        """The older driver sleeps before its first commit, until a newer one has done everything."""

        def reached(self, point: Point) -> None:
            if point is Point.KEPT:
                loop().run(once=True, take_over=True)

    with pytest.raises(Fenced):
        loop(Sleeps()).run(once=True)

    found = snapshot(spark, target)
    assert {name: sorted(map(tuple, found[name].collect())) for name in found} == EXPECTED


@pytest.mark.parametrize(("point", "times"), [(Point.KEPT, 1), (Point.STEP, 4), (Point.APPLIED, 1)])
def test_a_driver_that_dies_leaves_what_the_next_one_puts_right(
    spark: SparkSession, tmp_path: Path, store: S3, catalog: CatalogSettings, point: Point, times: int
) -> None:
    topics, target = script(tmp_path / "topics"), store.uri()
    job = Job("canal-json", OPTIONS, catalog=catalog)

    def loop(observer: Observer = Silent()) -> Loop:
        return Loop(spark, FileSource(topics), open_target(spark, target, "iceberg", catalog), job, observer)

    with pytest.raises(Death):
        loop(Dies(point, times)).run(once=True)
    state = loop().run(once=True)

    found = snapshot(spark, target)
    assert {name: sorted(map(tuple, found[name].collect())) for name in found} == EXPECTED
    assert not state.holds
