"""The source against a real server: snapshot, stream, reconnect, resume, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from changefeed.source.mysql.reading import SECONDS, Replica, complete, ddls, last_place, marked, rows, told, until
from integration.mariadb import MariaDB, mariadb
from tidewire.changefeed.source.base import Resolved, Upstream
from tidewire.changefeed.source.mysql import MysqlSource
from tidewire.changefeed.source.mysql.binlog import Commit, defines, events_between
from tidewire.changefeed.source.mysql.connection import Session
from tidewire.changefeed.source.mysql.position import at_millisecond
from tidewire.changefeed.source.mysql.server import look_at
from tidewire.changefeed.source.mysql.snapshot import clock_ms, log_end
from tidewire.changefeed.source.mysql.uri import read_uri
from tidewire.errors import ChangefeedError
from tidewire.model import DdlType, Op, RowChange, TableName, Timestamp
from tidewire.model.tso import physical_ms

pytestmark = pytest.mark.integration

SHOP = ("CREATE DATABASE shop", "CREATE TABLE shop.orders (id int PRIMARY KEY, note varchar(20))")


def following(db: MariaDB, *statements: str) -> list[Upstream]:
    """What a source gives for some statements, from where the server is."""
    place = last_place(until(MysqlSource(db.uri), complete))
    db.run(*statements, "CREATE DATABASE the_end")
    return until(MysqlSource(db.uri), marked("the_end"), place)


def test_a_snapshot_gives_databases_then_tables_then_rows(db: MariaDB) -> None:
    db.run(*SHOP, "INSERT INTO shop.orders VALUES (1, 'a'), (2, NULL)")
    source = MysqlSource(db.uri)
    start = source.now()

    events = until(source, complete)

    types = [ddl.type for ddl in ddls(events)]
    assert types == [DdlType.CREATE_SCHEMA, DdlType.DROP_TABLE, DdlType.CREATE_TABLE]
    create = ddls(events)[-1]
    assert create.table == TableName("shop", "orders")
    assert create.table_schema is not None
    assert create.table_schema.handle_key == ("id",)
    changes = rows(events)
    assert [change.after for change in changes] == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
    assert {change.commit_ts for change in changes} == {events[-1].ts}  # type: ignore[union-attr]
    stamps = [ddl.commit_ts or 0 for ddl in ddls(events)]
    assert start < stamps[0] < stamps[1] < stamps[2] < (changes[0].commit_ts or 0)


def test_without_a_snapshot_reading_begins_at_the_end_of_the_log(db: MariaDB) -> None:
    db.run(*SHOP, "INSERT INTO shop.orders VALUES (1, 'a')")
    source = MysqlSource(db.uri + "?snapshot=false")

    events = source.read(source.now())
    first = next(events)
    db.run("INSERT INTO shop.orders VALUES (2, 'b')")
    second = next(event for event in events if isinstance(event, RowChange))

    assert isinstance(first, Resolved)
    assert second.after == {"id": 2, "note": "b"}


def test_a_source_that_begins_now_gives_no_ts_from_before(db: MariaDB) -> None:
    """A load counts the transactions of a second, also those from before the changefeed began in it."""
    db.run(*SHOP)
    settings = read_uri(db.uri)
    source = MysqlSource(db.uri + "?snapshot=false")
    with Session(settings) as session:
        begun = at_millisecond(clock_ms(session))

        events = source.read(1)
        first = next(events)
        assert isinstance(first, Resolved)
        db.run("SET TIMESTAMP = 1700000000", "INSERT INTO shop.orders VALUES (1, 'a')")
        change = next(event for event in events if isinstance(event, RowChange))
        source.close()

    assert begun <= first.ts < (change.commit_ts or 0)


def test_what_is_between_two_places_of_the_log_ends_at_the_second(db: MariaDB) -> None:
    """A new file has events of its own before its first transaction, and a place can be after these."""
    db.run(*SHOP)
    settings = read_uri(db.uri)
    with Session(settings) as session:
        facts = look_at(session, settings)
        start = log_end(session)[:2]
        db.run("INSERT INTO shop.orders VALUES (1, 'a')", "FLUSH BINARY LOGS")
        end = log_end(session)[:2]
    db.run("INSERT INTO shop.orders VALUES (2, 'b')", "INSERT INTO shop.orders VALUES (3, 'c')")

    assert sum(isinstance(event, Commit) for event in events_between(settings, facts, start, end)) == 1
    assert not any(isinstance(event, Commit) for event in events_between(settings, facts, end, start))


def test_ddl_behind_a_comment_is_seen_in_the_log(db: MariaDB) -> None:
    db.run(*SHOP)
    settings = read_uri(db.uri)
    with Session(settings) as session:
        facts = look_at(session, settings)
        start = log_end(session)[:2]
        db.run("INSERT INTO shop.orders VALUES (1, 'a')")
        middle = log_end(session)[:2]
        db.run("/* made by a tool */ ALTER TABLE shop.orders ADD COLUMN more int")
        end = log_end(session)[:2]

    assert not defines(settings, facts, start, middle)
    assert defines(settings, facts, start, end)


def test_a_transaction_is_its_net_effect_at_one_timestamp(db: MariaDB) -> None:
    db.run(*SHOP, "INSERT INTO shop.orders VALUES (1, 'a'), (2, 'b'), (3, 'c')")

    events = following(
        db,
        "BEGIN",
        "INSERT INTO shop.orders VALUES (9, 'came and went')",
        "DELETE FROM shop.orders WHERE id = 9",
        "UPDATE shop.orders SET note = 'x' WHERE id = 1",
        "UPDATE shop.orders SET note = 'y' WHERE id = 1",
        "UPDATE shop.orders SET id = 20 WHERE id = 2",
        "DELETE FROM shop.orders WHERE id = 3",
        "INSERT INTO shop.orders VALUES (3, 'again')",
        "COMMIT",
    )

    changes = rows(events)
    assert len({change.commit_ts for change in changes}) == 1
    assert all((change.start_ts or 0) < (change.commit_ts or 0) for change in changes)
    assert [(change.op, change.before, change.after) for change in changes] == [
        (Op.DELETE, {"id": 2, "note": "b"}, None),
        (Op.UPDATE, {"id": 1, "note": "a"}, {"id": 1, "note": "y"}),
        (Op.UPDATE, {"id": 3, "note": "c"}, {"id": 3, "note": "again"}),
        (Op.INSERT, None, {"id": 20, "note": "b"}),
    ]


def test_a_distributed_transaction_counts_when_it_is_committed(db: MariaDB) -> None:
    db.run(*SHOP)
    place = last_place(until(MysqlSource(db.uri), complete))
    db.run("XA START 'one'", "INSERT INTO shop.orders VALUES (1, 'xa')", "XA END 'one'", "XA PREPARE 'one'")
    db.run("INSERT INTO shop.orders VALUES (2, 'before')")

    before = until(MysqlSource(db.uri), lambda event: bool(rows([event])), place)
    middle = until(MysqlSource(db.uri), complete, last_place([*before, *_resolved(db, place, 1)]))
    db.run("XA COMMIT 'one'", "CREATE DATABASE the_end")
    after = until(MysqlSource(db.uri), marked("the_end"), last_place(_resolved(db, place, 1)))

    assert [change.after for change in rows(before)] == [{"id": 2, "note": "before"}]
    assert rows(middle) == []
    assert [change.after for change in rows(after)] == [{"id": 1, "note": "xa"}]


def _resolved(db: MariaDB, place: object, changes: int) -> list[Upstream]:
    """What is given from a place, up to the one behind so many changes."""
    seen = 0

    def done(event: Upstream) -> bool:
        nonlocal seen
        seen += bool(rows([event]))
        return seen >= changes and isinstance(event, Resolved)

    return until(MysqlSource(db.uri), done, place)  # type: ignore[arg-type]


def test_time_goes_on_while_nothing_happens_and_never_passes_what_comes(db: MariaDB) -> None:
    db.run(*SHOP)
    source = MysqlSource(db.uri)
    events = source.read(source.now())
    start = next(event.ts for event in events if isinstance(event, Resolved) and "file" in event.place)

    later = next(event.ts for event in events if isinstance(event, Resolved) and event.ts > start)
    db.run("INSERT INTO shop.orders VALUES (1, 'a')")
    passed = list[int]()
    for event in events:
        if isinstance(event, Resolved):
            passed.append(event.ts)
        elif isinstance(event, RowChange):
            assert all(ts < (event.commit_ts or 0) for ts in [later, *passed])
            break

    assert physical_ms(later) <= physical_ms(source.now())


def test_time_waits_for_a_statement_that_runs(db: MariaDB) -> None:
    """Its entry in the log will have the time it began, and the same timestamp from whatever place it is read."""
    db.run(*SHOP, "INSERT INTO shop.orders VALUES (1, 'a')")
    source, replica, places = MysqlSource(db.uri), Replica(), list[Resolved]()
    slow = threading.Thread(target=db.run, args=("UPDATE shop.orders SET note = SLEEP(4)",))
    for event in replica.take(source.read(source.now())):
        if isinstance(event, Resolved) and complete(event):
            places.append(event)
            if len(places) == 1:
                slow.start()
        if [change for change in rows([event]) if change.op is Op.UPDATE]:
            break
    slow.join()

    again = until(MysqlSource(db.uri), lambda one: bool(rows([one])), places[0].place)

    assert rows([event]) == rows(again)


def test_timestamps_are_strictly_increasing_and_the_same_from_every_place(db: MariaDB) -> None:
    db.run(*SHOP)

    events = following(db, *(f"INSERT INTO shop.orders VALUES ({number}, 'x')" for number in range(20)))

    stamps = [change.commit_ts or 0 for change in rows(events)]
    assert stamps == sorted(set(stamps))
    for number, event in enumerate(events[:-1]):
        if isinstance(event, Resolved):
            place = json.loads(json.dumps(event.place))
            again = until(MysqlSource(db.uri), marked("the_end"), place)
            assert told(again) == told(events[number + 1 :])
            if number > 6:
                break


def test_a_snapshot_that_broke_off_begins_anew_and_forgets_what_is_gone(db: MariaDB) -> None:
    db.run(
        *SHOP,
        "CREATE TABLE shop.gone (id int PRIMARY KEY)",
        "INSERT INTO shop.gone VALUES (1)",
        "INSERT INTO shop.orders VALUES (1, 'stays'), (2, 'goes')",
    )
    replica, place = Replica(), None
    for event in replica.take(MysqlSource(db.uri).read(MysqlSource(db.uri).now())):
        place = event.place if isinstance(event, Resolved) else place
        if rows([event], "orders"):
            break
    db.run("DELETE FROM shop.orders WHERE id = 2", "DROP TABLE shop.gone")

    list(replica.take(until(MysqlSource(db.uri), complete, place)))

    assert replica.tables == {TableName("shop", "orders"): {(1,): {"id": 1, "note": "stays"}}}


def test_a_snapshot_and_the_log_meet_without_gap_or_overlap(db: MariaDB) -> None:
    """A writer never rests; the replica refuses a row that comes twice and misses one that does not come."""
    db.run(*SHOP, *(f"INSERT INTO shop.orders VALUES ({number}, 'old')" for number in range(300)))
    stop = threading.Event()

    def write() -> None:
        connection = db.connect()
        with connection.cursor() as cursor:
            number = 1000
            while not stop.is_set():
                number += 1
                cursor.execute(f"INSERT INTO shop.orders VALUES ({number}, 'new')")
                cursor.execute(f"DELETE FROM shop.orders WHERE id = {number - 5}")
                cursor.execute(f"UPDATE shop.orders SET note = '{number}' WHERE id = {number % 300}")
            cursor.execute("CREATE DATABASE the_end")
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        replica, seen, done = Replica(), 0, marked("the_end")
        for event in replica.take(MysqlSource(db.uri).read(MysqlSource(db.uri).now())):
            seen += bool(rows([event]))
            if seen == 700:
                stop.set()
            if done(event):
                break
    finally:
        stop.set()
        writer.join()

    expected = {row.after["id"]: row.after for row in rows(until(MysqlSource(db.uri), complete)) if row.after}
    assert {key[0]: row for key, row in replica.tables[TableName("shop", "orders")].items()} == expected


def test_a_table_that_is_to_change_during_a_snapshot_changes_after_it(db: MariaDB) -> None:
    db.run(
        *SHOP,
        "CREATE TABLE shop.zebras (id int PRIMARY KEY)",
        "INSERT INTO shop.orders VALUES (1, 'a')",
        "INSERT INTO shop.zebras VALUES (1)",
    )
    statements = ("ALTER TABLE shop.zebras ADD stripes int", "INSERT INTO shop.zebras VALUES (2, 8)")
    writer = threading.Thread(target=db.run, args=statements)
    replica = Replica()
    for event in replica.take(MysqlSource(db.uri).read(MysqlSource(db.uri).now())):
        if rows([event], "orders"):
            writer.start()
        if rows([event], "zebras") and rows([event])[0].after == {"id": 2, "stripes": 8}:
            break
    writer.join()

    assert replica.tables[TableName("shop", "zebras")] == {
        (1,): {"id": 1, "stripes": None},
        (2,): {"id": 2, "stripes": 8},
    }


def test_a_snapshot_leaves_nothing_in_the_log(db: MariaDB) -> None:
    db.run(*SHOP, "INSERT INTO shop.orders VALUES (1, 'a')")
    places = [last_place(until(MysqlSource(db.uri), complete)) for _ in range(2)]

    assert places[0]["position"] == places[1]["position"]


def test_a_killed_connection_is_made_anew_without_a_gap_or_a_double(db: MariaDB) -> None:
    db.run(*SHOP)
    replica, source, number = Replica(), MysqlSource(db.uri), 0
    for event in replica.take(source.read(source.now())):
        if complete(event) and number < 6:
            number += 1
            if number % 2:
                _kill_dumps(db)
            db.run(f"INSERT INTO shop.orders VALUES ({number}, 'x')")
        if len(replica.tables.get(TableName("shop", "orders"), {})) == 6:
            break

    assert sorted(replica.tables[TableName("shop", "orders")]) == [(number,) for number in range(1, 7)]


def _kill_dumps(db: MariaDB) -> None:
    connection = db.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'")
        for (number,) in cursor.fetchall():
            cursor.execute(f"KILL {number}")
    connection.close()


def test_another_server_of_the_group_is_found_by_its_transaction_ids(db: MariaDB) -> None:
    db.run(*SHOP)
    place = dict(last_place(until(MysqlSource(db.uri), complete)))
    db.run("INSERT INTO shop.orders VALUES (1, 'a')", "CREATE DATABASE the_end")
    here = until(MysqlSource(db.uri), marked("the_end"), place)

    there = until(
        MysqlSource(db.uri), marked("the_end"), place | {"server": "other", "file": "other.000042", "position": 99}
    )

    assert rows(there) == rows(here)
    assert last_place(there)["position"] == last_place(here)["position"]


def test_a_purged_log_is_named(db: MariaDB) -> None:
    db.run(*SHOP)
    place = last_place(until(MysqlSource(db.uri), complete))
    db.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    connection = db.connect()
    with connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file = cursor.fetchone()[0]
        deadline = time.monotonic() + SECONDS
        while len(_logs(cursor)) > 1 and time.monotonic() < deadline:
            cursor.execute(f"PURGE BINARY LOGS TO '{file}'")
    connection.close()

    with pytest.raises(ChangefeedError, match=place["file"]) as caught:
        until(MysqlSource(db.uri), complete, place)

    assert caught.value.code == "CDC:ErrStartTsBeforeGC"


def _logs(cursor: object) -> list[object]:
    cursor.execute("SHOW BINARY LOGS")  # type: ignore[attr-defined]
    return list(cursor.fetchall())  # type: ignore[attr-defined]


def test_a_place_moves_on_with_the_files_while_nothing_happens(db: MariaDB) -> None:
    source = MysqlSource(db.uri)
    events = source.read(source.now())
    before = next(event.place["file"] for event in events if isinstance(event, Resolved) and "file" in event.place)

    db.run("FLUSH BINARY LOGS")

    assert next(event for event in events if isinstance(event, Resolved) and event.place["file"] != before)


def test_closing_ends_a_reading_in_another_thread(db: MariaDB) -> None:
    source, begun = MysqlSource(db.uri), threading.Event()

    def read() -> None:
        for event in source.read(source.now()):
            if complete(event):
                begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(SECONDS)
    source.close()
    reader.join(SECONDS)

    assert not reader.is_alive()


def test_timestamps_are_in_the_servers_zone(db: MariaDB) -> None:
    db.run(
        "SET GLOBAL time_zone = '-03:30'",
        "SET time_zone = '+00:00'",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.moments (id int PRIMARY KEY, at timestamp NULL)",
        "INSERT INTO shop.moments VALUES (1, '2024-01-01 00:00:00')",
    )
    try:
        (change,) = rows(until(MysqlSource(db.uri), complete))
    finally:
        db.run("SET GLOBAL time_zone = 'SYSTEM'")

    assert change.after == {"id": 1, "at": Timestamp("2023-12-31 20:30:00")}


def test_tables_that_are_not_wanted_are_not_read(db: MariaDB) -> None:
    db.run(*SHOP, "CREATE TABLE shop.secrets (id int PRIMARY KEY)", "INSERT INTO shop.secrets VALUES (1)")
    source = MysqlSource(db.uri, lambda name: name.table != "secrets")

    snapshot = until(source, complete)
    db.run("INSERT INTO shop.secrets VALUES (2)", "INSERT INTO shop.orders VALUES (1, 'a')", "CREATE DATABASE the_end")
    log = until(source, marked("the_end"), last_place(snapshot))

    assert [table.name.table for table in source.tables()] == ["orders"]
    assert {ddl.table.table for ddl in ddls(snapshot)} == {"", "orders"}
    assert [change.table.name.table for change in rows([*snapshot, *log])] == ["orders"]


def test_a_schema_that_does_not_fit_the_log_is_refused(db: MariaDB) -> None:
    db.run(*SHOP)
    place = json.loads(json.dumps(last_place(until(MysqlSource(db.uri), complete))))
    place["schemas"]["tables"][0]["columns"][1]["name"] = "other"
    db.run("INSERT INTO shop.orders VALUES (1, 'a')")

    with pytest.raises(ChangefeedError, match="'other' is called 'note'"):
        until(MysqlSource(db.uri), complete, place)


def test_a_log_without_names_is_read_by_the_tables_that_are_known(db: MariaDB) -> None:
    db.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'", *SHOP)
    try:
        events = following(
            db,
            "CREATE TABLE shop.more (a bigint unsigned PRIMARY KEY, b enum('x','y'), c text CHARACTER SET latin1)",
            "INSERT INTO shop.more VALUES (18446744073709551615, 'y', 'é')",
        )
    finally:
        db.run("SET GLOBAL binlog_row_metadata = 'FULL'")

    (change,) = rows(events)
    assert change.after is not None
    assert (change.after["a"], str(change.after["b"]), change.after["c"]) == (
        2**64 - 1,
        "EnumValue(index=2, text='y')",
        "é",
    )


def test_rows_that_are_logged_as_statements_are_refused(db: MariaDB) -> None:
    db.run(*SHOP)

    with pytest.raises(ChangefeedError, match=r"statement instead of rows.*binlog_format"):
        following(db, "SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO shop.orders VALUES (1, 'a')")


def test_a_user_who_may_too_little_is_told_what_is_missing(db: MariaDB) -> None:
    db.run("CREATE OR REPLACE USER 'weak'@'%' IDENTIFIED BY 'se:cr@et'", "GRANT SELECT ON *.* TO 'weak'@'%'")
    uri = f"mysql://weak:se%3Acr%40et@127.0.0.1:{db.port}/"

    with pytest.raises(ChangefeedError, match=r"REPLICATION SLAVE.*REPLICATION CLIENT") as caught:
        next(iter(MysqlSource(uri).read(0)))

    assert "se:cr@et" not in str(caught.value)


def test_a_user_who_may_just_enough_can_read(db: MariaDB) -> None:
    db.run(
        *SHOP,
        "INSERT INTO shop.orders VALUES (1, 'a')",
        "CREATE OR REPLACE USER 'reader'@'%' IDENTIFIED BY 'x'",
        "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'reader'@'%'",
    )

    assert len(rows(until(MysqlSource(f"mysql://reader:x@127.0.0.1:{db.port}/"), complete))) == 1


def test_a_wrong_password_is_said_so_without_it(db: MariaDB) -> None:
    db.run("CREATE OR REPLACE USER 'reader'@'%' IDENTIFIED BY 'x'")

    with pytest.raises(ChangefeedError, match="'reader'") as caught:
        MysqlSource(f"mysql://reader:hunter2@127.0.0.1:{db.port}/").now()

    assert caught.value.code == "CDC:ErrMySQLConnectionError"
    assert "hunter2" not in str(caught.value)


def _certificates(folder: Path) -> None:
    """An authority, and a server's certificate for loopback that it has signed."""
    key = "-newkey rsa:2048 -nodes -batch"
    commands = [
        f"req -x509 -days 2 {key} -keyout {folder}/ca.key -out {folder}/ca.pem -subj /CN=authority".split(),
        f"req {key} -keyout {folder}/key.pem -out {folder}/request -subj /CN=server".split(),
        f"x509 -req -in {folder}/request -CA {folder}/ca.pem -CAkey {folder}/ca.key -CAcreateserial "
        f"-out {folder}/cert.pem -days 2 -extfile {folder}/names".split(),
    ]
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for command in commands:
        subprocess.run(["openssl", *command], check=True, capture_output=True)


