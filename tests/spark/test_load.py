"""Dumps become tables, and their topics continue them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import killed_load
import topic_files
from dump_files import KINDS, MOMENTS, ODD_DIALECT, SEED11_TS, unpack
from sync_checks import assert_equal, job_of, synced, written
from tidewire.cli.show import canonical
from tidewire.load.chunks import DumpSource
from tidewire.load.dialect import Dialect
from tidewire.load.dumpling import read_dump
from tidewire.model import TableName
from tidewire.plain import message_from_plain
from tidewire.spark.apply import Mode
from tidewire.spark.job import Job
from tidewire.spark.ledger import ledger_of
from tidewire.spark.load.run import Loaded, load
from tidewire.spark.loop import Point
from tidewire.spark.report import Observer, Silent
from tidewire.spark.snapshot import snapshot
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage

CASES = [
    ("csv", "canal-json.faults", "iceberg", Mode.MIRROR),
    ("csv-odd", "open-protocol", "iceberg", Mode.MIRROR),
    pytest.param("sql-chunks", "simple-json.faults", "iceberg", Mode.MIRROR, marks=pytest.mark.matrix),
    pytest.param("parquet", "simple-avro", "delta", Mode.MIRROR, marks=pytest.mark.matrix),
    ("csv-gzip", "canal-json", "iceberg", Mode.SCD2),
]


def wanted(folder: Path, kind: str, **settings: int) -> DumpSource:
    storage = open_storage(folder / kind)
    dump = read_dump(storage)
    assert dump.ts is not None
    dialect = Dialect.parse(ODD_DIALECT) if kind == "csv-odd" else Dialect()
    return DumpSource(storage, dump.tables, dump.ts, dialect, **settings)


def loaded(spark: SparkSession, target: Path, job: Job, of: DumpSource, observer: Observer = Silent()) -> Loaded:
    return load(spark, open_target(spark, str(target), job.format), replace(job, protocol=""), of, observer)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "format_", "mode"), CASES)
def test_a_dump_and_its_topic_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, kind: str, name: str, format_: str, mode: Mode
) -> None:
    assert kind in KINDS
    recorded, target = topic_files.expected("seed11"), tmp_path / "target"
    topics = written(tmp_path / "topics", "seed11", name)
    job = job_of("seed11", name, tmp_path, format=format_, mode=mode)
    moments = {moment["ts"]: moment for moment in recorded["watermarks"]}
    later = [moment for ts, moment in moments.items() if ts > SEED11_TS]

    result = loaded(spark, target, job, wanted(unpack("seed11", tmp_path), kind, chunk_bytes=2000))

    assert (sum(result.rows.values()), result.rejected, result.holds) == (126, 0, ())
    assert_equal(spark, target, moments[SEED11_TS])
    state = synced(spark, topics, target, replace(job, until=later[2]["ts"]))
    assert state.holds == ()
    assert_equal(spark, target, later[2])
    if format_ == "iceberg":
        synced(spark, topics, target, job)
        assert_equal(spark, target, recorded["end"])


KILLER = Path(__file__).parents[1] / "killed_load.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "count"),
    [
        ("chunk", 5),
        (Point.STEP, 4),
        pytest.param(Point.STAGED, 1, marks=pytest.mark.matrix),
        pytest.param(Point.KEPT, 1, marks=pytest.mark.matrix),
        pytest.param(Point.APPLIED, 1, marks=pytest.mark.matrix),
        pytest.param(Point.PUBLISHED, 1, marks=pytest.mark.matrix),
    ],
)
def test_a_killed_load_goes_on(spark: SparkSession, tmp_path: Path, point: str, count: int) -> None:
    unpack("seed11", tmp_path).rename(tmp_path / "kinds")
    (tmp_path / "kinds" / "csv").rename(tmp_path / "dump")
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), point, str(count)],
        cwd=KILLER.parent,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    storage = ledger_of(str(tmp_path / "target"))
    done = {entry.name: entry.modified for entry in storage.list("loads", recursive=True) if "/done/" in entry.name}
    assert len(done) == 5 if point == "chunk" else len(done) > 5
    heard = Told()

    result = loaded(spark, tmp_path / "target", Job(""), killed_load.job_of(tmp_path / "dump"), heard)

    begun = point in ("chunk", Point.STAGED)
    assert result.was_done is not begun
    assert any("chunks were read before" in line for line in heard.lines) is begun
    moments = {moment["ts"]: moment for moment in topic_files.expected("seed11")["watermarks"]}
    assert_equal(spark, tmp_path / "target", moments[SEED11_TS])
    assert storage.list("loads", recursive=True) == []


class Told(Silent):
    """Hears what people are told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        """Remember a line."""
        self.lines.append(line)


