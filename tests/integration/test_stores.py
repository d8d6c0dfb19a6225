"""Syncs whose tables are in S3 (moto), their names in a catalog.

Every run has Iceberg's REST server; ``make stores`` repeats the same tests with Glue (moto, with the lock that Glue
has), with a JDBC catalog in PostgreSQL, and in HDFS.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

import topic_files
from integration.duckdb_reader import duckdb_on, rows_of_relation
from integration.hdfs import Trouble, hdfs, in_trouble
from integration.kafka import Cluster, kafka
from integration.kafka_topics import created, send_lines
from integration.postgres import postgres
from integration.rest_catalog import drop_tables, rest_catalog
from object_stores import BUCKET, S3, Answer, Request, http_server, s3_server, send, strict_glue
from scripted import OPTIONS
from spark.test_ledger_windows import EXPECTED, WINDOWS, Death, Dies, rows, script
from sync_checks import assert_equal, comparable, job_of, rows_of, synced, written
from tidewire.cli.app import app
from tidewire.cli.show import canonical
from tidewire.errors import Fenced, TargetError
from tidewire.spark.catalogs import spark_settings
from tidewire.spark.loop import Job, Loop, Observer, Point, Silent
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource, open_source
from tidewire.spark.targets import IcebergTarget, iceberg_swap, open_target
from tidewire.spark.targets.base import java_kind
from tidewire.storage import open_storage
from tidewire.sync.catalog_settings import CatalogSettings

KILLER = Path(__file__).parents[1] / "killed_sync.py"

pytestmark = [pytest.mark.slow, pytest.mark.integration]


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def rest(store: S3) -> Iterator[str]:
    """The URI of a REST catalog."""
    with rest_catalog(f"s3://{BUCKET}/warehouse", file_io(store)) as uri:
        yield uri


@pytest.fixture
def server(rest: str) -> str:
    """The URI of a REST catalog, without the tables of tests before."""
    drop_tables(rest)
    return rest


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The JDBC URI of a PostgreSQL server."""
    with postgres() as uri:
        yield uri


@pytest.fixture
def glue(spark: SparkSession, store: S3) -> Iterator[dict[str, str]]:
    """The settings of a Glue catalog. Its credentials come from where AWS looks for them."""
    system: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    given = {
        "aws.accessKeyId": "key",
        "aws.secretAccessKey": "secret",
        "aws.region": "us-east-1",
        "aws.endpointUrlGlue": store.endpoint,
    }
    for name, value in given.items():
        system.setProperty(name, value)
    with strict_glue():
        yield {"type": "glue", "glue.endpoint": store.endpoint, "client.region": "us-east-1"}
    for name in given:
        system.clearProperty(name)


@pytest.fixture(scope="module")
def hadoop() -> Iterator[str]:
    """The URI of an HDFS."""
    with hdfs() as uri:
        yield uri


@pytest.fixture
def lake(catalog: CatalogSettings, store: S3, request: pytest.FixtureRequest) -> str:
    """A new target in the catalog's store."""
    if catalog.name.startswith("hdfs"):
        return f"{request.getfixturevalue('hadoop')}/{uuid.uuid4().hex}"
    return store.uri()


