"""Changefeeds and where they are stored: an SQLite file, in which a restart finds them.

Sink URIs and configurations are stored with their passwords, so only the owner of the file may read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from tidewire.changefeed.checkpoint import Checkpoint
from tidewire.changefeed.config.parameters import of_sink
from tidewire.changefeed.config.replica import ReplicaConfig, from_json, to_json
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import SinkURI
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.service.errors import Failure
from tidewire.changefeed.service.lifecycle import Life, State
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret

NOT_EXISTS = "CDC:ErrChangeFeedNotExists"
NO_SAFE_POINT = -1
"""Our upstreams report by themselves, when they are read, that their history is gone."""

VERSION = 1
FILE = "changefeeds.db"
LOCK = "lock"
UNUSABLE = "CDC:ErrMetaOpFailed"

# A timestamp may need all of 64 bits, one more than SQLite's integers have, so it is kept as text.
_TABLE = """
CREATE TABLE changefeed (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    sink_uri TEXT NOT NULL,
    config TEXT NOT NULL,
    start_ts TEXT NOT NULL,
    target_ts TEXT NOT NULL,
    created TEXT NOT NULL,
    creator_version TEXT NOT NULL,
    checkpoint_ts TEXT NOT NULL,
    place TEXT NOT NULL,
    synced_ts TEXT NOT NULL,
    state TEXT NOT NULL,
    life TEXT NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT
"""

_DEFINITION = "sink_uri", "config", "target_ts"
_PROGRESS = "checkpoint_ts", "place", "synced_ts"
_LIFE = "state", "life"


class FeedKey(NamedTuple):
    """The key of a changefeed; newer servers call the namespace a keyspace."""

    namespace: str
    id: str


def unknown(key: FeedKey) -> ChangefeedError:
    """The error for a changefeed that does not exist."""
    return ChangefeedError(NOT_EXISTS, f"there is no changefeed {key.id}")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a changefeed. ``synced_ts`` is the newest checkpoint before which rows were sent."""

    checkpoint: Checkpoint
    synced_ts: int = 0


@dataclass(frozen=True, slots=True)
class Feed:
    """A changefeed. A ``target_ts`` of 0 means no end."""

    key: FeedKey
    sink_uri: Secret
    config: ReplicaConfig
    start_ts: int
    target_ts: int
    created: datetime
    creator_version: str
    progress: Progress
    life: Life = field(default_factory=Life)

    @property
    def state(self) -> State:
        """The state of the changefeed."""
        return self.life.state

    @property
    def shown_config(self) -> ReplicaConfig:
        """The configuration without the keys that the sink does not have."""
        return of_sink(SinkURI.parse(self.sink_uri), self.config)

    def settings(self, server: str, time_zone: str) -> Settings:
        """The settings to run with. They are valid, because the configuration was checked when it was stored."""
        request = Request(
            self.sink_uri,
            self.key.id,
            self.start_ts,
            self.config,
            self.start_ts,
            self.target_ts,
            gc_safe_point=NO_SAFE_POINT,
            namespace=self.key.namespace,
            server=server,
            time_zone=time_zone,
        )
        return validate(request).settings


class Store:
    """The changefeeds of a server. Any thread may use it; two servers may not.

    A changefeed's definition, progress and state are stored separately, so that one writer does not overwrite
    another's change.
    """

    def __init__(self, folder: Path | str) -> None:
        folder = Path(folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._owned = _locked(folder)
        except OSError as error:
            raise ChangefeedError(UNUSABLE, f"{folder} cannot be used: {error.strerror}") from error
        try:
            self._connection = _connected(folder / FILE)
        except BaseException:
            os.close(self._owned)
            raise
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
            os.close(self._owned)

    def add(self, feed: Feed) -> None:
        """Store a new changefeed; raises ``CDC:ErrChangeFeedAlreadyExists`` if its id is taken."""
        row = _row(feed)
        parameters = ", ".join(f":{name}" for name in row)
        try:
            with self._writing() as connection:
                connection.execute(f"INSERT INTO changefeed ({', '.join(row)}) VALUES ({parameters})", row)
        except sqlite3.IntegrityError:
            raise ChangefeedError(
                "CDC:ErrChangeFeedAlreadyExists", f"there is a changefeed {feed.key.id} already; choose another id"
            ) from None

    def get(self, key: FeedKey) -> Feed | None:
        """A changefeed, or ``None``."""
        with self._lock:
            found = self._connection.execute("SELECT * FROM changefeed WHERE namespace = ? AND id = ?", key).fetchone()
        return None if found is None else _feed(found)

    def feeds(self, namespace: str | None = None) -> list[Feed]:
        """All changefeeds, or those of one namespace, ordered by id."""
        with self._lock:
            rows = self._connection.execute("SELECT * FROM changefeed ORDER BY namespace, id").fetchall()
        return [_feed(row) for row in rows if namespace in (None, row["namespace"])]

    def define(self, feed: Feed) -> None:
        """Store another sink, configuration or target of a changefeed."""
        self._set(feed.key, _row(feed), _DEFINITION)

    def live(self, key: FeedKey, life: Life) -> None:
        """Store the state of a changefeed."""
        self._set(key, _life_row(life), _LIFE)

    def advance(self, key: FeedKey, progress: Progress) -> None:
        """Store the progress of a changefeed."""
        self._set(key, _progress_row(progress), _PROGRESS)

    def remove(self, key: FeedKey) -> None:
        """Delete a changefeed."""
        with self._writing() as connection:
            connection.execute("DELETE FROM changefeed WHERE namespace = ? AND id = ?", key)

    def _set(self, key: FeedKey, row: dict[str, str], names: tuple[str, ...]) -> None:
        changes = ", ".join(f"{name} = :{name}" for name in names)
        values = {name: row[name] for name in names} | key._asdict()
        with self._writing() as connection:
            connection.execute(f"UPDATE changefeed SET {changes} WHERE namespace = :namespace AND id = :id", values)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._connection:
            yield self._connection


def _locked(folder: Path) -> int:
    """Lock a file, so that only one server uses the folder; the lock ends with the process."""
    file = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise ChangefeedError(UNUSABLE, f"another server uses {folder}; stop it or choose another folder") from None
    return file


def _connected(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _migrate(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ChangefeedError(UNUSABLE, f"{path} is not a store of changefeeds: {error}") from error
    except ChangefeedError:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ChangefeedError(
            UNUSABLE, f"{path} has version {version} and this tidewire knows {VERSION}; use a newer tidewire"
        )
    if version == 0:
        with connection:
            connection.execute("BEGIN")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _row(feed: Feed) -> dict[str, str]:
    return {
        **feed.key._asdict(),
        "sink_uri": str.__str__(feed.sink_uri),
        "config": json.dumps(to_json(feed.config)),
        "start_ts": str(feed.start_ts),
        "target_ts": str(feed.target_ts),
        "created": feed.created.isoformat(),
        "creator_version": feed.creator_version,
        **_progress_row(feed.progress),
        **_life_row(feed.life),
    }


def _progress_row(progress: Progress) -> dict[str, str]:
    return {
        "checkpoint_ts": str(progress.checkpoint.ts),
        "place": json.dumps(progress.checkpoint.place),
        "synced_ts": str(progress.synced_ts),
    }


def _life_row(life: Life) -> dict[str, str]:
    rest = asdict(life)
    return {"state": rest.pop("state"), "life": json.dumps(rest)}


def _feed(row: sqlite3.Row) -> Feed:
    return Feed(
        FeedKey(row["namespace"], row["id"]),
        Secret(row["sink_uri"]),
        from_json(json.loads(row["config"])).config,
        int(row["start_ts"]),
        int(row["target_ts"]),
        datetime.fromisoformat(row["created"]),
        row["creator_version"],
        Progress(Checkpoint(int(row["checkpoint_ts"]), json.loads(row["place"])), int(row["synced_ts"])),
        _life(State(row["state"]), json.loads(row["life"])),
    )


def _life(state: State, rest: dict[str, Any]) -> Life:
    failure = rest.pop("failure")
    return Life(state, failure and Failure(**failure), **rest)