def test_a_connection_can_be_encrypted_and_the_server_is_verified(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make certificates")
    _certificates(tmp_path)
    options = [f"--ssl-cert={tmp_path}/cert.pem", f"--ssl-key={tmp_path}/key.pem", f"--ssl-ca={tmp_path}/ca.pem"]
    with mariadb(options) as server:
        server.run(*SHOP, "INSERT INTO shop.orders VALUES (1, 'a')")
        server.run("CREATE USER 'safe'@'%' IDENTIFIED BY 'x' REQUIRE SSL", "GRANT ALL ON *.* TO 'safe'@'%'")
        address = f"safe:x@127.0.0.1:{server.port}/"

        events = until(MysqlSource(f"mysql://{address}?ssl-ca={tmp_path}/ca.pem"), complete)
        with pytest.raises(ChangefeedError, match="certificate"):
            MysqlSource(f"mysql+ssl://{address}").now()
        with pytest.raises(ChangefeedError, match=r"nothing\.pem"):
            MysqlSource(f"mysql://{address}?ssl-ca={tmp_path}/nothing.pem").now()

    assert [change.after for change in rows(events)] == [{"id": 1, "note": "a"}]


@pytest.fixture(scope="module")
def statement_server() -> Iterator[MariaDB]:
    with mariadb(["--binlog-format=STATEMENT", "--binlog-row-image=MINIMAL"]) as running:
        yield running


def test_a_server_with_the_wrong_log_is_refused_with_all_reasons(statement_server: MariaDB) -> None:
    with pytest.raises(ChangefeedError, match=r"binlog_format is STATEMENT.*binlog_row_image is MINIMAL"):
        until(MysqlSource(statement_server.uri), complete)
