"""TLS and SASL, by TiCDC's names, against a broker that insists on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from pyspark.sql import SparkSession

from integration.certificates import Authority, Pair
from integration.kafka import Cluster, Security, kafka
from integration.live import Follower, created, send, sync_of
from sync_checks import assert_equal
from tidewire.codec import Options
from tidewire.errors import SyncError
from tidewire.model import Position
from tidewire.spark.kafka_fetch import Range, fetched
from tidewire.spark.kafka_place import KafkaPlace
from tidewire.spark.source import open_source
from tidewire.spark.sync import Job
from tidewire.workload import Delivery, Habits, Production, Workload, expectation, produce

pytestmark = [pytest.mark.integration, pytest.mark.slow]

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
    with kafka(security=Security(authority, {USER: PASSWORD})) as running:
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


def fetched_first(uri: str, at: Position) -> bytes:
    """The value at a place, as tasks fetch it."""
    range_ = Range(at.topic, at.partition, at.offset, at.offset + 1, KafkaPlace.parse(uri).native)
    (messages,) = fetched(range_)
    value: bytes = messages.column("value")[0].as_py()
    return value


def test_a_sync_reads_over_tls_as_a_user(
    spark: SparkSession, cluster: Cluster, authority: Authority, production: Production, tmp_path: Path
) -> None:
    options = {"enable-tls": "true", "ca": str(authority.ca), **SASL, "sasl-mechanism": "SCRAM-SHA-512"}
    uri = uri_of(cluster, "SASL_SSL", {**options, "consumer-group": "secured"})
    target = tmp_path / "target"

    sync_of(spark, uri, target, Job("open-protocol"), Follower(production.marks[-1])).run(once=True)

    assert_equal(spark, target, expectation(production, {}, [])["end"])
    kept = [path for path in target.rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert kept
    assert not any(PASSWORD.encode() in path.read_bytes() for path in kept)


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
    spark: SparkSession, cluster: Cluster, production: Production, listener: str, options: dict[str, str]
) -> None:
    source = open_source(spark, uri_of(cluster, listener, options))
    at, first = next(iter(production.placed()))

    assert source.fetch([at]) == {at: first.message}
    assert sum(source.ends().values()) == len(production.sent)
    assert fetched_first(uri_of(cluster, listener, options), at) == first.message.value


def test_a_client_certificate_is_shown(
    spark: SparkSession, cluster: Cluster, authority: Authority, pair: Pair, production: Production
) -> None:
    source = open_source(spark, uri_of(cluster, "SSL", tls(authority, pair)))
    places = dict(production.placed())
    last = max(places)

    assert source.fetch([last]) == {last: places[last].message}
    assert fetched_first(uri_of(cluster, "SSL", tls(authority, pair)), last) == places[last].message.value
    with pytest.raises(SyncError, match=r"kafka://127\.0\.0\.1"):
        open_source(spark, uri_of(cluster, "SSL", {"ca": str(authority.ca)})).ends()


def test_a_wrong_password_and_an_unknown_authority_are_told(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    wrong = open_source(spark, uri_of(cluster, "SASL_PLAINTEXT", {**SASL, "sasl-password": "guessed"}))
    other = {"ca": str(Authority(tmp_path).ca), **SASL}

    with pytest.raises(SyncError, match="Authentication failed") as told:
        wrong.ends()
    assert "guessed" not in str(told.value)
    with pytest.raises(SyncError, match="SSL handshake failed"):
        open_source(spark, uri_of(cluster, "SASL_SSL", other)).ends()
