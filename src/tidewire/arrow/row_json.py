"""Row images as JSON objects, whole columns at once.

==============================  ====================================================
NULL                            ``null``; a column that a partial row leaves out is not a member
integers, YEAR, BIT             a number
FLOAT, DOUBLE                   a number, the shortest that reads back the same
DECIMAL                         a number; with more than 38 digits a string, because readers would round it
DATE, DATETIME, TIME            a string, MySQL's text
TIMESTAMP                       a string in UTC that ends in ``Z``
ENUM, SET                       a string, or the number if the protocol does not send the names
text, JSON                      a string
binary                          a string in Base64
VECTOR                          an array of numbers
==============================  ====================================================

The native kernel writes a whole batch at once. It gets the values of columns that it would write in another form as
text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import kernel
from tidewire.arrow.cast import family, text_of
from tidewire.arrow.clocks import clock_text, time_text
from tidewire.arrow.encode import parts
from tidewire.arrow.encode.native import Frame
from tidewire.arrow.numbers import float_text, number_text
from tidewire.arrow.plan import Plan
from tidewire.arrow.policy import Policy
from tidewire.arrow.texts import Piece, base64_texts, escaped, joined, merged
from tidewire.arrow.types import MAX_PRECISION
from tidewire.codec.gotext import JSONITER
from tidewire.model import Column

_escaped = escaped(JSONITER)

Pieces: TypeAlias = Sequence[Piece]
"""What stands in the values of a column, one piece after the other. They are joined only once, with all columns."""

_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
"""A number as JSON writes it."""


def json_images(
    rows: pa.RecordBatch, plan: Plan, policy: Policy, *, before: bool = True
) -> tuple[pa.StringArray, pa.StringArray]:
    """The old and the new rows of a batch as JSON objects; NULL if there is no row.

    Without ``before`` all old rows are NULL.
    """
    absent = rows.column("_absent")
    partial = absent.null_count < rows.num_rows
    old, new = _by_kernel(rows, plan, policy, before=before and not partial) or (None, None)
    if not before:
        old = pa.nulls(rows.num_rows, pa.string())
    elif old is None or partial:
        old = json_rows(rows.column("before"), plan, policy, absent)
    return old, json_rows(rows.column("after"), plan, policy) if new is None else new


def json_rows(images: pa.StructArray, plan: Plan, policy: Policy, absent: pa.ListArray | None = None) -> pa.StringArray:
    """The rows of a plan as JSON objects; NULL if there is no row.

    ``absent`` lists the numbers of the columns that a row leaves out.
    """
    count = len(images)
    if images.null_count == count:
        return pa.nulls(count, pa.string())
    if not images.null_count:
        return _texts(images, plan, policy, absent)
    there = images.is_valid()
    texts = _texts(images.filter(there), plan, policy, None if absent is None else absent.filter(there))
    return texts.take(pc.if_else(there, pc.subtract(pc.cumulative_sum(there.cast(pa.int32())), 1), None))


def _texts(images: pa.StructArray, plan: Plan, policy: Policy, absent: pa.ListArray | None) -> pa.StringArray:
    """The JSON of images of which none is NULL."""
    count = len(images)
    if not plan.columns:
        return pa.repeat("{}", count)
    columns = [each.column for each in plan.columns]
    values = [_member(array, column, policy) for array, column in zip(images.flatten(), columns, strict=True)]
    names = [JSONITER.quote(column.name).decode() + ":" for column in columns]
    if absent is None or absent.null_count == count:
        return _whole(names, values, count)
    return _partial(names, values, _left_out(absent, count, len(columns)), count)


def _whole(names: Sequence[str], values: Sequence[Pieces], count: int) -> pa.StringArray:
    pieces: list[Piece] = []
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        pieces += [("," if number else "{") + name, *value]
    return joined([*pieces, "}"], count)


def _partial(
    names: Sequence[str], values: Sequence[Pieces], left_out: Sequence[pa.BooleanArray | None], count: int
) -> pa.StringArray:
    # Arrow 26 drops a row of which all parts are NULL when told to skip NULLs, so absent members are empty instead.
    members: list[Piece] = []
    for name, value, gone in zip(names, values, left_out, strict=True):
        member = joined([",", name, *value], count)
        members.append(member if gone is None else pc.if_else(gone, "", member))
    return joined(["{", pc.utf8_slice_codeunits(joined(members, count), 1), "}"], count)


def _left_out(absent: pa.ListArray, count: int, width: int) -> list[pa.BooleanArray | None]:
    """For each column, which rows leave it out; None if every row has it."""
    rows, numbers = pc.list_parent_indices(absent), pc.list_flatten(absent)
    everywhere = pa.array(range(count), rows.type)
    found: list[pa.BooleanArray | None] = []
    for number in range(width):
        those = rows.filter(pc.equal(numbers, number))
        found.append(pc.is_in(everywhere, value_set=those) if len(those) else None)
    return found


def _member(values: pa.Array, column: Column, policy: Policy) -> Pieces:
    """The values of a column as JSON, ``null`` for NULL."""
    if values.null_count == len(values):
        return ("null",)
    pieces = _PIECES[family(column, policy)](values, column, policy)
    if not values.null_count:
        return pieces
    return (pc.fill_null(joined(pieces, len(values)), "null"),)


def _quoted(texts: pa.StringArray) -> Pieces:
    return ('"', texts, '"')


def _numbers(values: pa.Array, _: Column, __: Policy) -> Pieces:
    return (number_text(values),)


def _floats(values: pa.Array, _: Column, __: Policy) -> Pieces:
    texts = float_text(values)
    return _quoted_unless(pc.is_finite(values), texts, texts)


def _decimals(values: pa.Array, _: Column, __: Policy) -> Pieces:
    """Numbers, except texts that are not numbers in JSON or have more digits than engines keep."""
    texts = number_text(values)
    if pa.types.is_decimal(values.type):
        return (texts,)
    if pc.max(pc.binary_length(texts)).as_py() <= MAX_PRECISION:
        exact = pc.match_substring_regex(texts, _NUMBER)
    else:
        digits = pc.binary_length(pc.replace_substring_regex(texts, "[^0-9]", ""))
        exact = pc.and_(pc.match_substring_regex(texts, _NUMBER), pc.less_equal(digits, MAX_PRECISION))
    return _quoted_unless(exact, texts, _escaped(texts))


def _quoted_unless(plain: pa.BooleanArray, texts: pa.StringArray, escapes: pa.StringArray) -> Pieces:
    """The texts as they are where ``plain`` is true, and between quotes elsewhere."""
    if pc.all(plain, min_count=0).as_py():
        return (texts,)
    return (pc.if_else(plain, texts, joined(_quoted(escapes), len(texts))),)


def _named(values: pa.Array, _: Column, __: Policy) -> Pieces:
    return _quoted(_escaped(values)) if values.type == pa.string() else (number_text(values),)


def _dates(values: pa.Array, column: Column, policy: Policy) -> Pieces:
    return _quoted(text_of(values, column, policy))


def _with_fraction(write: Callable[[pa.Array, int], pa.StringArray]) -> Callable[[pa.Array, Column], pa.StringArray]:
    """Times with the digits behind the second that the column declares; if it declares none, without trailing zeros."""

    def texts(values: pa.Array, column: Column) -> pa.StringArray:
        if column.decimal is not None:
            return write(values, column.decimal)
        return pc.utf8_rtrim(pc.utf8_rtrim(write(values, _MICROS), "0"), ".")

    return texts


_MICROS: Final = 6
_clocks, _times = _with_fraction(clock_text), _with_fraction(time_text)


def _instants(values: pa.Array, column: Column) -> Pieces:
    return ('"', _clocks(pc.cast(values, pa.timestamp("us")), column), 'Z"')


_PIECES: Mapping[str, Callable[[pa.Array, Column, Policy], Pieces]] = {
    "whole": _numbers,
    "year": _numbers,
    "float": _floats,
    "decimal": _decimals,
    "date": _dates,
    "datetime": lambda values, column, _: _quoted(_clocks(values, column)),
    "time": lambda values, column, _: _quoted(_times(values, column)),
    "timestamp": lambda values, column, _: _instants(values, column),
    "enum": _named,
    "set": _named,
    "text": lambda values, _, __: _quoted(_escaped(values)),
    "bytes": lambda values, _, __: _quoted(base64_texts(values)),
    "vector": lambda values, column, policy: (text_of(values, column, policy),),
}
"""The JSON of values by the kind of their column; NULL stays NULL."""


# By the native kernel

_BARE: Final = parts.Around(null=b"null")
_UTC: Final = parts.Around(b'"', b"null", b'Z"')
_ANY_SIZE: Final = Frame(sys.maxsize)


def _by_kernel(
    rows: pa.RecordBatch, plan: Plan, policy: Policy, *, before: bool
) -> tuple[pa.StringArray, pa.StringArray] | None:
    """The old and the new rows as the native kernel writes them; None if it is not here or does not take a value.

    To the kernel they are the keys and values of messages.
    """
    if kernel.KERNEL is not kernel.Kernel.NATIVE or not plan.columns:
        return None
    columns = [each.column for each in plan.columns]
    images = {name: rows.column(name) for name in ("before", "after")}
    old, new = None, None
    if before:
        images["before"], old = _object("before", images["before"], columns, policy)
    images["after"], new = _object("after", images["after"], columns, policy)
    try:
        encoder = kernel.native().Encoder([(None, new), (old, new), (old, None)], _ANY_SIZE._asdict())
        made = encoder.encode(pa.RecordBatch.from_pydict(images))
    except RuntimeError:  # a fault of the kernel
        return None
    if made is None:
        return None
    texts = pa.record_batch(made)
    # Safe casts look for what is not UTF-8; the kernel has done that.
    key, value = (texts.column(name).cast(pa.string(), safe=False) for name in ("key", "value"))
    return key, value


def _object(
    name: str, images: pa.StructArray, columns: Sequence[Column], policy: Policy
) -> tuple[pa.StructArray, list[parts.Part]]:
    """Images as the kernel takes them, and the parts of which their objects are made."""
    found = [_native(array, column, policy) for array, column in zip(images.flatten(), columns, strict=True)]

    def pieces() -> Iterator[parts.Part]:
        for number, (column, (_, format_, around)) in enumerate(zip(columns, found, strict=True)):
            yield (b"," if number else b"{") + JSONITER.quote(column.name) + b":"
            yield parts.Value((name, number), format_, around)
        yield b"}"

    # Columns may have the same name in another case, so the kernel knows them by their numbers.
    names = [str(number) for number in range(len(columns))]
    mask = images.is_null() if images.null_count else None
    struct = pa.StructArray.from_arrays([values for values, _, _ in found], names=names, mask=mask)
    return struct, merged(pieces(), bytes)


def _native(values: pa.Array, column: Column, policy: Policy) -> tuple[pa.Array, parts.Format, parts.Around]:
    """A column as the kernel takes it: its values, or their JSON if the kernel would write them in another form."""
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.string()), parts.Format("raw"), _BARE
    kind = family(column, policy)
    format_ = _FORMATS[kind](values, column)
    if format_ is None:
        texts = joined(_PIECES[kind](values, column, policy), len(values))
        return texts, parts.Format("raw"), _BARE
    return values, *format_


_Native: TypeAlias = "tuple[parts.Format, parts.Around] | None"


def _as_text(_: pa.Array, __: Column) -> _Native:
    return parts.escaped(JSONITER), parts.QUOTED


def _as_decimal(values: pa.Array, _: Column) -> _Native:
    """Digits. The kernel refuses texts that are not numbers, but it would not put long ones in quotes."""
    short = pa.types.is_decimal(values.type) or pc.max(pc.binary_length(values)).as_py() <= MAX_PRECISION
    return (parts.Format("decimal"), _BARE) if short else None


def _as_name(values: pa.Array, column: Column) -> _Native:
    return _as_text(values, column) if values.type == pa.string() else (parts.Format("digits"), _BARE)


_FORMATS: Final[Mapping[str, Callable[[pa.Array, Column], _Native]]] = {
    "whole": lambda _, __: (parts.Format("digits"), _BARE),
    "year": lambda _, __: (parts.Format("digits"), _BARE),
    "float": lambda _, __: None,
    "decimal": _as_decimal,
    "date": lambda _, __: (parts.Format("date"), parts.QUOTED),
    "datetime": lambda _, column: (parts.Format("clock", column.decimal), parts.QUOTED),
    "time": lambda _, column: (parts.Format("time", column.decimal), parts.QUOTED),
    "timestamp": lambda _, column: (parts.Format("clock", column.decimal), _UTC),
    "enum": _as_name,
    "set": _as_name,
    "text": _as_text,
    "bytes": lambda _, __: (parts.Format("base64"), parts.QUOTED),
    "vector": lambda _, __: (parts.Format("vector"), _BARE),
}
"""How the native kernel writes the values of each kind of column; None if it would write them in another form."""