@pytest.fixture(
    params=["rest", *(pytest.param(each, marks=pytest.mark.stores) for each in ("glue", "postgresql", "hdfs"))]
)
def catalog(
    spark: SparkSession, store: S3, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> CatalogSettings:
    """An empty catalog under a name of its own; Spark remembers catalogs by name."""
    kind = request.param
    if kind == "rest":
        settings = {"type": "rest", "uri": request.getfixturevalue("server")}
    elif kind == "glue":
        settings = request.getfixturevalue("glue")
    elif kind == "hdfs":
        database = tmp_path_factory.mktemp("names") / "catalog.db"
        settings = {"type": "jdbc", "uri": f"jdbc:sqlite:{database}", "jdbc.schema-version": "V1"}
    else:
        uri = request.getfixturevalue("database")
        settings = {"type": "jdbc", "uri": uri, "jdbc.user": "postgres", "jdbc.schema-version": "V1"}
    made = CatalogSettings(f"{kind}_{uuid.uuid4().hex[:8]}", settings, settings)
    if kind == "glue":
        names = IcebergTarget(spark, store.uri(), spark_settings(made, store.uri()))._catalog
        for name in list(names.names()):
            names.forget(name)
    return made


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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kafka() as running:
        yield running


@pytest.mark.parametrize(
    ("topic", "name", "version"), [("seed11", "canal-json.faults", 3), ("seed23", "simple-json.faults", 2)]
)
def test_recorded_topics_are_right_for_every_reader(
    spark: SparkSession,
    tmp_path: Path,
    store: S3,
    catalog: CatalogSettings,
    lake: str,
    cluster: Cluster,
    topic: str,
    name: str,
    version: int,
) -> None:
    end = topic_files.expected(topic)["end"]
    kept, target = f"{topic}-{uuid.uuid4().hex[:8]}", lake
    created(cluster, kept)
    send_lines(cluster, kept, topic_files.lines(topic, name))
    job = job_of(topic, name, tmp_path, catalog=catalog, format_version=version)

    place = open_target(spark, target, "iceberg", catalog, version)
    assert isinstance(place, IcebergTarget)

    with closing(open_source(f"kafka://{cluster.bootstrap}/{kept}")) as source:
        Loop(spark, source, place, job).run(once=True)

    assert_equal(spark, target, end)
    found, names, duckdb = snapshot(spark, target), place._catalog, duckdb_on(store)
    if catalog.kind == "rest":
        duckdb.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{catalog.settings['uri']}', AUTHORIZATION_TYPE 'none')"
        )
    for table, published in found.tables.items():
        known = names.table(table)
        assert known is not None
        if known.location.startswith("hdfs:"):  # pyiceberg would need Hadoop's own libraries
            continue
        assert known.location.startswith(f"s3://{BUCKET}/")
        read = StaticTable.from_metadata(known.metadata_location, file_io(store))
        assert read.format_version == version
        by_pyiceberg = read.scan().to_arrow()
        relation = f"iceberg_scan('{known.metadata_location}')"
        if catalog.kind == "rest":
            relation = f'lake."{table.schema}"."{table.table}"'
        by_duckdb = rows_of_relation(duckdb, relation, by_pyiceberg.schema)
        columns = published.schema.columns
        for arrow in (by_pyiceberg, by_duckdb):
            rows = canonical(arrow, published.schema, found.time_zone)
            assert rows_of(rows, columns) == comparable(end["tables"][str(table)]["rows"], columns, True)


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "catalogs.md"


def recipe(kind: str, replaced: Mapping[str, str]) -> str:
    """The recipe of a kind of catalog as the page has it, but for other addresses, names and credentials."""
    found = re.findall(r"```toml\n(\[catalog\.lake\]\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (text,) = (each for each in found if tomllib.loads(each)["catalog"]["lake"]["type"] == kind)
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    return str(text)


@pytest.fixture(params=["rest", *(pytest.param(each, marks=pytest.mark.stores) for each in ("glue", "jdbc", "hdfs"))])
def written_recipe(
    spark: SparkSession, store: S3, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """A recipe of the page for the tests' own servers, and a new target for it."""
    kind, name = request.param, f"lake_{uuid.uuid4().hex[:8]}"
    named = {"[catalog.lake]": f"[catalog.{name}]"}
    for variable in ("CLIENT_SECRET", "CATALOG_PASSWORD"):
        monkeypatch.setenv(variable, "hush-hush")
    monkeypatch.setenv("CLIENT_ID", "me")
    if kind == "rest":
        return recipe(kind, named | {"https://catalog.example/api": request.getfixturevalue("server")}), store.uri()
    if kind == "glue":
        described = request.getfixturevalue("glue")
        names = IcebergTarget(
            spark, store.uri(), spark_settings(CatalogSettings(f"all_{name}", described), store.uri())
        )._catalog
        for each in list(names.names()):
            names.forget(each)
        return recipe(kind, named), store.uri()
    server = {
        "jdbc:postgresql://db.example:5432/catalogs": request.getfixturevalue("database"),
        '"jdbc.user" = "tidewire"': '"jdbc.user" = "postgres"',
    }
    place = store.uri() if kind == "jdbc" else f"{request.getfixturevalue('hadoop')}/{name}"
    return recipe("jdbc", named | server), place


def test_a_target_is_synced_shown_and_maintained_by_the_recipes_of_the_page(
    spark: SparkSession, tmp_path: Path, written_recipe: tuple[str, str]
) -> None:
    described, target = written_recipe
    recorded = topic_files.expected("seed11")
    written(tmp_path / "topics", "seed11", "canal-json")
    config = tmp_path / "sync.toml"
    config.write_text(described)
    options = ("-o", "enable-tidb-extension=true", "-o", f"time-zone={recorded['time_zone']}")
    command = ("sync", f"file://{tmp_path}/topics", target, "-p", "canal-json", "--config", config)

    done = tidewire(*command, "--once", "--staging", tmp_path / "hot", *options)

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
    assert any((tmp_path / "hot").iterdir())
    refused = tidewire(*command, "--staging", tmp_path)
    assert "files are staged in" in refused.output
    assert not [each for each, data in documents.items() if b"hush-hush" in data or b"access-key=" in data]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            Answer(401, {}, b'{"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}}'),
            "Not authorized",
        ),
        (Answer(404, {}, b"<html>"), "code: 404"),
    ],
    ids=["wrong token", "no catalog"],
)
def test_a_catalog_that_refuses_at_the_start_is_named_in_one_line(
    spark: SparkSession, tmp_path: Path, store: S3, answer: Answer, says: str
) -> None:
    written(tmp_path / "topics", "seed11", "canal-json")
    with http_server(lambda _: answer) as refusing:
        name, config = f"lake_{uuid.uuid4().hex[:8]}", tmp_path / "sync.toml"
        config.write_text(f'[catalog.{name}]\ntype = "rest"\nuri = "{refusing.endpoint}"\ntoken = "hush-hush"\n')

        done = tidewire("sync", f"file://{tmp_path}/topics", store.uri(), "-p", "canal-json", "--config", config)

    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: option catalog.{name}: the catalog cannot be opened: ")
    assert says in line
    assert "; check " in line
    assert "hush-hush" not in done.output


