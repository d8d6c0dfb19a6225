"""The files of a storage sink become the tables that the upstream had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import tidewire.spark as tw
import topic_files
from object_stores import S3, s3_server
from scripted import table
from storage_files import StorageFeed, moments, upstream
from sync_checks import assert_equal
from tidewire.cli.app import app
from tidewire.codec.storage_sink.csv_config import CsvConfig
from tidewire.codec.storage_sink.csv_encoder import CsvEncoder
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.codec.storage_sink.schema_file import Definition
from tidewire.errors import OptionError, SyncError
from tidewire.model import RowChange
from tidewire.spark.prepare import prepared
from tidewire.spark.report import Silent
from tidewire.storage import open_storage
from tidewire.sync.config import SyncConfig
from tidewire.sync.state import State


def synced(spark: SparkSession, config: SyncConfig) -> State:
    """Sync what there is."""
    with closing(prepared(config)) as ready, ready.loop(spark, Silent()) as loop:
        return loop.run(once=True)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


CSV = {"include-commit-ts": "true", "delimiter": "|", "output-old-value": "true", "terminator": "\\n"}
CASES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "canal-json": ("seed23", {}, {"date_separator": DateSeparator.DAY}),
    "csv": (
        "seed11",
        CSV,
        {"csv": CsvConfig("|", include_commit_ts=True, output_old_value=True), "terminator": "\n"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "place"), [("canal-json", "file"), ("csv", "s3")])
def test_tables_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, protocol: str, place: str
) -> None:
    topic, options, settings = CASES[protocol]
    recorded, items = topic_files.expected(topic), upstream(topic, tmp_path / "topics")
    source = f"file:{tmp_path}/files" if place == "file" else request.getfixturevalue("s3").uri()
    feed = StorageFeed(open_storage(source), protocol, recorded["time_zone"], **settings)
    config = SyncConfig(
        source=source,
        target=str(tmp_path / "target"),
        protocol=protocol,
        option={"time-zone": recorded["time_zone"], **options},
    )
    first, second = (moments(topic)[len(moments(topic)) * part // 3] for part in (1, 2))

    feed.play(items, first["ts"])
    state = synced(spark, config)
    assert state.applied == first["ts"]
    assert_equal(spark, tmp_path / "target", first)
    feed.restart(first["ts"])
    feed.play(items, second["ts"])
    feed.restart(first["ts"])
    feed.play(items)
    state = synced(spark, config)

    assert not state.holds
    assert not state.rejected
    assert_equal(spark, tmp_path / "target", recorded["end"])
    assert_equal(spark, tmp_path / "target", first, first["ts"])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_bad_records_and_missing_schema_files_hold_their_table(spark: SparkSession, tmp_path: Path) -> None:
    store, target = open_storage(tmp_path / "files"), tmp_path / "lake"
    encoder = CsvEncoder(CsvConfig(include_commit_ts=True), "\r\n")
    contents = {}
    for name in ("whole", "cut", "unknown"):
        shape = table(name, id="bigint", text="longtext")
        definition = Definition.of_table(shape, 100)
        contents[name] = f"shop/{name}/meta/{definition.file_name}", definition.content()
        store.put(*contents[name])
        rows = b"".join(encoder.record(RowChange(shape, 100 + n, after={"id": n, "text": "a\nb"})) for n in (1, 2))
        store.put(f"shop/{name}/100/CDC1.csv", rows[:-2] if name == "cut" else rows)
    store.delete([contents["unknown"][0]])
    store.put("metadata", b'{"checkpoint-ts":110}')
    typed = ("sync", f"file:{store.uri}", target, "-p", "csv", "-o", "include-commit-ts=true", "--once")

    held, holds = run(*typed), run("holds", "ls", target, "--output", "json").stdout

    assert held.exit_code == 1, held.output
    for text in ("shop/cut/100/CDC1.csv:3: the record is cut short", "no schema file shop/unknown/meta/schema_100_"):
        assert text in holds
    assert [count(target, name) for name in contents] == [2, 1, 0]
    store.put(*contents["unknown"])
    assert run("holds", "retry", target).exit_code == 0
    assert run(*typed).exit_code == 1
    assert [count(target, name) for name in contents] == [2, 1, 2]


def count(target: Path, name: str) -> int:
    """How many rows a table has."""
    return len(run("show", target, f"shop.{name}", "--output", "json").stdout.splitlines())


def test_without_commit_ts_rows_are_applied_in_the_order_of_files(spark: SparkSession, tmp_path: Path) -> None:
    store, target = open_storage(tmp_path / "files"), tmp_path / "lake"
    store.put("metadata", b'{"checkpoint-ts":300}')
    for version, columns, rows in (
        (
            200,
            {"id": "bigint", "text": "longtext", "n": "int"},
            b'"U","t","shop",1,"b",5\r\n"D","t","shop",2,"a",\\N\r\n',
        ),
        (100, {"id": "bigint", "text": "longtext"}, b'"I","t","shop",1,"a"\r\n"I","t","shop",2,"a"\r\n'),
    ):
        definition = Definition.of_table(table("t", **columns), version)
        query = "ALTER TABLE t ADD COLUMN n INT" if version == 200 else ""
        store.put(f"shop/t/meta/{definition.file_name}", replace(definition, query=query, type=5).content())
        store.put(f"shop/t/{version}/2026-11-16/CDC1.csv", rows)
    sync = tw.Sync(f"file:{store.uri}", target, protocol="csv")

    sync.run(spark)

    found = tw.Lake.for_path(spark, target).snapshot()["shop.t"].collect()
    assert [row.asDict() for row in found] == [{"id": 1, "text": "b", "n": 5}]
    store.put("shop/t/100/2026-11-16/CDC1.csv", b'"I","t","shop",1,"z"\r\n')
    with pytest.raises(SyncError, match="was written again after it was read"):
        sync.run(spark)


def test_wrong_options_are_refused_before_spark_is_asked(tmp_path: Path) -> None:
    store = open_storage(tmp_path / "files")
    store.put("metadata", b'{"checkpoint-ts":300}')
    store.put("shop/t/100/CDC1.csv", b'"I","t","shop",7,1\r\n' * 2)
    config = SyncConfig(source=f"file:{store.uri}", target=str(tmp_path / "lake"), protocol="csv")

    for options, reason in (
        ({"delimiter": "|"}, r"CDC1\.csv:1: a value has no closing quote.*check delimiter"),
        ({"terminator": "\\n\\n"}, "cut short"),
        ({"delimiters": "|"}, "no such option"),
        ({"terminator": ""}, "must not be empty"),
        ({"output-field-header": "true"}, "the file has no header"),
    ):
        with pytest.raises(OptionError, match=reason):
            prepared(replace(config, option=options))
    with pytest.raises(OptionError, match="a storage sink writes canal-json or csv, not avro"):
        prepared(replace(config, protocol="avro"))
