"""Commands and files as TiCDC's documents print them."""

from __future__ import annotations

import shlex

import pytest

from changefeed.config.config_requests import NOW, table
from tidewire.changefeed.config.replica import from_toml, with_schema_registry
from tidewire.changefeed.config.settings import BootstrapSettings, Settings
from tidewire.changefeed.config.validate import Request, validate
from tidewire.codec import Options
from tidewire.codec.options import DecimalMode, UnsignedBigintMode

AVRO_FILE = """
[sink]
dispatchers = [
 {matcher = ['*.*'], topic = "tidb_{schema}_{table}"},
]
"""
INDENTED_AVRO_FILE = """
 [sink]
 dispatchers = [
  {matcher = ['*.*'], topic = "tidb_{schema}_{table}"},
 ]
 """
SIMPLE_FILE = """
[sink]
protocol = "simple"

# The following configuration parameters controls the sending behavior of bootstrap messages.
# send-bootstrap-interval-in-sec controls the time interval for sending bootstrap messages, in seconds.
# The default value is 120 seconds, which means that a bootstrap message is sent every 120 seconds for each table.
send-bootstrap-interval-in-sec = 120

# send-bootstrap-in-msg-count controls the message interval for sending bootstrap, in message count.
# The default value is 10000, which means that a bootstrap message is sent every 10000 row changed messages for each table.
send-bootstrap-in-msg-count = 10000
# Note: If you want to disable the sending of bootstrap messages, set both send-bootstrap-interval-in-sec and send-bootstrap-in-msg-count to 0.

# send-bootstrap-to-all-partition controls whether to send bootstrap messages to all partitions.
# The default value is true, which means that bootstrap messages are sent to all partitions of the corresponding table topic.
# Setting it to false means the bootstrap message is sent to only the first partition of the corresponding table topic.
send-bootstrap-to-all-partition = true

[sink.kafka-config.codec-config]
# encoding-format controls the encoding format of the Simple protocol messages. Currently, the Simple protocol message supports "json" and "avro" encoding formats.
# The default value is "json".
encoding-format = "json"
"""  # noqa: E501


def create(command: str, file: str = "") -> Settings:
    """The settings of a ``cdc cli changefeed create`` command."""
    words = shlex.split(command.removeprefix("cdc cli changefeed create"))
    pairs = (word.removeprefix("--").partition("=") for word in words if "=" in word)
    flags = {name: value for name, _, value in pairs}
    config = with_schema_registry(from_toml(file).config, flags.get("schema-registry", ""))
    request = Request(flags["sink-uri"], flags["changefeed-id"], NOW, config, tables=[table("test.t1")])
    checked = validate(request)
    assert checked.warnings == ()
    return checked.settings


@pytest.mark.parametrize("file", [AVRO_FILE, INDENTED_AVRO_FILE])
@pytest.mark.parametrize(
    ("command", "options"),
    [
        (
            'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml',  # noqa: E501
            Options(schema_registry="http://127.0.0.1:8081"),
        ),
        (
            'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro-enable-extension" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro&enable-tidb-extension=true" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml',  # noqa: E501
            Options(schema_registry="http://127.0.0.1:8081", enable_tidb_extension=True),
        ),
        (
            'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro-string-option" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml',  # noqa: E501
            Options(
                schema_registry="http://127.0.0.1:8081",
                avro_decimal_handling_mode=DecimalMode.STRING,
                avro_bigint_unsigned_handling_mode=UnsignedBigintMode.STRING,
            ),
        ),
    ],
)
def test_avro(command: str, options: Options, file: str) -> None:
    settings = create(command, file)

    assert (settings.protocol, settings.topic, settings.options) == ("avro", "topic-name", options)


def test_a_registry_with_user_and_password() -> None:
    settings = create(
        'cdc cli changefeed create --changefeed-id="kafka-avro" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro" --schema-registry=https://username:password@schema-registry-uri.com',  # noqa: E501
        AVRO_FILE,
    )

    assert settings.options.schema_registry == "https://username:password@schema-registry-uri.com"
    assert "password@" not in repr(settings)


@pytest.mark.parametrize(
    ("command", "extension"),
    [
        (
            'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-canal-json" --sink-uri="kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0&protocol=canal-json"',
            False,
        ),
        (
            'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-canal-json-enable-tidb-extension" --sink-uri="kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0&protocol=canal-json&enable-tidb-extension=true"',  # noqa: E501
            True,
        ),
    ],
)
def test_canal_json(command: str, extension: bool) -> None:
    settings = create(command)

    assert settings.kafka is not None
    assert settings.kafka.kafka_version == "2.4.0"
    assert (settings.protocol, settings.options) == ("canal-json", Options(enable_tidb_extension=extension))


def test_canal_json_content_compatible() -> None:
    settings = create(
        '--changefeed-id=a --sink-uri="kafka://127.0.0.1:9092/t?protocol=canal-json&content-compatible=true"'
    )

    assert settings.options.only_updated


def test_simple() -> None:
    sink_uri = '--sink-uri = "kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0"'
    settings = create("--changefeed-id=simple " + sink_uri.replace(" = ", "="), SIMPLE_FILE)

    assert settings.protocol == "simple"
    assert settings.options == Options()
    assert settings.bootstrap == BootstrapSettings(enabled=True)


def test_simple_without_bootstrap() -> None:
    file = SIMPLE_FILE.replace("sec = 120", "sec = 0").replace("count = 10000", "count = 0")

    assert not create("--changefeed-id=simple --sink-uri=kafka://127.0.0.1:9092/t", file).bootstrap.enabled
