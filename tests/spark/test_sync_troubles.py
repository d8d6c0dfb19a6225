"""Bad messages, statements that cannot be followed, replays, servers that do not answer, other owners and readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import topic_files
from scripted import OPTIONS, Script, table
from staging import MemorySource
from sync_checks import assert_equal, job_of, put, synced, written
from tidewire.codec import Options
from tidewire.errors import BrokerError, SyncError, SyncStopped
from tidewire.model import DdlType, Position, TableSchema
from tidewire.spark.ledger import Request, ledger_of
from tidewire.spark.loop import Job, Loop
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot
from tidewire.spark.targets import IcebergTarget
from tidewire.sync.documents import encode
from tidewire.sync.manifest import Partition
from tidewire.sync.state import Hold, HoldKind, OnBad, State
from tidewire.sync.steps import REJECTS
from tidewire.topic.files import FileTopics
from tidewire.workload import Delivery, Habits, Production, Workload, expectation, produce

JOB = Job("canal-json", OPTIONS)
A = table("a", id="int", v="int")
B = table("b", id="int", v="varchar(20)")
MILLISECOND = 1 << 18


def asked(target: Path, verb: str, holds: Iterable[Hold]) -> None:
    """Ask the next driver to do something about holds, as ``tidewire holds`` does."""
    for hold in holds:
        request = Request(hold.id, verb, {"hold": hold.id})
        ledger_of(str(target)).put(f"requests/{request.id}", encode(request))


def rows(spark: SparkSession, target: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables."""
    found = snapshot(spark, str(target))
    return {name.removeprefix("shop."): sorted(map(tuple, found[name].collect())) for name in found}


def held(state: State) -> list[tuple[str, HoldKind]]:
    """Which tables are held, and by what."""
    return [(str(hold.table), hold.kind) for hold in state.holds]


def begun() -> Script:
    """A topic with two tables and a row in each."""
    made = Script()
    made.ddl("a", "CREATE TABLE `shop`.`a` (`id` INT PRIMARY KEY, `v` INT)")
    made.ddl("b", "CREATE TABLE `shop`.`b` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")
    made.insert(A, id=1, v=10)
    made.insert(B, id=1, v="b1")
    made.watermark()
    return made


def unreadable(schema: TableSchema, ts: int) -> bytes:
    """A row of a table whose columns cannot be read."""
    message = {"id": 0, "database": "shop", "table": schema.name.table, "isDdl": False, "type": "INSERT"}
    return json.dumps({**message, "_tidb": {"commitTs": ts}, "data": "nothing"}).encode()


def bad(script: Script, schema: TableSchema) -> int:
    """Add a row that cannot be read; its commit ts."""
    script.ts += MILLISECOND
    script.bad(unreadable(schema, script.ts))
    return script.ts


# Bad messages


def with_garbage() -> Production:
    """A small workload, with garbage of every kind among its messages."""
    workload = Workload(5, transactions=60, tables=2, habits=Habits())
    return produce(workload, Delivery("canal-json", Options.parse(OPTIONS)), ["garbage"])


@pytest.mark.slow
def test_bad_messages_are_set_aside_and_hold_until_they_are_released(spark: SparkSession, tmp_path: Path) -> None:
    production = with_garbage()
    topics, bad = put(production, tmp_path / "topics")
    target = tmp_path / "target"
    assert len(set(bad.values())) >= 10
    with pytest.raises(SyncStopped, match="cannot be read"):
        synced(spark, topics, tmp_path / "stopped", replace(JOB, on_bad=OnBad.STOP))

    state = synced(spark, topics, target, JOB)

    assert {hold.at for hold in state.holds} <= bad.keys()
    assert state.applied < production.marks[-1]
    rejects = IcebergTarget(spark, str(target)).read(REJECTS).collect()
    found = {Position(row.topic, row.partition, row.offset): row for row in rejects}
    assert found.keys() == bad.keys()
    assert len(rejects) == len(bad)
    for at, sent in production.placed():
        if at in bad:
            key, value = found[at].key, found[at].value
            assert (key and bytes(key), value if value is None else bytes(value)) == (
                sent.message.key,
                sent.message.value,
            )
            assert found[at].reason

    asked(target, "release", state.holds)
    released = synced(spark, topics, target, JOB)

    assert not released.holds
    assert {loss.at for loss in released.losses} == {hold.at for hold in state.holds}
    assert_equal(spark, target, expectation(production, OPTIONS, ["garbage"])["end"])


