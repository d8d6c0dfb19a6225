"""Values to typed arrays, whole columns at once: a reader for every type, of wire texts and of model values.

Readers of texts take no text that :mod:`tidewire.model.grammar` does not have; some they leave to the readable codec.
Readers of model values take what the column can hold in Arrow, and refuse the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import temporal
from tidewire.arrow.invalid_values import READ_ERRORS, InvalidRows, Reader, demand
from tidewire.arrow.policy import Policy
from tidewire.arrow.texts import DIGITS, listed, of_form, of_letters
from tidewire.arrow.types import VECTOR, arrow_type
from tidewire.model import Column, MySQLType, grammar
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS
from tidewire.model.values import enum_text, set_text

Build = Callable[[Column, Policy], Reader]
"""Makes the reader of a column."""

_MOST_NAMES: Final = 4096
_LONGEST_INTEGER: Final = 20


def text_reader(column: Column, policy: Policy) -> Reader:
    """Reads values that the wire has as text, which is a sequence or an array: numbers in digits, ENUM and SET too."""
    if policy.keeps_text(column):
        return temporal.kept_texts(column)
    return temporal.lenient(column, _TEXT_READERS[column.type](column, policy), policy)


def value_reader(column: Column, policy: Policy) -> Reader:
    """Reads values of the event model."""
    if policy.keeps_text(column):
        return temporal.kept_values(column, policy)
    return temporal.lenient(column, _VALUE_READERS[column.type](column, policy), policy)


def complete_text_reader(column: Column, policy: Policy) -> Reader:
    """As :func:`text_reader`, but it takes all texts of the grammar: for texts that no codec can read again."""
    read, read_values = text_reader(column, policy), value_reader(column, policy)

    def complete(values: Any) -> pa.Array:
        try:
            return read(values)
        except READ_ERRORS:
            found = listed(values)
        return read_values([None if text is None else grammar.read_text(column, text) for text in found])

    return complete


def scalar_of_text(text: str, column: Column, policy: Policy) -> pa.Scalar:
    """The value of one text, in the column's type; raises ``ValueError`` or a subclass if it does not fit."""
    return value_reader(column, policy)([grammar.read_text(column, text)])[0]


def integers_in_range(column: Column) -> Reader:
    """Reads numbers of a column of integers, YEAR or BIT, and takes those of its range."""
    type_ = arrow_type(column)
    low, high = grammar.integer_range(column)
    wide = pa.int64() if low < 0 else pa.uint64()

    def read(values: Any) -> pa.Array:
        numbers = values if isinstance(values, pa.Array) else pa.array(values, wide)
        least, most = pc.min_max(numbers).as_py().values()
        if least is not None and not low <= least <= most <= high:
            fits = pc.and_(
                pc.greater_equal(numbers, _bound(low, numbers)), pc.less_equal(numbers, _bound(high, numbers))
            )
            demand(fits, f"not an integer from {low} to {high}")
        return numbers.cast(type_)

    return read


def _bound(number: int, numbers: pa.Array) -> pa.Scalar:
    """A bound, or the nearest number of the array's type."""
    limits = (0, (1 << 64) - 1) if numbers.type == pa.uint64() else (-1 << 63, (1 << 63) - 1)
    return pa.scalar(min(max(number, limits[0]), limits[1]), numbers.type)


def _integer_texts(column: Column, _: Policy) -> Reader:
    wide = pa.int64() if grammar.integer_range(column)[0] < 0 else pa.uint64()
    in_range = integers_in_range(column)
    return lambda values: in_range(of_letters(values, DIGITS + b"-", most=_LONGEST_INTEGER).cast(wide))