def forwarded(request: Request, endpoint: str) -> Answer:
    """What the server behind a proxy says."""
    headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
    return send(endpoint, request._replace(headers=headers))


def refused(status: int, code: str) -> Answer:
    """What S3 says if it does not do what it is asked."""
    return Answer(status, {}, f"<Error><Code>{code}</Code><Message>Not now</Message></Error>".encode())


TROUBLES = ("busy", "half an answer", "expired token", "no answer", "in pieces")


@pytest.mark.parametrize(
    "troubles", [TROUBLES[:1], pytest.param(TROUBLES, marks=pytest.mark.stores)], ids=["busy", "all kinds"]
)
def test_a_store_in_trouble_at_one_request_in_five_costs_time_and_nothing_else(
    spark: SparkSession, tmp_path: Path, store: S3, catalog: CatalogSettings, troubles: tuple[str, ...]
) -> None:
    requests, met, over = count(1), set[tuple[str, str]](), threading.Event()

    def answer(request: Request) -> Answer | None:
        number = next(requests)
        if number % 5 or over.is_set():
            return forwarded(request, store.endpoint)
        # Credentials that a sync begins with are taken at least once; HEAD has no body that says what is wrong.
        is_begun = number > 50 and request.method != "HEAD"
        trouble = troubles[number // 5 % len(troubles)] if is_begun else "busy"
        met.add((request.method, trouble))
        if trouble == "busy":
            return refused(503, "SlowDown")
        if trouble == "expired token":
            return refused(400, "ExpiredToken")
        found = forwarded(request, store.endpoint)  # the request is done, and its answer is lost
        if trouble == "in pieces":
            return found._replace(pieces=1000)
        if trouble == "no answer" or not found.body:
            return None
        return found._replace(body=found.body[: len(found.body) // 2], length=len(found.body))

    recorded = topic_files.expected("seed23")["watermarks"][20]
    topics = written(tmp_path / "topics", "seed23", "open-protocol.faults")
    job = job_of("seed23", "open-protocol.faults", tmp_path, catalog=catalog, patience=120.0, until=recorded["ts"])
    with http_server(answer) as proxy:
        target = S3(proxy.endpoint).uri()
        place = open_target(spark, target, "iceberg", catalog)
        state = Loop(spark, FileSource(topics, max_messages=400), place, job).run(once=True)
        over.set()  # readers do not wait

        assert_equal(spark, target, recorded)

    assert (state.holds, state.rejected) == ((), 0)
    assert {(method, trouble) for method in ("GET", "PUT") for trouble in troubles} <= met


@pytest.mark.stores
@pytest.mark.parametrize("trouble", ["refused", "half an answer", "no answer"])
def test_a_name_node_that_loses_a_call_now_and_then_costs_time_and_nothing_else(
    spark: SparkSession, tmp_path: Path, hadoop: str, trouble: Trouble
) -> None:
    calls, lost, over = count(1), list[int](), threading.Event()

    def loses() -> Trouble | None:
        number = next(calls)
        if number % 151 or over.is_set():  # a file takes five calls: a try of a pass must fit in between
            return None
        lost.append(number)
        return trouble

    recorded = topic_files.expected("seed23")["watermarks"][20]
    topics = written(tmp_path / "topics", "seed23", "open-protocol.faults")
    settings = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "jdbc.schema-version": "V1"}
    catalog = CatalogSettings(f"hdfs_{uuid.uuid4().hex[:8]}", settings, settings)
    job = job_of("seed23", "open-protocol.faults", tmp_path, catalog=catalog, patience=120.0, until=recorded["ts"])
    with in_trouble(hadoop, loses) as proxy:
        target = f"{proxy}/{uuid.uuid4().hex}"
        place = open_target(spark, target, "iceberg", catalog)
        state = Loop(spark, FileSource(topics, max_messages=400), place, job).run(once=True)
        over.set()  # readers do not wait

        assert_equal(spark, target, recorded)

    assert (state.holds, state.rejected) == ((), 0)
    assert len(lost) > 2


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
            headers = {name.lower(): text for name, text in request.headers.items()}
            keys.add(headers.get("authorization", "").partition("Credential=")[2].partition("/")[0])
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
    spark: SparkSession, tmp_path: Path, catalog: CatalogSettings, lake: str
) -> None:
    topics, target = script(tmp_path / "topics"), lake
    job = Job("canal-json", OPTIONS, catalog=catalog)

    def loop(observer: Observer = Silent()) -> Loop:
        return Loop(spark, FileSource(topics), open_target(spark, target, "iceberg", catalog), job, observer)

    def newer() -> None:
        loop().run(once=True, take_over=True)

    class Sleeps(Silent):
        """The older driver sleeps before it keeps its plan, until a newer one has done everything."""

        def reached(self, point: Point) -> None:
            if point is Point.STAGED:
                newer()

    with pytest.raises(Fenced):
        loop(Sleeps()).run(once=True)

    assert rows(spark, target) == EXPECTED


@pytest.mark.stores
def test_a_commit_that_an_older_driver_was_about_to_make_is_refused_by_its_table(
    spark: SparkSession,
    tmp_path: Path,
    catalog: CatalogSettings,
    lake: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics, target = script(tmp_path / "topics"), lake
    job = Job("canal-json", OPTIONS, catalog=catalog, parallel=1)
    commits, refused, swapped = count(1), [], iceberg_swap.exchange

    def exchange(transaction: Any, base: Any) -> None:
        """The fourth swap sleeps just before it is sent, until a newer driver has done everything."""
        is_late = next(commits) == 4
        if is_late:
            synced(spark, topics, target, job, take_over=True)
        try:
            swapped(transaction, base)
        except Exception as error:
            refused.append(java_kind(error))
            raise
        assert not is_late

    monkeypatch.setattr(iceberg_swap, "exchange", exchange)
    with suppress(Fenced, TargetError):  # or it finds that its steps are done, or a table renamed
        synced(spark, topics, target, job)

    assert set(refused) <= {"CommitFailedException", "AlreadyExistsException"}
    assert refused
    assert rows(spark, target) == EXPECTED


_EACH_RUN = ((Point.KEPT, 1), (Point.STEP, 4))


@pytest.mark.parametrize(
    ("point", "times"),
    [
        pytest.param(*each.values, id=str(each.id), marks=() if each.values in _EACH_RUN else pytest.mark.stores)
        for each in WINDOWS
    ],
)
def test_a_driver_that_dies_leaves_what_the_next_one_puts_right(
    spark: SparkSession, tmp_path: Path, catalog: CatalogSettings, lake: str, point: Point, times: int
) -> None:
    topics, target = script(tmp_path / "topics"), lake
    job = Job("canal-json", OPTIONS, catalog=catalog)

    with pytest.raises(Death):
        synced(spark, topics, target, job, Dies(point, times))
    state = synced(spark, topics, target, job)

    assert rows(spark, target) == EXPECTED
    assert not state.holds


@pytest.mark.stores
@pytest.mark.parametrize(
    ("point", "times", "what"),
    [(Point.STAGED, 1, "both"), (Point.KEPT, 1, "both"), (Point.STEP, 3, "python"), (Point.APPLIED, 1, "java")],
)
def test_a_driver_that_is_killed_leaves_what_the_next_one_puts_right(
    spark: SparkSession,
    tmp_path: Path,
    catalog: CatalogSettings,
    lake: str,
    monkeypatch: pytest.MonkeyPatch,
    point: Point,
    times: int,
    what: str,
) -> None:
    for name, value in (("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(name, value)
    topics, target = script(tmp_path / "topics"), lake
    told = {
        "target": target,
        "protocol": "canal-json",
        "options": OPTIONS,
        "catalog": {"name": catalog.name, "settings": dict(catalog.settings), "written": dict(catalog.written)},
    }

    killed = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), point, str(times), what, json.dumps(told)],
        cwd=KILLER.parent,
        capture_output=True,
        check=False,
    )
    state = synced(spark, topics, target, Job("canal-json", OPTIONS, catalog=catalog))

    assert killed.returncode != 0, killed.stderr.decode()[-2000:]
    assert rows(spark, target) == EXPECTED
    assert not state.holds
