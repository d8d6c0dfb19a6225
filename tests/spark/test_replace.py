"""A table is loaded anew while the others go on, and every publication is right."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import topic_files
from dump_files import SEED11_TS, unpack
from killed_replace import NAME, go_on
from sync_checks import comparable, job_of, rows_of, written
from tidewire.cli.show import canonical
from tidewire.load.chunks import DumpSource
from tidewire.load.dumpling import read_dump
from tidewire.model import TableName, Watermark
from tidewire.spark.apply import Mode, current_rows
from tidewire.spark.job import Job
from tidewire.spark.ledger import ledger_of, requests
from tidewire.spark.load.run import Asked, ask_replacement
from tidewire.spark.loop import Point
from tidewire.spark.publications import Publications
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage
from tidewire.topic.files import FileTopics

ACCOUNTS, SESSIONS = TableName("test", "accounts"), TableName("test", "sessions")
MOMENTS = [each["ts"] for each in topic_files.expected("seed11")["watermarks"]]
PAST, SWAP = MOMENTS[MOMENTS.index(SEED11_TS) + 8], MOMENTS[MOMENTS.index(SEED11_TS) + 18]
"""The sync has passed the moment of the load when a table is loaded anew, and later the topic has more."""

END = max(each.ts for _, told in topic_files.events("seed11", NAME) for each in told if isinstance(each, Watermark))


def dump_of(folder: Path, *tables: TableName) -> DumpSource:
    storage = open_storage(unpack("seed11", folder) / "csv")
    found = tuple(each for each in read_dump(storage).tables if each.schema.name in tables)
    return DumpSource(storage, found, SEED11_TS)


def send(folder: Path, name: str = NAME, *, until: int | None = None) -> None:
    """Append messages of the recorded topic, up to those of a moment."""
    lines = topic_files.lines("seed11", name)
    count = len(lines) if until is None else len(topic_files.lines_until("seed11", name, until))
    sent = sum(FileTopics(folder / "topics").ends().values())
    written(folder / "topics", "seed11", name, lines[sent:count])


def asked(spark: SparkSession, folder: Path, **settings: Any) -> Asked:
    """A sync that has passed the load's moment, two requests to replace a table, and messages that come then."""
    send(folder, until=PAST)
    go_on(spark, folder, **settings)
    job = replace(job_of("seed11", NAME, folder, **settings), protocol="")
    place = open_target(spark, str(folder / "target"), job.format)
    ask_replacement(spark, place, job, dump_of(folder, SESSIONS))
    found = ask_replacement(spark, place, job, dump_of(folder, ACCOUNTS))
    send(folder, until=SWAP)
    return found


def assert_all_published_is_right(spark: SparkSession, folder: Path, format_: str = "iceberg") -> list[str]:
    """Every publication has the upstream's rows of its moment; the identities that the replaced table had."""
    recorded = topic_files.expected("seed11")
    moments: dict[int, Mapping[str, Any]] = {each["ts"]: each for each in recorded["watermarks"]}
    place = open_target(spark, str(folder / "target"), format_)
    publications, identities = Publications(ledger_of(str(folder / "target"))), []
    for published in map(publications.read, publications.names()):
        assert published.ts is not None
        moment = recorded["end"] if published.ts == END else moments[published.ts]
        assert sorted(map(str, published.tables)) == sorted(moment["tables"])
        for name, table in published.tables.items():
            assert table.held is None
            key = [table.schema.column(column) for column in table.schema.handle_key]
            rows = current_rows(Mode(table.mode), place.read(name, table.version), key).toArrow()
            found = rows_of(canonical(rows, table.schema, recorded["time_zone"]), table.schema.columns)
            wanted = comparable(moment["tables"][str(name)]["rows"], table.schema.columns, floats=True)
            assert found == wanted, (published.ts, name)
        identities += [published.tables[ACCOUNTS].version.partition("@")[0]] if ACCOUNTS in published.tables else []
    return list(dict.fromkeys(identities))


def assert_nothing_is_left(spark: SparkSession, folder: Path, format_: str = "iceberg") -> None:
    """No request, file or table of the replacement is left."""
    ledger = ledger_of(str(folder / "target"))
    assert requests(ledger) == []
    assert ledger.list("loads", recursive=True) == []
    place = open_target(spark, str(folder / "target"), format_)
    assert [name for name in place.names() if name.schema == "_tidewire" and name.table != "rejects"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format_", "mode"),
    [
        ("iceberg", Mode.MIRROR),
        pytest.param("delta", Mode.MIRROR, marks=pytest.mark.matrix),
        pytest.param("iceberg", Mode.HISTORY, marks=pytest.mark.matrix),
        pytest.param("iceberg", Mode.SCD2, marks=pytest.mark.matrix),
    ],
)
def test_a_table_is_replaced_while_the_others_go_on(
    spark: SparkSession, tmp_path: Path, format_: str, mode: Mode
) -> None:
    request = asked(spark, tmp_path, format=format_, mode=mode)

    state = go_on(spark, tmp_path, format=format_, mode=mode)

    assert (request.ts, state.holds, state.applied) == (SEED11_TS, (), SWAP)
    assert requests(ledger_of(str(tmp_path / "target"))) == []
    send(tmp_path)
    assert go_on(spark, tmp_path, format=format_, mode=mode).applied == END
    assert len(assert_all_published_is_right(spark, tmp_path, format_)) == 2
    if mode is Mode.MIRROR:
        assert_nothing_is_left(spark, tmp_path, format_)


KILLER = Path(__file__).parents[1] / "killed_replace.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "point"),
    [
        ("fill", Point.STEP),
        ("swap", Point.STEP),
        pytest.param("fill", Point.KEPT, marks=pytest.mark.matrix),
        pytest.param("catch-up", Point.PUBLISHED, marks=pytest.mark.matrix),
        pytest.param("swap", Point.KEPT, marks=pytest.mark.matrix),
        pytest.param("swap", Point.PUBLISHED, marks=pytest.mark.matrix),
    ],
)
def test_a_killed_replacement_goes_on(spark: SparkSession, tmp_path: Path, when: str, point: Point) -> None:
    asked(spark, tmp_path)
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), when, point],
        cwd=KILLER.parent,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]

    assert go_on(spark, tmp_path).holds == ()
    send(tmp_path)
    assert go_on(spark, tmp_path).applied == END
    assert len(assert_all_published_is_right(spark, tmp_path)) == 2
    assert_nothing_is_left(spark, tmp_path)


@pytest.mark.matrix
def test_a_table_is_replaced_in_offset_order(spark: SparkSession, tmp_path: Path) -> None:
    recorded = topic_files.expected("seed11")["end"]["tables"]["test.accounts"]["rows"]
    send(tmp_path, "avro")
    go_on(spark, tmp_path, name="avro")
    place = open_target(spark, str(tmp_path / "target"), "iceberg")
    before = place.version(ACCOUNTS).partition("@")[0]
    ask_replacement(spark, place, Job("", has_watermarks=False), dump_of(tmp_path, ACCOUNTS))

    go_on(spark, tmp_path, name="avro")

    assert place.version(ACCOUNTS).partition("@")[0] != before
    assert sorted(str(row["id"]) for row in place.read(ACCOUNTS).collect()) == sorted(row[0] for row in recorded)
    assert_nothing_is_left(spark, tmp_path)
