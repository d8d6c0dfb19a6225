"""Values to typed arrays, whole columns at once: a reader for every type, of wire texts and of model values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import temporal
from tidewire.arrow.invalid_values import Reader, demand, pointing, texts
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import MAX_PRECISION, VECTOR, arrow_type
from tidewire.model import Column, MySQLType
from tidewire.model.types import ENUM_SET, FLOATS
from tidewire.model.values import enum_text, set_text


def text_reader(column: Column, policy: Policy) -> Reader:
    """Reads values that the wire has as text: numbers in digits, ENUM and SET as theirs."""
    if policy.keeps_text(column):
        return temporal.kept_texts(column)
    read = _TEXT_READERS[column.type](column, policy)
    pattern = usual_form(column)
    return temporal.lenient(column, read if pattern is None else pointing(read, pattern), policy)


_USUAL_FORMS: Mapping[MySQLType, str] = {
    MySQLType.TINYINT: "-?[0-9]{1,3}",
    MySQLType.SMALLINT: "-?[0-9]{1,5}",
    MySQLType.MEDIUMINT: "-?[0-9]{1,8}",
    MySQLType.INT: "-?[0-9]{1,10}",
    MySQLType.BIGINT: "-?[0-9]{1,20}",
    MySQLType.YEAR: "[0-9]{1,4}",
    MySQLType.BIT: "[0-9]{1,20}",
    **dict.fromkeys(FLOATS, r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"),
    **temporal.USUAL_FORMS,
}


def usual_form(column: Column) -> str | None:
    """What the texts of a column's values look like, for types where a text can be wrong."""
    if column.type is MySQLType.DECIMAL:
        scale = column.decimal or 0
        digits = max((column.length or MAX_PRECISION) - scale, 1)
        return rf"^-?[0-9]{{1,{digits}}}(\.[0-9]{{1,{scale}}})?$" if scale else f"^-?[0-9]{{1,{digits}}}$"
    form = _USUAL_FORMS.get(column.type)
    return None if form is None else f"^{form}$"


def value_reader(column: Column, policy: Policy) -> Reader:
    """Reads values of the event model."""
    if policy.keeps_text(column):
        return temporal.kept_values(column, policy)
    return temporal.lenient(column, _VALUE_READERS.get(column.type, plain)(column, policy), policy)


def _cast(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        found = pa.array(values, pa.string())
        # Arrow reads hexadecimal too, which no server writes.
        if pc.any(pc.match_substring(found, "x", ignore_case=True)).as_py():
            raise ValueError("not a decimal number")
        return pc.cast(found, type_)

    return read


def _float_texts(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        return finite(pc.cast(pa.array(values, pa.string()), type_))

    return read


def _float_values(column: Column, policy: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        return finite(pa.array(values, pa.float64()).cast(type_), policy)

    return read


def finite(numbers: pa.Array, policy: Policy | None = None) -> pa.Array:
    """The numbers, if MySQL can hold them; Arrow makes infinity of a FLOAT that is too large."""
    good = pc.is_finite(numbers)
    if pc.all(good, min_count=0).as_py():
        return numbers
    if policy is None or not policy.lost_floats or numbers.type != pa.float32():
        raise ValueError("not a finite number")
    policy.count("lost floats", pc.sum(pc.invert(good)).as_py())
    return pc.if_else(good, numbers, pa.scalar(None, numbers.type))


_PLAIN_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"


def plain_decimals(texts: pa.StringArray) -> pa.StringArray:
    """Decimal numbers of a scale that nobody told, as a Decimal prints them: without needless zeros in front."""
    if pc.all(pc.match_substring_regex(texts, _PLAIN_DECIMAL), min_count=0).as_py():
        return texts
    demand(pc.match_substring_regex(texts, _DECIMAL), "not a decimal number")
    return pa.array([None if text is None else f"{Decimal(text):f}" for text in texts.to_pylist()], pa.string())


def contents(values: pa.Array) -> bytes:
    """All texts or byte strings of an array in one."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(data[ends[values.offset] : ends[values.offset + len(values)]])


def _vector(text: str) -> list[float]:
    if text[0] != "[" or text[-1] != "]":
        raise ValueError(f"{text!r} is not a vector")
    return [float(number) for number in text[1:-1].split(",")] if text != "[]" else []


def _vectors(_: Column, __: Policy) -> Reader:
    return lambda values: pa.array([None if value is None else _vector(value) for value in values], VECTOR)


def _numbered_texts(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        return _cast(column, policy)
    named = names(column)
    return lambda values: pa.array([None if value is None else named(int(value)) for value in values], pa.string())


def names(column: Column) -> Callable[[int], str]:
    """Turns the number of an ENUM or SET into its text; ``ValueError`` for one the column does not have."""
    look_up = enum_text if column.type is MySQLType.ENUM else set_text
    known: dict[int, str] = {}

    def named(index: int) -> str:
        if index not in known:
            text = look_up(index, column.elements)
            if text is None:
                raise ValueError(f"{index} is beyond the column's {len(column.elements)} names")
            known[index] = text
        return known[index]

    return named


def plain(column: Column, _: Policy) -> Reader:
    """Reads values that Arrow takes as they are."""
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        return pa.array(values, type_)

    return texts(read) if type_ == pa.string() else read


def _decimal_values(column: Column, policy: Policy) -> Reader:
    if arrow_type(column) != pa.string():
        return plain(column, policy)
    return lambda values: pa.array([None if value is None else format(value, "f") for value in values], pa.string())


def _of_text(read_texts: Callable[[Column, Policy], Reader]) -> Callable[[Column, Policy], Reader]:
    """A reader of wrapped texts out of one of texts."""

    def build(column: Column, policy: Policy) -> Reader:
        read = read_texts(column, policy)
        return lambda values: read([None if value is None else value.text for value in values])

    return build


def _numbered_values(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        type_ = arrow_type(column)
        return lambda values: pa.array([None if value is None else value.index for value in values], type_)
    named = names(column)
    return lambda values: pa.array([None if value is None else named(value.index) for value in values], pa.string())


_TEXT_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    **dict.fromkeys(MySQLType, plain),
    **dict.fromkeys(
        (
            MySQLType.TINYINT,
            MySQLType.SMALLINT,
            MySQLType.MEDIUMINT,
            MySQLType.INT,
            MySQLType.BIGINT,
            MySQLType.YEAR,
            MySQLType.BIT,
            MySQLType.DECIMAL,
        ),
        _cast,
    ),
    MySQLType.FLOAT: _float_texts,
    MySQLType.DOUBLE: _float_texts,
    **temporal.TEXT_READERS,
    MySQLType.VECTOR: _vectors,
    **dict.fromkeys(ENUM_SET, _numbered_texts),
}

_VALUE_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    MySQLType.FLOAT: _float_values,
    MySQLType.DOUBLE: _float_values,
    MySQLType.DECIMAL: _decimal_values,
    **{type_: _of_text(read) for type_, read in temporal.TEXT_READERS.items()},
    MySQLType.TIMESTAMP: temporal.zoned_values,
    **dict.fromkeys(ENUM_SET, _numbered_values),
    MySQLType.VECTOR: _vectors,
}