def _float_texts(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    # By way of DOUBLE, as the codec does: rounding twice can make a difference in the last bit.
    return lambda values: finite(
        of_letters(values, DIGITS + b"+-.eE", most=grammar.FLOAT.longest).cast(pa.float64()).cast(type_)
    )


_PLAIN_DECIMAL: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


def _decimal_texts(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    if type_ != pa.string():
        # Arrow's cast has no sign of an overflow where a number has more digits before its point than the type.
        whole = f"-?0*[0-9]{{0,{type_.precision - type_.scale}}}([.][0-9]+)?"
        form = grammar.Form(f"a {column.mysql_type}", whole, grammar.DECIMAL.longest)
        return lambda values: of_form(of_form(values, grammar.DECIMAL), form).cast(type_)

    def read(values: Any) -> pa.Array:
        """Numbers of a scale that was not told, as a Decimal prints them: without needless zeros in front."""
        texts = of_form(values, grammar.DECIMAL)
        if pc.all(pc.match_substring_regex(texts, _PLAIN_DECIMAL), min_count=0).as_py():
            return texts
        return pa.array([None if text is None else f"{Decimal(text):f}" for text in texts.to_pylist()], pa.string())

    return read


def _vectors(_: Column, __: Policy) -> Reader:
    return lambda values: pa.array(
        [None if value is None else grammar.vector(value) for value in listed(values)], VECTOR
    )


class _Names(dict[str, str]):
    """The names behind the digits of an ENUM or SET, worked out when first met."""

    def __init__(self, column: Column) -> None:
        self._named = names(column)

    def __missing__(self, digits: str) -> str:
        if len(self) == _MOST_NAMES:
            self.clear()
        self[digits] = self._named(int(grammar.INTEGER.check(digits)))
        return self[digits]


def _name_texts(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        return _integer_texts(column, policy)
    known = _Names(column)
    return lambda values: pa.array([None if value is None else known[value] for value in listed(values)], pa.string())


def names(column: Column) -> Callable[[int], str]:
    """Turns the number of an ENUM or SET into its text; ``ValueError`` for one the column does not have."""
    look_up = enum_text if column.type is MySQLType.ENUM else set_text
    known: dict[int, str] = {}

    def named(index: int) -> str:
        if index not in known:
            text = look_up(index, column.elements) if index >= 0 else None
            if text is None:
                raise ValueError(f"{index} is beyond the column's {len(column.elements)} names")
            if len(known) == _MOST_NAMES:
                known.clear()
            known[index] = text
        return known[index]

    return named


def plain(column: Column, _: Policy) -> Reader:
    """Reads values that Arrow takes as they are; bytes in a column of text are invalid."""
    type_ = arrow_type(column)
    if type_ != pa.string():
        return lambda values: values if isinstance(values, pa.Array) else pa.array(values, type_)

    def read(values: Any) -> pa.Array:
        try:
            return values.cast(type_) if isinstance(values, pa.Array) else pa.array(values, type_)
        except (pa.ArrowException, ValueError):
            found = values.to_pylist() if isinstance(values, pa.Array) else values
            invalid = [row for row, value in enumerate(found) if value is not None and not _is_text(value)]
            raise InvalidRows(invalid, "not text in UTF-8") if invalid else TypeError("not text") from None

    return read


def _is_text(value: str | bytes) -> bool:
    try:
        str(value, "utf-8") if isinstance(value, bytes) else value.encode()
    except (UnicodeError, AttributeError):
        return False
    return True


def _float_values(column: Column, policy: Policy) -> Reader:
    type_ = arrow_type(column)
    return lambda values: finite(pa.array(values, pa.float64()).cast(type_), policy)


def finite(numbers: pa.Array, policy: Policy | None = None) -> pa.Array:
    """The numbers, if MySQL can hold them; Arrow makes infinity of a FLOAT that is too large."""
    good = pc.is_finite(numbers)
    if pc.all(good, min_count=0).as_py():
        return numbers
    if policy is None or not policy.lost_floats or numbers.type != pa.float32():
        demand(pc.fill_null(good, True), "not a finite number")
        return numbers
    policy.count("lost floats", pc.sum(pc.invert(good)).as_py())
    return pc.if_else(good, numbers, pa.scalar(None, numbers.type))


def _decimal_values(column: Column, policy: Policy) -> Reader:
    if arrow_type(column) != pa.string():
        return plain(column, policy)
    return lambda values: pa.array([None if value is None else format(value, "f") for value in values], pa.string())


def _of_text(build: Build) -> Build:
    """A reader of wrapped texts out of one of texts."""

    def built(column: Column, policy: Policy) -> Reader:
        read = build(column, policy)
        return lambda values: read([None if value is None else value.text for value in values])

    return built


def _name_values(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        type_ = arrow_type(column)
        return lambda values: pa.array([None if value is None else value.index for value in values], type_)
    named = names(column)
    return lambda values: pa.array([None if value is None else named(value.index) for value in values], pa.string())


def _formed_texts(column: Column, _: Policy) -> Reader:
    return lambda values: of_form(values, grammar.FORMS[column.type])


_TEXT_READERS: Mapping[MySQLType, Build] = {
    **dict.fromkeys(MySQLType, plain),
    **dict.fromkeys(grammar.FORMS, _formed_texts),
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, _integer_texts),
    **dict.fromkeys(FLOATS, _float_texts),
    **temporal.TEXT_READERS,
    **dict.fromkeys(ENUM_SET, _name_texts),
    MySQLType.DECIMAL: _decimal_texts,
    MySQLType.VECTOR: _vectors,
}

_VALUE_READERS: Mapping[MySQLType, Build] = {
    **dict.fromkeys(MySQLType, plain),
    **dict.fromkeys(FLOATS, _float_values),
    **{type_: _of_text(build) for type_, build in temporal.TEXT_READERS.items()},
    **dict.fromkeys(ENUM_SET, _name_values),
    MySQLType.DECIMAL: _decimal_values,
    MySQLType.TIMESTAMP: temporal.zoned_values,
    MySQLType.VECTOR: _vectors,
}
