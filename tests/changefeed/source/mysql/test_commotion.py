"""A server in commotion, read in parallel with stops, resumes and a restart: nothing comes twice, nothing is lost."""

from __future__ import annotations

import json
import threading
import time
from random import Random

import pytest

from changefeed.source.mysql.commotion import Commotion
from changefeed.source.mysql.reading import SECONDS, Replica, complete, marked, rows, told, until
from integration.mariadb import MariaDB
from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream
from tidewire.changefeed.source.mysql import MysqlSource
from tidewire.model import TableName

pytestmark = [pytest.mark.integration, pytest.mark.slow]

END = "end_of_commotion"


def _write(db: MariaDB, seed: int, restart: bool, begun: threading.Event) -> None:
    """Make commotion, half of it at most before the reader has begun."""
    statements = list(Commotion(seed).statements(250))
    middle = len(statements) // 2
    while _is_open(statements[:middle]):
        middle += 1
    db.run("SET sql_mode = ''", *statements[:middle])
    assert begun.wait(SECONDS)
    if restart:
        db.restart()
    db.run("SET sql_mode = ''", *statements[middle:], f"CREATE DATABASE {END}")


def _is_open(statements: list[str]) -> bool:
    """Does a transaction that began go on?"""
    open_ = False
    for statement in statements:
        open_ = statement == "BEGIN" or (open_ and statement not in ("COMMIT", "ROLLBACK"))
    return open_


def _read_in_pieces(
    uri: str, start: int, random: Random, begun: threading.Event
) -> tuple[Replica, list[Upstream], ResumePosition]:
    """Read to the end, but stop again and again, at any event, and go on from the last place, as a process would."""
    replica, given, first = Replica(), list[Upstream](), None
    place: ResumePosition | None = None
    done, deadline = marked(END), time.monotonic() + SECONDS
    while True:
        source, pending = MysqlSource(uri), list[Upstream]()
        events_left = random.randrange(5, 120)
        for event in source.read(start, place):
            assert time.monotonic() < deadline
            pending.append(event)
            events_left -= 1
            if isinstance(event, Resolved):
                if "file" in event.place:
                    place = json.loads(json.dumps(event.place))
                    first = first or place
                    begun.set()
                    given += replica.take(pending)
                    pending = []
                if done(event):
                    source.close()
                    assert first is not None
                    return replica, given, first
            else:
                done(event)
            if events_left < 0 and place is not None:
                break
        source.close()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reader_that_stops_and_goes_on_has_the_same_tables_in_the_end(db: MariaDB, seed: int) -> None:
    start, begun = MysqlSource(db.uri).now(), threading.Event()
    writer = threading.Thread(target=_write, args=(db, seed, seed == 1, begun))
    writer.start()
    try:
        replica, given, first = _read_in_pieces(db.uri, start, Random(seed), begun)
    finally:
        writer.join()

    expected: dict[TableName, list[object]] = {}
    for change in rows(until(MysqlSource(db.uri), complete)):
        expected.setdefault(change.table.name, []).append(change.after)
    found = {name: list(held.values()) for name, held in replica.tables.items() if held}
    assert {name: sorted(map(str, held)) for name, held in found.items()} == {
        name: sorted(map(str, held)) for name, held in expected.items()
    }

    again = until(MysqlSource(db.uri), marked(END), first)
    assert told(again) == [event for event in told(given) if (event.commit_ts or 0) > first["ts"]]
