"""A target of tidewire 0.1 goes on.

0.1 made ``data/target-0.1-*.tar.xz``: a Canal-JSON topic of two partitions with the tables ``shop.t000`` and
``shop.t001``, and what a sync made of it in three runs. The second run met an ADD COLUMN. The third one met a
transaction whose second half is not complete, and a row of ``t001`` that cannot be read, so it left staged files and a
hold. ``expected.json`` has the rows of the tables after each run, complete or not.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from growing_topic import JOB, SECOND, Feed, Reports, table
from sync_checks import synced
from tidewire.errors import StateError, SyncError
from tidewire.model import Position
from tidewire.spark.ledger import Ledger, Owner, Request, ledger_of, newest_state, owner_of
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot
from tidewire.spark.targets import IcebergTarget
from tidewire.storage import Storage
from tidewire.sync.documents import encode
from tidewire.sync.manifest import Partition
from tidewire.sync.rules import Rules, TableRule
from tidewire.sync.state import HoldKind

FORMATS = ("delta", "iceberg")
DATA = Path(__file__).parent / "data"
WIDER, OTHER = table(0, 3), table(1)


def unpacked(format_: str, folder: Path) -> dict[str, Any]:
    """Put a target and its topic into a folder; what the tables held after each run."""
    with tarfile.open(DATA / f"target-0.1-{format_}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    for path in (folder / "lake" / "_tidewire").rglob("*.json"):
        path.write_text(path.read_text().replace(f"/srv/tidewire-0.1/{format_}", str(folder)))
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


def moved(folder: Path, catalog: str) -> None:
    """Iceberg's metadata with the paths of another folder, and its catalog under the name that belongs to that."""
    old, new = "/srv/tidewire-0.1/iceberg", str(folder)

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        return value.replace(old, new) if isinstance(value, str) else value

    files = sorted((folder / "lake" / "data").rglob("*.avro"), key=lambda path: path.name.startswith("snap-"))
    for path in files:  # lists of manifests come last: they have the manifests' sizes
        with path.open("rb") as source:
            reader = fastavro.reader(source)
            rows = [replaced(row) for row in reader]
            schema, metadata = reader.writer_schema, reader.metadata
        for row in rows:
            if "manifest_path" in row:
                row["manifest_length"] = Path(row["manifest_path"]).stat().st_size
        kept = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
        with path.open("wb") as sink:
            fastavro.writer(sink, schema, rows, codec="deflate", metadata=kept)
    for path in (folder / "lake" / "data").rglob("*.metadata.json"):
        path.write_text(path.read_text().replace(old, new))
    database = sqlite3.connect(folder / "lake" / "catalog.db")
    with database:
        database.execute(
            "UPDATE iceberg_tables SET catalog_name = ?, metadata_location = replace(metadata_location, ?, ?), "
            "previous_metadata_location = replace(previous_metadata_location, ?, ?)",
            (catalog, old, new, old, new),
        )
        database.execute("UPDATE iceberg_namespace_properties SET catalog_name = ?", (catalog,))
    database.close()


def owner(folder: Path, **changes: Any) -> Owner:
    """The sync that the target belongs to, as a job of today says it."""
    made = Owner((folder / "topics").as_uri(), "canal-json", "delta", "mirror", True, "UTC")
    return Owner(**{field: getattr(made, field) for field in Owner.__struct_fields__} | changes)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    unpacked("delta", tmp_path)
    return ledger_of(str(tmp_path / "lake"))


def test_the_owner_and_the_state_are_read(tmp_path: Path, storage: Storage) -> None:
    found = owner_of(storage)
    assert found is not None
    ledger = Ledger.open(storage, owner(tmp_path))
    try:
        recovered = ledger.recover()
    finally:
        ledger.close()

    assert found == owner(tmp_path, id=ledger.owner.id)
    assert recovered.unfinished is None
    state = recovered.state
    assert state == newest_state(storage)
    assert state.sync == ledger.owner.id
    assert {at: progress.next for at, progress in state.frontier.partitions.items()} == {
        Partition("feed", 0): 40,
        Partition("feed", 1): 34,
    }
    assert {name: len(schema.columns) for name, schema in state.tables.items()} == {WIDER.name: 3, OTHER.name: 2}
    assert [(hold.table, hold.kind, hold.at) for hold in state.holds] == [
        (OTHER.name, HoldKind.MESSAGE, Position("feed", 0, 39))
    ]
    assert all(storage.exists(storage.relative(each.file.path)) for each in state.pending)
    assert sum(each.file.rows for each in state.pending if each.fresh == 0) == 2


