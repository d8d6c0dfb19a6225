"""From a real server through a whole changefeed: every protocol carries every type, and a restart goes on."""

from __future__ import annotations

import threading
import time

import pytest

from changefeed.source.mysql.reading import SECONDS
from changefeed.source.mysql.test_types import CASES
from integration.mariadb import MariaDB
from tidewire.changefeed.checkpoint import FileCheckpoints, MemoryCheckpoints
from tidewire.changefeed.runner import Runner
from tidewire.changefeed.sink.base import MemoryQueue
from tidewire.changefeed.sink.queue import QueueSink
from tidewire.changefeed.source import open_source
from tidewire.codec import Options, protocol
from tidewire.dispatch import Dispatch, DispatchRule, Filter
from tidewire.model import Ddl, Op, RowChange, Watermark

pytestmark = pytest.mark.integration


def _run(db: MariaDB, queue: MemoryQueue, name: str, checkpoints: MemoryCheckpoints | FileCheckpoints) -> None:
    """Run a changefeed until all that has happened by now is safe."""
    moment = open_source(db.uri).now()
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition="table")], protocol=name)
    sink = QueueSink(queue, dispatch, Options(enable_tidb_extension=True))
    runner = Runner(open_source(db.uri), sink, Filter(), checkpoints, start_ts=1, interval=0)
    thread = threading.Thread(target=runner.run)
    thread.start()
    deadline = time.monotonic() + SECONDS
    while not _is_safe(checkpoints, moment) and thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.05)
    runner.stop()
    thread.join(SECONDS)
    assert runner.status.error is None
    assert _is_safe(checkpoints, moment)


def _is_safe(checkpoints: MemoryCheckpoints | FileCheckpoints, moment: int) -> bool:
    """Is a checkpoint behind a moment, and behind the snapshot?"""
    kept = checkpoints.load()
    return kept is not None and kept.ts > moment and "file" in (kept.place or {})


def _events(queue: MemoryQueue, name: str) -> list[RowChange | Ddl | Watermark]:
    decoder = protocol(name).Decoder(Options(enable_tidb_extension=True))
    decoded = [event for message in queue.topics["feed"][0] for event in decoder.decode(message)]
    return [event for event in decoded if isinstance(event, RowChange | Ddl | Watermark)]


@pytest.mark.parametrize("name", ["canal-json", "open-protocol", "simple", "craft"])
def test_every_type_goes_through_a_protocol(db: MariaDB, name: str) -> None:
    types = {f"c{number}": type_ for number, (type_, _) in enumerate(CASES.values())}
    values = [next(iter(values)) for _, values in CASES.values()]
    kept = range(len(CASES))
    columns = ", ".join(f"c{number} {types[f'c{number}']}" for number in kept)
    db.run(
        "SET sql_mode = ''",
        "CREATE DATABASE shop",
        f"CREATE TABLE shop.wide (id int PRIMARY KEY, {columns})",
        f"INSERT INTO shop.wide VALUES (1, {', '.join(values[number] for number in kept)})",
    )
    queue = MemoryQueue(1)

    _run(db, queue, name, MemoryCheckpoints())

    (change,) = [event for event in _events(queue, name) if isinstance(event, RowChange)]
    expected = [next(iter(found.values())) for _, found in CASES.values()]
    assert change.after is not None
    assert change.after["id"] == 1
    exact = (int, str, bytes)
    for number in kept:
        if isinstance(expected[number], exact):
            assert change.after[f"c{number}"] == expected[number]


def test_a_changefeed_goes_on_where_it_was(db: MariaDB, tmp_path_factory: pytest.TempPathFactory) -> None:
    checkpoints = FileCheckpoints(tmp_path_factory.mktemp("feed") / "checkpoint.json")
    queue = MemoryQueue(1)
    db.run("CREATE DATABASE shop", "CREATE TABLE shop.t (id int PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
    _run(db, queue, "canal-json", checkpoints)
    db.run("ALTER TABLE shop.t ADD v int", "INSERT INTO shop.t VALUES (2, 3)", "DELETE FROM shop.t WHERE id = 1")
    _run(db, queue, "canal-json", checkpoints)

    changes = [event for event in _events(queue, "canal-json") if isinstance(event, RowChange)]

    assert [(change.op, (change.after or change.before or {})["id"]) for change in changes] == [
        (Op.INSERT, 1),
        (Op.INSERT, 2),
        (Op.DELETE, 1),
    ]
    assert changes[1].after == {"id": 2, "v": 3}
