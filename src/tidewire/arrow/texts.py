"""Columns of texts, looked at before Arrow reads them: it takes more forms of a value than MySQL has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.invalid_values import InvalidRows, demand
from tidewire.model.grammar import Form

DIGITS: Final = b"0123456789"


def as_texts(values: Any) -> pa.StringArray:
    """A column of texts, of which all are UTF-8."""
    if isinstance(values, pa.Array):
        return values if values.type == pa.string() else values.cast(pa.string())
    return pa.array(values, pa.string())


def listed(values: Any) -> Sequence[str | None]:
    """The texts one by one."""
    if isinstance(values, pa.Array) or any(isinstance(value, bytes) for value in values):
        values = as_texts(values).to_pylist()
    found: Sequence[str | None] = values
    return found


def of_form(values: Any, form: Form) -> pa.StringArray:
    """The texts, if each is of this form."""
    texts = as_texts(values)
    _check_lengths(texts, 0, form.longest)
    demand(pc.match_substring_regex(texts, f"^(?:{form.pattern})$"), f"not {form.what}")
    return texts


def of_letters(values: Any, letters: bytes, *, least: int = 1, most: int) -> pa.StringArray:
    """The texts, if all have these letters and so many of them. With few exceptions Arrow's reader sees to the rest."""
    texts = as_texts(values)
    _check_lengths(texts, least, most)
    if contents(texts).translate(None, letters):
        pattern = f"^[{letters.decode().replace('-', '')}-]*$"
        demand(pc.match_substring_regex(texts, pattern), "a letter that a value of the type does not have")
    return texts


def _check_lengths(texts: pa.StringArray, least: int, most: int) -> None:
    lengths = pc.binary_length(texts)
    shortest, longest = pc.min_max(lengths).as_py().values()
    if shortest is not None and not least <= shortest <= longest <= most:
        fits = pc.and_(pc.greater_equal(lengths, least), pc.less_equal(lengths, most))
        raise InvalidRows(pc.indices_nonzero(pc.invert(fits)).to_pylist(), "too short or too long")


def contents(values: pa.Array) -> bytes:
    """All texts or byte strings of an array in one."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(data[ends[values.offset] : ends[values.offset + len(values)]])