@pytest.mark.slow
def test_bad_messages_may_be_skipped(spark: SparkSession, tmp_path: Path) -> None:
    production = with_garbage()
    topics, _ = put(production, tmp_path / "topics")

    skipped = synced(spark, topics, tmp_path / "target", replace(JOB, on_bad=OnBad.SKIP))

    assert not skipped.holds
    assert_equal(spark, tmp_path / "target", expectation(production, OPTIONS, ["garbage"])["end"])


@pytest.mark.slow
def test_a_bad_message_holds_its_table_alone_until_the_producer_sends_it_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    script, target = begun(), tmp_path / "target"
    ts = bad(script, A)
    script.insert(A, id=3, v=30)
    script.insert(B, id=3, v="b3")
    script.watermark()
    topics = script.write(tmp_path / "topics")

    state = synced(spark, topics, target, JOB)

    assert held(state) == [("shop.a", HoldKind.MESSAGE)]
    assert rows(spark, target) == {"a": [(1, 10)], "b": [(1, "b1"), (3, "b3")]}
    assert snapshot(spark, str(target)).tables[A.name].held == ts - 1

    end = script.ts
    script.ts = ts - 2 * MILLISECOND  # the producer goes back to its checkpoint
    script.watermark()
    script.insert(A, id=2, v=20)
    script.insert(A, id=3, v=30)
    script.insert(B, id=3, v="b3")
    script.ts = end
    script.watermark()
    healed = synced(spark, script.write(tmp_path / "topics"), target, JOB)

    assert not healed.holds
    assert rows(spark, target) == {"a": [(1, 10), (2, 20), (3, 30)], "b": [(1, "b1"), (3, "b3")]}


@pytest.mark.slow
def test_releasing_one_of_two_bad_messages_keeps_the_other_hold(spark: SparkSession, tmp_path: Path) -> None:
    script, target = begun(), tmp_path / "target"
    bad(script, A)
    script.insert(A, id=2, v=20)
    bad(script, A)
    script.insert(A, id=3, v=30)
    bad(script, B)
    script.watermark()
    topics = script.write(tmp_path / "topics")
    first, second, of_b = synced(spark, topics, target, JOB).holds

    asked(target, "release", [first])
    state = synced(spark, topics, target, JOB)

    assert [hold.id for hold in state.holds] == [second.id, of_b.id]
    assert rows(spark, target) == {"a": [(1, 10), (2, 20)], "b": [(1, "b1")]}
    assert [(loss.table, loss.at) for loss in state.losses] == [(A.name, first.at)]

    asked(target, "release", [second])
    state = synced(spark, topics, target, JOB)

    assert [hold.id for hold in state.holds] == [of_b.id]
    assert rows(spark, target) == {"a": [(1, 10), (2, 20), (3, 30)], "b": [(1, "b1")]}


@pytest.mark.slow
def test_a_message_is_read_again_once_its_cause_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    """Its rest is not in the claim-check store, and comes there later."""
    store, target = tmp_path / "claims", tmp_path / "target"
    store.mkdir()
    options = {
        **OPTIONS,
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": store.as_uri(),
        "claim-check-raw-value": "true",
    }
    script, job = begun(), replace(JOB, options=options)
    ts = script.insert(A, id=2, v=20)
    whole = script.messages.pop().value or b""
    location = {"commitTs": ts, "claimCheckLocation": "elsewhere/large.json"}
    script.bad(json.dumps({**json.loads(whole), "_tidb": location, "data": None, "mysqlType": None}).encode())
    script.insert(A, id=3, v=30)
    script.insert(B, id=3, v="b3")
    script.watermark()
    topics = script.write(tmp_path / "topics")
    state = synced(spark, topics, target, job)
    assert held(state) == [("shop.a", HoldKind.MESSAGE)]
    assert "large.json" in state.holds[0].reason
    asked(target, "retry", state.holds)
    state = synced(spark, topics, target, job)
    assert held(state) == [("shop.a", HoldKind.MESSAGE)]
    (store / "large.json").write_bytes(whole)

    asked(target, "retry", state.holds)
    healed = synced(spark, topics, target, job)

    assert not healed.holds
    assert rows(spark, target) == {"a": [(1, 10), (2, 20), (3, 30)], "b": [(1, "b1"), (3, "b3")]}
    assert len(IcebergTarget(spark, str(target)).read(REJECTS).collect()) == 1


