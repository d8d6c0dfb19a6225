"""The whole way: MariaDB, a server with a changefeed in each protocol, Kafka, syncs, Iceberg.

Under a load with DDL the server, the broker and a running sync are each killed. In the end every table of every lake
equals MariaDB's, row by row. ``TIDEWIRE_WHOLE_WAY_SECONDS`` makes the load longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from integration.kafka import kafka
from integration.mariadb import MariaDB, mariadb
from integration.servers import schema_registry
from integration.whole_way.comparison import assert_lake_equals, upstream_tables
from integration.whole_way.load import BUSY, CALM, Load
from integration.whole_way.stack import Feed, RunningSync, Server, broker_killed, typed
from tidewire.model.tso import LOGICAL_BITS

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED = 20
SECONDS = float(os.environ.get("TIDEWIRE_WHOLE_WAY_SECONDS", "0"))
UNITS = 10
"""Transactions and statements of half a lap; the other half comes while a piece is away."""

EVERYTHING = (CALM, BUSY)
FEEDS = (
    Feed("canal-json", "&enable-tidb-extension=true", {"partition": "index-value"}, "canal-json", EVERYTHING),
    Feed("open-protocol", "", {"partition": "index-value"}, "open-protocol", EVERYTHING),
    Feed("craft", "", {"partition": "table"}, "craft", EVERYTHING),
    Feed("simple", "", {"partition": "index-value"}, "simple", EVERYTHING),
    # Avro sends no DDL: nobody behind it learns of TRUNCATE, RENAME, DROP or the default of a new column. So it gets
    # the tables whose shape stays, and these must be right. Each has a topic of its own, as each has a schema.
    Feed("avro", "", {"partition": "index-value", "topic": "avro_{schema}_{table}"}, "?pattern=avro_.*", (CALM,)),
)
LIVE = FEEDS[0]


Incident: TypeAlias = Callable[[], AbstractContextManager[None]]


class Upstream:
    """The database under load."""

    def __init__(self, db: MariaDB, seed: int) -> None:
        self._load = Load(seed)
        self._session = db.connect(init_command="SET time_zone = '+00:00'")
        self._run(self._load.beginning())

    def work(self, units: int) -> None:
        """Some transactions and statements."""
        for unit in self._load.units(units):
            self._run(unit)

    def now(self) -> int:
        """The end of the second its clock is in; everything that was done is before it."""
        with self._session.cursor() as cursor:
            cursor.execute("SELECT UNIX_TIMESTAMP()")
            return (int(cursor.fetchone()[0]) + 1) * 1000 << LOGICAL_BITS

    def close(self) -> None:
        """Let go of it."""
        self._session.close()

    def _run(self, statements: Iterable[str]) -> None:
        with self._session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def _laps(upstream: Upstream, server: Server, sync: RunningSync, incidents: Sequence[Incident]) -> None:
    """A load in laps, each with an incident in its middle while there are any; all pieces keep up with it."""
    left = Random(SEED).sample(incidents, len(incidents))
    end = time.monotonic() + SECONDS
    sync.wait(1)
    while left or time.monotonic() < end:
        begun = upstream.now()
        upstream.work(UNITS)
        with left.pop()() if left else nullcontext():
            upstream.work(UNITS)
        server.wait(begun)
        sync.wait(begun)


def test_tables_come_through_kills_and_ddl_unharmed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with ExitStack() as closing:
        db = closing.enter_context(mariadb())
        cluster = closing.enter_context(kafka())
        registry = closing.enter_context(schema_registry())
        upstream = Upstream(db, SEED)
        closing.callback(upstream.close)
        server = Server(tmp_path, f"{db.uri}?time-zone=UTC")
        server.start()
        closing.callback(server.stop)
        for feed in FEEDS:
            server.create(feed, cluster, *(("--schema-registry", registry) if feed.protocol == "avro" else ()))
        lake = tmp_path / LIVE.protocol
        sync = RunningSync(tmp_path, [LIVE.source(cluster), str(lake), "--protocol", LIVE.protocol])
        sync.start()
        closing.callback(sync.kill)

        _laps(upstream, server, sync, [server.killed, sync.killed, lambda: broker_killed(cluster)])

        server.wait(upstream.now())
        server.pause()
        sync.stop()
        spark = request.getfixturevalue("spark")
        for feed in FEEDS:
            more = ("--option", f"schema-registry={registry}") if feed.protocol == "avro" else ()
            where = (feed.source(cluster), tmp_path / feed.protocol)
            typed("sync", *where, "--protocol", feed.protocol, "--once", *more)
            assert_lake_equals(spark, tmp_path / feed.protocol, upstream_tables(db, *feed.databases))
