from __future__ import annotations

import pytest

from changefeed.config.config_requests import AVRO, AVRO_FILE, CANAL, CSV, check
from tidewire.changefeed.config.ownership import of_sink
from tidewire.changefeed.config.replica import from_json, from_toml, to_json
from tidewire.changefeed.config.sections import DispatchRule
from tidewire.changefeed.config.uri import SinkURI

EVERYTHING = """
bdr-mode = true
[sink]
schema-registry = "http://registry"
content-compatible = true
date-separator = "year"
file-index-digit = 7
dispatchers = [
  {matcher = ['a.*'], partition = "ts", topic = "{schema}_{table}", target-schema = "b"},
  {matcher = ['*.*'], partition = "ts", topic = "{schema}_{table}"},
]
[sink.csv]
quote = "'"
[sink.kafka-config]
partition-num = 3
[sink.cloud-storage-config]
file-size = 2048
"""


def test_topics_have_no_keys_of_storage_or_databases() -> None:
    config = check(CANAL, EVERYTHING).settings.config

    assert (config.bdr_mode, config.enable_sync_point, config.sync_point_interval) == (None, None, None)
    assert (config.sink.csv, config.sink.date_separator, config.sink.cloud_storage_config) == (None, None, None)
    assert (config.sink.file_index_digit, config.sink.enable_partition_separator) == (None, None)
    assert config.sink.schema_registry is None
    assert config.sink.kafka_config is not None
    assert len(config.sink.dispatchers) == 2
    assert config.sink.content_compatible is True


def test_avro_keeps_its_registry() -> None:
    assert check(AVRO, EVERYTHING).settings.config.sink.schema_registry == "http://registry"


def test_storage_has_no_keys_of_topics() -> None:
    config = check(CSV, EVERYTHING).settings.config

    assert (config.sink.schema_registry, config.sink.kafka_config, config.sink.content_compatible) == (None, None, None)
    assert (config.sink.encoder_concurrency, config.sink.only_output_updated_columns) == (None, None)
    assert config.sink.dispatchers == (DispatchRule(("a.*",), target_schema="b"),)
    assert config.sink.file_index_digit == 7
    assert config.sink.csv is not None


def test_a_blackhole_keeps_everything() -> None:
    config, _ = from_toml(EVERYTHING)

    assert check("blackhole://", EVERYTHING).settings.config == config


def test_what_a_database_sink_keeps() -> None:
    config = of_sink(SinkURI.parse("mysql://root@127.0.0.1/"), from_toml(EVERYTHING).config)

    assert config.bdr_mode is True
    assert (config.sink.kafka_config, config.sink.csv) == (None, None)


@pytest.mark.parametrize(("uri", "file"), [(CANAL, EVERYTHING), (AVRO, AVRO_FILE), (CSV, EVERYTHING)])
def test_what_is_shown_can_be_given_again(uri: str, file: str) -> None:
    kept = check(uri, file).settings.config

    again = from_json(to_json(kept)).config

    assert of_sink(SinkURI.parse(uri), again) == kept
    assert all(value is not None for value in to_json(kept)["sink"].values())
