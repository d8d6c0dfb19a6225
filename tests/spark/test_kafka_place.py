"""What the URI of a Kafka source says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewire.errors import OptionError
from tidewire.spark.kafka_place import MESSAGES_PER_BATCH, KafkaPlace

BROKER = "kafka://10.0.0.1:9092"


def client(query: str) -> dict[str, str]:
    return dict(KafkaPlace.parse(f"{BROKER}/orders?{query}").client)


def test_brokers_and_topics_are_lists() -> None:
    place = KafkaPlace.parse("kafka://a:1,[::1]:2/orders,caf%C3%A9")

    assert (place.brokers, place.topics, place.pattern) == ("a:1,[::1]:2", ("orders", "café"), None)
    assert place.uri == "kafka://a:1,[::1]:2/orders,café"
    assert place.client == {"security.protocol": "PLAINTEXT"}
    assert place.offsets_per_batch == MESSAGES_PER_BATCH


@pytest.mark.parametrize("name", ["pattern", "subscribePattern"])
def test_a_pattern_stands_in_place_of_topics(name: str) -> None:
    place = KafkaPlace.parse(rf"{BROKER}/?{name}=shop\..*")

    assert (place.topics, place.pattern) == ((), r"shop\..*")
    assert place.uri == rf"{BROKER}/?pattern=shop\..*"


def test_a_sink_uri_is_taken_as_it_is() -> None:
    place = KafkaPlace.parse(
        "kafka+ssl://a:1/orders?protocol=avro&partition-num=3&replication-factor=1&max-message-bytes=67108864"
        "&kafka-version=2.4.0&compression=lz4&enable-tidb-extension=true&avro-decimal-handling-mode=string"
    )

    assert place.client == {"security.protocol": "PLAINTEXT"}
    assert place.options == {"enable-tidb-extension": "true", "avro-decimal-handling-mode": "string"}


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("kafka:///orders", "'' is no broker"),
        ("kafka://a/orders", "'a' is no broker"),
        ("kafka://a:1,/orders", "'' is no broker"),
        ("kafka://user:secret@a:1/orders", "is no broker"),
        ("kafka://a:1", "give either topics"),
        ("kafka://a:1/orders?pattern=x", "give either topics"),
        ("kafka://a:1/?pattern=(", "no regular expression"),
        ("kafka://a:1/orders?consumer-groups=x", "no option of a Kafka source; known are ca, cert, consumer-group"),
        ("kafka://a:1/orders?max-offsets-per-batch=0", "not a number above zero"),
        ("kafka://a:1/orders?max-offsets-per-batch=-5", "not a number above zero"),
        ("kafka://a:1/orders?sasl-mechanism=plain", "needs a user"),
        ("kafka://a:1/orders?sasl-user=u&sasl-mechanism=gssapi", "none of plain, scram-sha-256, scram-sha-512"),
        ("kafka://a:1/orders?enable-tls=maybe", "neither true nor false"),
        ("kafka://a:1/orders?enable-tls=false&ca=x.pem", "it is false, and yet ca are given"),
        ("kafka://a:1/orders?cert=x.pem", "a certificate and its key go together"),
        ("kafka://a:1/orders?ca=/missing/ca.pem", "/missing/ca.pem cannot be read as PEM"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(uri: str, reason: str) -> None:
    with pytest.raises(OptionError) as refused:
        KafkaPlace.parse(uri)

    assert reason in str(refused.value)


def test_users_are_quoted_and_never_shown() -> None:
    uri = f"{BROKER}/orders?sasl-user=a%22b&sasl-password=c%5Cd%26e&sasl-mechanism=SCRAM-SHA-256"
    place = KafkaPlace.parse(uri)

    assert place.client["security.protocol"] == "SASL_PLAINTEXT"
    assert place.client["sasl.mechanism"] == "SCRAM-SHA-256"
    assert place.client["sasl.jaas.config"].endswith('username="a\\"b" password="c\\\\d&e";')
    assert 'a"b' not in place.uri + repr(place)
    assert "c\\d" not in place.uri + repr(place)


def test_credentials_travel_by_their_contents(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    for name, path in files.items():
        path.write_text(f"-----BEGIN PRIVATE KEY-----\n{name}\n")

    found = client("&".join(f"{name}={path}" for name, path in files.items()))

    assert found["security.protocol"] == "SSL"
    assert "ca\n" in found["ssl.truststore.certificates"]
    assert "cert\n" in found["ssl.keystore.certificate.chain"]
    assert "key\n" in found["ssl.keystore.key"]
    assert not any(str(tmp_path) in value for value in found.values())


def test_a_key_that_java_cannot_read_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\n")

    with pytest.raises(OptionError, match="openssl pkcs8 -topk8"):
        client(f"cert={key}&key={key}")


@pytest.mark.parametrize(
    ("query", "any_"), [("enable-tls=true&insecure-skip-verify=1", True), ("insecure-skip-verify=true", False)]
)
def test_certificates_go_unchecked_on_request(query: str, any_: bool) -> None:
    assert KafkaPlace.parse(f"{BROKER}/orders?{query}").trust_any is any_
    assert (client(query).get("ssl.endpoint.identification.algorithm") == "") is any_