def test_publications_are_taken_over_once(tmp_path: Path, storage: Storage) -> None:
    expected = json.loads((tmp_path / "expected.json").read_text())
    for _ in range(2):
        ledger = Ledger.open(storage, owner(tmp_path))
        recovered = ledger.recover()
        ledger.close()

    publications = Publications(storage)
    found = [publications.read(name) for name in publications.names()]
    assert [each.ts for each in found] == [run["applied"] for run in expected["moments"]]
    assert [len(each.tables[WIDER.name].schema.columns) for each in found] == [2, 3, 3]
    assert found[0].tables[OTHER.name].version == found[2].tables[OTHER.name].version
    assert recovered.published == found[-1]


def test_another_sync_is_refused(tmp_path: Path, storage: Storage) -> None:
    with pytest.raises(SyncError, match="its has watermarks is True, not False"):
        Ledger.open(storage, owner(tmp_path, has_watermarks=False))
    with pytest.raises(SyncError, match="its source is"):
        Ledger.open(storage, owner(tmp_path, source="kafka:///feed"))


def test_brokers_are_no_longer_part_of_what_a_target_remembers(tmp_path: Path, storage: Storage) -> None:
    document = json.loads(storage.read("owner.json") or b"")
    storage.put("owner.json", json.dumps({**document, "source": "kafka://b1:9092,b2:9092/feed,data"}).encode())

    Ledger.open(storage, owner(tmp_path, source="kafka:///data,feed")).close()

    with pytest.raises(SyncError, match="its source is"):
        Ledger.open(storage, owner(tmp_path, source="kafka:///feed"))


def test_a_plan_with_ddl_that_was_left_in_the_middle_needs_0_1_once_more(tmp_path: Path, storage: Storage) -> None:
    storage.put("plans/000000000004.json", json.dumps({"manifest": {"ddls": [{"at": {}}]}}).encode())

    ledger = Ledger.open(storage, owner(tmp_path))
    try:
        with pytest.raises(StateError, match=r"in the middle of a plan with DDL; run tidewire 0.1 once more"):
            ledger.recover()
    finally:
        ledger.close()


def rows(spark: SparkSession, target: Path, at: int | None = None) -> dict[str, dict[str, str]]:
    """The first text of every row of every table, by key."""
    found = snapshot(spark, str(target), at)
    return {name: {str(row["id"]): row["c1"] for row in found[name].collect()} for name in found}


@pytest.mark.slow
@pytest.mark.parametrize("format_", FORMATS)
def test_a_sync_goes_on_where_0_1_stopped(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    expected, target = unpacked(format_, tmp_path), tmp_path / "lake"
    if format_ == "iceberg":
        moved(tmp_path, IcebergTarget(spark, str(target)).catalog)
    job, runs = replace(JOB, format=format_), expected["moments"]
    feed = Feed(tmp_path / "topics", [WIDER, OTHER], partitions=2, ts=expected["ts"] + SECOND)
    feed.rows = {
        each.name: {int(key): text for key, text in runs[-1]["rows"][str(each.name)].items()} for each in feed.tables
    }
    with pytest.raises(SyncError, match="rules about tables that are made cannot change"):
        synced(
            spark,
            feed.topics,
            target,
            replace(job, rules=Rules(tables=(TableRule(match=("shop.t000",), to="lake.t"),))),
        )
    before, reports = feed.topics.ends(), Reports()
    feed.put([5, 40], "new")
    feed.put([1, 9], "new", into=1)

    state = synced(spark, feed.topics, target, job, reports)

    assert sum(report.messages for report in reports.all) == sum(feed.topics.ends().values()) - sum(before.values())
    assert state.applied == feed.ts
    assert [hold.table for hold in state.holds] == [OTHER.name]
    found = rows(spark, target)
    assert found["shop.t000"] == {str(key): text for key, text in feed.rows[WIDER.name].items()}
    assert found["shop.t001"] == runs[1]["rows"]["shop.t001"]
    for run in runs[:2]:
        assert rows(spark, target, run["applied"]) == run["rows"]

    (hold,) = state.holds
    ledger_of(str(target)).put("requests/r", encode(Request("r", "release", {"hold": hold.id})))
    released = synced(spark, feed.topics, target, job)

    assert not released.holds
    assert rows(spark, target)["shop.t001"] == {str(key): text for key, text in feed.rows[OTHER.name].items()}
