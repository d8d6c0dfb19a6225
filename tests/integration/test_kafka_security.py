"""TLS and SASL, by TiCDC's names, against a broker that insists on them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from integration.certificates import Authority, Pair
from integration.kafka import BrokerSecurity, Cluster, kafka
from integration.kafka_topics import created, send
from integration.tokens import token_server
from tidewire.codec import Options
from tidewire.errors import BrokerError
from tidewire.model import Position
from tidewire.spark.source import OffsetRange, Source, open_source
from tidewire.sync.manifest import Partition
from tidewire.workload import Delivery, Habits, Production, Workload, produce

pytestmark = pytest.mark.integration

USER, PASSWORD = "reader", "p&s+s%20wrd"
SASL = {"sasl-user": USER, "sasl-password": PASSWORD}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("reader")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    with kafka(security=BrokerSecurity(authority, {USER: PASSWORD})) as running:
        yield running


@pytest.fixture(scope="module")
def production(cluster: Cluster) -> Production:
    """A small topic."""
    workload = Workload(3, transactions=12, tables=1, habits=Habits(statements=0))
    made = produce(workload, Delivery("open-protocol", Options(), "feed", 2))
    created(cluster, "feed", partitions=2)
    send(cluster, ((sent.topic, sent.partition, sent.message) for sent in made.sent))
    return made


def uri_of(cluster: Cluster, listener: str, options: dict[str, str]) -> str:
    return f"kafka://{cluster.at(listener)}/feed?{urlencode(options)}"


def tls(authority: Authority, pair: Pair) -> dict[str, str]:
    return {"ca": str(authority.ca), "cert": str(pair.cert), "key": str(pair.key)}


def read_first(source: Source, at: Position) -> bytes:
    """The value at a position, as tasks read it."""
    (batch,) = pickle.loads(pickle.dumps(source.fetcher)).batches(
        OffsetRange(Partition.of(at), at.offset, at.offset + 1)
    )
    value: bytes = batch.column("value")[0].as_py()
    return value


@pytest.mark.parametrize(
    ("listener", "options"),
    [
        ("SASL_PLAINTEXT", SASL),
        ("SASL_PLAINTEXT", {**SASL, "sasl-mechanism": "plain"}),
        ("SASL_PLAINTEXT", {**SASL, "sasl-mechanism": "scram-sha-256"}),
        ("SASL_SSL", {**SASL, "enable-tls": "true", "insecure-skip-verify": "true"}),
    ],
)
def test_messages_come_by_every_mechanism(
    cluster: Cluster, production: Production, listener: str, options: dict[str, str]
) -> None:
    source = open_source(uri_of(cluster, listener, options))
    at, first = next(iter(production.placed()))

    assert source.fetch([at]) == {at: first.message}
    assert sum(extent.end for extent in source.partitions().values()) == len(production.sent)
    assert read_first(source, at) == first.message.value


@pytest.mark.parametrize("more", [{}, {"sasl-oauth-scopes": "read,write"}, {"sasl-oauth-audience": "brokers"}])
def test_a_token_lets_in(cluster: Cluster, production: Production, more: dict[str, str]) -> None:
    at, first = next(iter(production.placed()))
    with token_server() as server:
        options = {
            "sasl-mechanism": "oauthbearer",
            "sasl-oauth-client-id": "me",
            "sasl-oauth-client-secret": "aHVzaA==",
            "sasl-oauth-token-url": server.url,
            **more,
        }
        source = open_source(uri_of(cluster, "SASL_PLAINTEXT", options))

        assert sum(extent.end for extent in source.partitions().values()) == len(production.sent)
        assert read_first(source, at) == first.message.value
        source.close()

    assert {login for login, _ in server.asked} == {"Basic bWU6aHVzaA=="}
    forms = [form for _, form in server.asked]
    assert all(form["grant_type"] == ["client_credentials"] for form in forms)
    assert all(form.get("scope", [""]) == [more.get("sasl-oauth-scopes", "").replace(",", " ")] for form in forms)
    assert all(form.get("audience", [""]) == [more.get("sasl-oauth-audience", "")] for form in forms)


def test_a_client_certificate_is_shown(
    cluster: Cluster, authority: Authority, pair: Pair, production: Production
) -> None:
    source = open_source(uri_of(cluster, "SSL", tls(authority, pair)))
    places = dict(production.placed())
    last = max(places)

    assert source.fetch([last]) == {last: places[last].message}
    assert read_first(source, last) == places[last].message.value
    with pytest.raises(BrokerError, match=r"Kafka at 127\.0\.0\.1.*check enable-tls, ca, cert and key"):
        open_source(uri_of(cluster, "SSL", {"ca": str(authority.ca)})).partitions()


def test_a_wrong_password_and_an_unknown_authority_are_told(cluster: Cluster, tmp_path: Path) -> None:
    wrong = open_source(uri_of(cluster, "SASL_PLAINTEXT", {**SASL, "sasl-password": "guessed"}))
    other = {"ca": str(Authority(tmp_path).ca), **SASL}

    with pytest.raises(BrokerError, match=r"Authentication failed.*check sasl-mechanism, sasl-user") as told:
        wrong.partitions()
    assert "guessed" not in str(told.value)
    assert not told.value.transient
    with pytest.raises(BrokerError, match="certificate verify failed"):
        open_source(uri_of(cluster, "SASL_SSL", other)).partitions()
