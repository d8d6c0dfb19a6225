"""Messages of one column whose value is any text, in every encoding: what batch decoder and codec must agree about.

``python tests/odd_values.py --minutes 10`` looks for texts that they read differently until the time is over.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from struct import pack
from typing import Any
from unittest import mock

from scanner_checks import agreed
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.craft import encoder as craft_encoder
from tidewire.codec.simple import avro_format
from tidewire.model import Bootstrap, Column, Message, MySQLType, RowChange, TableName, TableSchema, grammar
from tidewire.registry import MemoryRegistry

NAME = TableName("shop", "odd")
TYPES = (
    "tinyint",
    "tinyint unsigned",
    "smallint",
    "mediumint unsigned",
    "int",
    "int unsigned",
    "bigint",
    "bigint unsigned",
    "float",
    "double",
    "decimal",
    "decimal(10,2)",
    "decimal(38,31)",
    "decimal(65,30)",
    "year(4)",
    "bit(8)",
    "bit(64)",
    "date",
    "datetime(3)",
    "timestamp(6)",
    "time(6)",
    "char(10)",
    "varchar(10)",
    "varbinary(10)",
    "text",
    "blob",
    "enum('a','b','3')",
    "set('a','b','4')",
    "enum",
    "set",
    "json",
    "vector",
)
"""A type or two of each kind. The names that some have are digits too."""

TEXTS = (
    *(
        "",
        "0",
        "-0",
        "+0",
        "00",
        "007",
        "1",
        "-1",
        "+1",
        "1.5",
        "+1.5",
        ".5",
        "5.",
        ".",
        "-.5",
        "1e5",
        "1E-7",
        "1e",
        "1e+",
    ),
    *(
        "0x10",
        "1_0",
        "2_0",
        " 1",
        "1 ",
        "1\n",
        "٣",
        "１",
        "1,5",
        "inf",
        "-inf",
        "nan",
        "Infinity",
        "1e400",
        "3.4028236e38",
    ),
    *(
        "127",
        "128",
        "-128",
        "-129",
        "255",
        "256",
        "2155",
        "2156",
        "1900",
        "65536",
        "16777215",
        "16777216",
        "2147483648",
    ),
    *("4294967295", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("18446744073709551615", "18446744073709551616", "000000000000000000001", "-00000000000000000001"),
    *(
        "12.345",
        "123456789.12",
        "99999999.99",
        "1.230",
        "1." + "0" * 31,
        "0." + "1" * 31,
        "9" * 38,
        "9" * 66,
        "1" * 251,
    ),
    *("1e-07", "0.0000001", "1.1754944e-38", "1e-46", "5e-324", "1" * 310, "0." + "0" * 400 + "1", "0" * 1001),
    *("2024-02-29", "2023-02-29", "0000-00-00", "2024-00-10", "2024-13-01", "2024-01-32", "24-01-01", "2024-1-1"),
    *("2024-01-01T00:00:00", "2024-01-01 00:00", "2024-01-01 00:00:00", "2024-01-01 24:00:00", "2024-01-01 00:00:60"),
    *("2024-01-01 00:00:00.", "2024-01-01 00:00:00.1234567", "2024-01-01 00:00:00Z", "2024-01-01 00:00:00-05:00"),
    *(
        "2024-01-01 00:00-05:00",
        "0000-00-00 00:00:00",
        "2023-02-30 10:00:00.5",
        "2024-03-31 02:30:00",
        "9999-12-31 23:59:59",
    ),
    *(
        "00:00:00",
        "-00:00:01",
        "838:59:59",
        "-838:59:59.000001",
        "12:00",
        "1:00:00",
        "12:60:00",
        "12:00:60",
        "1000:00:00",
    ),
    *("٠٠:٠٠:٠٠", "12:00:00.", "12:00:00.1234567", "+12:00:00", "12:00:00 ", "000:00:00.5", "24:00:00", "12:00:00Z"),
    *(
        "[]",
        "[1]",
        "[1,2.5,-3e-2]",
        "[1, 2]",
        "[2_0]",
        "[nan]",
        "[inf]",
        "[1e39]",
        "[1,]",
        "[,1]",
        "1,2",
        "[1",
        "[.5,5.,+1]",
    ),
    *(
        "a",
        "b",
        "a,b",
        "b,a",
        "a,a",
        "c",
        "3",
        "4",
        "7",
        "8",
        "A",
        "é",
        "\x00",
        "\ufffd",
        "𝒳",
        "{}",
        '{"a": 1}',
        "null",
    ),
)
_LETTERS = "0123456789" * 2 + "-+.eE_:T Z,[]/xnaif٣\n"

Encoding = Callable[[Column, Sequence[Any]], tuple[str, Options, Resources, list[Message]]]
"""Makes the messages of a column with these texts, and says how they are read."""


def _table(column: Column) -> TableSchema:
    return TableSchema.build(NAME, [replace(column, name="c", id=1, nullable=True)], [], table_id=7, version=5)


def canal_json(column: Column, texts: Sequence[Any]) -> tuple[str, Options, Resources, list[Message]]:
    def message(text: Any) -> Message:
        value = {
            "id": 0,
            "database": NAME.schema,
            "table": NAME.table,
            "pkNames": [],
            "isDdl": False,
            "type": "INSERT",
            "es": 1,
            "ts": 2,
            "sql": "",
            "sqlType": {"c": 1},
            "mysqlType": {"c": column.mysql_type},
            "old": None,
            "data": [{"c": text}],
        }
        return Message(None, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())

    return "canal-json", Options(), Resources(), [message(text) for text in texts]


def open_protocol(column: Column, texts: Sequence[Any]) -> tuple[str, Options, Resources, list[Message]]:
    key = b'{"ts":1,"scm":"shop","tbl":"odd","t":1}'

    def message(text: Any) -> Message:
        head = b'{"u":{"c":{"t":%d,"f":%d,"v":' % (column.type, column.effective_flags)
        value = head + _json_value(column, text) + b"}}}"
        return Message(pack(">QQ", 1, len(key)) + key, pack(">Q", len(value)) + value)

    return "open-protocol", Options(), Resources(), [message(text) for text in texts]


def _json_value(column: Column, text: Any) -> bytes:
    """The text as a JSON number where it is one, because that is how numbers are sent; a string otherwise."""
    if text is not None and grammar.FORMS.get(column.type) in (grammar.INTEGER, grammar.FLOAT):
        try:
            json.loads(text, parse_constant=float.fromhex)
        except ValueError:
            pass
        else:
            return str(text).encode()
    return json.dumps(text, ensure_ascii=False).encode()


def simple_json(column: Column, texts: Sequence[Any]) -> tuple[str, Options, Resources, list[Message]]:
    return _simple(column, texts, Options(), lambda wire: json.dumps(wire, separators=(",", ":")).encode(), _of_simple)


def _of_simple(column: Column, text: Any) -> Any:
    timed = text is not None and column.type is MySQLType.TIMESTAMP
    return {"location": "UTC", "value": text} if timed else text


def simple_avro(column: Column, texts: Sequence[Any]) -> tuple[str, Options, Resources, list[Message]]:
    def branch(column: Column, text: Any) -> Any:
        if text is None:
            return None
        if column.type is MySQLType.TIMESTAMP:
            return ("Timestamp", {"location": "UTC", "value": text})
        return ("String", {"value": text})

    return _simple(column, texts, Options.parse({"encoding-format": "avro"}), avro_format.dump, branch)


def _simple(
    column: Column,
    texts: Sequence[Any],
    options: Options,
    dump: Callable[[dict[str, Any]], bytes],
    written: Callable[[Column, Any], Any],
) -> tuple[str, Options, Resources, list[Message]]:
    schema = list(protocol("simple").Encoder(options, Resources()).encode([Bootstrap(_table(column))]))
    wire = {
        "version": 1,
        "database": NAME.schema,
        "table": NAME.table,
        "tableID": 7,
        "type": "INSERT",
        "commitTs": 9,
        "buildTs": 1,
        "schemaVersion": 5,
    }
    rows = [Message(None, dump(wire | {"data": {"c": written(column, text)}})) for text in texts]
    return "simple", options, Resources(), [*schema, *rows]


def craft(column: Column, texts: Sequence[Any]) -> tuple[str, Options, Resources, list[Message]]:
    raw = dict.fromkeys(MySQLType, lambda _, text: text.encode())
    with mock.patch.object(craft_encoder, "_WRITERS", raw):
        events = [RowChange(_table(column), 9, after={"c": text}) for text in texts]
        encoder = protocol("craft").Encoder(Options(max_batch_size=1))
        return "craft", Options(), Resources(), [message for event in events for message in encoder.encode([event])]


def avro(column: Column, texts: Sequence[Any]) -> tuple[str, Options, Resources, list[Message]]:
    registry = MemoryRegistry()
    word = _AVRO_WORDS.get(column.type, column.type.name) + " UNSIGNED" * (column.type in _WHOLE and column.unsigned)
    parameters = {"tidb_type": word, "length": "64", "allowed": ",".join(column.elements)}
    type_ = ["null", {"type": "string", "connect.parameters": parameters}]
    schema = {"type": "record", "name": "odd", "namespace": "default.shop", "fields": [{"name": "c", "type": type_}]}
    registry.put(1, json.dumps(schema))

    def message(text: Any) -> Message:
        raw = b"" if text is None else text.encode()
        return Message(None, pack(">BI", 0, 1) + (b"\0" if text is None else b"\2" + _varint(2 * len(raw)) + raw))

    return "avro", Options(), Resources(registry=registry), [message(text) for text in texts]


_WHOLE = frozenset({MySQLType.BIGINT})
_AVRO_WORDS = {
    MySQLType.CHAR: "TEXT",
    MySQLType.VARCHAR: "TEXT",
    MySQLType.BLOB: "TEXT",
    MySQLType.VECTOR: "TiDBVECTORFloat32",
}


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


ENCODINGS: dict[str, Encoding] = {
    "canal-json": canal_json,
    "open-protocol": open_protocol,
    "simple-json": simple_json,
    "simple-avro": simple_avro,
    "craft": craft,
    "avro": avro,
}


def odd_texts(type_: str, chance: random.Random, count: int) -> Iterator[str]:
    """Texts that look like a value of some type, with a letter changed, added or lost."""
    for _ in range(count):
        letters = list(chance.choice(TEXTS))
        for _ in range(chance.choice((0, 1, 1, 2))):
            at = chance.randrange(len(letters) + 1)
            letters[at : at + chance.choice((0, 1))] = chance.choice(("", chance.choice(_LETTERS)))
        yield "".join(letters)


def check(encoding: str, type_: str, texts: Sequence[Any]) -> None:
    """Batch decoder and codec agree about a column with these texts: all in one batch, and each by itself."""
    name, options, resources, messages = ENCODINGS[encoding](Column.of("c", type_), texts)
    agreed(name, options, resources, messages)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Look for texts that batch decoder and codec read differently.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    chance, rounds = random.Random(arguments.seed), 0
    end = time.monotonic() + 60 * arguments.minutes
    while time.monotonic() < end:
        encoding, type_ = chance.choice(list(ENCODINGS)), chance.choice(TYPES)
        check(encoding, type_, [*odd_texts(type_, chance, 300)])
        rounds += 1
    print(f"{rounds * 300} texts, no difference")


if __name__ == "__main__":
    _main()
