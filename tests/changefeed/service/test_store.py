"""The store: what is kept is there again, for its owner only, and for one server at a time."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tidewire.changefeed.checkpoint import Checkpoint
from tidewire.changefeed.config.replica import from_toml
from tidewire.changefeed.service.errors import Failure
from tidewire.changefeed.service.lifecycle import Life, State
from tidewire.changefeed.service.store import FILE, Feed, FeedKey, Progress, Store
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret

CONFIG = from_toml(
    """
    force-replicate = true
    sync-point-interval = "11m"
    [filter]
    rules = ["a.*"]
    [sink.kafka-config]
    sasl-password = "hush"
    """
).config
FEED = Feed(
    FeedKey("default", "feed"),
    Secret("kafka://me:hush@broker:9092/topic?protocol=simple"),
    CONFIG,
    470_000_000_000_000_001,
    2**64 - 1,
    datetime(2024, 2, 26, 5, 1, 1, 858000, tzinfo=timezone.utc),
    "0.1.0",
    Progress(Checkpoint(2**63 + 5, {"offsets": {"a": 1}}), 7),
    Life(State.WARNING, Failure(1.5, "127.0.0.1:8300", "CDC:ErrX", "no 你好"), 1.0, 3, 9),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_what_is_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "folder")
    store.add(FEED)
    store.add(replace(FEED, key=FeedKey("other", "feed")))
    store.close()

    again = Store(tmp_path / "new" / "folder")

    assert again.get(FEED.key) == FEED
    assert [feed.key.namespace for feed in again.feeds()] == ["default", "other"]
    assert again.feeds("default") == [FEED]
    again.close()


def test_changes_of_one_kind_leave_the_others_alone(store: Store) -> None:
    store.add(FEED)
    progress = Progress(Checkpoint(8), 6)

    store.advance(FEED.key, progress)
    store.define(replace(FEED, target_ts=5, life=Life(), progress=Progress(Checkpoint(0))))
    store.live(FEED.key, Life(State.STOPPED))

    assert store.get(FEED.key) == replace(FEED, progress=progress, target_ts=5, life=Life(State.STOPPED))
    store.close()


def test_an_id_is_taken_once_and_free_again_after_removal(store: Store) -> None:
    store.add(FEED)
    with pytest.raises(ChangefeedError, match="ErrChangeFeedAlreadyExists"):
        store.add(FEED)

    store.remove(FEED.key)

    assert store.get(FEED.key) is None
    store.add(FEED)
    store.close()


def test_only_the_owner_may_read_the_files(tmp_path: Path, store: Store) -> None:
    store.add(FEED)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes.keys() >= {FILE, f"{FILE}-wal"}
    assert set(modes.values()) == {0o600}
    store.close()


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / FILE).touch(0o644)

    Store(tmp_path).close()

    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_two_servers_cannot_share_a_folder(tmp_path: Path, store: Store) -> None:
    with pytest.raises(ChangefeedError, match="another server uses"):
        Store(tmp_path)
    store.close()

    Store(tmp_path).close()


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(ChangefeedError, match="has version 99 and this tidewire knows 1"):
        Store(tmp_path)


def test_something_else_is_no_store(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"something else entirely" * 100)

    with pytest.raises(ChangefeedError, match="is not a store of changefeeds"):
        Store(tmp_path)


def test_secrets_are_not_in_what_is_printed() -> None:
    assert "hush" not in repr(FEED)
