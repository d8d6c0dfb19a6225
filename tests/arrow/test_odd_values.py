"""A batch decoder reads any text of any type as the codec does, in every protocol."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from odd_values import ENCODINGS, TEXTS, TYPES, check, odd_texts
from scanner_checks import batch, rows
from tidewire.arrow import BatchDecoder
from tidewire.arrow.scan import records
from tidewire.model import Column


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("type_", TYPES)
def test_batch_decoder_and_codec_agree_about_odd_texts(encoding: str, type_: str) -> None:
    chance = random.Random(f"{encoding} {type_}")

    check(encoding, type_, [*TEXTS, None, *odd_texts(type_, chance, 100)])


def rows_of(encoding: str, type_: str, texts: Sequence[str], *, fast: bool) -> dict[int, Any]:
    """The values of a column by their places; what is rejected is not there."""
    name, options, resources, messages = ENCODINGS[encoding](Column.of("c", type_), texts)
    decoded = BatchDecoder(name, options, resources, fast=fast).decode(batch(messages))
    first = len(messages) - len(texts)
    return {row["_pos"] - first: row["after"]["c"] for row in rows(decoded)}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("encoding", ["canal-json", "simple-json"])
@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("float", "+1.5", 1.5),
        ("double", ".5", 0.5),
        ("float", "5.", 5.0),
        ("decimal(65,30)", "0." + "1" * 31, "0." + "1" * 31),
        ("decimal(65,30)", "1." + "0" * 40, "1." + "0" * 40),
        ("int unsigned", "-0", 0),
        ("bigint unsigned", "-0", 0),
    ],
)
def test_every_form_of_a_number_is_read_both_ways(
    encoding: str, type_: str, text: str, value: Any, *, fast: bool
) -> None:
    found = rows_of(encoding, type_, ["1", text, "2"], fast=fast)

    assert len(found) == 3
    assert str(found[1]) == str(value)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("type_", "good", "wrong"),
    [
        ("time", "12:00:00", ["٠٠:٠٠:٠٠", "１2:00:00", "12:60:00", "12:00:61"]),
        ("vector", "[1,0.5]", ["[2_0]", "[nan]", "[1e39]", "[ 1]", "[1,]"]),
        ("datetime", "2024-01-01 00:00:00", ["2024-01-01T00:00:00", "2024-01-01 00:00:00Z", "2024-01-01 00:00"]),
        ("decimal(38,30)", "12345678.5", ["123456789.5", "2147483648", "-4294967296.25"]),
    ],
)
def test_what_no_server_writes_is_rejected_both_ways(
    encoding: str, type_: str, good: str, wrong: list[str], *, fast: bool
) -> None:
    if encoding == "avro" and type_.startswith("decimal"):
        pytest.skip("Avro does not declare the digits of a DECIMAL that it sends as text")
    if type_.startswith("decimal") and encoding in ("open-protocol", "craft"):
        pytest.skip("the protocol does not declare the digits of a DECIMAL")

    assert list(rows_of(encoding, type_, [good, *wrong, good], fast=fast)) == [0, len(wrong) + 1]


def test_a_rejected_value_has_the_codecs_place() -> None:
    name, options, resources, messages = ENCODINGS["canal-json"](Column.of("c", "time"), ["1", "12:00:00"])

    (reject,) = BatchDecoder(name, options, resources).decode(batch(messages)).rejects

    assert (reject.pos, reject.at, reject.part) == (0, "$.data[0].c", "value")
    assert reject.reason == "column c (time): '1' is not a time"


def test_the_codecs_plans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_KEPT", 8)
    decoder = BatchDecoder("canal-json", fast=False)

    for width in range(1, 30):
        *_, messages = ENCODINGS["canal-json"](Column.of("c", f"varchar({width})"), ["a"])
        decoder.decode(batch(messages))

    assert len(decoder._plans) <= 8
