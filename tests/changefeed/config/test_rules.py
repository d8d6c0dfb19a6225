"""Every rule about sinks and their configuration refuses what breaks it, under TiCDC's code."""

from __future__ import annotations

import pytest

from changefeed.config.config_requests import (
    AVRO,
    AVRO_FILE,
    CANAL,
    CRAFT,
    CSV,
    GLUE,
    INTEGRITY,
    KAFKA,
    LARGE,
    OAUTH,
    OPEN,
    SIMPLE,
    check,
    table,
)
from tidewire.errors import ChangefeedError

REFUSED = [
    # where changes go
    ("ErrSinkURIInvalid", "", "", "sink-uri is empty"),
    ("ErrSinkURIInvalid", "127.0.0.1:9092/t", "", "scheme"),
    (
        "ErrSinkURIInvalid",
        "kafka://127.0.0.1:9092?protocol=simple",
        "",
        "[CDC:ErrKafkaInvalidConfig]no topic is specified",
    ),
    ("ErrSinkURIInvalid", "kafka://127.0.0.1:9092/?protocol=simple", "", "no topic is specified in sink-uri"),
    ("ErrSinkURIInvalid", "file-topic:///?protocol=simple", "", "no topic is specified in sink-uri"),
    ("ErrSinkURIInvalid", "kafka://127.0.0.1:9092/a/b?protocol=simple", "", "the topic 'a/b'"),
    ("ErrSinkURIInvalid", "kafka://fe80::1:9092/t?protocol=simple", "", "[address]:port"),
    ("ErrSinkURIInvalid", "file://?protocol=csv", "", "names no folder"),
    ("ErrSinkURIInvalid", "s3:///?protocol=csv", "", "s3://bucket/prefix"),
    ("ErrSinkURIInvalid", "mysql://root@127.0.0.1:4000/?protocol=avro", "", "has no protocol"),
    ("ErrSinkURIInvalid", "tidb://root@127.0.0.1:4000/", '[sink]\nprotocol = "avro"', "has no protocol"),
    ("ErrSinkURIInvalid", "pulsar://127.0.0.1:6650/t?protocol=simple", "", "canal-json only"),
    ("ErrSinkURIInvalid", f"{OPEN}&transaction-atomicity=table", "", "transaction-atomicity 'table'"),
    ("ErrSinkURIInvalid", OPEN, '[sink]\ntransaction-atomicity = "table"', "transaction-atomicity 'table'"),
    ("ErrSinkURIInvalid", f"{CSV}&transaction-atomicity=global", "", "none or table, not 'global'"),
    # protocols
    ("ErrSinkUnknownProtocol", "kafka://127.0.0.1:9092/t", "", "unknown '' message protocol"),
    ("ErrSinkUnknownProtocol", "file:///data", "", "unknown '' message protocol"),
    ("ErrSinkUnknownProtocol", "kafka://127.0.0.1:9092/t?protocol=soap", "", "unknown 'soap' message protocol"),
    ("ErrSinkUnknownProtocol", "kafka://127.0.0.1:9092/t?protocol=debezium", "", "no encoder for 'debezium'"),
    ("ErrSinkUnknownProtocol", "kafka://127.0.0.1:9092/t?protocol=csv", "", "no encoder for 'csv'"),
    ("ErrSinkUnknownProtocol", "file:///data?protocol=open-protocol", "", "no encoder for 'open-protocol'"),
    ("ErrSinkUnknownProtocol", "file:///data?protocol=avro", "", "file-topic://"),
    ("ErrSinkUnknownProtocol", "file:///data?protocol=simple", "", "no encoder for 'simple'"),
    # avro
    ("ErrCodecInvalidConfig", AVRO, "", 'Avro protocol requires parameter "schema-registry"'),
    ("ErrCodecInvalidConfig", f"{AVRO}&schema-registry=registry", "", "must begin with"),
    (
        "ErrCodecInvalidConfig",
        f"{AVRO}&schema-registry=http://r",
        GLUE + 'region = "r"\nregistry-name = "n"',
        "not both",
    ),
    ("ErrInvalidReplicaConfig", AVRO, AVRO_FILE + GLUE + 'region = "r"\nregistry-name = "n"', "exclude each other"),
    ("ErrCodecInvalidConfig", AVRO, GLUE + 'region = "r"\nregistry-name = "n"', "not supported"),
    ("ErrInvalidGlueSchemaRegistryConfig", AVRO, GLUE + 'region = "r"', "needs registry-name"),
    (
        "ErrInvalidGlueSchemaRegistryConfig",
        AVRO,
        GLUE + 'region = "r"\nregistry-name = "n"\naccess-key = "a"',
        "secret-access-key",
    ),
    ("ErrCodecInvalidConfig", AVRO, "force-replicate = true" + AVRO_FILE, "force-replicate"),
    (
        "ErrCodecInvalidConfig",
        f"{AVRO}&avro-decimal-handling-mode=invalid",
        AVRO_FILE,
        'avro-decimal-handling-mode value could only be "string" or "precise"',
    ),
    (
        "ErrCodecInvalidConfig",
        f"{AVRO}&avro-bigint-unsigned-handling-mode=invalid",
        AVRO_FILE,
        'bigint-unsigned-handling-mode value could only be "long" or "string"',
    ),
    ("ErrCodecInvalidConfig", AVRO, AVRO_FILE + INTEGRITY, "integrity checks need"),
    (
        "ErrCodecInvalidConfig",
        f"{AVRO}&enable-tidb-extension=true&avro-decimal-handling-mode=string",
        AVRO_FILE + INTEGRITY,
        "integrity checks need",
    ),
    (
        "ErrCodecInvalidConfig",
        f"{AVRO}&avro-bigint-unsigned-handling-mode=string&avro-decimal-handling-mode=string",
        AVRO_FILE + INTEGRITY,
        "integrity checks need",
    ),
    ("ErrKafkaInvalidConfig", f"{AVRO}&schema-registry=http://r", "", "no rule of sink.dispatchers"),
    (
        "ErrKafkaInvalidConfig",
        f"{AVRO}&schema-registry=http://r",
        "[sink]\ndispatchers = [{matcher = ['*.*'], topic = 'fixed'}]",
        "both {schema} and {table}",
    ),
    (
        "ErrKafkaInvalidConfig",
        f"{AVRO}&schema-registry=http://r",
        "[sink]\ndispatchers = [{matcher = ['*.*'], topic = 'x_{table}'}]",
        "{schema}",
    ),
    # other codec options
    ("ErrCodecInvalidConfig", f"{SIMPLE}&encoding-format=xml", "", "json or avro, not 'xml'"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&max-message-bytes=0", "", "max-message-bytes must be greater than 0"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&max-message-bytes=-1", "", "max-message-bytes must be greater than 0"),
    ("ErrCodecInvalidConfig", f"{OPEN}&max-batch-size=0", "", "max-batch-size must be greater than 0"),
    ("ErrCodecInvalidConfig", f"{CRAFT}&max-batch-size=-1", "", "max-batch-size must be greater than 0"),
    (
        "ErrCodecInvalidConfig",
        CANAL,
        "force-replicate = true\n[sink]\ndelete-only-output-handle-key-columns = true",
        "exclude each other",
    ),
    (
        "ErrSinkInvalidConfig",
        CSV,
        "[sink]\ndelete-only-output-handle-key-columns = true",
        "csv always writes all columns",
    ),
    ("ErrSinkInvalidConfig", OPEN, "[sink]\nencoder-concurrency = -1", "encoder-concurrency"),
    # large messages
    ("ErrInvalidReplicaConfig", AVRO, AVRO_FILE + LARGE + '"handle-key-only"', "is not for avro"),
    ("ErrInvalidReplicaConfig", CRAFT, LARGE + '"handle-key-only"', "is not for craft"),
    ("ErrInvalidReplicaConfig", CSV, LARGE + '"handle-key-only"', "is not for csv"),
    ("ErrInvalidReplicaConfig", CANAL, LARGE + '"handle-key-only"', "enable-tidb-extension=true into the sink-uri"),
    (
        "ErrInvalidReplicaConfig",
        CANAL,
        LARGE + '"handle-key-only"\n[sink.kafka-config.codec-config]\nenable-tidb-extension = true',
        "into the sink-uri",
    ),
    ("ErrInvalidReplicaConfig", OPEN, LARGE + '"shorten"', "not 'shorten'"),
    ("ErrInvalidReplicaConfig", OPEN, LARGE + '"claim-check"', "needs a claim-check-storage-uri"),
    (
        "ErrInvalidReplicaConfig",
        OPEN,
        LARGE + '"claim-check"\nclaim-check-storage-uri = "file:///x"\nclaim-check-raw-value = true',
        "not for open-protocol",
    ),
    ("ErrInvalidReplicaConfig", OPEN, LARGE + '"none"\nlarge-message-handle-compression = "gzip"', "not 'gzip'"),
    # dispatch
    (
        "ErrSinkInvalidConfig",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], dispatcher = 'ts', partition = 'ts'}]",
        "sink.dispatchers[0]",
    ),
    ("ErrFilterRuleInvalid", OPEN, "[sink]\ndispatchers = [{matcher = ['shop'], partition = 'ts'}]", "shop"),
    ("ErrFilterRuleInvalid", OPEN, "[filter]\nrules = ['shop']", "shop"),
    ("ErrFilterRuleInvalid", OPEN, "[sink]\ncolumn-selectors = [{matcher = ['shop'], columns = ['*']}]", "shop"),
    (
        "ErrKafkaInvalidConfig",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], topic = '{table}_{schema}'}]",
        "invalid topic expression",
    ),
    (
        "ErrDispatcherFailed",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'columns', columns = ['nobody']}]",
        "nobody",
    ),
    (
        "ErrDispatcherFailed",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'columns', columns = ['twice']}]",
        "virtual",
    ),
    (
        "ErrDispatcherFailed",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'index-value', index = 'nothing'}]",
        "nothing",
    ),
    (
        "ErrDispatcherFailed",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], partition = 'index-value', index = 'plain'}]",
        "plain",
    ),
    (
        "ErrColumnSelectorFailed",
        OPEN,
        "[sink]\ncolumn-selectors = [{matcher = ['*.*'], columns = ['twice']}]",
        "test.t1",
    ),
    (
        "ErrInvalidReplicaConfig",
        SIMPLE,
        INTEGRITY + "[sink]\ncolumn-selectors = [{matcher = ['*.*'], columns = ['*']}]",
        "exclude each other",
    ),
    (
        "ErrInvalidTableRoutingRule",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], target-schema = '{db}'}]",
        "sink.dispatchers[0].target-schema is '{db}'",
    ),
    (
        "ErrTableRouteConflict",
        OPEN,
        "[sink]\ndispatchers = [{matcher = ['*.*'], target-table = 'one'}]",
        "both become test.one",
    ),
    ("ErrInvalidIgnoreEventType", OPEN, "[[filter.event-filters]]\nmatcher = ['*.*']\nignore-event = ['sing']", "sing"),
    # integrity, sync points, times
    (
        "ErrInvalidReplicaConfig",
        SIMPLE,
        '[integrity]\nintegrity-check-level = "some"',
        "none or correctness, not 'some'",
    ),
    ("ErrInvalidReplicaConfig", SIMPLE, '[integrity]\ncorruption-handle-level = "shrug"', "warn or error, not 'shrug'"),
    ("ErrInvalidReplicaConfig", OPEN, "enable-sync-point = true", "database sinks"),
    ("ErrInvalidReplicaConfig", OPEN, 'changefeed-error-stuck-duration = "29m"', "30m is the least"),
    ("ErrInvalidReplicaConfig", OPEN, 'performance-mode = "fast"', "not 'fast'"),
    ("ErrInvalidReplicaConfig", OPEN, '[consistent]\nlevel = "eventual"\nflush-interval = 10', "50 is the least"),
    ("ErrInvalidReplicaConfig", OPEN, '[consistent]\nlevel = "always"', "none or eventual, not 'always'"),
    ("ErrInvalidReplicaConfig", OPEN, "[synced-status]\ncheckpoint-interval = 0", "greater than 0"),
    # Kafka
    ("ErrKafkaInvalidConfig", f"{OPEN}&partition-num=0", "", "partition-num must be greater than 0"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&partition-num=three", "", "partition-num must be a whole number"),
    (
        "ErrKafkaInvalidConfig",
        "file-topic:///data/t?protocol=craft&partition-num=-1",
        "",
        "partition-num must be greater than 0",
    ),
    ("ErrKafkaInvalidConfig", f"{OPEN}&replication-factor=0", "", "replication-factor must be greater than 0"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&kafka-version=two", "", "not 'two'"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&kafka-client-id=a%20b", "", "'a b'"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&required-acks=2", "", "-1, 0 or 1, not 2"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&dial-timeout=10", "", "dial-timeout must be a duration"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&read-timeout=0s", "", "read-timeout must be greater than 0"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&write-timeout=-1s", "", "write-timeout must be greater than 0"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&ca=a&cert=b", "", "key is missing"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&enable-tls=false&ca=a&cert=b&key=c", "", "enable-tls is false"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&sasl-mechanism=handshake", "", "not 'handshake'"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&sasl-mechanism=plain&sasl-user=me", "", "needs sasl-user and sasl-password"),
    ("ErrKafkaInvalidConfig", f"{OPEN}&sasl-mechanism=gssapi", "", "user or keytab"),
    (
        "ErrKafkaInvalidConfig",
        f"{OPEN}&sasl-mechanism=gssapi&sasl-gssapi-auth-type=keytab",
        "",
        "sasl-gssapi-keytab-path",
    ),
    ("ErrKafkaInvalidConfig", OPEN, KAFKA + 'sasl-mechanism = "oauthbearer"', "needs sasl-oauth-client-id"),
    (
        "ErrKafkaInvalidConfig",
        f"{OPEN}&sasl-mechanism=plain&sasl-user=a&sasl-password=b",
        KAFKA + 'sasl-oauth-client-id = "x"',
        "need sasl-mechanism oauthbearer",
    ),
    ("ErrKafkaInvalidConfig", OPEN, OAUTH.replace("aHVzaA==", "?"), "must be Base64"),
    # storage
    ("ErrStorageSinkInvalidConfig", f"{CSV}&worker-count=0", "", "worker-count must be greater than 0"),
    ("ErrStorageSinkInvalidConfig", f"{CSV}&flush-interval=soon", "", "flush-interval must be a duration"),
    ("ErrStorageSinkInvalidConfig", f"{CSV}&spool-disk-quota=0", "", "spool-disk-quota"),
    ("ErrSinkInvalidConfig", CSV, '[sink]\ndate-separator = "week"', "[CDC:ErrStorageSinkInvalidDateSeparator]"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\ndelimiter = ""', "one to three bytes"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\ndelimiter = "abcd"', "one to three bytes"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\ndelimiter = "a\\n"', "line break"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\nquote = "``"', "one character or none"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\nquote = "\\r"', "line break"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\nquote = ","', "share characters"),
    ("ErrSinkInvalidConfig", CSV, '[sink.csv]\nbinary-encoding-method = "raw"', "base64 or hex, not 'raw'"),
]


@pytest.mark.parametrize(("code", "uri", "file", "reason"), REFUSED)
def test_what_breaks_a_rule_is_refused(code: str, uri: str, file: str, reason: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        check(uri, file, tables=[table("test.t1"), table("test.t2")])

    assert caught.value.code == f"CDC:{code}"
    assert reason in caught.value.reason
