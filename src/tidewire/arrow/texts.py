"""Columns of texts: checked before Arrow reads them, because it takes more forms of a value than MySQL has; joined."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.invalid_values import InvalidRows, demand
from tidewire.codec.gotext import Quoting
from tidewire.model.grammar import Form

DIGITS: Final = b"0123456789"

_Part = TypeVar("_Part")
Piece: TypeAlias = "str | pa.StringArray"
"""A part of every text: the same in all, or one for each."""


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


def merged(parts: Iterable[_Part], constant: type[Any]) -> list[_Part]:
    """The parts of a text, with neighbours that are constants as one."""
    found: list[Any] = []
    for part in parts:
        if found and isinstance(part, constant) and isinstance(found[-1], constant):
            found[-1] += part
        else:
            found.append(part)
    return found


def joined(pieces: Iterable[Piece], rows: int) -> pa.StringArray:
    """The pieces of each row in one text, NULL if one of them is."""
    found = merged(pieces, str)
    # Told the type of a constant Arrow is quicker than when it must find out.
    parts = [pa.scalar(piece, pa.string()) if isinstance(piece, str) else piece for piece in found]
    if len(parts) == 1 and isinstance(found[0], str):
        return pa.repeat(parts[0], rows)
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))


def escaped(quoting: Quoting) -> Callable[[pa.StringArray], pa.StringArray]:
    """Texts as they stand between the quotes of a JSON string."""
    # A backslash comes first: the other escapes have one.
    escapes = [
        (chr(code).encode(), chr(code), quoting.escapes[code]) for code in sorted(quoting.escapes, key=_is_no_backslash)
    ]
    single = b"".join(raw for raw, _, _ in escapes if len(raw) == 1)
    longer = [raw for raw, _, _ in escapes if len(raw) > 1]

    def text(values: pa.StringArray) -> pa.StringArray:
        data = contents(values)
        if len(data.translate(None, single)) == len(data) and not any(raw in data for raw in longer):
            return values
        for raw, char, escape in escapes:
            if raw in data:
                values = pc.replace_substring(values, char, escape)
        return values

    return text


def _is_no_backslash(code: int) -> bool:
    return code != ord("\\")


def base64_texts(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes in Base64."""
    return pa.array(
        [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()], pa.string()
    )
