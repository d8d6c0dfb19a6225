"""Syncs of whole topics, and what the tables must hold afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import topic_files
from tidewire.cli.show import canonical
from tidewire.model import Column, MySQLType, Position
from tidewire.model.types import FLOATS
from tidewire.plain import message_from_plain
from tidewire.spark.loop import Job, Loop
from tidewire.spark.report import Observer, Silent
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.source.detect import has_watermarks
from tidewire.spark.targets import IcebergTarget, open_target
from tidewire.sync.state import State
from tidewire.topic.files import FileTopics
from tidewire.workload import Production


def written(folder: Path, topic: str, name: str, lines: Iterable[Mapping[str, Any]] | None = None) -> FileTopics:
    """A file topic with the messages of a recorded one."""
    topics = FileTopics(folder)
    with topics.appending() as appending:
        for line in topic_files.lines(topic, name) if lines is None else lines:
            at = Position(line.get("topic", topic), line["partition"], line["offset"])
            appending.add(at, message_from_plain(line))
    return topics


def put(production: Production, folder: Path) -> tuple[FileTopics, dict[Position, str]]:
    """The messages in a topic, and which of them are bad."""
    topics, bad = FileTopics(folder), {}
    with topics.appending() as appending:
        for at, sent in production.placed():
            appending.add(at, sent.message)
            if sent.bad:
                bad[at] = sent.bad
    return topics, bad


def job_of(topic: str, name: str, folder: Path, **settings: Any) -> Job:
    """The sync of a recorded topic."""
    base = name.removesuffix(".faults")
    options = {key: str(value).lower() for key, value in topic_files.expected(topic)["options"][base].items()}
    options["time-zone"] = topic_files.expected(topic)["time_zone"]
    if base == "simple-avro":
        options["encoding-format"] = "avro"
    if base == "avro":
        schemas = folder / "avro.schemas.json"
        schemas.write_text(topic_files.read(topic, "avro.schemas.json"))
        options["schema-registry"] = schemas.as_uri()
    protocol = topic_files.PROTOCOLS.get(base, base)
    return Job(protocol, options, has_watermarks=has_watermarks(protocol, options), **settings)


def synced(
    spark: SparkSession,
    topics: FileTopics,
    target: Path | str,
    job: Job,
    observer: Observer = Silent(),
    *,
    take_over: bool = False,
) -> State:
    """Sync what there is."""
    place = open_target(spark, str(target), job.format, job.catalog)
    return Loop(spark, FileSource(topics), place, job, observer).run(once=True, take_over=take_over)


def assert_equal(
    spark: SparkSession, target: Path | str, moment: Mapping[str, Any], at: int | None = None, *, floats: bool = True
) -> None:
    """The target's tables are those of a recorded moment: names, keys, columns in order, and rows.

    ``floats``: are FLOATs what they were? Those in Craft's messages are not, by the server's mistake.
    """
    found = snapshot(spark, str(target), at)
    assert sorted(found) == sorted(moment["tables"])
    for name, table in found.tables.items():
        wanted = moment["tables"][str(name)]
        columns = table.schema.columns
        assert [column.name for column in columns] == wanted["columns"], name
        assert list(table.schema.handle_key) == wanted["key"], name
        rows = canonical(found[str(name)].toArrow(), table.schema, found.time_zone)
        assert rows_of(rows, columns, floats) == comparable(wanted["rows"], columns, floats), name


def assert_others_read(
    spark: SparkSession,
    target: Path,
    format_: str,
    moment: Mapping[str, Any],
    at: int | None = None,
    *,
    floats: bool = True,
) -> int:
    """pyiceberg or delta-rs reads the published versions of a recorded moment; of how many tables.

    The past that a mode keeps beside them is left out by the rules of the page on modes, and not by the product's code.
    """
    found, count = snapshot(spark, str(target), at), 0
    with _READERS[format_](spark, target) as read:
        for name, table in found.tables.items():
            held = read(table.version)
            if held is not None:
                count += 1
                rows = current(canonical(held, table.schema, found.time_zone), table.mode, table.schema.handle_key)
                columns = table.schema.columns
                own = [[row[column.name] for column in columns] for row in rows]
                assert comparable(own, columns, floats) == comparable(
                    moment["tables"][str(name)]["rows"], columns, floats
                ), name
    return count


def current(rows: Iterable[Mapping[str, Any]], mode: str, key: Sequence[str]) -> list[Mapping[str, Any]]:
    """The rows that a table of some mode has upstream, out of all that it holds."""
    if mode == "mirror":
        return list(rows)
    if mode == "scd2":
        return [row for row in rows if row["_tw_valid_to"] is None]

    def place(row: Mapping[str, Any], is_row: bool) -> tuple[int, bool, int, int]:
        return int(row["_tw_commit_ts"]), is_row, int(row["_tw_offset"] or 0), int(row["_tw_sub"] or 0)

    rows = list(rows)
    cut = max((int(row["_tw_commit_ts"]) for row in rows if row["_tw_op"] == "truncate"), default=-1)
    last: dict[str, tuple[tuple[int, bool, int, int], Mapping[str, Any] | None]] = {}
    for row in (row for row in rows if row["_tw_op"] != "truncate" and int(row["_tw_commit_ts"]) > cut):
        is_row = row["_tw_op"] != "delete"
        new, old = [row[name] for name in key], [row["_tw_old_" + name] for name in key]
        changes = [(new, place(row, is_row), row if is_row else None)]
        if row["_tw_op"] == "update" and None not in old and old != new:
            changes.append((old, place(row, False), None))
        for values, at, left in changes:
            known = last.get(json.dumps(values))
            if known is None or known[0] < at:
                last[json.dumps(values)] = at, left
    return [row for _, row in last.values() if row is not None]


@contextmanager
def _pyiceberg(spark: SparkSession, target: Path) -> Iterator[Callable[[str], pa.Table | None]]:
    """Reads versions of Iceberg tables, also of those that were renamed or dropped since."""
    place = open_target(spark, str(target), "iceberg")
    assert isinstance(place, IcebergTarget)
    uri = f"sqlite:///{target / 'catalog.db'}"
    catalog = SqlCatalog(place.catalog, uri=uri, warehouse=str(target), init_catalog_tables="false")
    names = (name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace))
    tables = {str(table.metadata.table_uuid): table for table in map(catalog.load_table, names)}

    def read(version: str) -> pa.Table:
        uuid, _, snapshot_id = version.partition("@")
        return tables[uuid].scan(snapshot_id=int(snapshot_id)).to_arrow()

    try:
        yield read
    finally:
        catalog.close()
        place.close()


@contextmanager
def _delta_rs(spark: SparkSession, target: Path) -> Iterator[Callable[[str], pa.Table | None]]:
    """Reads versions of Delta tables, except those with widened columns, which delta-rs does not know."""

    def read(version: str) -> pa.Table | None:
        folder, _, number = version.partition("@")
        table = DeltaTable(target / "data" / folder, version=int(number))
        if "typeWidening" in (table.protocol().reader_features or ()):
            return None
        rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
        return rows.cast(pa.schema([(field.name, _OF_VIEWS.get(field.type, field.type)) for field in rows.schema]))

    yield read


_OF_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}

_READERS = {"iceberg": _pyiceberg, "delta": _delta_rs}


def rows_of(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], floats: bool = True) -> list[str]:
    """Rows in canonical form, comparable."""
    return comparable((list(row.values()) for row in rows), columns, floats)


def comparable(rows: Iterable[Sequence[Any]], columns: Sequence[Column], floats: bool) -> list[str]:
    """Rows in an order of their own; floating point numbers have several texts."""

    def value_of(value: Any, column: Column) -> Any:
        if column.type is MySQLType.FLOAT and not floats:
            return None
        return float(value) if column.type in FLOATS and value is not None else value

    return sorted(
        json.dumps([value_of(value, column) for value, column in zip(row, columns, strict=True)]) for row in rows
    )
