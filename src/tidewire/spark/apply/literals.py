"""Default values as SQL literals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tidewire.arrow.convert import text_reader
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import engines
from tidewire.errors import SyncError
from tidewire.model import Column
from tidewire.model.types import NUMBERED
from tidewire.spark.targets.sql_text import text_literal


def literal_sql(text: str | bytes | None, column: Column, policy: Policy = Policy()) -> str:
    """A default, as a column's schema keeps it, in the column's Spark type; ``None`` is NULL.

    The text is read as a value on the wire is: a TIMESTAMP is in the server's time zone, a date that the calendar does
    not have is what the policy says.

    >>> literal_sql("7", Column.of("n", "int"))
    "CAST('7' AS int)"
    """
    type_ = policy.type_of(column)
    value = None if text is None else _value(text, column, policy)
    if value is None:
        return f"CAST(NULL AS {engines(type_).spark})"
    return _LITERALS.get(type_, _cast)(value, type_)


def _value(text: str | bytes, column: Column, policy: Policy) -> Any:
    if isinstance(text, bytes):
        return text
    if column.type in NUMBERED and column.elements:
        return text
    try:
        read = text_reader(column, policy)([text])
    except (ValueError, pa.ArrowException) as error:
        raise SyncError(f"column {column.name}: {text!r} is no value of {column.mysql_type}: {error}") from error
    # Numbers of microseconds and days, which hold what Python's own types do not.
    plain = {"timestamp": pa.int64(), "date32": pa.int32()}
    for name, number in plain.items():
        if str(read.type).startswith(name):
            read = read.cast(number)
    return read[0].as_py()


def _cast(value: Any, type_: pa.DataType) -> str:
    return f"CAST('{value}' AS {engines(type_).spark})"


_LITERALS: Mapping[pa.DataType, Callable[[Any, pa.DataType], str]] = {
    pa.string(): lambda value, _: text_literal(value),
    pa.binary(): lambda value, _: f"X'{value.hex()}'",
    pa.date32(): lambda value, _: f"date_from_unix_date({value})",
    pa.timestamp("us"): lambda value, _: f"timestampadd(MICROSECOND, {value}, TIMESTAMP_NTZ '1970-01-01 00:00:00')",
    pa.timestamp("us", "UTC"): lambda value, _: f"timestamp_micros({value})",
    pa.list_(pa.float32()): lambda value, _: (
        f"CAST(array({', '.join(f'{number!r}D' for number in value)}) AS array<float>)"
    ),
}
"""Types whose values have another literal than their text, cast."""
