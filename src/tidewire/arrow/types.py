"""MySQL types as columns: one table from MySQL to Arrow, one from Arrow to the engines and table formats.

Nothing here is narrower than MySQL: what Arrow, Spark, Iceberg and Delta hold in common decides. None of them has
unsigned integers everywhere, so an unsigned column takes the next wider type, and BIGINT UNSIGNED a decimal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from tidewire.model import Column, MySQLType
from tidewire.model.types import BLOBS, CHARS

MAX_PRECISION: Final = 38
"""The most digits a decimal has in Arrow's 128 bits, in Spark, Iceberg and Delta."""

UNSIGNED_BIGINT: Final = pa.decimal128(20, 0)
VECTOR: Final = pa.list_(pa.float32())


class Engines(NamedTuple):
    """What an Arrow type is called elsewhere."""

    spark: str
    iceberg: str
    delta: str


def arrow_type(column: Column) -> pa.DataType:
    """The type of a column's values in Arrow.

    Where the protocol does not tell enough the type is the wire's: the text of a DECIMAL without scale, the index of
    an ENUM without names, the mask of a SET without names.
    """
    return _TYPES[column.type](column)


def engines(type_: pa.DataType) -> Engines:
    """What an Arrow type is called in Spark, Iceberg and Delta."""
    if pa.types.is_decimal(type_):
        name = f"decimal({type_.precision},{type_.scale})"
        return Engines(name, name.replace(",", ", "), name)
    return _ENGINES[type_]


def warning(column: Column) -> str | None:
    """What a reader of the table should know about a column's type."""
    if column.type is MySQLType.DECIMAL and (column.length or 0) > MAX_PRECISION:
        return f"{column.mysql_type} has more than {MAX_PRECISION} digits and is kept as text"
    return None


def _integer(column: Column) -> pa.DataType:
    wide = column.type is MySQLType.INT and column.unsigned
    return pa.int64() if wide else pa.int32()


def _bigint(column: Column) -> pa.DataType:
    return UNSIGNED_BIGINT if column.unsigned else pa.int64()


def _decimal(column: Column) -> pa.DataType:
    if column.length is None or column.length > MAX_PRECISION:
        return pa.string()
    return pa.decimal128(column.length, column.decimal or 0)


def _bit(column: Column) -> pa.DataType:
    return pa.int64() if column.length is not None and column.length < 64 else UNSIGNED_BIGINT


def _string(column: Column) -> pa.DataType:
    return pa.binary() if column.is_binary else pa.string()


def _always(type_: pa.DataType) -> Callable[[Column], pa.DataType]:
    return lambda _: type_


_TYPES: Mapping[MySQLType, Callable[[Column], pa.DataType]] = {
    **dict.fromkeys((MySQLType.TINYINT, MySQLType.SMALLINT, MySQLType.MEDIUMINT, MySQLType.INT), _integer),
    MySQLType.BIGINT: _bigint,
    MySQLType.FLOAT: _always(pa.float32()),
    MySQLType.DOUBLE: _always(pa.float64()),
    MySQLType.DECIMAL: _decimal,
    MySQLType.YEAR: _always(pa.int32()),
    MySQLType.BIT: _bit,
    MySQLType.DATE: _always(pa.date32()),
    MySQLType.NEWDATE: _always(pa.date32()),
    MySQLType.DATETIME: _always(pa.timestamp("us")),
    MySQLType.TIMESTAMP: _always(pa.timestamp("us", "UTC")),
    MySQLType.TIME: _always(pa.int64()),
    **dict.fromkeys(CHARS | BLOBS, _string),
    MySQLType.ENUM: lambda column: pa.string() if column.elements else pa.int32(),
    MySQLType.SET: lambda column: pa.string() if column.elements else UNSIGNED_BIGINT,
    MySQLType.JSON: _always(pa.string()),
    MySQLType.VECTOR: _always(VECTOR),
    **dict.fromkeys((MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY), _always(pa.string())),
}

_ENGINES: Mapping[pa.DataType, Engines] = {
    pa.int32(): Engines("int", "int", "integer"),
    pa.int64(): Engines("bigint", "long", "long"),
    pa.float32(): Engines("float", "float", "float"),
    pa.float64(): Engines("double", "double", "double"),
    pa.date32(): Engines("date", "date", "date"),
    pa.timestamp("us"): Engines("timestamp_ntz", "timestamp", "timestamp_ntz"),
    pa.timestamp("us", "UTC"): Engines("timestamp", "timestamptz", "timestamp"),
    pa.string(): Engines("string", "string", "string"),
    pa.binary(): Engines("binary", "binary", "binary"),
    VECTOR: Engines("array<float>", "list<float>", "array<float>"),
}
