"""Registered schemas, read: which fields a record has and what columns they stand for.

The layout of a schema is worked out once and kept, so a message costs only the walk along it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from tidewire.codec.avro.names import (
    BEFORE,
    CHECKSUM,
    CHECKSUM_VERSION,
    COMMIT_TS,
    CORRUPTED,
    OP,
    PHYSICAL_TIME,
)
from tidewire.codec.avro.values import reader_of
from tidewire.codec.avro.wire import PROTOCOL, READERS, AvroType, Cursor, unsigned
from tidewire.codec.gotext import json_number
from tidewire.codec.jsontext import Reader, member_path, read_json
from tidewire.errors import DecodeError
from tidewire.model import Column, MySQLType, TableName, Value
from tidewire.model.types import NUMBERED, TEXTUAL

EXTENSION: Final[Mapping[str, frozenset[AvroType]]] = {
    OP: frozenset({"string"}),
    COMMIT_TS: frozenset({"long"}),
    PHYSICAL_TIME: frozenset({"long"}),
    CHECKSUM: frozenset({"string"}),
    CORRUPTED: frozenset({"boolean"}),
    CHECKSUM_VERSION: frozenset({"int"}),
}
"""The fields that are about the change, not of the row."""
