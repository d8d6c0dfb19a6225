"""Requests for changefeeds that obey every rule, to be spoiled in one place."""

from __future__ import annotations

from typing import Any

from tidewire.changefeed.config.replica import from_toml
from tidewire.changefeed.config.validate import Checked, Request, validate
from tidewire.model import Column, Generated, Index, TableName, TableSchema

NOW = 445644800000000000
AVRO = "kafka://127.0.0.1:9092/topic-name?protocol=avro"
AVRO_FILE = """
[sink]
schema-registry = "http://127.0.0.1:8081"
dispatchers = [{matcher = ['*.*'], topic = "tidb_{schema}_{table}"}]
"""
CANAL = "kafka://127.0.0.1:9092/topic-name?protocol=canal-json"
OPEN = "kafka://127.0.0.1:9092/topic-name?protocol=open-protocol"
SIMPLE = "kafka://127.0.0.1:9092/topic-name?protocol=simple"
CRAFT = "kafka://127.0.0.1:9092/topic-name?protocol=craft"
CSV = "file:///data/changes?protocol=csv"

LARGE = "[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = "
KAFKA = "[sink.kafka-config]\n"
OAUTH = (
    KAFKA
    + """
sasl-mechanism = "OAUTHBEARER"
sasl-oauth-client-id = "me"
sasl-oauth-client-secret = "aHVzaA=="
sasl-oauth-token-url = "https://auth/token"
"""
)
GLUE = "[sink.kafka-config.glue-schema-registry-config]\n"
INTEGRITY = '[integrity]\nintegrity-check-level = "correctness"\n'


def table(name: str = "test.t1", *, key: bool = True) -> TableSchema:
    """A table with an ordinary, a virtual and, if wanted, a key column, and a unique index that allows NULL."""
    columns = [
        Column.of("id", "int", primary_key=key),
        Column.of("email", "varchar(40)"),
        Column("twice", Column.of("x", "int").type, generated=Generated.VIRTUAL, nullable=True),
    ]
    schema, _, plain = name.partition(".")
    indexes = [Index("by_email", ("email",), unique=True, nullable=True), Index("plain", ("id",))]
    return TableSchema.build(TableName(schema, plain), columns, indexes)


def check(uri: str, file: str = "", changefeed_id: str = "feed", **more: Any) -> Checked:
    """What ``validate`` makes of a URI and the text of a file."""
    return validate(Request(uri, changefeed_id, NOW, from_toml(file).config, **more))
