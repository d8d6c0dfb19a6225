from __future__ import annotations

import pytest

from changefeed.config.config_requests import AVRO, AVRO_FILE, CANAL, CSV, OPEN, SIMPLE, check
from tidewire.changefeed.config.settings import (
    Acks,
    BootstrapSettings,
    FileTopicSettings,
    KafkaSettings,
    StorageSettings,
)
from tidewire.changefeed.config.uri import SinkKind
from tidewire.codec import Options
from tidewire.codec.options import (
    Compression,
    CorruptionHandling,
    DecimalMode,
    EncodingFormat,
    IntegrityCheck,
    LargeMessage,
    UnsignedBigintMode,
)
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.kafka.settings import Gssapi, OAuth, Sasl, Security, Tls
from tidewire.secrets import Secret, SecretURI


def test_a_plain_kafka_sink() -> None:
    settings = check("kafka://127.0.0.1:9092/orders?protocol=open-protocol").settings

    assert settings.kafka == KafkaSettings(("127.0.0.1:9092",), "TiCDC_producer_127.0.0.1_8300_default_feed")
    assert (settings.kind, settings.topic, settings.storage, settings.file_topic) == (
        SinkKind.KAFKA,
        "orders",
        None,
        None,
    )
    assert settings.options == Options()
    assert (settings.memory_quota, settings.error_stuck_duration, settings.encoder_concurrency) == (1 << 30, 1800.0, 32)


def test_everything_a_kafka_sink_can_be_told() -> None:
    settings = check(
        "kafka+ssl://one:9093,two:9093/orders?protocol=open-protocol&kafka-version=3.9.1&kafka-client-id=me"
        "&partition-num=6&replication-factor=3&max-message-bytes=1000&max-retry=9&compression=LZ4"
        "&auto-create-topic=false&required-acks=1&dial-timeout=1m30s&read-timeout=500ms&write-timeout=2s"
        "&ca=ca.pem&cert=cert.pem&key=key.pem&insecure-skip-verify=true"
        "&sasl-user=alice&sasl-password=p%40ss&sasl-mechanism=scram-sha-256"
    ).settings

    assert settings.kafka == KafkaSettings(
        ("one:9093", "two:9093"),
        "me",
        "3.9.1",
        6,
        3,
        False,
        Acks.LEADER,
        "lz4",
        1000,
        9,
        90.0,
        0.5,
        2.0,
        Security(Tls("ca.pem", "cert.pem", "key.pem", True), Sasl("SCRAM-SHA-256", "alice", Secret("p@ss"))),
    )


def test_kafka_in_the_file() -> None:
    file = """
    [sink.kafka-config]
    enable-tls = true
    sasl-mechanism = "OAUTHBEARER"
    sasl-oauth-client-id = "me"
    sasl-oauth-client-secret = "aHVzaA=="
    sasl-oauth-token-url = "https://auth/token"
    sasl-oauth-scopes = ["read", "write"]
    partition-num = 2
    output-raw-change-event = true
    """
    settings = check(OPEN, file).settings

    assert settings.kafka is not None
    assert settings.kafka.security.tls == Tls()
    assert settings.kafka.security.sasl is not None
    assert settings.kafka.security.sasl.oauth == OAuth(
        "me", Secret("hush"), SecretURI("https://auth/token"), ("read", "write")
    )
    assert settings.kafka.partition_num == 2
    assert settings.output_raw_change_event


def test_kerberos() -> None:
    settings = check(
        f"{OPEN}&sasl-mechanism=GSSAPI&sasl-gssapi-auth-type=KEYTAB&sasl-gssapi-keytab-path=k&sasl-gssapi-user=u"
        "&sasl-gssapi-kerberos-config-path=c&sasl-gssapi-service-name=kafka&sasl-gssapi-realm=R"
        "&sasl-gssapi-disable-pafxfast=true"
    ).settings

    assert settings.kafka is not None
    assert settings.kafka.security.sasl == Sasl(
        "GSSAPI", gssapi=Gssapi("keytab", "k", "c", "kafka", "u", realm="R", disable_pafxfast=True)
    )


def test_a_user_without_a_mechanism_is_plain() -> None:
    settings = check(f"{OPEN}&sasl-user=me&sasl-password=pw").settings

    assert settings.kafka is not None
    assert settings.kafka.security.sasl is not None
    assert settings.kafka.security.sasl.mechanism == "PLAIN"


def test_codec_options() -> None:
    settings = check(
        f"{CANAL}&enable-tidb-extension=true&content-compatible=true&output-row-key=true&max-message-bytes=2000",
        """
        [sink]
        only-output-updated-columns = true
        delete-only-output-handle-key-columns = true
        [sink.kafka-config.large-message-handle]
        large-message-handle-option = "claim-check"
        large-message-handle-compression = "lz4"
        claim-check-storage-uri = "file:///large"
        claim-check-raw-value = true
        """,
    ).settings

    assert settings.options == Options(
        max_message_bytes=2000,
        enable_tidb_extension=True,
        content_compatible=True,
        output_row_key=True,
        only_output_updated_columns=True,
        delete_only_output_handle_key_columns=True,
        large_message_handle_option=LargeMessage.CLAIM_CHECK,
        large_message_handle_compression=Compression.LZ4,
        claim_check_storage_uri="file:///large",
        claim_check_raw_value=True,
    )