# Statements that cannot be followed


WITHOUT_KEY = TableSchema.build(A.name, [replace(column, primary_key=False, handle_key=False) for column in A.columns])
STATEMENTS = {
    "a type": ("MODIFY COLUMN `v` DATETIME", DdlType.MODIFY_COLUMN, HoldKind.STATEMENT),
    "no key": ("DROP PRIMARY KEY", DdlType.DROP_PRIMARY_KEY, HoldKind.ROWS),
    "a name": ("ADD COLUMN `_tw_x` INT", DdlType.ADD_COLUMN, HoldKind.STATEMENT),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", STATEMENTS)
def test_a_statement_that_cannot_be_followed_holds_its_table_alone(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    change, type_, kind = STATEMENTS[case]
    script, target = begun(), tmp_path / "target"
    synced(spark, script.write(tmp_path / "topics"), target, JOB)
    script.ddl("a", f"ALTER TABLE `shop`.`a` {change}", type_)
    if kind is HoldKind.ROWS:
        script.insert(WITHOUT_KEY, id=2, v=20)
        script.ddl("a", "ALTER TABLE `shop`.`a` ADD PRIMARY KEY (`id`)", DdlType.ADD_PRIMARY_KEY)
    script.insert(B, id=2, v="b2")
    script.watermark()
    state = synced(spark, script.write(tmp_path / "topics"), target, JOB)

    assert held(state) == [("shop.a", kind)]
    assert rows(spark, target) == {"a": [(1, 10)], "b": [(1, "b1"), (2, "b2")]}

    script.insert(B, id=3, v="b3")
    script.watermark()
    state = synced(spark, script.write(tmp_path / "topics"), target, JOB)
    assert rows(spark, target)["b"] == [(1, "b1"), (2, "b2"), (3, "b3")]

    asked(target, "release", state.holds)
    script.insert(A, id=4, v=40)
    script.insert(B, id=4, v="b4")
    script.watermark()
    state = synced(spark, script.write(tmp_path / "topics"), target, JOB)

    assert not state.holds
    assert [loss.table for loss in state.losses] == [A.name]
    found = rows(spark, target)
    assert found["a"] == [(1, 10), (4, 40)]
    assert len(found["b"]) == 4


@pytest.mark.slow
def test_a_table_that_cannot_be_made_holds_itself_alone(spark: SparkSession, tmp_path: Path) -> None:
    script, target = begun(), tmp_path / "target"
    odd = table("odd", id="int", _tw_ts="bigint")
    script.ddl("odd", "CREATE TABLE `shop`.`odd` (`id` INT PRIMARY KEY, `_tw_ts` BIGINT)")
    script.insert(odd, id=1, _tw_ts=5)
    script.insert(B, id=2, v="b2")
    script.watermark()

    state = synced(spark, script.write(tmp_path / "topics"), target, JOB)

    assert {str(hold.table) for hold in state.holds} == {"shop.odd"}
    assert rows(spark, target) == {"a": [(1, 10)], "b": [(1, "b1"), (2, "b2")]}


# Sources


def in_memory(script: Script, **more: Any) -> MemorySource:
    """The messages of a script as a topic of one partition."""
    return MemorySource({Position("t", 0, number): each for number, each in enumerate(script.messages)}, **more)


def run(spark: SparkSession, source: MemorySource, target: Path, job: Job = JOB) -> State:
    """Sync what there is in a source."""
    return Loop(spark, source, IcebergTarget(spark, str(target)), job).run(once=True)


@pytest.mark.slow
def test_offsets_without_messages_at_the_end_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """Transaction markers, and a topic that never had a message: the sync comes to its end."""
    script = begun()
    script.watermark()
    source = in_memory(script)
    end = len(source.messages)
    source.ends = {Partition("t", 0): end + 3, Partition("u", 0): 0}

    state = run(spark, source, tmp_path)
    again = run(spark, source, tmp_path)

    assert state.frontier.partitions[Partition("t", 0)].next == end + 3
    assert state.frontier.partitions[Partition("u", 0)].next == 0  # so that messages which expire unread are missed
    assert source.told[Partition("t", 0)] == end + 3
    assert again == state
    assert rows(spark, tmp_path) == {"a": [(1, 10)], "b": [(1, "b1")]}


@pytest.mark.slow
def test_a_topic_that_was_created_again_is_noticed_even_if_it_is_longer(spark: SparkSession, tmp_path: Path) -> None:
    script = begun()
    run(spark, in_memory(script, topic_ids={"t": "first"}), tmp_path)
    script.insert(A, id=2, v=20)
    script.watermark()

    with pytest.raises(SyncError, match="topic t was deleted and created again"):
        run(spark, in_memory(script, topic_ids={"t": "second"}), tmp_path)

    state = run(spark, in_memory(script, topic_ids={"t": "first"}), tmp_path)
    assert state.applied == script.ts
    assert rows(spark, tmp_path)["a"] == [(1, 10), (2, 20)]


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_waited_for_and_rejects_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source = in_memory(begun(), trouble=BrokerError("127.0.0.1:1", "no answer", transient=True))

    with pytest.raises(SyncError, match=r"no answer; waited 0 seconds. Start the sync again when it answers"):
        run(spark, source, tmp_path, replace(JOB, patience=0))

    source.trouble = None
    state = run(spark, source, tmp_path)
    assert (state.rejected, state.holds) == (0, ())
    assert rows(spark, tmp_path) == {"a": [(1, 10)], "b": [(1, "b1")]}


# Replays, owners and other engines


def written_files(target: Path) -> dict[Path, int]:
    """All files, and when they were written, except who drove when and how often tables changed."""
    free = {target / "_tidewire" / name for name in ("epochs", "upkeep")}
    found = (path for path in target.rglob("*") if path.is_file() and not free & {path, *path.parents})
    return {path: path.stat().st_mtime_ns for path in found if not path.name.endswith(("-shm", "-wal"))}


@pytest.mark.slow
def test_a_replay_and_a_second_run_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    production = produce(Workload(7, transactions=40, tables=2), Delivery("open-protocol", Options()))
    topics, _ = put(production, tmp_path / "topics")
    target, job = tmp_path / "target", Job("open-protocol")
    end = expectation(production, {}, [])["end"]

    first = synced(spark, topics, target, job)
    files = written_files(target)
    second = synced(spark, topics, target, job)
    assert second == first
    assert written_files(target) == files

    with topics.appending() as appending:
        for at, sent in production.placed(topics.ends()):
            appending.add(at, sent.message)
    third = synced(spark, topics, target, job)

    assert third.applied == first.applied
    assert third.tables == first.tables
    assert_equal(spark, target, end)


class Crash(Exception):
    """The end of the process."""


@pytest.mark.slow
def test_progress_that_was_kept_and_not_published_is_published_by_the_next_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a watermark came, so there is no step to carry out."""
    script, target = begun(), tmp_path / "target"
    synced(spark, script.write(tmp_path / "topics"), target, JOB)
    script.watermark()
    topics = script.write(tmp_path / "topics")

    def dies(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Publications, "publish", dies)
        with pytest.raises(Crash):
            synced(spark, topics, target, JOB)
    state = synced(spark, topics, target, JOB)

    assert state.applied == script.ts
    assert snapshot(spark, str(target)).ts == script.ts


@pytest.mark.slow
def test_a_target_has_one_owner_and_other_engines_read_it(spark: SparkSession, tmp_path: Path) -> None:
    topic, name = "seed23", "canal-json"
    moment = topic_files.expected(topic)["watermarks"][8]
    topics, target = written(tmp_path / "topics", topic, name), tmp_path / "target"
    job = job_of(topic, name, tmp_path, until=moment["ts"])
    synced(spark, topics, target, job)

    with pytest.raises(SyncError, match="belongs to another sync: its mode is mirror, not scd2"):
        synced(spark, topics, target, job_of(topic, name, tmp_path, mode="scd2"))
    with pytest.raises(SyncError, match="belongs to another sync: its source"):
        synced(spark, FileTopics(tmp_path), target, job)

    place = IcebergTarget(spark, str(target))
    catalog = SqlCatalog(
        place.catalog, uri=f"sqlite:///{target / 'catalog.db'}", warehouse=str(target), init_catalog_tables="false"
    )
    for table_, wanted in moment["tables"].items():
        found = catalog.load_table(tuple(table_.split("."))).scan().to_arrow()
        assert found.column_names == wanted["columns"]
        assert found.num_rows == len(wanted["rows"])
        keys = [tuple(str(row[column]) for column in wanted["key"]) for row in found.to_pylist()]
        places = [wanted["columns"].index(column) for column in wanted["key"]]
        assert sorted(keys) == sorted(tuple(row[number] for number in places) for row in wanted["rows"])
