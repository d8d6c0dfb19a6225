"""Values of Simple's JSON encoding, the texts of a whole column, to typed arrays.

Arrow reads more forms of a number than the protocol has, so these readers look at the texts first where that matters.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import contents, finite, names, plain_decimals, text_reader, usual_form, value_reader
from tidewire.arrow.invalid_values import Reader, demand, pointing
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import arrow_type
from tidewire.model import Column, MySQLType, Timestamp
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS

_DIGITS: Final = b"0123456789"
_MOST_NAMES: Final = 4096
_UNSIGNED: Final = re.compile(r"[0-9]{1,20}", re.ASCII)


class _Form(NamedTuple):
    """What texts must look like; up to a length the shorter pattern says the same, and says it sooner."""

    name: str
    pattern: str
    short: str
    short_length: int


_INTEGER: Final = _Form("an integer", "^-?[0-9]{1,20}$", "^-?[0-9]+$", 20)
_DECIMAL: Final = _Form("a decimal number", r"^-?[0-9]{1,65}(\.[0-9]{1,30})?$", r"^-?[0-9]+(\.[0-9]+)?$", 30)
_FLOAT: Final = _Form(
    "a number",
    r"^-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,3})?$",
    r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$",
    400,
)


def wire_reader(column: Column, policy: Policy) -> Reader:
    """Reads a column's values as they stand in ``data`` and ``old``."""
    build = _READERS.get(column.type)
    if build is None:
        return text_reader(column, policy)
    read, pattern = build(column, policy), usual_form(column)
    return read if pattern is None else pointing(read, pattern)


def _matching(values: Sequence[Any], form: _Form) -> pa.StringArray:
    texts = pa.array(values, pa.string())
    _check(texts, form)
    return texts


def _check(texts: pa.StringArray, form: _Form) -> None:
    pattern = form.short if _longest(texts) <= form.short_length else form.pattern
    demand(pc.match_substring_regex(texts, pattern), f"not {form.name}")


def _longest(texts: pa.StringArray) -> int:
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _integers(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    wide = pa.uint64() if column.unsigned or column.type not in INTEGERS | {MySQLType.YEAR} else pa.int64()

    def read(values: Sequence[Any]) -> pa.Array:
        texts = pa.array(values, pa.string())
        if contents(texts).translate(None, _DIGITS) or _longest(texts) > _INTEGER.short_length:
            _check(texts, _INTEGER)
        return texts.cast(wide).cast(type_)

    return read


def _floats(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    # By way of DOUBLE, as the codec does: rounding twice can make a difference in the last bit.
    return lambda values: finite(_matching(values, _FLOAT).cast(pa.float64()).cast(type_))


def _decimals(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    typed = plain_decimals if type_ == pa.string() else lambda texts: texts.cast(type_)
    return lambda values: typed(_matching(values, _DECIMAL))


def _strings(column: Column, policy: Policy) -> Reader:
    if not column.is_binary:
        return text_reader(column, policy)
    return lambda values: pa.array([None if value is None else _unpacked(value) for value in values], pa.binary())


def _unpacked(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        return base64.b64decode(text, validate=True)  # which is the codec's, slower, and bears more


def _timestamps(column: Column, policy: Policy) -> Reader:
    read = value_reader(column, policy)
    # The document has the text alone.
    return lambda values: read([Timestamp(value) if isinstance(value, str) else value for value in values])


class _Names(dict[str, str]):
    """The names behind the digits of an ENUM or SET, worked out when first met."""

    def __init__(self, column: Column) -> None:
        self._named = names(column)

    def __missing__(self, digits: str) -> str:
        if _UNSIGNED.fullmatch(digits) is None:
            raise ValueError(f"{digits!r} is not an integer")
        if len(self) == _MOST_NAMES:
            self.clear()
        self[digits] = self._named(int(digits))
        return self[digits]


def _numbered(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        return _integers(column, policy)
    known = _Names(column)
    return lambda values: pa.array([None if value is None else known[value] for value in values], pa.string())


_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, _integers),
    **dict.fromkeys(FLOATS, _floats),
    **dict.fromkeys(STRINGS, _strings),
    **dict.fromkeys(ENUM_SET, _numbered),
    MySQLType.DECIMAL: _decimals,
    MySQLType.TIMESTAMP: _timestamps,
}
