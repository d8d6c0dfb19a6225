"""Single values as Iceberg's JSON has them: defaults of columns, and values of partitions.

Here a value has the form in which values are compared: text as its UTF-8 bytes, a date in days, a time in microseconds.
NumPy reads and writes dates, because MySQL has the year 0 and Python does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewire.spark.targets.files import Comparable


def value_of(json: Any, type_: pa.DataType) -> Comparable | None:
    """The value that JSON stands for."""
    return None if json is None else _read(type_)(json)


def json_of(value: Comparable | None, type_: pa.DataType) -> Any:
    """A value as JSON."""
    return None if value is None else _write(type_)(value, type_)


def _read(type_: pa.DataType) -> Callable[[Any], Comparable]:
    return _READ.get(_kind(type_), lambda json: json)


def _write(type_: pa.DataType) -> Callable[[Any, pa.DataType], Any]:
    return _WRITE.get(_kind(type_), lambda value, _: value)


def _kind(type_: pa.DataType) -> str:
    tests = {
        "decimal": pa.types.is_decimal,
        "date": pa.types.is_date,
        "time": pa.types.is_timestamp,
        "text": pa.types.is_string,
        "binary": pa.types.is_binary,
    }
    return next((kind for kind, test in tests.items() if test(type_)), "")


def _days(json: str) -> int:
    return int(np.datetime64(json, "D").astype(np.int64))


def _micros(json: str) -> int:
    return int(np.datetime64(json.removesuffix("Z").removesuffix("+00:00"), "us").astype(np.int64))


def _date(value: int, _: pa.DataType) -> str:
    return str(np.datetime64(value, "D"))


def _time(value: int, type_: pa.DataType) -> str:
    return str(np.datetime64(value, "us")) + ("+00:00" if type_.tz else "")


def _decimal(value: Decimal, type_: pa.DataType) -> str:
    return format(value, "f")


_READ: Final[Mapping[str, Callable[[Any], Comparable]]] = {
    "decimal": Decimal,
    "date": _days,
    "time": _micros,
    "text": str.encode,
    "binary": bytes.fromhex,
}

_WRITE: Final[Mapping[str, Callable[[Any, pa.DataType], Any]]] = {
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "text": lambda value, _: value.decode(),
    "binary": lambda value, _: value.hex().upper(),
}
