"""Tables of a live server that are older than their topic: loaded while programs write, then continued by a sync."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from changefeed.source.mysql.test_types import CASES
from integration.fake_tidb import fake_tidb
from integration.mariadb import MariaDB, mariadb
from integration.whole_way.comparison import assert_lake_equals, upstream_tables
from integration.whole_way.load import BUSY, CALM, Load
from integration.whole_way.stack import typed, until
from tidewire.changefeed.checkpoint import MemoryCheckpoints
from tidewire.changefeed.runner import Runner
from tidewire.changefeed.sink.files import FileQueue
from tidewire.changefeed.sink.queue import QueueSink
from tidewire.changefeed.source import open_source
from tidewire.cli.app import app
from tidewire.cli.show import canonical
from tidewire.codec import Options
from tidewire.dispatch import Dispatch, DispatchRule, Filter
from tidewire.errors import SyncError
from tidewire.load import live, live_mysql, live_tidb
from tidewire.load.opening import open_live
from tidewire.model import TableName
from tidewire.model.tso import LOGICAL_BITS
from tidewire.spark.ledger import ledger_of
from tidewire.spark.load import run as loading
from tidewire.spark.snapshot import snapshot
from tidewire.storage import open_storage

pytestmark = [pytest.mark.slow, pytest.mark.integration]

PROTOCOL = "canal-json"


@pytest.fixture(scope="module")
def db() -> Iterator[MariaDB]:
    with mariadb() as server:
        yield server


class Books:
    """Transactions over a table with a key and one without, some of them with a clock that is years behind.

    No row has values that an earlier one had.
    """

    def __init__(self) -> None:
        self._random = Random(5)
        self._made = 0

    def beginning(self) -> Iterator[str]:
        """The tables and their first rows."""
        yield "CREATE DATABASE books"
        yield "CREATE TABLE books.accounts (id int PRIMARY KEY, v int)"
        yield "CREATE TABLE books.journal (v int, note varchar(20))"
        for _ in range(40):
            yield from self._transaction()

    def _transaction(self) -> list[str]:
        self._made += 1
        key, v = self._random.randrange(30), self._made
        account = [f"REPLACE INTO books.accounts VALUES ({key}, {v})", f"DELETE FROM books.accounts WHERE id = {key}"]
        journal = [
            f"INSERT INTO books.journal VALUES ({v}, 'new')",
            f"UPDATE books.journal SET v = {v}, note = 'changed' ORDER BY v LIMIT 1",
            "DELETE FROM books.journal ORDER BY v LIMIT 1",
        ]
        chosen = self._random.choices(account, [3, 1]) + self._random.choices(journal, [4, 2, 2])
        clock = self._random.choice(["DEFAULT", "DEFAULT", "DEFAULT", "1700000000"])
        return [f"SET TIMESTAMP = {clock}", "BEGIN", *chosen, "COMMIT", "SET TIMESTAMP = DEFAULT"]


class Writer:
    """Programs that write to a server: transactions all the time, and DDL once it is allowed."""

    def __init__(self, db: MariaDB, load: Load | Books) -> None:
        self._load = load
        self._session = db.connect(init_command="SET time_zone = '+00:00'")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written = 0
        self.failure: Exception | None = None
        self._run(self._load.beginning())

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self.failure is None

    def wait(self, count: int) -> None:
        """Wait until so many more transactions are written."""
        end = self.written + count
        until(lambda: self.failure or self.written >= end, f"{count} transactions are written")

    def units(self, count: int) -> None:
        """Transactions and DDL, after the other transactions."""
        assert isinstance(self._load, Load)
        for unit in self._load.units(count):
            self._run(unit)

    def _write(self) -> None:
        try:
            while not self._stopping.is_set():
                self._run(self._load._transaction())
                self.written += 1
        except Exception as error:
            self.failure = error

    def _run(self, statements: Iterator[str] | Sequence[str]) -> None:
        with self._session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


class Feed:
    """A changefeed that begins now, without what was there before."""

    def __init__(self, db: MariaDB, topics: Path) -> None:
        self._db = db
        dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition="index-value")], protocol=PROTOCOL)
        sink = QueueSink(FileQueue(topics, "feed", 2), dispatch, Options(enable_tidb_extension=True))
        source = open_source(f"{db.uri}?snapshot=false&time-zone=UTC")
        self.start_ts = source.now()
        self._runner = Runner(
            source, sink, Filter(force_replicate=True), MemoryCheckpoints(), start_ts=self.start_ts, interval=0.2
        )
        self._thread = threading.Thread(target=self._runner.run)

    def wait(self, ts: int) -> None:
        """Wait until it is past a moment."""
        until(lambda: self._runner.status.checkpoint_ts > ts, f"the changefeed is past {ts}", self._error)

    def wait_for_all(self) -> None:
        """Wait until it has sent all that is written now."""
        self.wait(open_source(self._db.uri).now() + (1000 << LOGICAL_BITS))

    def _error(self) -> str:
        return repr(self._runner.status.error)

    def __enter__(self) -> Feed:
        self._thread.start()
        self.wait(self.start_ts)
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.stop()
        self._thread.join()


STOPPED = Path(__file__).parents[1] / "stopped_load.py"


def killed(count: int, *arguments: object, **plan: object) -> str:
    """Type a command in a process of its own that is killed with SIGKILL after so many chunks; what it prints."""
    told = json.dumps({"kill": "chunk", "count": count} | plan)
    command = [sys.executable, str(STOPPED), told, *map(str, arguments), "--master", "local[2]"]
    done = subprocess.run(command, cwd=STOPPED.parent, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    return done.stdout


def chunks_done(target: Path) -> dict[str, float]:
    """The chunks that a load has read, each with the time when that was noted."""
    entries = ledger_of(str(target)).list("loads", recursive=True)
    return {entry.name: entry.modified for entry in entries if "/done/" in entry.name}


def types(db: MariaDB) -> None:
    """The table ``odd.loaded``: a column of each type, and rows of its values."""
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _) in enumerate(CASES.values()))
    most = max(len(values) for _, values in CASES.values())
    rows = [[[*values, "NULL"][min(row, len(values))] for _, values in CASES.values()] for row in range(most + 1)]
    db.run(
        "SET sql_mode = ''",
        "CREATE DATABASE odd CHARACTER SET utf8mb4",
        f"CREATE TABLE odd.loaded (id int PRIMARY KEY, {columns}, sum int AS (id + 1) STORED, seen int AS (id + 2))",
        *(
            f"INSERT INTO odd.loaded VALUES ({row}, {', '.join(values)}, DEFAULT, DEFAULT)"
            for row, values in enumerate(rows)
        ),
    )


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_tables_are_loaded_while_programs_write_and_the_topic_continues_them(
    spark: SparkSession, db: MariaDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHUNK_ROWS", 10)
    topics, target = tmp_path / "topics", tmp_path / "lake"
    writer = Writer(db, Load(7))
    types(db)
    with Feed(db, topics) as feed:
        with writer:
            writer.wait(20)
            killed(4, "load", f"{db.uri}?time-zone=UTC", target, "--tables", "calm.*,busy.*,odd.*", CHUNK_ROWS=10)
            assert len(chunks_done(target)) == 4
            with pytest.raises(SyncError, match="no publication"):
                snapshot(spark, str(target))
            writer.wait(20)
            loaded = run("load", f"{db.uri}?time-zone=UTC", target, "--tables", "calm.*,busy.*,odd.*")
            writer.wait(20)
        assert loaded.exit_code == 0, loaded.output
        assert "an earlier run is gone: all tables are read anew" in loaded.stdout
        assert "a changefeed that began before continues it" in loaded.stdout
        assert ledger_of(str(target)).list("loads", recursive=True) == []
        writer.units(60)
        db.run(
            "SET sql_mode = ''",
            "CREATE TABLE odd.synced LIKE odd.loaded",
            "INSERT INTO odd.synced SELECT * FROM odd.loaded",
        )
        feed.wait_for_all()
    synced = run("sync", f"file:{topics}", target, "--protocol", PROTOCOL, "--once")
    assert synced.exit_code == 0, synced.output
    listed = run("holds", "ls", target, "--output", "json")
    assert listed.stdout == ""
    assert_lake_equals(spark, target, upstream_tables(db, CALM, BUSY), besides=["odd.loaded", "odd.synced"])
    found = snapshot(spark, str(target))
    loaded_rows, synced_rows = (
        [*canonical(found[name].orderBy("id").toArrow(), found.tables[TableName(*name.split("."))].schema, "UTC")]
        for name in ("odd.loaded", "odd.synced")
    )
    assert loaded_rows == synced_rows


@pytest.fixture(scope="module")
def books(db: MariaDB, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Lakes of the modes that keep the past: loaded while programs wrote, then synced."""
    folder, source = tmp_path_factory.mktemp("books"), f"{db.uri}?time-zone=UTC"
    lakes = {mode: folder / mode for mode in ("history", "scd2")}
    writer = Writer(db, Books())
    with Feed(db, folder / "topics") as feed:
        with writer:
            for mode, lake in lakes.items():
                writer.wait(20)
                typed("load", source, lake, "--tables", "books.*", "--mode", mode)
            writer.wait(20)
        feed.wait_for_all()
    for mode, lake in lakes.items():
        typed("sync", f"file:{folder / 'topics'}", lake, "--protocol", PROTOCOL, "--mode", mode, "--once")
    return lakes


