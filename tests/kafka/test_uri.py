"""What a Kafka URI says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewire.changefeed.config.parameters import PARAMETERS
from tidewire.changefeed.config.uri import SinkURI
from tidewire.errors import OptionError
from tidewire.kafka.uri import MESSAGES_PER_PASS, KafkaAddress

BROKER = "kafka://10.0.0.1:9092"


def test_brokers_and_topics_are_lists() -> None:
    address = KafkaAddress.parse("kafka://a:1,[::1]:2,c/orders,caf%C3%A9")

    assert (address.brokers, address.topics, address.pattern) == (
        ("a:1", "[::1]:2", "c:9092"),
        ("orders", "café"),
        None,
    )
    assert address.uri == "kafka://a:1,[::1]:2,c:9092/orders,café"
    assert address.settings == {"bootstrap.servers": "a:1,[::1]:2,c:9092", "security.protocol": "PLAINTEXT"}
    assert address.max_messages == MESSAGES_PER_PASS
    assert address.group is None


@pytest.mark.parametrize("name", ["pattern", "subscribePattern"])
def test_a_pattern_stands_in_place_of_topics(name: str) -> None:
    address = KafkaAddress.parse(rf"{BROKER}/?{name}=shop\..*")

    assert (address.topics, address.pattern) == ((), r"shop\..*")
    assert address.uri == rf"{BROKER}/?pattern=shop\..*"
    assert address.identity == r"kafka:///?pattern=shop\..*"


def test_other_brokers_and_another_order_of_topics_are_the_same_source() -> None:
    one, other = KafkaAddress.parse("kafka://a:1/x,y?sasl-user=u&sasl-password=p"), KafkaAddress.parse("kafka://b/y,x")

    assert one.identity == other.identity == "kafka:///x,y"
    assert one.identity != KafkaAddress.parse("kafka://a:1/x").identity


def test_a_sink_uri_is_taken_as_it_is() -> None:
    address = KafkaAddress.parse(
        "kafka+ssl://a:1/orders?protocol=avro&partition-num=3&replication-factor=1&max-message-bytes=67108864"
        "&kafka-version=2.4.0&compression=lz4&enable-tidb-extension=true&avro-decimal-handling-mode=string"
    )

    assert address.settings["security.protocol"] == "PLAINTEXT"
    assert address.options == {"enable-tidb-extension": "true", "avro-decimal-handling-mode": "string"}


def test_every_parameter_of_a_sink_uri_is_known() -> None:
    sink = SinkURI.parse("kafka://a/orders")
    for name, parameter in PARAMETERS.items():
        if parameter.counts_for(sink):
            KafkaAddress.parse(f"kafka://a/orders?{name}=")


def test_our_own_options() -> None:
    address = KafkaAddress.parse(f"{BROKER}/orders?consumer-group=g&max-offsets-per-batch=7&kafka-client-id=me")

    assert (address.group, address.max_messages, address.settings["client.id"]) == ("g", 7, "me")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("kafka:///orders", "it names no broker; write kafka://host:9092/topic"),
        ("kafka://a:1,/orders", "one of its brokers is empty"),
        ("kafka://a:x/orders", "one of its brokers is not a host and port"),
        ("kafka://a:1/%zz", "a percent sign must be followed by two hexadecimal digits"),
        ("kafka://user:secret@a:1/orders", "use sasl-user and sasl-password"),
        ("kafka://a:1", "name a topic after the brokers"),
        ("kafka://a:1/orders?pattern=x", "name a topic after the brokers"),
        ("kafka://a:1/?pattern=(", "not a regular expression"),
        ("kafka://a:1/orders?consumer-groups=x", "no such option; did you mean consumer-group?"),
        ("kafka://a:1/orders?zzz=x", "no such option; known are ca, cert, consumer-group"),
        ("kafka://a:1/orders?max-offsets-per-batch=0", "not a number above zero"),
        ("kafka://a:1/orders?max-offsets-per-batch=-5", "not a number above zero"),
        ("kafka://a:1/orders?ca=/missing/ca.pem", "/missing/ca.pem cannot be read as PEM"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(uri: str, reason: str) -> None:
    with pytest.raises(OptionError) as refused:
        KafkaAddress.parse(uri)

    assert reason in str(refused.value)
    assert "user:secret" not in str(refused.value)


def test_users_are_never_shown() -> None:
    uri = f"{BROKER}/orders?sasl-user=a%22b&sasl-password=c%5Cd%26e&sasl-mechanism=SCRAM-SHA-256"
    address = KafkaAddress.parse(uri)

    assert (address.settings["sasl.username"], address.settings["sasl.password"]) == ('a"b', "c\\d&e")
    assert 'a"b' not in address.uri + address.identity + repr(address)
    assert "c\\d" not in address.uri + address.identity + repr(address)


def test_credentials_travel_by_their_contents(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    for name, path in files.items():
        path.write_text(f"the {name}\n")

    found = KafkaAddress.parse(f"{BROKER}/o?" + "&".join(f"{name}={path}" for name, path in files.items())).settings

    assert found["security.protocol"] == "SSL"
    assert found["ssl.ca.pem"] == "the ca\n"
    assert found["ssl.certificate.pem"] == "the cert\n"
    assert found["ssl.key.pem"] == "the key\n"
    assert not any(str(tmp_path) in value for value in found.values())
