"""The inspection of Canal-JSON messages names what it sees and survives anything."""

from __future__ import annotations

from codec.canal_json.canal_messages import CLOCK, EXTENSION, SMALL, TSO
from tidewire.codec.canal_json import Encoder, inspect
from tidewire.model import Message, RowChange


def test_inspection_names_what_it_sees() -> None:
    (sent,) = Encoder(EXTENSION, CLOCK).encode([RowChange(SMALL, TSO, after={"a": 1, "b": None})])
    meanings = {field.name: field.meaning for field in inspect(sent)}

    assert meanings["$.es"] == "committed 2021-12-20 13:30:49.196000 UTC"
    assert meanings["$.ts"] == "encoded 2023-11-14 22:13:20.000000 UTC"
    assert meanings["$.sqlType.a"] == "Java type TINYINT"
    assert meanings["$.mysqlType.a"] == "MySQL type tinyint"
    assert meanings["$.data[0].b"] == "NULL"
    assert meanings["$._tidb.commitTs"] == "TSO, 2021-12-20 13:30:49.196000 UTC"


def test_inspection_survives_anything() -> None:
    for value in (
        b'{"es":%d}' % 10**40,
        b'{"_tidb":{"commitTs":-%d}}' % 10**30,
        b'{"es":true,"ts":NaN,"id":[[[',
        b"[" * 100_000,
        b'"' + b"a\\n" * 300_000,
        b"\xff\xfe",
        b"}}}",
    ):
        fields = list(inspect(Message(None, value)))
        assert b"".join(field.data for field in fields) == value
    assert list(inspect(Message(None, None))) == []