def test_history_goes_on_from_a_live_load_without_a_change_twice(
    spark: SparkSession, db: MariaDB, books: dict[str, Path]
) -> None:
    found = snapshot(spark, str(books["history"]))
    for name, columns in {"books.accounts": ["id", "v"], "books.journal": ["v", "note"]}.items():
        rows: Counter[tuple[object, ...]] = Counter()
        changes = sorted(found.changes(name).collect(), key=lambda row: row["_tw_commit_ts"])
        for _, group in groupby(changes, lambda row: row["_tw_commit_ts"]):
            together = list(group)
            for old in (tuple(row[f"_tw_old_{c}"] for c in columns) for row in together if row["_tw_op"] != "insert"):
                assert rows[old] == 1, (name, old)
                del rows[old]
            rows.update(tuple(row[c] for c in columns) for row in together if row["_tw_op"] != "delete")
            assert max(rows.values()) == 1, name
        assert len({row[0] for row in rows}) == len(rows), name
        assert {tuple(row) for row in found[name].collect()} == {*rows}
    assert_lake_equals(spark, books["history"], upstream_tables(db, "books"))


def test_versions_go_on_from_a_live_load_without_a_change_twice(
    spark: SparkSession, db: MariaDB, books: dict[str, Path]
) -> None:
    found = snapshot(spark, str(books["scd2"]))
    versions = sorted(found.changes("books.accounts").collect(), key=lambda row: (row["id"], row["_tw_valid_from"]))
    for earlier, later in pairwise(versions):
        assert earlier["id"] != later["id"] or earlier["_tw_valid_to"] <= later["_tw_valid_from"]
    assert len({(row["id"], row["v"]) for row in versions}) == len(versions)
    assert_lake_equals(spark, books["scd2"], upstream_tables(db, "books"))


