from __future__ import annotations

import dataclasses
import re
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.changefeed.config.durations import Nanoseconds
from tidewire.changefeed.config.reading import without_none
from tidewire.changefeed.config.replica import (
    _UNUSED,
    DEFAULT,
    DispatchRule,
    ReplicaConfig,
    from_json,
    from_toml,
    merged,
    settled,
    to_json,
)
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret, SecretURI

TEXTS = st.text(max_size=8)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(0, 2**63),
    str: TEXTS,
    Secret: TEXTS.map(Secret),
    SecretURI: TEXTS.map(SecretURI),
    Nanoseconds: st.integers(0, 2**60).map(Nanoseconds),
}


def configurations(kind: Any = ReplicaConfig) -> st.SearchStrategy[Any]:
    """Any value of a section, by the types of its fields."""
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{item.name: values(hints[item.name]) for item in dataclasses.fields(kind)})


def values(hint: Any) -> st.SearchStrategy[Any]:
    plain = without_none(hint)
    if typing.get_origin(plain) is tuple:
        return st.lists(values(typing.get_args(plain)[0]), max_size=2).map(tuple)
    return configurations(plain) if dataclasses.is_dataclass(plain) else SCALARS[plain]


def test_an_empty_file_gives_the_defaults() -> None:
    assert from_toml("") == (DEFAULT, ())
    assert from_json({}) == (DEFAULT, ())


@settings(max_examples=25)
@given(configurations())
def test_a_configuration_survives_the_open_api(config: ReplicaConfig) -> None:
    assert from_json(to_json(config)) == (settled(config), ())


def test_keys_of_a_file() -> None:
    config, _ = from_toml("""
        case-sensitive = true
        memory-quota = 0
        sync-point-interval = "5m"
        changefeed-error-stuck-duration = "1h30m"
        [filter]
        rules = ['shop.*', '!shop.tmp']
        ignore-txn-start-ts = [1, 18446744073709551615]
        [[filter.event-filters]]
        matcher = ["shop.orders"]
        ignore-event = ["drop table"]
        ignore-sql = ["^drop"]
        ignore-insert-value-expr = "id >= 100"
        [sink]
        terminator = ""
        file-index-digit = 6
        [[sink.dispatchers]]
        matcher = ["*.*"]
        dispatcher = "index-value"
        index = "by_name"
        [sink.cloud-storage-config]
        flush-interval = "2s"
        [synced-status]
        checkpoint-interval = 20
    """)

    assert config.case_sensitive
    assert config.sync_point_interval == 300_000_000_000
    assert config.changefeed_error_stuck_duration == 5_400_000_000_000
    assert config.filter.ignore_txn_start_ts == (1, 2**64 - 1)
    assert config.filter.event_filters[0].ignore_insert_value_expr == "id >= 100"
    assert (config.sink.terminator, config.sink.file_index_digit) == ("", 6)
    assert config.sink.dispatchers == (DispatchRule(("*.*",), dispatcher="index-value", index="by_name"),)
    assert config.sink.cloud_storage_config is not None
    assert config.sink.cloud_storage_config.flush_interval == "2s"
    assert (config.synced_status.synced_check_interval, config.synced_status.checkpoint_interval) == (300, 20)


