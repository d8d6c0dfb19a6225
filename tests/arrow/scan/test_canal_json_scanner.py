"""The Canal-JSON scanner takes the rows TiCDC writes, leaves all else to the codec, and never takes what it refuses."""

from __future__ import annotations

import base64
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import topic_files
from tidewire.arrow import BatchDecoder, Decoded
from tidewire.arrow.plan import Groups
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.canal_json import Scanner
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.compression import compress
from tidewire.codec.options import Compression
from tidewire.model import RowChange
from tidewire.plain import message_from_plain

BENCH = Path(__file__).parents[3] / "benchmarks" / "data"

TYPES = {"id": "bigint", "n": "int unsigned", "price": "decimal(10,2)", "text": "varchar", "raw": "varbinary"}
ROW = {"id": "1", "n": "2", "price": "3.50", "text": "a", "raw": "\u00ff"}


def message(row: dict[str, Any] = ROW, types: dict[str, str] = TYPES, **members: Any) -> bytes:
    """A message in the order and without the blanks of TiCDC's; members that are ``...`` are left out."""
    whole = {
        "id": 0,
        "database": "test",
        "table": "t",
        "pkNames": ["id"],
        "isDdl": False,
        "type": "INSERT",
        "es": 1,
        "ts": 2,
        "sql": "",
        "sqlType": dict.fromkeys(types, 12),
        "mysqlType": types,
        "old": None,
        "data": [row],
        "_tidb": {"commitTs": 5},
    } | members
    kept = {name: member for name, member in whole.items() if member is not ...}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()


def update(row: dict[str, Any] = ROW, old: dict[str, Any] = ROW, **members: Any) -> bytes:
    return message(row, type="UPDATE", old=[old], **members)


def left(*values: bytes | None, options: Options = Options()) -> list[int]:
    scanner = Scanner(options, Policy(), protocol("canal-json").Decoder(options))
    return scanner.scan([None] * len(values), values, Groups())


def decoded(*values: bytes | None, fast: bool = True, before: bool = True) -> Decoded:
    batch = pa.record_batch({"key": pa.nulls(len(values), pa.binary()), "value": pa.array(values, pa.binary())})
    resources = Resources(claim_check=MemoryStore())
    return BatchDecoder("canal-json", resources=resources, fast=fast, before=before).decode(batch)


def rows(found: Decoded) -> dict[tuple[int, int], Any]:
    return {(row["_pos"], row["_sub"]): row for _, batch in found.batches for row in batch.to_pylist()}


def assert_as_the_codec_says(*values: bytes | None) -> Decoded:
    fast, slow = decoded(*values), decoded(*values, fast=False)
    assert rows(fast) == rows(slow)
    assert [reject.pos for reject in fast.rejects] == [reject.pos for reject in slow.rejects]
    assert fast.controls == slow.controls
    return fast


@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_every_row_of_the_benchmarks_is_taken(width: str) -> None:
    with lzma.open(BENCH / f"canal-json-{width}.jsonl.xz") as file:
        values = [base64.b64decode(json.loads(line)["value"]) for line in file]

    assert left(*values) == []


@pytest.mark.parametrize("topic", ["seed11", "seed11-classic", "seed23", "seed23-classic"])
def test_every_row_of_a_topic_is_taken_and_nothing_else(topic: str) -> None:
    messages = [message_from_plain(line) for line in topic_files.lines(topic, "canal-json")]
    options = topic_files.options(topic, "canal-json")
    decoder = protocol("canal-json").Decoder(options)
    others = [
        pos
        for pos, found in enumerate(messages)
        if not all(isinstance(event, RowChange) for event in decoder.decode(found))
    ]

    assert left(*(found.value for found in messages), options=options) == others


def test_inserts_updates_and_deletes_share_a_batch_in_order() -> None:
    values = [
        message(),
        update({**ROW, "n": "7"}, {"n": "2"}),
        message(type="DELETE"),
        message(_tidb=...),
        message(_tidb={"commitTs": 9, "onlyHandleKey": True, "rowkey": "AAE="}),
    ]

    assert left(*values) == []
    found = assert_as_the_codec_says(*values)

    ((plan, batch),) = found.batches
    assert plan.table == decoded(values[0], fast=False).batches[0][0].table
    assert batch["_pos"].to_pylist() == [0, 1, 2, 3, 4]
    assert batch["_op"].to_pylist() == [0, 1, 2, 0, 0]
    assert batch["_commit_ts"].to_pylist() == [5, 5, 5, None, 9]
    assert batch["_key_only"].to_pylist() == [False, False, False, False, True]
    assert batch["_absent"].to_pylist() == [None, [0, 2, 3, 4], None, None, None]


def test_tables_and_shapes_are_told_apart() -> None:
    wider = {**TYPES, "more": "int"}
    values = [
        message(),
        message(table="u"),
        message({**ROW, "more": "1"}, wider),
        message(types={**TYPES, "n": "int"}),
        message(),
        message({"id": "1"}, {"id": "bigint"}, type="DELETE"),
        message(pkNames=["id", "n"]),
    ]

    assert left(*values) == []
    assert len(assert_as_the_codec_says(*values).batches) == 6