@pytest.mark.slow
def test_a_topic_that_begins_after_the_load_is_held(spark: SparkSession, tmp_path: Path) -> None:
    recorded, target = topic_files.expected("seed11"), tmp_path / "target"
    job = job_of("seed11", "canal-json", tmp_path)
    loaded(spark, target, job, wanted(unpack("seed11", tmp_path), "csv"))
    offsets: Counter[int] = Counter()
    cut, begun = [], False
    for line in topic_files.lines("seed11", "canal-json"):
        begun = begun or (_watermark(line) or 0) > SEED11_TS
        if begun:
            cut.append({**line, "offset": offsets[line["partition"]]})
            offsets[line["partition"]] += 1

    state = synced(spark, written(tmp_path / "topics", "seed11", "canal-json", cut), target, job)

    assert {str(hold.table) for hold in state.holds} >= {"test.accounts", "test.wide"}
    assert all(f"--start-ts {SEED11_TS} or earlier" in hold.reason for hold in state.holds)
    moments = {moment["ts"]: moment for moment in recorded["watermarks"]}
    assert_equal(spark, target, moments[SEED11_TS], SEED11_TS)


def _watermark(line: Mapping[str, Any]) -> int | None:
    """The watermark that a message of Canal-JSON is, if it is one."""
    value = json.loads(message_from_plain(line).value or b"null")
    return value["_tidb"]["watermarkTs"] if value and value["type"] == "TIDB_WATERMARK" else None


@pytest.mark.slow
def test_odd_names_and_values_are_loaded(spark: SparkSession, tmp_path: Path) -> None:
    storage = open_storage(unpack("odd", tmp_path) / "csv")
    dump = read_dump(storage)
    assert dump.ts is not None

    result = loaded(spark, tmp_path / "target", Job(""), DumpSource(storage, dump.tables, dump.ts))

    assert {str(name): rows for name, rows in result.rows.items()} == {
        "my-db.a.b c": 3,
        "shop.bytes": 2,
        "shop.empty_one": 0,
        "shop.gen": 2,
        "shop.kinds": 3,
        "shop.nokey": 3,
        "shop.parts": 2,
        "shop.times": 2,
        "数据.表": 1,
    }
    found = snapshot(spark, str(tmp_path / "target"))
    rows = {
        name: canonical(found[name].orderBy(found[name].columns[0]).toArrow(), found.tables[table].schema, "UTC")
        for table, name in NAMES.items()
    }
    assert rows["my-db.a.b c"][0] == {"the id": "1", "v.x": 'x,"y"', "we`ird": "3"}
    assert rows["shop.gen"][0] == {"id": "1", "a": "10", "s": None, "j": '{"k": "kk"}'}
    assert sorted(row["id"] for row in rows["shop.parts"]) == ["1", "20"]
    assert rows["数据.表"][0]["n"] == "12345678901234567890123456789012345.123456789012345678901234567890"
    assert found["shop.empty_one"].count() == 0
    assert sorted(map(tuple, found["shop.nokey"].select("a", "b").collect())) == [(1, "a"), (1, "a"), (2, None)]
    assert found["shop.bytes"].orderBy("id").collect()[0]["bl"] == b'\\N\0\xff"\r\n\t\\'


NAMES = {
    TableName("my-db", "a.b c"): "my-db.a.b c",
    TableName("shop", "gen"): "shop.gen",
    TableName("shop", "parts"): "shop.parts",
    TableName("数据", "表"): "数据.表",
}


MATRIX = [
    (topic, ts, kind, name)
    for topic, moments in MOMENTS.items()
    for ts in moments
    for kind in KINDS
    for name in topic_files.names(topic)
    if not name.startswith("avro")
]


@pytest.mark.matrix
@pytest.mark.parametrize(("topic", "ts", "kind", "name"), MATRIX)
def test_every_dump_and_every_topic_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, topic: str, ts: int, kind: str, name: str
) -> None:
    recorded, target, floats = topic_files.expected(topic), tmp_path / "target", not name.startswith("craft")
    topics, job = written(tmp_path / "topics", topic, name), job_of(topic, name, tmp_path)
    later = [moment for moment in recorded["watermarks"] if moment["ts"] > ts]

    loaded(spark, target, job, wanted(unpack(topic, tmp_path, ts), kind))

    for moment in later[:: max(1, len(later) // 3)]:
        assert synced(spark, topics, target, replace(job, until=moment["ts"])).holds == ()
        assert_equal(spark, target, moment, floats=floats)
    synced(spark, topics, target, job)
    assert_equal(spark, target, recorded["end"], floats=floats)


@pytest.mark.slow
def test_a_topic_without_watermarks_continues_a_load(spark: SparkSession, tmp_path: Path) -> None:
    recorded, target = topic_files.expected("seed11"), tmp_path / "target"
    job = job_of("seed11", "avro", tmp_path)
    storage = open_storage(unpack("seed11", tmp_path) / "csv")
    tables = tuple(each for each in read_dump(storage).tables if each.schema.name.table == "accounts")
    loaded(spark, target, job, DumpSource(storage, tables, SEED11_TS))

    synced(spark, written(tmp_path / "topics", "seed11", "avro"), target, job)

    found = snapshot(spark, str(target))
    assert found.ts is None
    wanted_ids = sorted(row[0] for row in recorded["end"]["tables"]["test.accounts"]["rows"])
    assert sorted(str(row["id"]) for row in found["test.accounts"].collect()) == wanted_ids
