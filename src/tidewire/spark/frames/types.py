"""Spark types of columns, and the MySQL types that hold the same values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tidewire.arrow.types import MAX_PRECISION
from tidewire.errors import OptionError
from tidewire.model import Column

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")

_MYSQL: Final[Mapping[str, str]] = {
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp_ntz": "datetime(6)",
    "timestamp": "timestamp(6)",
    "string": "longtext",
    "binary": "longblob",
    "array<float>": "vector",
}
"""The MySQL type whose values a column of a Spark type holds; DECIMAL has digits beside it."""

_WHOLE: Final[Mapping[str, int]] = {"int": 10, "bigint": 19}
"""The most digits of whole numbers."""


def column_of(name: str, spark_type: str) -> Column:
    """The column of MySQL that has the values of a Spark type."""
    if _DECIMAL.fullmatch(spark_type):
        return Column.of(name, spark_type.replace(" ", ""))
    mysql = _MYSQL.get(spark_type)
    if mysql is None:
        raise OptionError(
            "schema", f"column {name}: {spark_type} is not one of {', '.join(_MYSQL)}, decimal(precision,scale)"
        )
    return Column.of(name, mysql)


def wider(one: str, other: str) -> str:
    """The type that holds the values of both types; text if no other one does."""
    if one == other:
        return one
    for pair in ((one, other), (other, one)):
        if pair in _WIDER:
            return _WIDER[pair]
    digits, more = _digits(one), _digits(other)
    if digits is None or more is None:
        return "string"
    whole, scale = max(digits[0], more[0]), max(digits[1], more[1])
    if not _DECIMAL.fullmatch(one) and not _DECIMAL.fullmatch(other):
        return "bigint"
    return f"decimal({whole + scale},{scale})" if whole + scale <= MAX_PRECISION else "string"


_WIDER: Final[Mapping[tuple[str, str], str]] = {
    ("float", "double"): "double",
    ("int", "double"): "double",
    ("date", "timestamp_ntz"): "timestamp_ntz",
    ("string", "binary"): "binary",
}


def _digits(type_: str) -> tuple[int, int] | None:
    """How many digits a number has before and after the point, at most."""
    found = _DECIMAL.fullmatch(type_)
    if found is not None:
        precision, scale = int(found[1]), int(found[2])
        return precision - scale, scale
    return (_WHOLE[type_], 0) if type_ in _WHOLE else None


def struct_of(columns: Mapping[str, str]) -> StructType:
    """Columns as Spark's StructType."""
    from pyspark.sql import types

    named = {
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "float": types.FloatType(),
        "double": types.DoubleType(),
        "date": types.DateType(),
        "timestamp_ntz": types.TimestampNTZType(),
        "timestamp": types.TimestampType(),
        "string": types.StringType(),
        "binary": types.BinaryType(),
        "array<float>": types.ArrayType(types.FloatType()),
    }
    fields = []
    for name, type_ in columns.items():
        digits = _DECIMAL.fullmatch(type_)
        decimal = None if digits is None else types.DecimalType(int(digits[1]), int(digits[2]))
        fields.append(types.StructField(name, named[type_] if decimal is None else decimal))
    return types.StructType(fields)


def columns_of(schema: StructType) -> list[tuple[str, str]]:
    """The columns of a StructType with their types in Spark's words, checked."""
    columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    for name, type_ in columns:
        column_of(name, type_)
    _check_names(name for name, _ in columns)
    return columns


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.startswith("_") and name in RESERVED:
            raise OptionError("schema", f"column {name}: tw.rows adds a column of that name; leave it out")
        if name.lower() in seen:
            raise OptionError("schema", f"column {name} is given twice; names must differ by more than case")
        seen.add(name.lower())


RESERVED: Final = ("_op", "_commit_ts", "_topic", "_partition", "_offset", "_sub", "_before", "_absent")
"""The columns about a change, beside those of its table."""
