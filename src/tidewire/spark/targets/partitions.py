"""Partitions: the files that rows belong in, computed from columns as Iceberg's specification says.

A value of a partition has the form in which values are compared, like bounds of columns. Delta has only the transform
``identity``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.spark.targets.files import DataFile, PartitionValues, comparable

_EXACT: Final = Context(prec=100)
_WIDTH: Final = re.compile(r"(\w+)(?:\[(\d+)\])?")
_LARGEST: Final = 0x7FFF_FFFF

_MICROSECONDS: Final = {"day": 86_400_000_000, "hour": 3_600_000_000}


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A part of what says which partition a row belongs in: a transform of a column, as Iceberg writes it.

    ``source`` is the id of the column, ``type`` that of its values.
    """

    source: int
    transform: str
    type: pa.DataType

    @property
    def result(self) -> pa.DataType:
        """The type of its values."""
        kind = kind_of(self.transform)
        if kind in ("identity", "truncate"):
            return self.type
        return pa.date32() if kind == "day" else pa.int32()

    def of(self, values: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The partitions' values for values of the column, in the form in which values are compared."""
        match = _WIDTH.fullmatch(self.transform)
        assert match is not None
        flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return _TRANSFORMS[match[1]](flat, int(match[2] or 0))


def kind_of(transform: str) -> str:
    """The name of a transform, without its number."""
    return transform.partition("[")[0]


def can_partition(transform: str, type_: pa.DataType) -> bool:
    """Can values of a type be transformed so?"""
    return any(test(type_) for test in _SOURCES[kind_of(transform)])


def groups(
    fields: Sequence[PartitionField], columns: Sequence[pa.ChunkedArray], rows: int
) -> Iterator[tuple[PartitionValues, npt.NDArray[np.int64]]]:
    """The partitions that rows belong in, each with the places of its rows, in order. ``columns`` are the sources."""
    ids = np.zeros(rows, np.int64)
    encoded = []
    for field, column in zip(fields, columns, strict=True):
        each = field.of(column).dictionary_encode(null_encoding="encode")
        encoded.append(each)
        _, ids = np.unique(ids * max(len(each.dictionary), 1) + each.indices.to_numpy(), return_inverse=True)
    order = np.argsort(ids, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(ids[order])) + 1):
        if len(places):
            first = int(places[0])
            yield tuple(each.dictionary[each.indices[first].as_py()].as_py() for each in encoded), places


def may_be_in(
    fields: Sequence[PartitionField], columns: Sequence[int], values: Sequence[pa.Array]
) -> Callable[[DataFile], bool]:
    """A test of files: may one have rows with such values in columns, given by their ids?"""
    wanted = {
        place: set(field.of(values[columns.index(field.source)].cast(field.type)).to_pylist())
        for place, field in enumerate(fields)
        if field.source in columns
    }
    return lambda file: file.partition is None or all(file.partition[place] in found for place, found in wanted.items())


# Transforms


def _identity(values: pa.Array, _: int) -> pa.Array:
    return comparable(values)


def _bucket(values: pa.Array, count: int) -> pa.Array:
    """The 32-bit Murmur3 hash of a value's bytes, modulo ``count``. Equal values of wider types have equal hashes."""
    known = values.dictionary_encode()
    hashes = np.fromiter(map(mmh3.hash, _hashed(known.dictionary)), np.int64, len(known.dictionary))
    found = pa.array(((hashes & _LARGEST) % count).astype(np.int32))
    return found.take(known.indices)


def _hashed(values: pa.Array) -> Iterator[bytes]:
    """The bytes of values that are hashed: a number as 64 bits, a decimal as its digits in as few bytes as possible."""
    type_ = values.type
    if pa.types.is_decimal(type_):
        for value in values.to_pylist():
            number = int(value.scaleb(type_.scale, _EXACT))
            yield number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
    elif pa.types.is_string(type_) or pa.types.is_binary(type_):
        yield from values.cast(pa.binary()).to_pylist()
    else:
        data = comparable(values).cast(pa.int64()).to_numpy().astype("<i8").tobytes()
        for start in range(0, len(data), 8):
            yield data[start : start + 8]


def _truncate(values: pa.Array, width: int) -> pa.Array:
    """Numbers rounded down to a multiple of ``width``, the first characters of a text, the first bytes."""
    type_ = values.type
    if pa.types.is_string(type_):
        return comparable(pc.utf8_slice_codeunits(values, 0, width))
    if pa.types.is_binary(type_):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(type_):
        known = values.dictionary_encode()
        found = [_rounded_down(value, width, type_.scale) for value in known.dictionary.to_pylist()]
        wider = pa.decimal256(type_.precision + 1, type_.scale)  # the lowest values are rounded to one digit more
        return pa.array(found, wider).take(known.indices)
    numbers = pc.fill_null(values, 0).to_numpy()
    return _masked(numbers - np.mod(numbers, width), values, type_)


def _rounded_down(value: Decimal, width: int, scale: int) -> Decimal:
    number = int(value.scaleb(scale, _EXACT))
    return Decimal(number - number % width).scaleb(-scale, _EXACT)


def _calendar(unit: str) -> Callable[[pa.Array, int], pa.Array]:
    """Years or months since 1970. NumPy's calendar goes back before the year 1."""

    def count(values: pa.Array, _: int) -> pa.Array:
        of = "D" if pa.types.is_date(values.type) else "us"
        numbers = pc.fill_null(comparable(values).cast(pa.int64()), 0).to_numpy()
        moments = numbers.view(f"M8[{of}]").astype("M8[D]") if of == "D" else numbers.view("M8[us]")
        return _masked(moments.astype(f"M8[{unit}]").astype(np.int64), values, pa.int32())

    return count


def _clock(unit: str) -> Callable[[pa.Array, int], pa.Array]:
    """Days or hours since 1970."""

    def count(values: pa.Array, _: int) -> pa.Array:
        numbers = pc.fill_null(comparable(values).cast(pa.int64()), 0).to_numpy()
        if pa.types.is_timestamp(values.type):
            numbers = numbers // _MICROSECONDS[unit]
        return _masked(numbers, values, pa.int32())

    return count


def _masked(numbers: npt.NDArray[Any], values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Numbers as an array that is NULL if other values are."""
    return pa.array(numbers, mask=pc.is_null(values).to_numpy(zero_copy_only=False)).cast(type_)


_TRANSFORMS: Final[Mapping[str, Callable[[pa.Array, int], pa.Array]]] = {
    "identity": _identity,
    "bucket": _bucket,
    "truncate": _truncate,
    "year": _calendar("Y"),
    "month": _calendar("M"),
    "day": _clock("day"),
    "hour": _clock("hour"),
}

_EXACT_TYPES: Final = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_binary)
_TIME_TYPES: Final = (pa.types.is_date, pa.types.is_timestamp)

_SOURCES: Final[Mapping[str, Sequence[Callable[[pa.DataType], bool]]]] = {
    **dict.fromkeys(("identity", "bucket"), (*_EXACT_TYPES, *_TIME_TYPES)),
    "truncate": _EXACT_TYPES,
    **dict.fromkeys(("year", "month", "day"), _TIME_TYPES),
    "hour": (pa.types.is_timestamp,),
}
"""The types of columns that a transform takes."""
