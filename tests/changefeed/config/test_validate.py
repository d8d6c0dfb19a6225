"""Names, times and tables; what is accepted, and what is told about it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from changefeed.config.config_requests import (
    AVRO,
    AVRO_FILE,
    CANAL,
    CRAFT,
    CSV,
    INTEGRITY,
    KAFKA,
    LARGE,
    NOW,
    OAUTH,
    OPEN,
    SIMPLE,
    check,
    table,
)
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import SCHEMES
from tidewire.errors import ChangefeedError
from tidewire.model import TableName


@pytest.mark.parametrize(
    ("code", "more", "reason"),
    [
        ("ErrAPIInvalidParam", {"changefeed_id": "my feed"}, "[CDC:ErrInvalidChangefeedID]"),
        ("ErrAPIInvalidParam", {"changefeed_id": ""}, "[CDC:ErrInvalidChangefeedID]"),
        ("ErrAPIInvalidParam", {"changefeed_id": "a--b"}, "[CDC:ErrInvalidChangefeedID]"),
        ("ErrAPIInvalidParam", {"changefeed_id": "feed\n"}, "[CDC:ErrInvalidChangefeedID]"),
        ("ErrAPIInvalidParam", {"changefeed_id": "a" * 129}, "128 characters at most"),
        ("ErrChangeFeedAlreadyExists", {"taken": {"feed"}}, "already"),
        ("ErrAPIInvalidParam", {"start_ts": NOW + 1}, "in the future"),
        ("ErrStartTsBeforeGC", {"start_ts": 5, "gc_safe_point": 5}, "GC safe point 5"),
        ("ErrTargetTsBeforeStartTs", {"start_ts": 5, "target_ts": 5}, "must be after start-ts 5"),
        ("ErrTargetTsBeforeStartTs", {"target_ts": NOW}, "must be after start-ts"),
        ("ErrTableIneligible", {"tables": [table("test.bare", key=False)]}, "test.bare"),
    ],
)
def test_names_times_and_tables_that_cannot_be(code: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        check(OPEN, **more)

    assert caught.value.code == f"CDC:{code}"
    assert reason in caught.value.reason


@pytest.mark.parametrize("scheme", ["gcs", "gs", "azblob", "azure", "noop", "mysql", "tidb+ssl"])
def test_sinks_of_ticdc_that_are_not_built_are_named(scheme: str) -> None:
    protocol = "" if SCHEMES[scheme] == "database" else "?protocol=canal-json"
    with pytest.raises(ChangefeedError, match=f"tidewire has no {scheme} sink".replace("+", r"\+")):
        check(f"{scheme}://host/place{protocol}")


def test_settings_can_go_to_another_process() -> None:
    checked = check(f"{OPEN}&sasl-user=me&sasl-password=hush", tables=[table()])

    assert pickle.loads(pickle.dumps(checked)) == checked


def test_pulsar_is_not_built_either() -> None:
    with pytest.raises(ChangefeedError, match="tidewire has no pulsar sink"):
        check("pulsar://127.0.0.1:6650/t?protocol=canal-json")


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        (OPEN, ""),
        (CRAFT, ""),
        (f"{CANAL}&enable-tidb-extension=true", LARGE + '"handle-key-only"'),
        (SIMPLE, LARGE + '"claim-check"\nclaim-check-storage-uri = "file:///large"\nclaim-check-raw-value = true'),
        (OPEN, LARGE + '""'),
        (AVRO, AVRO_FILE),
        ("kafka://h/t?protocol=Flat-Avro", AVRO_FILE),
        (
            f"{AVRO}&enable-tidb-extension=true&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string",
            AVRO_FILE + INTEGRITY,
        ),
        (SIMPLE, INTEGRITY),
        (OPEN, OAUTH),
        (
            f"{OPEN}&sasl-mechanism=gssapi&sasl-gssapi-auth-type=user&sasl-gssapi-kerberos-config-path=k&sasl-gssapi-service-name=s&sasl-gssapi-user=u&sasl-gssapi-realm=r&sasl-gssapi-password=p",
            "",
        ),
        (CSV, '[sink.csv]\nquote = ""\ndelimiter = "|+|"'),
        (CSV, '[sink]\ndate-separator = "None"'),
        ("file:///data?protocol=canal-json&enable-tidb-extension=true", ""),
        (
            "s3://bucket/prefix?protocol=csv&endpoint=http://127.0.0.1:9000&secret-access-key=x&force-path-style=true",
            "",
        ),
        ("file-topic:///data/topics/t?protocol=craft", ""),
        ("blackhole://", "force-replicate = true"),
        ("blackhole://?protocol=avro", ""),
    ],
)
def test_what_obeys_the_rules_is_accepted(uri: str, file: str) -> None:
    checked = check(uri, file, tables=[table()])

    assert isinstance(checked.settings, Settings)
    assert checked.eligible == (TableName("test", "t1"),)


@pytest.mark.parametrize("name", ["a", "kafka-avro", "A1-b2-C3", "a" * 128])
def test_ids(name: str) -> None:
    assert check(OPEN, changefeed_id=name).settings.changefeed_id == name


def test_avro_refuses_every_matched_table_without_a_topic_of_its_own() -> None:
    file = """
    [sink]
    schema-registry = "http://127.0.0.1:8081"
    dispatchers = [{matcher = ['shop.*'], topic = "{schema}_{table}"}, {matcher = ['old.*'], topic = "old"}]
    """

    assert check(AVRO, file, tables=[table("shop.a")]).eligible == (TableName("shop", "a"),)
    for name in ("old.a", "other.a"):
        with pytest.raises(ChangefeedError, match=name) as caught:
            check(AVRO, file, tables=[table("shop.a"), table(name)])
        assert caught.value.code == "CDC:ErrKafkaInvalidConfig"
        assert check(AVRO, f"filter.rules = ['shop.*']\n{file}", tables=[table("shop.a"), table(name)])


def test_tables_without_a_key_are_left_out_or_forced() -> None:
    tables = [table("test.good"), table("test.bare", key=False), table("mysql.user")]

    left_out = check(OPEN, "ignore-ineligible-table = true", tables=tables)
    forced = check(OPEN, "force-replicate = true", tables=tables)

    good, bare = TableName("test", "good"), TableName("test", "bare")
    assert (left_out.eligible, left_out.ineligible) == ((good,), (bare,))
    assert (forced.eligible, forced.ineligible) == ((good, bare), ())


def test_rules_are_only_asked_about_tables_that_take_part() -> None:
    file = (
        "filter.rules = ['a.*']\n[sink]\ndispatchers = [{matcher = ['b.*'], partition = 'columns', columns = ['none']}]"
    )

    assert check(OPEN, file, tables=[table("a.t"), table("b.t")]).eligible == (TableName("a", "t"),)


def test_a_changefeed_begins_now_unless_told_otherwise() -> None:
    assert check(OPEN).start_ts == NOW
    assert check(OPEN, start_ts=7, target_ts=8).start_ts == 7
    assert check(OPEN, "check-gc-safe-point = false", start_ts=7, gc_safe_point=9).start_ts == 7


@pytest.mark.parametrize(
    ("uri", "file", "warning"),
    [
        (
            f"{OPEN}&enable-tidb-extension=true",
            "",
            "enable-tidb-extension is ignored: open-protocol has no TiDB extension",
        ),
        (f"{CSV}&enable-tidb-extension=true", "", "enable-tidb-extension is ignored: csv has no TiDB extension"),
        (
            f"{OPEN}&compression=zip",
            "",
            "compression 'zip' is unknown and counts as none; there are gzip, lz4, none, snappy, zstd",
        ),
        (
            "kafka://me:pw@127.0.0.1/t?protocol=simple",
            "",
            "user and password before the brokers are ignored; use sasl-user and sasl-password",
        ),
        (f"{OPEN}&max-retry=-2", "", "max-retry -2 is negative and ignored"),
        (
            f"{OPEN}&insecure-skip-verify=true",
            "",
            "insecure-skip-verify is ignored: without enable-tls there is no TLS",
        ),
        (f"{CSV}&worker-count=513", "", "worker-count 513 counts as 512"),
        (f"{CSV}&flush-interval=99ms", "", "flush-interval 99ms counts as 0.1s"),
        (f"{CSV}&flush-interval=11m", "", "flush-interval 11m counts as 600s"),
        (f"{CSV}&file-size=1000", "", "file-size 1000 counts as 1024"),
        (f"{CSV}&file-size=536870913", "", "file-size 536870913 counts as 536870912"),
        (CSV, "[sink.cloud-storage-config]\nflush-concurrency = 513", "flush-concurrency 513 counts as 1"),
        (CSV, "[sink]\nfile-index-digit = 5", "file-index-digit 5 counts as 20"),
        (
            CSV,
            '[sink]\ndate-separator = "year"\n[sink.cloud-storage-config]\nfile-expiration-days = 3',
            "file-expiration-days is ignored: files are only sorted by day with date-separator 'day'",
        ),
        (CSV, "[sink.csv]\noutput-handle-key = true", "csv.output-handle-key is ignored, as newer servers do"),
        (CSV, INTEGRITY, "integrity checks are switched off: a file sink does not carry checksums"),
        (
            AVRO,
            AVRO_FILE + KAFKA + "output-raw-change-event = true",
            "output-raw-change-event with avro without old values: an UPDATE that changes a key loses the old one",
        ),
        (
            CSV,
            "[sink.cloud-storage-config]\noutput-raw-change-event = true",
            "output-raw-change-event with csv without old values: an UPDATE that changes a key loses the old one",
        ),
        (
            OPEN,
            "force-replicate = true\n" + LARGE + '"handle-key-only"',
            "with force-replicate a table may have no handle key, and its large messages cannot be sent",
        ),
        (OPEN, "bdr-mode = true\nsql-mode = 'x'", "without effect here: bdr-mode, sql-mode"),
        (
            OPEN,
            "[sink]\ndispatchers = [{partition = 'ts'}]",
            "without a matcher, so for no table: sink.dispatchers[0]; ['*.*'] matches all",
        ),
        (
            OPEN,
            "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'random'}]",
            "dispatcher 'random' of ['*.*'] is unknown, so its rows are spread by table",
        ),
    ],
)
def test_what_is_accepted_but_not_as_it_may_seem_is_told(uri: str, file: str, warning: str) -> None:
    assert warning in check(uri, file).warnings


@pytest.mark.parametrize("uri", [OPEN, CANAL, SIMPLE, CRAFT, CSV, "blackhole://"])
def test_there_is_nothing_to_tell_about_plain_configurations(uri: str) -> None:
    assert check(uri).warnings == ()
