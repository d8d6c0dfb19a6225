"""What only the Delta target does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tidewire.model import TableName
from tidewire.spark.targets import DeltaTarget, Field, Mark, TargetError
from tidewire.spark.targets.delta_catalogue import DeltaCatalogue, Entry, Names
from tidewire.spark.targets.done_steps import DoneSteps
from tidewire.spark.work import Work

A, B, C = (TableName("db", table) for table in "abc")


def actions(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """What a table's log says, in order."""
    lines = (line for file in sorted(folder.glob("_delta_log/*.json")) for line in file.read_text().splitlines())
    return [item for line in lines for item in json.loads(line).items()]


def test_the_log_and_the_files_say_to_others_what_the_table_is(spark: SparkSession, tmp_path: Path) -> None:
    """Without Spark: columns by their physical names, live files, and how many rows their vectors delete."""
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "bigint"), Field("odd, name", "string")])
    session = target.session(Mark("s", 1, 2))
    session.sql(f"INSERT INTO {target.relation(A)} VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    target.session().sql(f"DELETE FROM {target.relation(A)} WHERE id = 2")

    folder = tmp_path / "data" / target.version(A).partition("@")[0]
    log = actions(folder)
    live = {action["path"]: action for kind, action in log if kind == "add"}
    for file in (action["path"] for kind, action in log if kind == "remove" and not action.get("deletionVector")):
        if not live[file].get("deletionVector"):
            del live[file]
    (protocol,) = (action for kind, action in log if kind == "protocol")
    metadata = [action for kind, action in log if kind == "metaData"][-1]
    fields = json.loads(metadata["schemaString"])["fields"]
    physical = {field["metadata"]["delta.columnMapping.physicalName"]: field["name"] for field in fields}
    rows = [row for file in live for row in pq.read_table(folder / file).rename_columns(physical).to_pylist()]

    assert {"columnMapping", "deletionVectors", "timestampNtz"} == set(protocol["readerFeatures"])
    assert {row["id"]: row["odd, name"] for row in rows} == {1: "one", 2: "two", 3: "three"}
    assert sum((file.get("deletionVector") or {"cardinality": 0})["cardinality"] for file in live.values()) == 1
    assert ("txn", "s", 100_002) in [(kind, action.get("appId"), action.get("version")) for kind, action in log]


def test_a_commit_is_skipped_when_its_mark_is_there(spark: SparkSession, tmp_path: Path) -> None:
    target = DeltaTarget(spark, tmp_path)
    target.create(A, [Field("id", "bigint")])

    for _ in range(2):
        target.session(Mark("s", 1, 2)).sql(f"INSERT INTO {target.relation(A)} VALUES (1)")

    assert target.read(A).count() == 1
    with pytest.raises(TargetError, match="steps"):
        target.session(Mark("s", 1, 100_000))


def test_a_table_whose_making_failed_has_no_name_and_is_purged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = DeltaTarget(spark, tmp_path)
    with pytest.raises(Exception, match="nonsense"):
        target.create(A, [Field("id", "nonsense")])

    assert target.names() == ()
    assert len(DeltaCatalogue(Work(tmp_path)).names().dropped) == 1


def test_names_survive_being_written(tmp_path: Path) -> None:
    catalogue = DeltaCatalogue(Work(tmp_path))
    assert catalogue.names() == Names()

    catalogue.update(lambda names: names.with_unnamed("1", 10).with_table(A, Entry("1"), 11))
    catalogue.update(lambda names: names.with_table(B, Entry("2").stamped(Mark("a/b", 1, 2)), 12))
    catalogue.update(lambda names: names.with_moves([(A, B), (B, A)], Mark("a/b", 3, 4)))
    catalogue.update(lambda names: names.without_table(A, 13).without_table(C, 14))

    assert catalogue.names() == Names(
        {B: Entry("1", {"a/b": Mark("a/b", 3, 4)})}, {"2": 13}, {"a/b": DoneSteps(3, frozenset({4}))}
    )
    assert not list(tmp_path.glob(".*"))


def test_an_update_that_fails_leaves_the_names_as_they_were(tmp_path: Path) -> None:
    catalogue = DeltaCatalogue(Work(tmp_path))
    catalogue.update(lambda names: names.with_table(A, Entry("1"), 1))
    before = catalogue.names()

    with pytest.raises(TargetError):
        catalogue.update(lambda names: names.without_table(A, 2).with_moves([(A, B)], Mark("s", 1, 1)))
    catalogue.update(lambda names: names.without_table(C, 3))

    assert catalogue.names() == before


def test_a_later_mark_stays() -> None:
    entry = Entry("1").stamped(Mark("s", 2, 1)).stamped(Mark("s", 1, 9)).stamped(None)

    assert entry.marks == {"s": Mark("s", 2, 1)}


def test_steps_of_earlier_plans_are_done_and_those_of_this_plan_are_noted_one_by_one() -> None:
    done = DoneSteps().having(Mark("s", 3, 5)).having(Mark("s", 3, 1)).having(Mark("s", 2, 7))

    assert [step for step in range(7) if Mark("s", 3, step) in done] == [1, 5]
    assert Mark("s", 2, 0) in done
    assert Mark("s", 4, 1) not in done
    assert DoneSteps.parse(str(done)) == done
    assert done.having(Mark("s", 4, 2)) == DoneSteps(4, frozenset({2}))