def test_all_unknown_keys_are_named_by_their_full_paths() -> None:
    file = """
        colour = 1
        [sink]
        protocl = "avro"
        dispatchers = [{matcher = ['*.*']}, {matcher = ['*.*'], topc = "x"}]
        [sink.kafka-config.codec-config]
        enable_tidb_extension = true
    """
    with pytest.raises(ChangefeedError) as caught:
        from_toml(file)

    assert caught.value.code == "CDC:ErrInvalidReplicaConfig"
    assert caught.value.reason.partition("unknown keys: ")[2].split(", ") == [
        "colour",
        "sink.dispatchers[1].topc",
        "sink.kafka-config.codec-config.enable_tidb_extension",
        "sink.protocl",
    ]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("force-replicate = 1", "force-replicate must be true or false, not a number"),
        ("memory-quota = -1", "memory-quota must be at least 0, not -1"),
        ("memory-quota = 1.5", "memory-quota must be a whole number, not a number"),
        ("memory-quota = 99999999999999999999", "memory-quota must be a number of 64 bits, not 99999999999999999999"),
        ("memory-quota = true", "memory-quota must be a whole number, not a truth value"),
        ("sink = 3", "sink must be a section, not a number"),
        ("filter = {rules = 'a.b'}", "filter.rules must be a list, not text"),
        ("filter = {rules = ['a.b', 3]}", "filter.rules[1] must be text, not a number"),
        ("sync-point-interval = '10'", "sync-point-interval must be a duration such as 10s or 1m30s, not '10'"),
        (
            "sync-point-interval = true",
            "sync-point-interval must be a duration such as 10m, or nanoseconds, not a truth value",
        ),
        (
            "sink = {dispatchers = [{}, {}, {partition = 3}]}",
            "sink.dispatchers[2].partition must be text, not a number",
        ),
        ("sink = {dispatchers = [1]}", "sink.dispatchers[0] must be a section, not a number"),
        (
            "sink = {kafka-config = {sasl-password = 123456}}",
            "sink.kafka-config.sasl-password must be text, not a number",
        ),
        ("sql-mode = 1979-05-27", "sql-mode must be text, not a date"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_by_its_path(file: str, problem: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        from_toml(file)

    assert caught.value.reason == f"the configuration file has invalid values: {problem}"


def test_what_is_no_toml_is_refused_with_its_place() -> None:
    with pytest.raises(ChangefeedError, match=r"not TOML: .*line 2"):
        from_toml("a = 1\nb = = 2")


def test_keys_of_sinks_that_are_not_built_are_accepted_with_a_warning() -> None:
    config, warnings = from_toml("[sink.pulsar-config]\nconnection-timeout = 5\n[scheduler]\nforce-split = true")

    assert config == DEFAULT
    assert warnings == ("these TiCDC keys have no effect in tidewire: scheduler.force-split, sink.pulsar-config",)
    assert from_json({"sink": {"mysql_config": {"worker_count": 1}}}).warnings == (
        "these TiCDC keys have no effect in tidewire: sink.mysql_config",
    )


def test_what_is_unused_is_not_among_the_fields() -> None:
    document = to_json(DEFAULT)

    for path in _UNUSED:
        section, _, key = path.replace("-", "_").rpartition(".")
        assert key not in (document[section] if section else document)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"sink": {"dispatchers": [{"matcher": ["*.*"], "dispatcher": "ts"}]}}, "sink.dispatchers[0].dispatcher"),
        ({"sink": {"file-index-digit": 6}}, "sink.file-index-digit"),
    ],
)
def test_the_open_api_passes_over_names_of_files(document: dict[str, Any], path: str) -> None:
    config, warnings = from_json(document)

    assert warnings == (f"replica_config has unknown keys, which are ignored: {path}",)
    assert config.sink.file_index_digit is None


def test_names_of_the_open_api() -> None:
    config, warnings = from_json(
        {
            "sync_point_interval": "10m",
            "sync_point_retention": 3_600_000_000_000,
            "changefeed_error_stuck_duration": 1.8e12,
            "bdr_mode": None,
            "sink": {
                "dispatchers": [
                    {"matcher": ["a.*"], "partition": "ts", "target-schema": "b", "target-table": "{table}"}
                ],
                "file_index_width": 8,
                "send-all-bootstrap-at-start": True,
                "advance_timeout": 10,
                "csv": {"include_commit_ts": True},
            },
        }
    )
    document = to_json(config)

    assert warnings == ()
    assert document["sync_point_interval"] == 600_000_000_000
    assert document["sync_point_retention"] == 3_600_000_000_000
    assert document["changefeed_error_stuck_duration"] == 1_800_000_000_000
    assert document["bdr_mode"] is False
    assert document["sink"]["dispatchers"] == [
        {"matcher": ["a.*"], "partition": "ts", "target-schema": "b", "target-table": "{table}"}
    ]
    assert document["sink"]["file_index_width"] == 8
    assert document["sink"]["send_all_bootstrap_at_start"] is True
    assert document["sink"]["advance_timeout_in_sec"] == 10
    assert document["sink"]["csv"]["include_commit_ts"] is True


def test_wrong_values_in_the_open_api_are_invalid_parameters() -> None:
    with pytest.raises(ChangefeedError) as caught:
        from_json({"sink": {"kafka_config": {"partition_num": "three"}}})

    assert caught.value.code == "CDC:ErrAPIInvalidParam"
    assert "sink.kafka_config.partition_num must be a whole number" in caught.value.reason


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "must be a section, not a list"),
        ({"filter": {"event_filters": [None]}}, "filter.event_filters[0] must be a section, not null"),
    ],
)
def test_documents_that_are_no_sections_are_refused(document: Any, problem: str) -> None:
    with pytest.raises(ChangefeedError, match=re.escape(problem)) as caught:
        from_json(document)

    assert caught.value.code == "CDC:ErrAPIInvalidParam"


def test_a_file_is_merged_over_what_is_there_and_lists_are_replaced() -> None:
    current, _ = from_toml("""
        force-replicate = true
        filter.rules = ["a.*", "b.*"]
        [sink.kafka-config]
        partition-num = 6
        [sink.kafka-config.codec-config]
        enable-tidb-extension = true
    """)

    config, _ = merged(current, "filter.rules = ['c.*']\n[sink.kafka-config.codec-config]\nmax-batch-size = 3")

    assert config.force_replicate
    assert config.filter.rules == ("c.*",)
    assert config.sink.kafka_config is not None
    assert config.sink.kafka_config.partition_num == 6
    assert config.sink.kafka_config.codec_config is not None
    assert config.sink.kafka_config.codec_config.enable_tidb_extension is True
    assert config.sink.kafka_config.codec_config.max_batch_size == 3


@settings(max_examples=25)
@given(configurations())
def test_merging_nothing_changes_nothing(config: ReplicaConfig) -> None:
    assert merged(config, "").config == config
