"""The Open Protocol scanner takes the rows TiCDC writes, leaves all else, and never takes what the codec refuses."""

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
from tidewire.arrow.scan.open_protocol import Scanner
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.compression import compress
from tidewire.codec.open_protocol.wire import VERSION, frame
from tidewire.codec.options import Compression
from tidewire.model import Message, RowChange
from tidewire.plain import message_from_plain

BENCH = Path(__file__).parents[3] / "benchmarks" / "data"

Columns = dict[str, dict[str, Any]]

ROW: Columns = {
    "id": {"t": 8, "h": True, "f": 11, "v": 1},
    "n": {"t": 3, "f": 193, "v": 2},
    "price": {"t": 246, "f": 65, "v": "3.50"},
    "text": {"t": 15, "f": 64, "v": "a"},
    "raw": {"t": 15, "f": 65, "v": "\\xff"},
    "blob": {"t": 252, "f": 65, "v": "AAE="},
    "ratio": {"t": 5, "f": 65, "v": 0.5},
}
KEY = {"ts": 5, "scm": "test", "tbl": "t", "t": 1}


def changed(**values: Any) -> Columns:
    return {name: {**column, "v": values.get(name, column["v"])} for name, column in ROW.items()}


def dumped(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def message(*values: Any, **key: Any) -> Message:
    """A message of several events that have the same key; bytes are values as they are."""
    keys = [frame(dumped(KEY | key)) for _ in values]
    payloads = [frame(value if isinstance(value, bytes) else dumped(value)) for value in values]
    return Message(VERSION + b"".join(keys), b"".join(payloads))


INSERT = message({"u": ROW})


def left(*messages: Message, options: Options = Options()) -> list[int]:
    scanner = Scanner(options, Policy(), protocol("open-protocol").Decoder(options))
    return scanner.scan([found.key for found in messages], [found.value for found in messages], Groups())


def decoded(*messages: Message, fast: bool = True, before: bool = True) -> Decoded:
    batch = pa.record_batch(
        {
            "key": pa.array([found.key for found in messages], pa.binary()),
            "value": pa.array([found.value for found in messages], pa.binary()),
        }
    )
    resources = Resources(claim_check=MemoryStore())
    return BatchDecoder("open-protocol", resources=resources, fast=fast, before=before).decode(batch)


def rows(found: Decoded) -> dict[tuple[int, int], Any]:
    places = {(row["_pos"], row["_sub"]): row for _, batch in found.batches for row in batch.to_pylist()}
    return dict(sorted(places.items()))


def assert_as_the_codec_says(*messages: Message) -> Decoded:
    fast, slow = decoded(*messages), decoded(*messages, fast=False)
    assert repr(rows(fast)) == repr(rows(slow))  # which tells -0.0 from 0.0
    assert [reject.pos for reject in fast.rejects] == [reject.pos for reject in slow.rejects]
    assert fast.controls == slow.controls
    return fast


@pytest.mark.parametrize("width", ["narrow", "wide"])
@pytest.mark.parametrize("suffix", ["", "-batch16"])
def test_every_row_of_the_benchmarks_is_taken(width: str, suffix: str) -> None:
    with lzma.open(BENCH / f"open-protocol-{width}{suffix}.jsonl.xz") as file:
        lines = [json.loads(line) for line in file]
    messages = [Message(base64.b64decode(line["key"]), base64.b64decode(line["value"])) for line in lines]

    assert left(*messages) == []


@pytest.mark.parametrize("topic", ["seed11", "seed11-classic", "seed23", "seed23-classic"])
def test_every_row_of_a_topic_is_taken_and_nothing_else(topic: str) -> None:
    messages = [message_from_plain(line) for line in topic_files.lines(topic, "open-protocol")]
    options = topic_files.options(topic, "open-protocol")
    decoder = protocol("open-protocol").Decoder(options)
    others = [
        pos
        for pos, found in enumerate(messages)
        if not all(isinstance(event, RowChange) for event in decoder.decode(found))
    ]

    assert left(*messages, options=options) == others


def test_inserts_updates_and_deletes_share_a_batch_in_order() -> None:
    messages = [
        message({"u": ROW}, {"u": changed(n=7), "p": {"n": ROW["n"]}}, {"d": ROW}),
        message({"u": ROW, "p": ROW}, ts=9, ptn=77, rid=-3),
        message({"u": ROW}, ohk=True),
    ]

    assert left(*messages) == []
    found = assert_as_the_codec_says(*messages)

    ((plan, batch),) = found.batches
    assert plan.table == decoded(INSERT, fast=False).batches[0][0].table
    assert list(zip(batch["_pos"].to_pylist(), batch["_sub"].to_pylist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (2, 0),
    ]
    assert batch["_op"].to_pylist() == [0, 1, 2, 1, 0]
    assert batch["_commit_ts"].to_pylist() == [5, 5, 5, 9, 5]
    assert batch["_partition"].to_pylist() == [None, None, None, 77, None]
    assert batch["_key_only"].to_pylist() == [False, False, False, False, True]
    assert batch["_absent"].to_pylist() == [None, [0, 2, 3, 4, 5, 6], None, None, None]


def test_tables_and_shapes_are_told_apart() -> None:
    messages = [
        INSERT,
        message({"u": ROW}, tbl="u"),
        message({"u": {**ROW, "more": {"t": 3, "f": 65, "v": None}}}),
        message({"u": {**ROW, "n": {"t": 3, "f": 65, "v": -2}}}),
        INSERT,
        message({"d": {"id": ROW["id"]}}),
        message({"u": {**ROW, "n": {"t": 3, "h": True, "f": 193, "v": 2}}}),
    ]

    assert left(*messages) == []
    assert len(assert_as_the_codec_says(*messages).batches) == 6


def one(**columns: Any) -> Message:
    return message({"u": {**ROW, **columns}})


def replaced(old: bytes, new: bytes) -> Message:
    return message(dumped({"u": ROW}).replace(old, new))


ODD = {
    "null": Message(None, None),
    "another version": Message(b"\0" * 8, b""),
    "no event": Message(VERSION, b""),
    "cut short": Message(INSERT.key, (INSERT.value or b"")[:-1]),
    "half a length": Message((INSERT.key or b"") + b"\0\0", INSERT.value),
    "more values than keys": Message(INSERT.key, (INSERT.value or b"") * 2),
    "not JSON": message(b"{"),
    "DDL": message({"q": "CREATE TABLE t (id INT)", "t": 3}, t=2),
    "resolved": message(b"", t=3),
    "a row beside a DDL": Message(
        VERSION + frame(dumped(KEY)) + frame(dumped(KEY | {"t": 2})),
        frame(dumped({"u": ROW})) + frame(dumped({"q": "DROP TABLE t", "t": 4})),
    ),
    "claim check": message({"u": ROW}, ccl="/x"),
    "unknown member": message({"u": ROW, "x": 1}),
    "both u and d": message({"u": ROW, "d": ROW}),
    "neither": message({}),
    "no column": message({"u": {}}),
    "p beside d": message({"d": ROW, "p": ROW}),
    "nameless old values": message({"u": changed(n=None), "p": {"t": 3, "f": 193, "v": 5}}),
    "an old column that the row has not": message({"u": ROW, "p": {"gone": ROW["n"]}}),
    "no flags": one(n={"t": 3, "v": 2}),
    "flags that are none": one(n={"t": 3, "f": 256, "v": 2}),
    "a type that is none": one(n={"t": 99, "f": 65, "v": 2}),
    "a type without a rule": one(n={"t": 255, "f": 65, "v": "x"}),
    "no value": one(n={"t": 3, "f": 193}),
    "text for a number": one(n={"t": 3, "f": 193, "v": "2"}),
    "a number for text": one(text={"t": 15, "f": 64, "v": 2}),
    "a fraction for an integer": replaced(b'"v":2', b'"v":2.0'),
    "minus zero for an integer": replaced(b'"v":2', b'"v":-0'),
    "minus zero behind a blank": replaced(b'"v":2', b'"v": -0'),
    "minus zero for a float": replaced(b'"v":0.5', b'"v":-0'),
    "too large a float": replaced(b'"v":0.5', b'"v":1e999'),
    "not Base64": one(blob={"t": 252, "f": 65, "v": "AAE"}),
    "not UTF-8": replaced(b'"a"', b'"\xff"'),
    "half a surrogate": replaced(b'"a"', rb'"\ud800"'),
    "a mark that is false": replaced(b'"h":true', b'"h":false'),
    "a name with a quote": message({"u": {'a"b': ROW["n"]}}),
    "a name with a brace": message({"u": {"a{b": ROW["n"]}}),
    "ts that is minus zero": Message(VERSION + frame(dumped(KEY).replace(b'"ts":5', b'"ts":-0')), INSERT.value),
    "rid that is minus zero": Message(VERSION + frame(dumped(KEY)[:-1] + b',"rid":-0}'), INSERT.value),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_left_to_the_codec(name: str) -> None:
    messages = [INSERT, ODD[name], INSERT]

    assert left(*messages) == [1]
    assert_as_the_codec_says(*messages)


def test_a_message_is_taken_whole_or_left_whole() -> None:
    messages = [INSERT, message({"u": ROW}, {"u": {**ROW, "n": {"t": 3, "f": 193, "v": "x"}}}), INSERT]

    assert left(*messages) == [1]
    assert rows(assert_as_the_codec_says(*messages)).keys() == {(0, 0), (2, 0)}


N = b'"n":{"t":3,"f":193,"v":2}'
TWICE = {
    "in the row": replaced(N, N + b"," + N),
    "with blanks": replaced(N, N + b" , " + N.replace(b'":{', b'" : {')),
    "by an escape": replaced(N, N + b"," + N.replace(b'"n"', rb'"\u006e"')),
    "beside an escaped brace": message(
        dumped({"u": changed(text="@")}).replace(b"@", rb"\u007b").replace(N, N + b"," + N)
    ),
    "in the old row": message(dumped({"u": ROW, "p": {"n": ROW["n"]}}).replace(b'"p":{', b'"p":{' + N + b",")),
    "the whole row": message(b'{"u":' + dumped(ROW) + b',"u":' + dumped(ROW) + b"}"),
    "the old row, once null": message(b'{"u":' + dumped(ROW) + b',"p":null,"p":' + dumped(ROW) + b"}"),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_column_that_is_there_twice_is_refused(name: str) -> None:
    messages = [INSERT, message({"u": ROW, "p": ROW}), TWICE[name], INSERT]

    assert left(*messages) == [2]
    found = assert_as_the_codec_says(*messages)

    assert [reject.pos for reject in found.rejects] == [2]
    assert found.rejects[0].reason.endswith("is there twice")


def test_a_header_may_be_there_twice() -> None:
    twice = Message(VERSION + frame(dumped(KEY)[:-1] + b',"ohk":true,"ohk":true}'), INSERT.value)

    assert left(twice) == []
    assert_as_the_codec_says(twice)


@pytest.mark.parametrize("text", ["{", '{"k": {}}', '":{', "\\", '"', "x-0", "é\u0000", ""])
def test_texts_may_hold_what_json_is_made_of(text: str) -> None:
    messages = [message({"u": changed(text=text)}), message({"u": ROW, "p": changed(text=text)})]

    assert left(*messages) == []
    assert assert_as_the_codec_says(*messages).rejects == []


@pytest.mark.parametrize(
    ("column", "value", "type_"),
    [
        ("id", 1 << 63, "bigint"),
        ("id", -1 << 64, "bigint"),
        ("n", -1, "int unsigned"),
        ("price", "1e1", "decimal"),
        ("price", ".5", "decimal"),
        ("raw", r"\z", "varbinary"),
        ("raw", r"\xf", "varbinary"),
    ],
)
def test_a_bad_value_rejects_its_message_alone(column: str, value: Any, type_: str) -> None:
    bad = changed(**{column: value})
    messages = [INSERT, message({"u": ROW}, {"u": bad}), message({"u": ROW, "p": {column: bad[column]}}), INSERT]

    assert left(*messages) == []
    found = assert_as_the_codec_says(*messages)

    assert [reject.pos for reject in found.rejects] == [1, 2]
    assert all(reject.reason.startswith(f"column {column} ({type_}") for reject in found.rejects)
    assert [reject.value for reject in found.rejects] == [found.value for found in messages[1:3]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("raw", r"a\x00\n\\x41\"\'\a\b\f\r\t\v"),
        ("raw", r"\\u0041"),
        ("raw", r"\u0041\U0001f600é"),
        ("raw", r"\101é"),
        ("price", "-007.10"),
        ("price", "-0.00"),
        ("price", "12345678901234567890123456789012345678901234567890"),
        ("ratio", 7),
        ("n", 4294967295),
        ("text", None),
    ],
)
def test_values_are_read_as_the_codec_reads_them(name: str, value: Any) -> None:
    found = message({"u": changed(**{name: value})})

    assert left(found) == []
    assert assert_as_the_codec_says(found).rejects == []


@pytest.mark.parametrize("before", [True, False])
def test_a_bad_old_value_rejects_its_message_whether_old_rows_are_wanted_or_not(before: bool) -> None:
    found = decoded(INSERT, message({"u": ROW, "p": changed(n=-1)}), before=before)

    ((_, batch),) = found.batches
    assert ("before" in batch.schema.names) is before
    assert batch.column("_pos").to_pylist() == [0]
    assert [reject.pos for reject in found.rejects] == [1]


@pytest.mark.parametrize("how", [Compression.LZ4, Compression.SNAPPY])
def test_compressed_messages_are_taken(how: Compression) -> None:
    options = Options(large_message_handle_compression=how)

    assert left(message(compress(dumped({"u": ROW}), how)), INSERT, options=options) == [1]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.arrow.scan.records._KEPT", 4)
    messages = [message({"u": ROW}, tbl=f"t{number % 9}") for number in range(30)]

    assert left(*messages) == []
    assert_as_the_codec_says(*messages)
