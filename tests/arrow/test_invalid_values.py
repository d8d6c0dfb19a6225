"""Values that do not fit are found, however the reader tells of them, and all others are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.arrow import Policy
from tidewire.arrow.convert import plain
from tidewire.arrow.invalid_values import Reader, demand, read_column
from tidewire.model import Column

TYPE = pa.int32()


def silent(values: Any) -> pa.Array:
    return pa.array(values, pa.string()).cast(TYPE)


def naming(values: Any) -> pa.Array:
    texts = pa.array(values, pa.string())
    demand(pc.match_substring_regex(texts, "^[0-9]+$"), "not a number")
    return texts.cast(TYPE)


READERS: dict[str, Reader] = {
    "halving": silent,
    "naming": naming,
}
SHAPES: dict[str, Callable[[Sequence[str | None]], Any]] = {
    "list": list,
    "array": lambda values: pa.array(values, pa.string()),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", READERS)
@settings(deadline=None)
@given(values=st.lists(st.sampled_from(["1", "7", "42", "x", "99999999999", None]) | st.just("3"), max_size=60))
def test_exactly_the_bad_values_are_found(name: str, shape: str, values: list[str | None]) -> None:
    good = [None if value is None or value == "x" or len(value) > 9 else int(value) for value in values]

    array, invalid = read_column(SHAPES[shape](values), READERS[name], TYPE)

    assert array.type == TYPE
    assert array.to_pylist() == good
    assert invalid.keys() == {row for row, value in enumerate(values) if value is not None and good[row] is None}


def test_what_is_no_text_at_all_is_found_too() -> None:
    array, invalid = read_column(["1", {}, "2"], READERS["halving"], TYPE)
    assert array.to_pylist() == [1, None, 2]
    assert list(invalid) == [1]


@pytest.mark.parametrize(
    "values", [["a", "\udc80", None, "é"], [b"a", b"\xff", None, b"\xc3\xa9"], ["a", 1, None, "é"]]
)
def test_what_is_no_utf8_is_named(values: list[Any]) -> None:
    array, invalid = read_column(values, plain(Column.of("c", "text"), Policy()), pa.string())

    assert array.to_pylist() == ["a", None, None, "é"]
    assert invalid == {1: "not text in UTF-8"}


def test_bytes_in_an_array_are_looked_at_alike() -> None:
    raw = pa.array([b"a", b"\xff", None], pa.binary())

    array, invalid = read_column(raw, plain(Column.of("c", "text"), Policy()), pa.string())

    assert array.to_pylist() == ["a", None, None]
    assert invalid == {1: "not text in UTF-8"}
