"""tidewire: TiDB change data from message queues into Iceberg and Delta tables that equal the upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidewire.codec import PROTOCOLS, Codec, Options, Resources, protocol
from tidewire.codec.claim_check import FolderStore, MemoryStore
from tidewire.deserializers import Deserializer, quix_deserializer
from tidewire.errors import (
    ClaimCheckError,
    DecodeError,
    EncodeError,
    MessageTooLarge,
    MissingExtra,
    OptionError,
    RegistryError,
    SchemaUnknown,
    TidewireError,
    UnknownProtocol,
)
from tidewire.model import (
    Bootstrap,
    Checksum,
    Column,
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    DdlKind,
    DdlType,
    EnumValue,
    Event,
    Index,
    Message,
    MySQLType,
    Op,
    Position,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from tidewire.reading import read, read_positions

if TYPE_CHECKING:
    from tidewire.spark.snapshot import Snapshot, snapshot

__version__ = "0.1.0"

__all__ = [
    "PROTOCOLS",
    "Bootstrap",
    "Checksum",
    "ClaimCheckError",
    "Codec",
    "Column",
    "ColumnFlag",
    "Date",
    "DateTime",
    "Ddl",
    "DdlKind",
    "DdlType",
    "DecodeError",
    "Deserializer",
    "EncodeError",
    "EnumValue",
    "Event",
    "FolderStore",
    "Index",
    "MemoryStore",
    "Message",
    "MessageTooLarge",
    "MissingExtra",
    "MySQLType",
    "Op",
    "OptionError",
    "Options",
    "Position",
    "RegistryError",
    "Resources",
    "RowChange",
    "SchemaUnknown",
    "SetValue",
    "Snapshot",
    "TableName",
    "TableSchema",
    "TidewireError",
    "Time",
    "Timestamp",
    "UnknownProtocol",
    "Value",
    "Watermark",
    "__version__",
    "protocol",
    "quix_deserializer",
    "read",
    "read_positions",
    "snapshot",
]

_ON_SPARK = ("Snapshot", "snapshot")


def __getattr__(name: str) -> Any:
    """Names that need Spark are loaded when they are asked for."""
    if name in _ON_SPARK:
        from tidewire.spark import snapshot as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
