"""A table is loaded anew while the others go on, and every publication is right."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import topic_files
from dump_files import MOMENTS as MOMENTS_OF_DUMPS
from dump_files import SEED11_TS, unpack
from integration.whole_way.stack import typed, until
from killed_replace import NAME, go_on
from sync_checks import comparable, job_of, rows_of, written
from tidewire.cli.show import canonical
from tidewire.load.chunks import DumpSource
from tidewire.load.dumpling import read_dump
from tidewire.model import TableName, Watermark
from tidewire.spark.apply import Mode, current_rows
from tidewire.spark.job import Job
from tidewire.spark.ledger import ask, await_answer, leave, ledger_of, requests
from tidewire.spark.load.run import Asked, ask_replacement, replace_tables
from tidewire.spark.loop import Point
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage
from tidewire.sync.rules import Rules
from tidewire.topic.files import FileTopics

ACCOUNTS, SESSIONS = TableName("test", "accounts"), TableName("test", "sessions")
MOMENTS = [each["ts"] for each in topic_files.expected("seed11")["watermarks"]]
PAST, SWAP = MOMENTS[MOMENTS.index(SEED11_TS) + 8], MOMENTS[MOMENTS.index(SEED11_TS) + 18]
"""The sync has passed the moment of the load when a table is loaded anew, and later the topic has more."""

END = max(each.ts for _, told in topic_files.events("seed11", NAME) for each in told if isinstance(each, Watermark))


def dump_of(folder: Path, *tables: TableName) -> DumpSource:
    return source_of(unpack("seed11", folder) / "csv", SEED11_TS, *tables)


def source_of(dump: Path, ts: int, *tables: TableName) -> DumpSource:
    storage = open_storage(dump)
    found = tuple(each for each in read_dump(storage).tables if each.schema.name in tables)
    return DumpSource(storage, found, ts)


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


def assert_all_published_is_right(
    spark: SparkSession, folder: Path, format_: str = "iceberg", *, whole: int = 0
) -> list[str]:
    """Every publication has the upstream's rows of its moment; the identities that the replaced table had.

    Those from before the ts ``whole`` can lack tables, and have tables that they say are behind.
    """
    recorded = topic_files.expected("seed11")
    moments: dict[int, Mapping[str, Any]] = {each["ts"]: each for each in recorded["watermarks"]}
    place = open_target(spark, str(folder / "target"), format_)
    publications, identities = Publications(ledger_of(str(folder / "target"))), []
    for published in map(publications.read, publications.names()):
        assert published.ts is not None
        if published.ts >= whole:
            moment = recorded["end"] if published.ts == END else moments[published.ts]
            assert sorted(map(str, published.tables)) == sorted(moment["tables"])
        for name, table in published.tables.items():
            assert table.held is None or published.ts < whole
            ts = table.held or published.ts
            moment = recorded["end"] if ts == END else moments[ts]
            key = [table.schema.column(column) for column in table.schema.handle_key]
            rows = current_rows(Mode(table.mode), place.read(name, table.version), key).toArrow()
            found = rows_of(canonical(rows, table.schema, recorded["time_zone"]), table.schema.columns)
            wanted = comparable(moment["tables"][str(name)]["rows"], table.schema.columns, floats=True)
            assert found == wanted, (ts, name)
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


@pytest.mark.slow
def test_a_replacement_that_is_taken_back_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    send(tmp_path, until=PAST)
    go_on(spark, tmp_path)
    target, folder = tmp_path / "target", dump_folder(tmp_path, SEED11_TS)
    place, ledger = open_target(spark, str(target), "iceberg"), ledger_of(str(target))
    ask_replacement(spark, place, Job(""), source_of(folder, SEED11_TS, SESSIONS))
    kept = typed("requests", "ls", target, "--output", "json")
    only = json.loads(kept)
    assert (only["request"], only["what"]) == ("replace", f"test.sessions as of {SEED11_TS}")
    assert "is taken back" in typed("requests", "cancel", target, only["id"])
    assert_nothing_is_left(spark, tmp_path)

    filled = replace_tables(spark, place, Job(""), source_of(folder, SEED11_TS, ACCOUNTS))
    assert [name.table[:5] for name in place.names() if name.schema == "_tidewire"] == ["load_"]
    assert "the next tidewire sync removes what was made" in typed("requests", "cancel", target, filled.request)
    send(tmp_path)
    assert go_on(spark, tmp_path).applied == END

    answer = await_answer(ledger, filled.request)
    assert answer is not None
    assert (answer.ok, answer.lines) == (False, ("it was taken back",))
    assert len(assert_all_published_is_right(spark, tmp_path)) == 1
    assert_nothing_is_left(spark, tmp_path)


def test_a_driver_that_dies_while_it_takes_a_replacement_back_leaves_that_to_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    send(tmp_path)
    target, folder = tmp_path / "target", dump_folder(tmp_path, SEED11_TS)
    place, ledger = open_target(spark, str(target), "iceberg"), ledger_of(str(target))
    found = ask_replacement(spark, place, Job(""), source_of(folder, SEED11_TS, SESSIONS))
    ledger.delete([entry.name for entry in ledger.list("loads", recursive=True)])
    cancel = leave(ledger, "cancel", {"request": found.request})
    go_on(spark, tmp_path)

    answers = [await_answer(ledger, request) for request in (found.request, cancel.id)]
    assert [(answer.ok, answer.lines) for answer in answers if answer is not None] == [
        (False, ("it was taken back",)),
        (True, (f"{found.request} is taken back",)),
    ]


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


STOPPED = Path(__file__).parents[1] / "stopped_load.py"
LATER_TS = MOMENTS_OF_DUMPS["seed11"][1]
OTHERS = f"*.*,!{ACCOUNTS},!{SESSIONS}"
FOLLOWED = Rules(follow=(str(ACCOUNTS), str(SESSIONS)))


@contextmanager
def gated_load(folder: Path, **plan: str) -> Iterator[subprocess.Popen[bytes]]:
    """A load of the other tables in a process of its own, in the middle of its first chunk."""
    gate = folder / "gate"
    gate.mkdir()
    for name in ("reached", "go"):
        os.mkfifo(gate / name)
    source = f"dumpling:{dump_folder(folder, LATER_TS)}"
    arguments = ["load", source, str(folder / "target"), "--tables", OTHERS, "--master", "local[2]"]
    command = [sys.executable, str(STOPPED), json.dumps({"gate": str(gate), "tasks": True} | plan), *arguments]
    reached = os.open(gate / "reached", os.O_RDONLY | os.O_NONBLOCK)
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(command, cwd=STOPPED.parent, stdout=printed, stderr=printed)
    try:
        until(lambda: process.poll() is not None or select.select([reached], [], [], 0)[0], "the chunk is begun")
        assert process.poll() is None, (folder / "printed").read_text()[-3000:]
        yield process
    finally:
        os.close(reached)
        open_gate(folder)
        process.kill()
        process.wait()


def open_gate(folder: Path) -> None:
    """Let the load go on, if it waits."""
    with suppress(OSError):
        os.close(os.open(folder / "gate" / "go", os.O_WRONLY | os.O_NONBLOCK))


def dump_folder(folder: Path, ts: int) -> Path:
    return unpack("seed11", folder / "dumps", ts) / "csv"


def load_two(folder: Path) -> None:
    """The first two tables, as of the earlier moment."""
    source = f"dumpling:{dump_folder(folder, SEED11_TS)}"
    typed("load", source, folder / "target", "--tables", f"{ACCOUNTS},{SESSIONS}")


def replaced(folder: Path) -> str:
    """Load one of the two anew, as of the later moment; what the command prints."""
    source = f"dumpling:{dump_folder(folder, LATER_TS)}"
    return typed("load", source, folder / "target", "--tables", ACCOUNTS, "--replace")


@pytest.mark.slow
def test_a_load_of_the_others_replaces_a_table_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    load_two(tmp_path)
    with gated_load(tmp_path) as process:
        told = replaced(tmp_path)
        assert process.poll() is None
        meanwhile = snapshot(spark, str(tmp_path / "target"))
        open_gate(tmp_path)
        process.wait()

    assert f"test.accounts is replaced by the load of {LATER_TS}" in told
    assert (process.returncode, sorted(meanwhile)) == (0, [str(ACCOUNTS), str(SESSIONS)])
    assert (meanwhile.ts, meanwhile.tables[SESSIONS].held) == (LATER_TS, SEED11_TS)
    send(tmp_path)
    assert go_on(spark, tmp_path).applied == END
    assert len(assert_all_published_is_right(spark, tmp_path, whole=LATER_TS + 1)) == 2
    assert_nothing_is_left(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "point"),
    [
        ("swap", Point.STEP),
        pytest.param("fill", Point.STEP, marks=pytest.mark.matrix),
        pytest.param("swap", Point.KEPT, marks=pytest.mark.matrix),
        pytest.param("swap", Point.PUBLISHED, marks=pytest.mark.matrix),
    ],
)
def test_a_load_that_is_killed_while_it_replaces_a_table_goes_on(
    spark: SparkSession, tmp_path: Path, when: str, point: Point
) -> None:
    load_two(tmp_path)
    with gated_load(tmp_path, kill=point, when=when) as process:
        told = replaced(tmp_path)
        assert process.wait() == -signal.SIGKILL

    assert "the next tidewire sync replaces test.accounts" in told
    again = typed("load", f"dumpling:{dump_folder(tmp_path, LATER_TS)}", tmp_path / "target", "--tables", OTHERS)
    assert "test.metrics: " in again
    assert requests(ledger_of(str(tmp_path / "target"))) == []
    send(tmp_path)
    assert go_on(spark, tmp_path).applied == END
    assert len(assert_all_published_is_right(spark, tmp_path, whole=LATER_TS + 1)) == 2
    assert_nothing_is_left(spark, tmp_path)


@pytest.mark.matrix
def test_a_table_is_replaced_after_the_load_that_makes_it(spark: SparkSession, tmp_path: Path) -> None:
    load_two(tmp_path)
    place = open_target(spark, str(tmp_path / "target"), "iceberg")
    metrics = TableName("test", "metrics")
    with gated_load(tmp_path) as process:
        ask_replacement(spark, place, Job(""), source_of(dump_folder(tmp_path, SEED11_TS), SEED11_TS, metrics))
        open_gate(tmp_path)
        process.wait()

    assert process.returncode == 0
    found = snapshot(spark, str(tmp_path / "target"))
    assert (found.ts, found.tables[metrics].held) == (LATER_TS, SEED11_TS)
    send(tmp_path)
    assert go_on(spark, tmp_path).applied == END
    assert_all_published_is_right(spark, tmp_path, whole=LATER_TS + 1)
    assert_nothing_is_left(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["", pytest.param("fill", marks=pytest.mark.matrix)])
def test_a_load_fills_a_table_that_the_next_sync_replaces(spark: SparkSession, tmp_path: Path, when: str) -> None:
    load_two(tmp_path)
    send(tmp_path, until=PAST)
    assert go_on(spark, tmp_path, rules=FOLLOWED).applied == PAST
    place = open_target(spark, str(tmp_path / "target"), "iceberg")
    wanted = source_of(dump_folder(tmp_path, LATER_TS), LATER_TS, ACCOUNTS)
    with gated_load(tmp_path, **({"kill": Point.STEP, "when": when} if when else {})) as process:
        asked = ask_replacement(spark, place, Job(""), wanted)
        refused = ask(ledger_of(str(tmp_path / "target")), "release", {"hold": "none"}, seconds=60)
        open_gate(tmp_path)
        process.wait()
    assert process.returncode == (-signal.SIGKILL if when else 0)
    if when:
        typed("load", f"dumpling:{dump_folder(tmp_path, LATER_TS)}", tmp_path / "target", "--tables", OTHERS)

    assert refused is not None
    assert refused.lines == ("a load drives this target now: give the command again when the load has ended",)
    assert [name.table[:5] for name in place.names() if name.schema == "_tidewire"] == ["load_"]
    assert [each.id for each in requests(ledger_of(str(tmp_path / "target")))] == [asked.request]
    send(tmp_path)
    assert go_on(spark, tmp_path).applied == END
    assert len(assert_all_published_is_right(spark, tmp_path, whole=LATER_TS + 1)) == 2
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
