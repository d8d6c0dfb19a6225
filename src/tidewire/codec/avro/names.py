"""What tables and columns are called in Avro and in a registry.

Avro knows letters, digits and ``_`` only, so names are bent to fit and cannot be bent back.
"""

from __future__ import annotations

import re

from tidewire.model import TableName

_NOT_AVRO = re.compile(r"[^A-Za-z0-9_]")
_NOT_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_TOPIC = 249  # Kafka's limit

BEFORE = "_ticdc_before"
OP = "_tidb_op"
COMMIT_TS = "_tidb_commit_ts"
PHYSICAL_TIME = "_tidb_commit_physical_time"
CHECKSUM = "_tidb_row_level_checksum"
CORRUPTED = "_tidb_corrupted"
CHECKSUM_VERSION = "_tidb_checksum_version"


def sanitized(name: str) -> str:
    """A name as Avro allows it.

    >>> sanitized("1st.column"), sanitized("键")
    ('_1st_column', '_')
    """
    bent = _NOT_AVRO.sub("_", name)
    return f"_{bent}" if bent[:1].isdigit() else bent


def namespace(keyspace: str, schema: str) -> str:
    """The namespace of a table's records."""
    return f"{sanitized(keyspace)}.{sanitized(schema)}" if schema else sanitized(keyspace)


def topic_of(table: TableName) -> str:
    """The default topic of a table: ``{schema}_{table}``."""
    return _NOT_TOPIC.sub("_", f"{table.schema}_{table.table}")[:_LONGEST_TOPIC]


def subject(topic: str, part: str) -> str:
    """Where the schemas of a topic's keys or values are registered. The topic keeps its dots, the subject does not."""
    return f"{topic.replace('.', '_')}-{part}"
