"""What was shown without secrets and comes back changed has its secrets again."""

from __future__ import annotations

from tidewire.changefeed.config.reading import unmasked, unmasked_uri
from tidewire.changefeed.config.replica import from_json, from_toml, to_json
from tidewire.secrets import redacted

CONFIG = from_toml(
    """
    [sink]
    schema-registry = "https://me:registry-word@registry:8081"
    [sink.kafka-config]
    sasl-password = "kafka-word"
    sasl-gssapi-password = "other-word"
    """
).config


def test_a_configuration_that_was_shown_comes_back_as_it_was() -> None:
    shown = from_json(to_json(CONFIG, redact=True)).config

    assert unmasked(shown, CONFIG) == CONFIG


def test_a_new_secret_counts_and_others_stay() -> None:
    document = to_json(CONFIG, redact=True)
    document["sink"]["kafka_config"]["sasl_password"] = "new-word"
    document["sink"]["schema_registry"] = "https://me:new-word@registry:8081"

    changed = unmasked(from_json(document).config, CONFIG)

    assert changed.sink.schema_registry == "https://me:new-word@registry:8081"
    assert changed.sink.kafka_config is not None
    assert changed.sink.kafka_config.sasl_password == "new-word"
    assert changed.sink.kafka_config.sasl_gssapi_password == "other-word"


def test_sections_that_are_new_or_gone_are_left_alone() -> None:
    without = from_toml("").config

    assert unmasked(without, CONFIG) == without
    assert unmasked(CONFIG, without) == CONFIG


def test_a_uri_is_unchanged_only_if_it_is_the_one_that_was_shown() -> None:
    uri = "kafka://me:hush@broker:9092/topic"

    assert unmasked_uri(redacted(uri), uri) == uri
    assert unmasked_uri("kafka://me:xxxxx@other:9092/topic", uri) == "kafka://me:xxxxx@other:9092/topic"
