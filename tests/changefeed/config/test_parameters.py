"""What belongs to a sink: the parameters of its URI, which win over the file, and the keys of the file."""

from __future__ import annotations

import pytest

from changefeed.config.config_requests import AVRO, AVRO_FILE, CANAL, CSV, OPEN, check
from tidewire.changefeed.config.parameters import PARAMETERS, max_retry, of_sink, overlaid
from tidewire.changefeed.config.reading import toml_names, written
from tidewire.changefeed.config.replica import DEFAULT, DispatchRule, from_json, from_toml, to_json
from tidewire.changefeed.config.uri import SinkURI
from tidewire.errors import ChangefeedError

SAMPLES = {bool: ("true", "false"), int: ("7", "9"), str: ("one", "other")}
FLAGS = {
    "auto-create-topic",
    "sasl-gssapi-disable-pafxfast",
    "enable-tls",
    "insecure-skip-verify",
    "enable-tidb-extension",
    "avro-enable-watermark",
    "avro-include-before-value",
    "output-row-key",
    "content-compatible",
    "only-output-updated-columns",
    "use-table-id-as-path",
}
NUMBERS = {
    "partition-num",
    "replication-factor",
    "max-message-bytes",
    "required-acks",
    "max-batch-size",
    "worker-count",
    "file-size",
    "spool-disk-quota",
}


def samples(name: str) -> tuple[str, str]:
    """Two values of a parameter, as a URI has them."""
    return SAMPLES[bool if name in FLAGS else int if name in NUMBERS else str]


def effective(name: str, in_uri: str, in_file: str) -> str:
    """The value that counts where a URI and a file both have one."""
    home = PARAMETERS[name].home
    config, _ = from_toml(f"{home} = {in_file if name in FLAGS | NUMBERS else repr(in_file)}")
    value = written(overlaid(SinkURI.parse(f"blackhole://?{name}={in_uri}"), config).config, toml_names)
    for part in home.split("."):
        value = value[part]
    return str(value).lower()


@pytest.mark.parametrize("name", [name for name in PARAMETERS if PARAMETERS[name].home])
def test_the_uri_wins_over_the_file_and_so_does_an_explicit_false(name: str) -> None:
    one, other = samples(name)

    assert effective(name, one, other) == one
    assert effective(name, other, one) == other


@pytest.mark.parametrize("name", sorted(FLAGS | NUMBERS))
def test_a_value_of_the_wrong_kind_names_the_parameter(name: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        overlaid(SinkURI.parse(f"blackhole://?{name}=maybe"), DEFAULT)

    assert caught.value.code == PARAMETERS[name].code
    assert caught.value.reason.startswith(f"the sink-uri parameter {name} must be ")


@pytest.mark.parametrize(("word", "value"), [("1", True), ("t", True), ("TRUE", True), ("0", False), ("F", False)])
def test_go_has_several_words_for_true_and_false(word: str, value: bool) -> None:
    settings = check(f"{CANAL}&enable-tidb-extension={word}").settings

    assert settings.options.enable_tidb_extension is value


def test_unknown_and_foreign_parameters_are_ignored_with_a_warning() -> None:
    assert check(f"{CANAL}&colour=red&worker-count=3").warnings == (
        "the sink-uri parameter colour is unknown and is ignored",
        "the sink-uri parameter worker-count means nothing to a kafka sink and is ignored",
    )
    assert check(f"{CSV}&partition-num=3").warnings == (
        "the sink-uri parameter partition-num means nothing to a file sink and is ignored",
    )


def test_keys_of_an_object_store_mean_nothing_to_a_folder() -> None:
    assert check(f"{CSV.replace('file:///data', 's3://bucket')}&region=eu&access-key=a").warnings == ()
    assert check(f"{CSV}&region=eu").warnings == (
        "the sink-uri parameter region means nothing to a file sink and is ignored",
    )


def test_an_empty_parameter_counts_as_none() -> None:
    settings = check("kafka://h/t?protocol=&partition-num=", '[sink]\nprotocol = "simple"').settings
    assert (settings.protocol, settings.kafka and settings.kafka.partition_num) == ("simple", None)


def test_disagreement_about_the_protocol_is_told() -> None:
    checked = check(OPEN, '[sink]\nprotocol = "canal-json"')

    assert checked.settings.protocol == "open-protocol"
    assert checked.settings.config.sink.protocol == "open-protocol"
    assert checked.warnings == (
        "protocol is 'open-protocol' in the sink-uri and 'canal-json' in the configuration; the sink-uri counts",
    )
    assert check(OPEN, '[sink]\nprotocol = "default"').warnings == ()


@pytest.mark.parametrize(("text", "count"), [("", 5), ("0", 0), ("3", 3), ("-1", 5)])
def test_retries(text: str, count: int) -> None:
    assert max_retry(SinkURI.parse(f"kafka://h/t?max-retry={text}")) == count


def test_retries_must_be_a_number() -> None:
    with pytest.raises(ChangefeedError, match="parameter max-retry must be a whole number, not 'often'"):
        check(f"{OPEN}&max-retry=often")


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