ODD = {
    "null": None,
    "empty": b"",
    "not JSON": message()[:-1],
    "something behind": message() + b"x",
    "DDL": message(isDdl=True, type="CREATE", sql="CREATE TABLE t (id INT)"),
    "watermark": message(type="TIDB_WATERMARK", mysqlType=None, data=None, _tidb={"watermarkTs": 5}),
    "unknown kind": message(type="REPLACE"),
    "two rows": message(data=[ROW, ROW]),
    "no row": message(data=[]),
    "no column": message({}, {}),
    "unknown member": message(more=1),
    "claim check": message(_tidb={"commitTs": 5, "claimCheckLocation": "/x"}),
    "row key that is not Base64": message(_tidb={"commitTs": 5, "rowkey": "*"}),
    "an update without old row": message(type="UPDATE"),
    "an old column that the row has not": update(old={"gone": "1"}),
    "a number that is not text": message({**ROW, "n": 2}),
    "a type that is none": message(types={**TYPES, "n": "number"}),
    "a type that is missing": message(types={"id": "bigint"}),
    "not UTF-8": message().replace(b'"a"', b'"\xff"'),
    "half a surrogate": message().replace(b'"a"', rb'"\ud800"'),
    "another order": message(_tidb=...).replace(b'{"id":0,', b'{"_tidb":{"commitTs":5},"id":0,'),
    "minus zero": message().replace(b'"commitTs":5', b'"commitTs":-0'),
    "a name with a quote": message({'a"b': "1"}, {'a"b': "int"}),
    "a name with a comma": message({"a,b": "1"}, {"a,b": "int"}),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_left_to_the_codec(name: str) -> None:
    values = [message(), ODD[name], message()]

    assert left(*values) == [1]
    assert_as_the_codec_says(*values)


TWICE = {
    "in the row": message().replace(b'"n":"2"', b'"n":"2","n":"3"'),
    "with a blank": message().replace(b'"n":"2"', b'"n":"2","n" :"3"'),
    "by an escape": message().replace(b'"n":"2"', rb'"n":"2","\u006e":"3"'),
    "beside an escaped comma": message({**ROW, "text": "@"}).replace(b'"@"', rb'"\u002c","n":"2"'),
    "beside an escaped comma in a type": message()
    .replace(b"(10,2)", rb"(10\u002c2)")
    .replace(b'"n":"2"', b'"n":"2","n":"3"'),
    "in the old row": update().replace(b'"n":"2"', b'"n":"2","n":"3"', 1),
    "behind TiDB's members": message(_tidb=...)
    .replace(b'"old":', b'"_tidb":{"commitTs":5},"old":')
    .replace(b'"n":"2"', b'"n":"2","n":"3"'),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_column_that_is_there_twice_is_refused(name: str) -> None:
    values = [message(), update(), TWICE[name], message()]

    assert left(*values) == [2]
    found = assert_as_the_codec_says(*values)

    assert [reject.reason for reject in found.rejects] == ["the column is there twice"]


@pytest.mark.parametrize("text", ["a,b", '","n":"3', "\\", '"', ",,,", "é,\u0000", '{"k": [1, 2]}'])
def test_texts_may_hold_what_json_is_made_of(text: str) -> None:
    values = [message({**ROW, "text": text}), update({**ROW, "text": text}, {"text": text})]

    assert left(*values) == []
    assert assert_as_the_codec_says(*values).rejects == []


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("id", "x"),
        ("id", "0x10"),
        ("id", "9223372036854775808"),
        ("n", "-1"),
        ("n", "+1"),
        ("price", "1e1"),
        ("price", ".5"),
        ("raw", "€"),
    ],
)
def test_a_bad_value_rejects_its_message_alone(column: str, text: str) -> None:
    values = [message(), message({**ROW, column: text}), update(old={column: text}), message()]

    assert left(*values) == []
    found = assert_as_the_codec_says(*values)

    assert [reject.pos for reject in found.rejects] == [1, 2]
    assert all(reject.reason.startswith(f"column {column} ({TYPES[column]}") for reject in found.rejects)
    assert [reject.value for reject in found.rejects] == values[1:3]


@pytest.mark.parametrize("text", ["0", "2", "b", "", "4", "01", None])
def test_names_of_an_enum_are_left_to_the_codec(text: str | None) -> None:
    types = {"id": "bigint", "e": "enum('a','b')", "s": "set('x','y')"}

    for row in ({"id": "1", "e": text, "s": "1"}, {"id": "1", "e": "1", "s": text}):
        assert_as_the_codec_says(message(row, types))
    assert left(message({"id": "1", "e": "2", "s": "3"}, types)) == []


@pytest.mark.parametrize("before", [True, False])
def test_a_bad_old_value_rejects_its_message_whether_old_rows_are_wanted_or_not(before: bool) -> None:
    found = decoded(message(), update(old={"n": "x"}), before=before)

    ((_, batch),) = found.batches
    assert ("before" in batch.schema.names) is before
    assert batch.column("_pos").to_pylist() == [0]
    assert [reject.pos for reject in found.rejects] == [1]


@pytest.mark.parametrize("how", [Compression.LZ4, Compression.SNAPPY])
def test_compressed_messages_are_taken(how: Compression) -> None:
    options = Options(large_message_handle_compression=how)

    assert left(compress(message(), how), message(), options=options) == [1]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.arrow.scan.records._KEPT", 4)
    values = [message(table=f"t{number % 9}") for number in range(30)]

    assert left(*values) == []
    assert_as_the_codec_says(*values)
