"""The files of a storage sink become the tables that the upstream had."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from storage_files import StorageFeed, moments, upstream
from sync_checks import assert_equal
from tidewire.spark.prepare import prepared
from tidewire.spark.report import Silent
from tidewire.storage import open_storage
from tidewire.sync.config import SyncConfig
from tidewire.sync.state import State


def synced(spark: SparkSession, config: SyncConfig) -> State:
    """Sync what there is."""
    ready = prepared(config)
    try:
        with ready.loop(spark, Silent()) as loop:
            return loop.run(once=True)
    finally:
        ready.close()


@pytest.mark.slow
@pytest.mark.parametrize("topic", ["seed23"])
def test_tables_equal_the_upstream(spark: SparkSession, tmp_path: Path, topic: str) -> None:
    recorded, items = topic_files.expected(topic), upstream(topic, tmp_path / "topics")
    store = open_storage(tmp_path / "files")
    feed = StorageFeed(store, "canal-json", recorded["time_zone"])
    config = SyncConfig(
        source=store.uri if "://" in store.uri else f"file:{store.uri}",
        target=str(tmp_path / "target"),
        protocol="canal-json",
        option={"time-zone": recorded["time_zone"]},
    )
    first, second = (moments(topic)[len(moments(topic)) * part // 3] for part in (1, 2))

    feed.play(items, first["ts"])
    state = synced(spark, config)
    assert state.applied == first["ts"]
    assert_equal(spark, tmp_path / "target", first)
    feed.play(items, second["ts"])
    feed.restart(first["ts"])
    feed.play(items)
    state = synced(spark, config)

    assert not state.holds
    assert not state.rejected
    assert_equal(spark, tmp_path / "target", recorded["end"])
    assert_equal(spark, tmp_path / "target", first, first["ts"])