def test_avro_options() -> None:
    settings = check(
        f"{AVRO}&enable-tidb-extension=true&avro-decimal-handling-mode=string"
        "&avro-bigint-unsigned-handling-mode=string&avro-enable-watermark=true&avro-include-before-value=true",
        AVRO_FILE + '[integrity]\nintegrity-check-level = "correctness"\ncorruption-handle-level = "error"',
        namespace="prod",
        time_zone="Asia/Shanghai",
    ).settings

    assert settings.options == Options(
        enable_tidb_extension=True,
        avro_decimal_handling_mode=DecimalMode.STRING,
        avro_bigint_unsigned_handling_mode=UnsignedBigintMode.STRING,
        avro_enable_watermark=True,
        avro_include_before_value=True,
        schema_registry="http://127.0.0.1:8081",
        namespace="prod",
        integrity_check_level=IntegrityCheck.CORRECTNESS,
        corruption_handle_level=CorruptionHandling.ERROR,
        time_zone="Asia/Shanghai",
    )


def test_open_protocol_and_simple_options() -> None:
    open_options = check(
        OPEN, "[sink.open]\noutput-old-value = false\n[sink.kafka-config.codec-config]\nmax-batch-size = 3"
    )
    simple = check(f"{SIMPLE}&encoding-format=avro").settings.options

    assert (open_options.settings.options.output_old_value, open_options.settings.options.max_batch_size) == (False, 3)
    assert simple.encoding_format is EncodingFormat.AVRO
    assert not check(f"{SIMPLE}&enable-tidb-extension=true").settings.options.enable_tidb_extension


@pytest.mark.parametrize(
    ("text", "name"), [("default", "open-protocol"), ("Flat-Avro", "avro"), ("CANAL-JSON", "canal-json")]
)
def test_aliases_and_spellings_of_protocols(text: str, name: str) -> None:
    assert check(f"kafka://h/t?protocol={text}", AVRO_FILE).settings.protocol == name


@pytest.mark.parametrize(
    ("uri", "every", "count", "enabled"),
    [
        (SIMPLE, 120, 10_000, True),
        (SIMPLE, 0, 10_000, False),
        (SIMPLE, 5, 0, False),
        (SIMPLE, -1, -1, False),
        (OPEN, 1, 1, False),
    ],
)
def test_both_numbers_switch_bootstrap_on(uri: str, every: int, count: int, enabled: bool) -> None:
    file = f"""
    [sink]
    send-bootstrap-interval-in-sec = {every}
    send-bootstrap-in-msg-count = {count}
    send-bootstrap-to-all-partition = false
    send-all-bootstrap-at-start = true
    """
    assert check(uri, file).settings.bootstrap == BootstrapSettings(every, count, False, True, enabled)


def test_a_plain_storage_sink() -> None:
    settings = check(CSV).settings

    assert settings.storage == StorageSettings("/data/changes")
    assert (settings.topic, settings.kafka) == ("", None)


def test_everything_a_storage_sink_can_be_told() -> None:
    settings = check(
        f"{CSV}&worker-count=2&flush-interval=1s&file-size=4096&use-table-id-as-path=true",
        """
        memory-quota = 0
        [sink]
        terminator = ""
        date-separator = "Month"
        enable-partition-separator = false
        file-index-digit = 6
        [sink.csv]
        delimiter = "|"
        [sink.cloud-storage-config]
        worker-count = 9
        flush-concurrency = 4
        file-expiration-days = 3
        file-cleanup-cron-spec = "0 0 3 * * *"
        output-column-id = true
        output-raw-change-event = true
        """,
    ).settings

    assert settings.storage is not None
    assert settings.storage.csv.delimiter == "|"
    assert settings.storage == StorageSettings(
        "/data/changes",
        2,
        1.0,
        4096,
        4,
        "",
        DateSeparator.MONTH,
        False,
        6,
        3,
        "0 0 3 * * *",
        True,
        True,
        settings.storage.csv,
    )
    assert settings.output_raw_change_event
    assert settings.memory_quota == 1 << 30


def test_storage_takes_the_extension_from_the_uri_only() -> None:
    in_file = "[sink.kafka-config.codec-config]\nenable-tidb-extension = true"
    uri = "file:///data?protocol=canal-json"

    assert check(f"{uri}&enable-tidb-extension=true").settings.options.enable_tidb_extension
    assert not check(uri, in_file).settings.options.enable_tidb_extension


def test_topics_in_files() -> None:
    settings = check("file-topic:///data/topics/orders?protocol=craft&partition-num=5").settings

    assert (settings.kind, settings.topic) == (SinkKind.FILE_TOPIC, "orders")
    assert settings.file_topic == FileTopicSettings("/data/topics", 5)


def test_a_blackhole_takes_any_protocol() -> None:
    assert check("blackhole://?protocol=soap").settings.protocol == ""
    assert check("blackhole://?protocol=simple").settings.protocol == "simple"
    assert check("blackhole://").settings.topic == "blackhole"
