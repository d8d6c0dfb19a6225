"""The event model: what happened upstream. It knows no protocol, no queue and no engine."""

from tidewire.model.ddl import DdlKind, DdlType
from tidewire.model.event import Bootstrap, Checksum, Ddl, Event, Op, Row, RowChange, Watermark
from tidewire.model.message import Message, Position
from tidewire.model.table import Column, Generated, Index, TableName, TableSchema
from tidewire.model.types import ColumnFlag, JavaSQLType, MySQLType
from tidewire.model.values import Date, DateTime, EnumValue, SetValue, Temporal, Time, Timestamp, Value

__all__ = [
    "Bootstrap",
    "Checksum",
    "Column",
    "ColumnFlag",
    "Date",
    "DateTime",
    "Ddl",
    "DdlKind",
    "DdlType",
    "EnumValue",
    "Event",
    "Generated",
    "Index",
    "JavaSQLType",
    "Message",
    "MySQLType",
    "Op",
    "Position",
    "Row",
    "RowChange",
    "SetValue",
    "TableName",
    "TableSchema",
    "Temporal",
    "Time",
    "Timestamp",
    "Value",
    "Watermark",
]
