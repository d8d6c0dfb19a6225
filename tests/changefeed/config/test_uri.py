from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.changefeed.config.uri import BUILT, SCHEMES, SinkKind, SinkURI
from tidewire.errors import ChangefeedError


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("kafka://127.0.0.1:9092/t", ("127.0.0.1:9092",)),
        ("kafka://one:1,two:2,three/t", ("one:1", "two:2", "three:9092")),
        ("kafka+ssl://[::1]:9093,[fe80::1]:9092/t", ("[::1]:9093", "[fe80::1]:9092")),
        ("KAFKA://Host:9092/t", ("Host:9092",)),
        ("kafka://me:pw@host:9092/t", ("host:9092",)),
    ],
)
def test_brokers(text: str, hosts: tuple[str, ...]) -> None:
    assert SinkURI.parse(text).hosts == hosts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "topic",
        "http://127.0.0.1/t",
        "kafka:///t",
        "kafka://one,,two/t",
        "kafka://host:nine/t",
        "kafka://host:0/t",
        "kafka://host:70000/t",
        "kafka://:9092/t",
        "kafka://fe80::1:9092/t",
        "kafka://[::1]/t",
        "kafka://::1/t",
        "kafka://host/t?sasl-user=%zz",
        "kafka://host/%e4",
    ],
)
def test_what_is_no_sink_uri_is_refused(text: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        SinkURI.parse(text)

    assert caught.value.code == "CDC:ErrSinkURIInvalid"


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("kafka://host/orders", "orders"),
        ("kafka://host//orders/", "orders"),
        ("kafka://host/", ""),
        ("kafka://host", ""),
        ("kafka://host/a%2Db?protocol=avro", "a-b"),
        ("file-topic:///data/topics/orders?protocol=craft", "orders"),
        ("file-topic:///data/topics/orders/", "orders"),
        ("file:///data/changes", ""),
        ("blackhole://", ""),
    ],
)
def test_the_default_topic(text: str, topic: str) -> None:
    assert SinkURI.parse(text).topic == topic


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("file:///data/changes?protocol=csv", "/data/changes"),
        ("file://localhost/data/changes", "/data/changes"),
        ("file://changes/today", "changes/today"),
        ("file:changes", "changes"),
        ("file:///data/with%20blank", "/data/with blank"),
        ("s3://bucket/prefix/more?access-key=a", "bucket/prefix/more"),
        ("file-topic:///data/topics/orders", "/data/topics"),
        ("file-topic:///orders", "/"),
        ("file-topic://topics/orders", "topics"),
        ("file-topic:topics/orders", "topics"),
        ("file-topic:orders", "."),
    ],
)
def test_the_folder(text: str, folder: str) -> None:
    assert SinkURI.parse(text).folder == folder


def test_parameters_are_decoded_and_the_first_of_a_name_counts() -> None:
    uri = SinkURI.parse("kafka://h/t?sasl-user=alice%40example.com&sasl-password=a%2Bb+c&a=1&a=2&flag&=x#end")

    assert uri.parameters == {"sasl-user": "alice@example.com", "sasl-password": "a+b c", "a": "1", "flag": ""}


@given(st.dictionaries(st.text(min_size=1), st.text()), st.text(min_size=1), st.text())
def test_what_is_percent_encoded_comes_back(parameters: dict[str, str], user: str, password: str) -> None:
    def encoded(text: str) -> str:
        return quote(text.encode("utf-8", "replace"), safe="")

    query = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in parameters.items())
    uri = SinkURI.parse(f"kafka://{encoded(user)}:{encoded(password)}@host/topic?{query}")

    assert uri.parameters == parameters
    assert (uri.user, uri.password, uri.topic) == (user, password, "topic")


def test_every_scheme_of_ticdc_is_known_and_six_have_sinks() -> None:
    assert {scheme for scheme in SCHEMES if SinkURI.parse(f"{scheme}://host/place").kind is SCHEMES[scheme]} == set(
        SCHEMES
    )
    assert {"kafka", "kafka+ssl", "file-topic", "file", "s3", "blackhole"} == BUILT
    assert {kind for kind in SinkKind if kind.has_topics} == {SinkKind.KAFKA, SinkKind.FILE_TOPIC, SinkKind.PULSAR}
