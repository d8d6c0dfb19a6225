"""Others at the same table: a compaction at the worst moments, and an older driver that wakes up before its commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from tidewire.errors import Fenced
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, execute
from tidewire.spark.apply import compact as module
from tidewire.spark.apply.compact import compact
from tidewire.spark.targets import DeltaTarget, IcebergTarget, Target, delta_commit, iceberg_swap
from tidewire.spark.targets.files import local_path
from tidewire.sync.steps import Create, Merge

TABLE = TableSchema(
    TableName("overtaken", "t"), (Column.of("id", "int", primary_key=True), Column.of("v", "varchar(20)"))
)
KINDS = ("iceberg-2", "iceberg-3", "delta")


def opened(spark: SparkSession, folder: Path, kind: str) -> Target:
    if kind == "delta":
        return DeltaTarget(spark, folder)
    return IcebergTarget(spark, folder, format_version=int(kind[-1]))


def merge(folder: Path, ts: int, *pairs: Any) -> Merge:
    changes = [change(ts, ts + number, *pair) for number, pair in enumerate(pairs)]
    return Merge(TABLE, (stage(folder, TABLE, changes),), ts)


def row(key: int, value: str) -> dict[str, Any]:
    return {"id": key, "v": value}


def filled(target: Target, folder: Path) -> None:
    """Two passes of a few rows each."""
    execute(Create(TABLE, 1), target, tag(epoch=1), Mode.MIRROR)
    for number in range(2):
        rows = [(None, row(key, "old")) for key in range(30 * number, 30 * number + 30)]
        execute(merge(folder, 10 + 10 * number, *rows), target, tag(epoch=1), Mode.MIRROR)


def rows_of(target: Target) -> dict[int, str]:
    found = target.read(TABLE.name).collect()
    assert len(found) == len({each.id for each in found})
    return {each.id: each.v for each in found}


def compacted_by_others(target: Target) -> None:
    """What another program does, in a session of its own."""
    session = target.session()
    if isinstance(target, IcebergTarget):
        session.sql(
            f"CALL {target.catalog}.system.rewrite_data_files(table => '{TABLE.name}', "
            "options => map('rewrite-all', 'true'))"
        )
    else:
        session.sql(f"OPTIMIZE {target.relation(TABLE.name)}")


def once(happens: Callable[[], object], call: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """A call that something comes before, or after, the first time."""
    calls: list[int] = []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        first = len(calls) == 1
        if first and before:
            happens()
        answer = call(*arguments, **named)
        if first and not before:
            happens()
        return answer

    return interrupted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", ["between passes", "after listing", "after the search", "before the commit"])
def test_a_compaction_at_any_moment_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    target = opened(spark, tmp_path / "lake", kind)
    filled(target, tmp_path)
    pairs = [(row(key, "old"), row(key, "new") if key % 3 else None) for key in range(0, 60, 2)]
    step = merge(tmp_path, 100, *pairs)

    def others() -> None:
        compacted_by_others(target)

    with monkeypatch.context() as patch:
        if moment == "between passes":
            others()
        elif moment == "after listing":
            patch.setattr(target, "stored", once(others, target.stored, before=False))
        elif moment == "after the search":
            patch.setattr(target, "write", once(others, target.write, before=True))
        else:
            for each in (iceberg_swap, delta_commit):
                patch.setattr(each, "exchange", once(others, each.exchange, before=True))
        files = {file.path for file in target.stored(TABLE.name).files}
        outcome = execute(step, target, tag("late"), Mode.MIRROR)

    after = {after["id"]: after["v"] for _, after in pairs if after is not None}
    wanted = dict.fromkeys(range(60), "old") | after
    for before_, after_ in pairs:
        if after_ is None:
            del wanted[before_["id"]]
    assert rows_of(target) == wanted
    assert outcome.version == target.find(TABLE.name, "late")
    assert moment == "between passes" or not files & {file.path for file in target.stored(TABLE.name).files}
    execute(merge(tmp_path, 100, *pairs), target, tag("replay"), Mode.MIRROR)
    assert rows_of(target) == wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("work", ["rows", "compaction"])
def test_an_older_driver_that_wakes_up_before_its_commit_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, work: str
) -> None:
    """It was paused after it had looked at the epoch. Meanwhile the newer one has fenced the table and changed rows."""
    monkeypatch.setattr(module, "FEW_FILES", 2)
    older, newer = (opened(spark, tmp_path / "lake", kind) for _ in range(2))
    filled(older, tmp_path)

    def take_over() -> None:
        newer.fence(TABLE.name, tag(epoch=2))
        execute(merge(tmp_path, 200, (row(1, "old"), row(1, "newer"))), newer, tag("newer", epoch=2), Mode.MIRROR)

    step = merge(tmp_path, 100, (row(1, "old"), row(1, "older")), (None, row(100, "older")))
    works: dict[str, Callable[[], object]] = {
        "rows": lambda: execute(step, older, tag("older", epoch=1), Mode.MIRROR),
        "compaction": lambda: compact(older, TABLE.name, tag("older", epoch=1), TABLE),
    }
    with monkeypatch.context() as patch:
        for each in (iceberg_swap, delta_commit):
            patch.setattr(each, "exchange", once(take_over, each.exchange, before=True))
        with pytest.raises(Fenced, match=r"epoch 2 has taken over overtaken\.t: another driver runs this sync"):
            works[work]()

    assert rows_of(newer) == dict.fromkeys(range(60), "old") | {1: "newer"}
    assert (newer.find(TABLE.name, "older"), newer.find(TABLE.name, "newer") is None) == (None, False)
    assert all(Path(local_path(file.path)).exists() for file in newer.stored(TABLE.name).files)
    with pytest.raises(Fenced):
        execute(merge(tmp_path, 300, (None, row(101, "older"))), older, tag(epoch=1), Mode.MIRROR)
