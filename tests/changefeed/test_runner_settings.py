"""Settings and a source become a changefeed that writes where the URI says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from changefeed.pieces import ListSource, create, insert, table
from tidewire.changefeed.checkpoint import FileCheckpoints, MemoryCheckpoints
from tidewire.changefeed.config.replica import from_toml
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.runner import runner_for
from tidewire.changefeed.sink.base import MemoryQueue
from tidewire.changefeed.sink.open import queue_sink
from tidewire.changefeed.source import Resolved, RowBatch, open_source
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.options import LargeMessage
from tidewire.errors import ClaimCheckError
from tidewire.model import Ddl, RowChange
from tidewire.topic.files import FileTopics, messages_of
from tidewire.workload.bulk import Bulk

WORKLOAD = "workload://2?transactions=30"


def settings_of(uri: str, toml: str = "") -> Settings:
    return validate(Request(uri, "feed", now=1 << 62, start_ts=1, config=from_toml(toml).config)).settings


def kinds(items: Any) -> Counter[str]:
    return Counter(type(item).__name__ for item in items if isinstance(item, RowChange | Ddl))


@pytest.mark.parametrize("protocol_name", ["open-protocol", "canal-json", "craft", "simple"])
def test_a_changefeed_fills_topics_in_files(tmp_path: Path, protocol_name: str) -> None:
    extension = "&enable-tidb-extension=true" if protocol_name == "canal-json" else ""
    uri = f"file-topic://{tmp_path}/feed?protocol={protocol_name}&partition-num=2{extension}"
    checkpoints = FileCheckpoints(tmp_path / "checkpoint.json")

    runner = runner_for(settings_of(uri), open_source(WORKLOAD), checkpoints, start_ts=1)
    runner.run()

    upstream = list(open_source(WORKLOAD).read(1))
    found = list(open_source(f"{uri}&follow=false").read(0))
    assert kinds(found)["Ddl"] == kinds(upstream)["Ddl"]
    assert kinds(found)["RowChange"] >= kinds(upstream)["RowChange"]  # changed keys are two
    kept = checkpoints.load()
    assert kept is not None
    assert isinstance(upstream[-1], Resolved)
    assert (kept.ts, kept.place) == (upstream[-1].ts, upstream[-1].place)
    assert FileTopics(tmp_path).partitions("feed") == [0, 1]

    again = runner_for(settings_of(uri), open_source(WORKLOAD), checkpoints, start_ts=1)
    again.run()
    assert again.status.rows == 0


def test_avro_finds_its_registry_and_a_topic_for_each_table(tmp_path: Path) -> None:
    rules = '[sink]\ndispatchers = [{matcher=["*.*"], topic="{schema}_{table}"}]'
    uri = f"file-topic://{tmp_path}/topics/feed?protocol=avro&schema-registry=file://{tmp_path}/schemas.json"
    settings = settings_of(uri, rules)

    runner_for(settings, ListSource([insert(1, 10, table("one")), insert(2, 11, table("two"))]), MemoryCheckpoints(),
               start_ts=1).run()  # fmt: skip

    decoder = protocol("avro").Decoder(settings.options, Resources.of(settings.options))
    for name, number in (("test_one", 1), ("test_two", 2)):
        topics = FileTopics(tmp_path / "topics")
        messages = [
            message
            for at in topics.partitions(name)
            for batch in topics.read(name, at)
            for message in messages_of(batch)
        ]
        (event,) = [event for message in messages for event in decoder.decode(message)]
        assert isinstance(event, RowChange)
        assert event.after == {"id": number, "name": "x"}


def test_a_changefeed_fills_a_storage(tmp_path: Path) -> None:
    settings = settings_of(f"file://{tmp_path}/cdc?protocol=csv&flush-interval=1s", '[sink]\ndate-separator="none"')
    source = ListSource([create(table(), 10), insert(1, 11), Resolved(12, {"index": 3})])

    runner_for(settings, source, MemoryCheckpoints(), start_ts=1).run()

    folder = tmp_path / "cdc"
    assert json.loads((folder / "metadata").read_text()) == {"checkpoint-ts": 12}
    assert (folder / "test/t/10/CDC00000000000000000001.csv").read_bytes() == b'"I","t","test",1,"x"\r\n'


def test_a_blackhole_takes_everything() -> None:
    runner = runner_for(settings_of("blackhole://"), open_source(WORKLOAD), MemoryCheckpoints(), start_ts=1)

    runner.run()

    assert runner.status.finished
    assert runner.status.rows > 50


def test_rules_selectors_and_targets_count(tmp_path: Path) -> None:
    toml = """
    [filter]
    rules = ["test.t*"]
    [sink]
    column-selectors = [{matcher=["test.t"], columns=["id"]}]
    dispatchers = [{matcher=["test.t"], topic="{table}", target-schema="other", target-table="{table}_copy"}]
    """
    settings = settings_of(f"file-topic://{tmp_path}/feed?protocol=canal-json&enable-tidb-extension=true", toml)
    queue = MemoryQueue(1)
    source = ListSource([create(table(), 9), insert(1, 10), insert(2, 10, table("x")), Resolved(12, {"index": 3})])

    runner_for(settings, source, MemoryCheckpoints(), start_ts=1, sink=queue_sink(settings, queue)).run()

    decoder = protocol("canal-json").Decoder(settings.options)
    ddl, row, *_ = [event for message in queue.topics["t"][0] for event in decoder.decode(message)]
    assert isinstance(ddl, Ddl)
    assert isinstance(row, RowChange)
    assert (str(ddl.table), str(row.table.name), row.after) == ("other.t_copy", "other.t_copy", {"id": 1})
    assert list(queue.topics) == ["t", "feed"]


def test_rows_in_columns_go_through_the_rules_of_single_rows(tmp_path: Path) -> None:
    bulk = Bulk(rows=200)
    (batch,) = bulk.changes()
    toml = '[filter]\nevent-filters = [{matcher=["*.*"], ignore-event=["insert", "update"]}]'
    uri = f"file-topic://{tmp_path}/feed?protocol=canal-json"
    for config, expected in (("", 200), (toml, sum(op.as_py() == 2 for op in batch.column("_op")))):
        settings, queue = settings_of(uri, config), MemoryQueue(1)
        source = ListSource([RowBatch(bulk.table, batch)])

        runner_for(settings, source, MemoryCheckpoints(), start_ts=1, sink=queue_sink(settings, queue)).run()

        assert len(queue.topics["feed"][0]) == expected


def test_claim_checks_are_kept_where_the_uri_says(tmp_path: Path) -> None:
    options = Options(
        large_message_handle_option=LargeMessage.CLAIM_CHECK, claim_check_storage_uri=f"file://{tmp_path}/parts"
    )
    store = Resources.of(options).claim_check
    assert store is not None

    store.put("a.json", b"x")

    assert (tmp_path / "parts/a.json").read_bytes() == b"x"
    assert Resources.of(Options()).claim_check is None
    with pytest.raises(ClaimCheckError):
        store.get("b.json")
