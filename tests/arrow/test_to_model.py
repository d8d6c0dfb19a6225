"""Typed columns give back the values that went in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidewire.arrow import Policy
from tidewire.arrow.convert import text_reader
from tidewire.arrow.to_model import Fractions, model_values
from tidewire.model import Column
from tidewire.plain import value_to_plain


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        ("bigint unsigned", ["0", "18446744073709551615"]),
        ("date", ["0001-01-01", "9999-12-31"]),
        ("datetime", ["2024-02-29 12:00:00"]),
        ("datetime(3)", ["2024-02-29 12:00:00.500", "2024-02-29 12:00:00.000"]),
        ("timestamp(6)", ["2024-07-01 00:30:00.000001"]),
        ("time", ["-838:59:59", "00:00:01"]),
        ("time(2)", ["-00:00:00.10", "838:59:59.00"]),
        ("vector", ["[1,2.5,-0.0000003]", "[0.0000001,10000000000000000000000]"]),
        ("decimal(10,2)", ["-1.50", "99999999.99"]),
        ("year", ["2155"]),
    ],
)
def test_texts_come_back_as_they_were(type_: str, texts: list[str]) -> None:
    column = Column.of("c", type_)
    zone = "Asia/Shanghai"
    array = text_reader(column, Policy(zone))(texts)

    assert [value_to_plain(value, column) for value in model_values(array, column, zone)] == texts


@pytest.mark.parametrize(
    ("micros", "texts"),
    [
        ([1_500_000, None, -2_000_000], ["00:00:01.5", None, "-00:00:02.0"]),
        ([1_500_000, 2_123_400], ["00:00:01.5000", "00:00:02.1234"]),
        ([1_000_000, 0, None], ["00:00:01", "00:00:00", None]),
        ([], []),
    ],
)
def test_fractions_nobody_declared_are_as_long_as_the_longest_one_takes(
    micros: list[int | None], texts: list[str | None]
) -> None:
    column = Column.of("c", "time")

    found = model_values(pa.array(micros, pa.int64()), column)

    assert [value_to_plain(value, column) for value in found] == texts


def test_a_text_that_depends_on_the_value_alone() -> None:
    texts = {"time": ["00:00:01.5", "00:00:02", "-00:00:03.123456"], "time(2)": ["00:00:01.50", "00:00:02.00"]}
    for type_, expected in texts.items():
        column = Column.of("c", type_)
        array = text_reader(column, Policy())(expected)

        assert [value_to_plain(value) for value in model_values(array, column, fractions=Fractions.OWN)] == expected


def test_moments_have_one_length_too() -> None:
    column = Column.of("c", "datetime")
    texts = ["2024-02-29 12:00:00.500", "2024-02-29 12:00:00.125"]
    array = text_reader(column, Policy())(texts)

    assert [value_to_plain(value, column) for value in model_values(array, column)] == texts


def test_names_have_their_numbers_where_the_column_tells_them() -> None:
    state, tags = Column.of("c", "enum('a','b')"), Column.of("c", "set('x','y')")
    nameless = Column("c", state.type)

    assert value_to_plain(model_values(pa.array(["b"]), state)[0]) == {"index": 2, "text": "b"}
    assert value_to_plain(model_values(pa.array(["x,y"]), tags)[0]) == {"index": 3, "text": "x,y"}
    assert value_to_plain(model_values(pa.array([""]), tags)[0]) == {"index": 0, "text": ""}
    assert value_to_plain(model_values(pa.array([2], pa.int32()), nameless)[0]) == {"index": 2}