def test_servers_that_cannot_be_loaded_are_refused_with_a_way_out(db: MariaDB, tmp_path: Path) -> None:
    db.run(
        "CREATE DATABASE IF NOT EXISTS shop",
        "CREATE TABLE IF NOT EXISTS shop.t (id int PRIMARY KEY)",
        "CREATE OR REPLACE USER blind IDENTIFIED BY 'very secret'",
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO blind",
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'nobody'",
        "START SLAVE",
    )
    try:
        replica = run("load", db.uri, tmp_path)
    finally:
        db.run("STOP SLAVE", "RESET SLAVE ALL")
    refused = [
        replica,
        run("load", db.uri.replace("root", "blind:very%20secret"), tmp_path),
        run("load", db.uri.replace("root", "blind:wrong%20one"), tmp_path),
        run("load", db.uri, tmp_path, "--tables", "mysql.*"),
        run("load", db.uri, tmp_path, "--at", 470490294711746569),
    ]
    for found, reason in zip(
        refused,
        [
            "is a replica, and its log has the times of the server that it follows",
            "GRANT PROCESS ON *.* to it",
            "does not let the user 'blind' do this",
            "has no table that is wanted; it has ",
            "is not TiDB, so its tables can be read as of now only",
        ],
        strict=True,
    ):
        assert (found.exit_code, len(found.stderr.splitlines())) == (2, 1), found.output
        assert reason in found.stderr
        assert "secret" not in found.output


def test_chunks_of_tidb_are_read_in_tasks_as_of_one_tso(
    spark: SparkSession, db: MariaDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_tidb, "CHUNK_ROWS", 10)
    monkeypatch.setattr(live_tidb, "MOST_CHUNKS", 7)
    target, password = tmp_path / "lake", "very secret"
    names = ", ".join(f"({number}, 'v{number}')" for number in range(-20, 20))
    db.run(
        "DROP DATABASE IF EXISTS shop",
        "CREATE DATABASE shop CHARACTER SET utf8mb4",
        "CREATE TABLE shop.numbers (id bigint PRIMARY KEY, v varchar(9))",
        "CREATE TABLE shop.words (v varchar(9) COLLATE utf8mb4_general_ci, id int, PRIMARY KEY (v, id))",
        "CREATE TABLE shop.bytes (b varbinary(9) PRIMARY KEY, v varchar(9), twice int AS (length(v) * 2) STORED)",
        f"INSERT INTO shop.numbers VALUES {names}",
        "INSERT INTO shop.words SELECT IF(id % 2, v, UPPER(v)), id FROM shop.numbers",
        "INSERT INTO shop.bytes (b, v) SELECT CONCAT(UNHEX('00FF'), v), v FROM shop.numbers",
        "ANALYZE TABLE shop.numbers, shop.words, shop.bytes",
        f"CREATE OR REPLACE USER reader IDENTIFIED BY '{password}'",
        "GRANT SELECT ON *.* TO reader",
    )
    first = open_source(db.uri).now()
    with fake_tidb(db.port, first) as tidb:
        uri = f"mysql://reader:{password.replace(' ', '%20')}@127.0.0.1:{tidb.port}/"
        small = {"CHUNK_ROWS": 10, "MOST_CHUNKS": 7}
        killed(3, "load", uri, target, "--tables", "shop.*", **small)
        done = chunks_done(target)
        tidb.ts = second = first + (5 << LOGICAL_BITS)
        told = killed(5, "load", uri, target, "--tables", "shop.*", **small, tasks=True)
        assert (len(done), "3 of 24 chunks were read before" in told) == (3, True)
        kept = [ledger_of(str(target)).read(entry.name) for entry in ledger_of(str(target)).list(recursive=True)]
        staged = chunks_done(target)
        assert staged.items() >= done.items()
        monkeypatch.setattr(loading, "FEW_ROWS", 0)
        continued = run("load", uri, target, "--tables", "shop.*")
        assert {*tidb.snapshots} == {first}
        killed(2, "load", uri, later := tmp_path / "later", "--tables", "shop.*", **small)
        tidb.collected, tidb.life_time = second, "1m0s"
        tidb.ts = third = second + (5 << LOGICAL_BITS)
        refused = run("load", uri, later, "--tables", "shop.*", "--at", first)
        begun_anew = run("load", uri, later, "--tables", "shop.*")

    assert continued.exit_code == 0, continued.output
    assert f"{len(staged)} of 24 chunks were read before" in continued.stdout
    assert f"a changefeed with --start-ts {first} or earlier continues it" in continued.stdout
    assert refused.exit_code == 2
    assert "garbage collection has passed the TSO of the load" in refused.stderr
    assert "SET GLOBAL tidb_gc_life_time = '24h' on the server, then load at a later TSO" in refused.stderr
    assert begun_anew.exit_code == 0, begun_anew.output
    gone = f"garbage collection has passed the TSO {second} of the earlier run: all tables are read anew"
    assert gone in begun_anew.stdout
    assert f"a changefeed with --start-ts {third} or earlier continues it" in begun_anew.stdout
    assert (tidb.unguarded, len({*tidb.sampled})) == ([], 3)
    for lake in (target, later):
        assert_lake_equals(spark, lake, upstream_tables(db, "shop"))
    assert not any(password.encode() in (data or b"") for data in kept)
    assert password not in refused.output + continued.output + begun_anew.output


def test_a_transaction_of_the_future_does_not_make_a_load_later_than_the_server(
    db: MariaDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changefeed that begins after it gives timestamps of the server's clock, which would be replays."""
    db.run("CREATE DATABASE future", "CREATE TABLE future.t (id int PRIMARY KEY)")
    wait = live_mysql._wait_until_over

    def wait_and_write(*arguments: Any) -> int:
        over = wait(*arguments)
        db.run("SET TIMESTAMP = 2000000000", "INSERT INTO future.t VALUES (1)")
        return over

    monkeypatch.setattr(live_mysql, "_wait_until_over", wait_and_write)
    source = open_live(db.uri, lambda name: name.schema == "future", (), None)
    with source.opened(open_storage(tmp_path), "loads/1", lambda line: None) as opened:
        rows = [row for chunk in opened.chunks for _, row in chunk.read()]

    assert (len(rows), opened.moment.ts < open_source(db.uri).now()) == (1, True)
