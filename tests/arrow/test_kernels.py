"""Both kernels give the same batches, controls and rejects, whatever the messages."""

from __future__ import annotations

import ctypes
import json
import lzma
import random
import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import topic_files
from fuzz_kernels import cases, given
from scanner_checks import NATIVE_IS_HERE, batch, damaged_messages, identical
from tidewire.arrow import BatchDecoder, Decoded, Policy, ZeroDates
from tidewire.arrow import native as native_rows
from tidewire.arrow.kernel import KERNEL, SETTING, Kernel, chosen, description, native
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.simple import Decoder as SimpleDecoder
from tidewire.codec.simple import SchemaCache, avro_format
from tidewire.errors import OptionError
from tidewire.model import Bootstrap, Column, Message, RowChange, TableName, TableSchema, grammar
from tidewire.plain import message_from_plain
from tidewire.registry import MemoryRegistry

needs_native = pytest.mark.skipif(not NATIVE_IS_HERE, reason="tidewire-native is not installed")

CASES = cases()
TOPICS = [
    (path.parent.name, file, name)
    for path in sorted(topic_files.TOPICS.glob("*/*.faults.jsonl.xz"))
    for file in (path.name.removesuffix(".jsonl.xz"),)
    for name in (topic_files.PROTOCOLS.get(file.removesuffix(".faults"), file.removesuffix(".faults")),)
    if name in {name for name, _, _ in CASES}
]
POLICIES = [
    Policy(),
    Policy(zero_dates=ZeroDates.REJECT),
    Policy(zero_dates=ZeroDates.TEXT),
    Policy("Asia/Shanghai", lost_floats=True),
]
HERE = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
"""The environment of another Python."""

FUZZING_ROUNDS = 2
"""How often each vector is damaged; `make fuzz` does it for ten minutes."""


def decoded_by(
    kernel: Kernel,
    name: str,
    options: Options,
    resources: Resources,
    batches: Iterable[Sequence[Message]],
    policy: Policy,
    *,
    before: bool = True,
) -> list[Decoded]:
    own = Policy(policy.time_zone, policy.zero_dates, policy.lost_floats)
    decoder = BatchDecoder(name, options, resources, policy=own, before=before, kernel=kernel)
    return [decoder.decode(batch(messages)) for messages in batches]


def assert_the_same(
    name: str,
    options: Options,
    resources: Resources,
    *batches: Sequence[Message],
    policy: Policy = Policy(),
    before: bool = True,
) -> None:
    found = (
        decoded_by(kernel, name, options, resources, batches, policy, before=before)
        for kernel in (Kernel.NATIVE, Kernel.PYTHON)
    )
    for one, other in zip(*found, strict=True):
        identical(one, other)


@needs_native
@pytest.mark.parametrize(("name", "folder", "file"), CASES)
def test_vectors_are_decoded_alike(name: str, folder: str, file: str) -> None:
    options, resources, messages = given(folder, file)

    first = zlib.crc32(file.encode()) % 2
    for number, policy in enumerate(POLICIES[first::2]):
        assert_the_same(name, options, resources, messages, policy=policy, before=number == 0)


@needs_native
@pytest.mark.parametrize(("name", "folder", "file"), CASES)
def test_damaged_vectors_are_decoded_alike(name: str, folder: str, file: str) -> None:
    options, resources, messages = given(folder, file)
    chance = random.Random(f"{name} {file}")

    for _ in range(FUZZING_ROUNDS):
        assert_the_same(name, options, resources, messages[:50], list(damaged_messages(messages[:50], chance)))


@needs_native
@pytest.mark.parametrize(("topic", "file", "name"), TOPICS)
def test_topics_are_decoded_alike(topic: str, file: str, name: str) -> None:
    options, resources = topic_files.options(topic, file), Resources(registry=topic_files.registry(topic))
    messages = [message_from_plain(line) for line in topic_files.lines(topic, file)]
    policy = Policy(options.time_zone, lost_floats=name == "craft")

    assert_the_same(name, options, resources, messages[:100], messages[100:2000], policy=policy)


@needs_native
@pytest.mark.parametrize("name", ["canal-json", "open-protocol", "craft"])
def test_a_null_byte_in_a_name_is_left_to_python(name: str) -> None:
    table = TableSchema(TableName("s", "t"), (Column.of("a\0b", "int"),))
    message = next(protocol(name).encode([RowChange(table, 5, after={"a\0b": 1})]))

    assert_the_same(name, Options(), Resources(), [message])


class WithoutFormat:
    """An array whose description is nothing but zeros."""

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(200)

    def __arrow_c_array__(self, _: object = None) -> tuple[object, object]:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        at = ctypes.addressof(self.memory)
        return new(at, SCHEMA_NAME, None), new(at + 100, ARRAY_NAME, None)


SCHEMA_NAME, ARRAY_NAME = b"arrow_schema", b"arrow_array"
"""A capsule does not keep its name."""


@needs_native
def test_a_panic_of_the_kernel_is_an_error_in_python() -> None:
    with pytest.raises(RuntimeError, match="a panic"):
        native().Kernel("avro", True, True, "UTC").scan(WithoutFormat(), WithoutFormat(), 0)


class FailsAtTheEnd:
    """A native kernel whose rows cannot be taken."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def take(self) -> None:
        raise RuntimeError("a panic")


@needs_native
def test_a_batch_at_which_the_kernel_fails_is_read_by_the_python_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    options, resources, messages = given("canal-json", "types.compatible.ticdc")
    expected = BatchDecoder("canal-json", options, resources, kernel=Kernel.PYTHON).decode(batch(messages))
    decoder = BatchDecoder("canal-json", options, resources, kernel=Kernel.NATIVE)
    assert decoder._native is not None
    monkeypatch.setattr(decoder._native._kernel, "_kernel", FailsAtTheEnd(decoder._native._kernel._kernel))

    with pytest.warns(UserWarning, match="a panic in the native kernel: the Python kernel reads instead"):
        identical(decoder.decode(batch(messages)), expected)
    identical(decoder.decode(batch(messages)), expected)


def benched(name: str) -> str:
    with lzma.open(Path(__file__).parents[2] / "benchmarks" / "data" / f"{name}.xz", "rt") as text:
        return text.read()


def benched_messages(name: str) -> list[Message]:
    return [message_from_plain(json.loads(line)) for line in benched(f"{name}.jsonl").splitlines()]


@needs_native
@pytest.mark.parametrize("width", ["narrow", "wide"])
@pytest.mark.parametrize("name", ["avro", "canal-json", "craft", "open-protocol", "simple-avro", "simple-json"])
def test_the_native_kernel_leaves_no_row_of_a_server(name: str, width: str) -> None:
    kind, _, encoding = name.partition("-") if name.startswith("simple") else (name, "", "json")
    schemas = json.loads(benched(f"avro-{width}.schemas.json"))
    registry = MemoryRegistry({int(number): text for number, text in schemas.get("schemas", schemas).items()})
    options, resources = Options.parse({"encoding-format": encoding}), Resources(registry=registry)
    decoder = BatchDecoder(kind, options, resources, kernel=Kernel.NATIVE)
    if kind == "simple":
        decoder.decode(batch(benched_messages(f"{name}-{width}.bootstrap")))
    messages = benched_messages(f"{name}-{width}")

    assert decoder._native is not None
    assert list(decoder._native.runs(batch(messages))) == []
    assert sum(rows.num_rows for _, rows in decoder._native.batches()) >= len(messages)


@needs_native
@pytest.mark.parametrize("most", [1 << 26, 1 << 12])
def test_compressed_messages_are_read_as_far_as_they_fit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_rows, "_MOST_UNPACKED", most)
    options, resources, messages = given("canal-json", "types.lz4.ticdc")
    plain = given("canal-json", "types.compatible.ticdc")[2][:2]  # the codec refuses what is not compressed

    assert_the_same("canal-json", options, resources, [*messages, *plain])
    decoder = BatchDecoder("canal-json", options, resources, kernel=Kernel.NATIVE)
    assert decoder._native is not None
    left = sum(count for _, count in decoder._native.runs(batch(messages)))
    assert (left < len(messages) // 4) == (most == 1 << 26)


@needs_native
@pytest.mark.parametrize("encoding", ["avro", "canal-json", "craft", "open-protocol", "simple-avro", "simple-json"])
def test_the_native_kernel_reads_vectors(encoding: str) -> None:
    name, _, format_ = encoding.partition("-") if encoding.startswith("simple") else (encoding, "", "json")
    columns = (Column.of("id", "int", primary_key=True), Column.of("v", "vector"))
    table = TableSchema(TableName("s", "t"), columns, table_id=1, version=1)
    texts = ["[1,-0.0000003,3.25]", "[]", None, "[1e39]", "[1, 2]", "[1e10,0]", "[1,]"]
    events = [RowChange(table, 5, after={"id": number, "v": text}) for number, text in enumerate(texts)]
    options = Options.parse({"encoding-format": format_, "max-batch-size": "1"})
    resources = Resources(registry=MemoryRegistry())
    with mock.patch.object(grammar.VECTOR, "matches", return_value=True), mock.patch.object(grammar, "vector"):
        encoder = protocol(name).Encoder(options, resources)
        messages = list(encoder.encode([*[Bootstrap(table)] * (name == "simple"), *events]))
    first, rows = messages[: -len(events)], messages[-len(events) :]

    assert_the_same(name, options, resources, first, rows)
    decoder = BatchDecoder(name, options, resources, kernel=Kernel.NATIVE)
    decoder.decode(batch(first))
    assert decoder._native is not None
    runs = decoder._native.runs(batch(rows))
    assert [pos for start, count in runs for pos in range(start, start + count)] == [3, 4, 6]


@needs_native
def test_a_schema_whose_rows_the_kernel_reads_is_not_the_first_to_be_forgotten() -> None:
    tables = [
        TableSchema(TableName("s", name), (Column.of("id", "int", primary_key=True),), table_id=number, version=1)
        for number, name in enumerate("abc", 1)
    ]
    known = [next(protocol("simple").encode([Bootstrap(table)])) for table in tables]
    row = next(protocol("simple").encode([RowChange(tables[0], 5, after={"id": 1})]))
    room_for_two = SimpleDecoder(schemas=SchemaCache(4))
    decoder = BatchDecoder("simple", decoder=room_for_two, kernel=Kernel.NATIVE)
    decoder.decode(batch([known[0], known[1], row]))
    decoder.decode(batch([known[1]]))
    decoder.decode(batch([row]))
    decoder.decode(batch([known[2]]))

    decoded = decoder.decode(batch([row]))

    assert not decoded.parked
    assert [rows.batch.num_rows for rows in decoded.batches] == [1]


@needs_native
@pytest.mark.parametrize("count", [1, 7, 400])
def test_columns_of_simple_avro_are_found_whatever_their_names_and_order(count: int) -> None:
    chance = random.Random(count)
    lengths = [1, 6, 7, 8, 9, 14, 15, 16, 17, 62, 63, 64]
    names = [f"{number:x}".ljust(chance.choice(lengths), chance.choice("_xé"))[:64] for number in range(count)]
    columns = [replace(Column.of(name, "int"), id=number) for number, name in enumerate(names, 1)]
    table = TableSchema.build(TableName("s", "t"), columns, [], table_id=7, version=5)
    options = Options.parse({"encoding-format": "avro"})
    known = list(protocol("simple").Encoder(options, Resources()).encode([Bootstrap(table)]))
    head = {"version": 1, "database": "s", "table": "t", "tableID": 7, "commitTs": 9, "buildTs": 1, "schemaVersion": 5}

    def row(sent: Sequence[str]) -> Message:
        image = {name: ("Long", {"value": len(name)}) for name in chance.sample(sent, len(sent))}
        return Message(None, avro_format.dump({**head, "type": "INSERT", "data": image}))

    whole = [row(names) for _ in range(20)]
    odd = [row(names[1:]), row([*names[1:], "other"]), row([*names[1:], names[-1] + "_"])]

    assert_the_same("simple", options, Resources(), known, whole, odd)
    decoder = BatchDecoder("simple", options, kernel=Kernel.NATIVE)
    decoder.decode(batch(known))
    assert decoder._native is not None
    assert list(decoder._native.runs(batch(whole))) == []


BROKEN_ARRAYS = """
from functools import partial
import numpy as np, pyarrow as pa
from tidewire.arrow import BatchDecoder, Kernel
from tidewire.arrow.encode import encode_batch
from tidewire.arrow.kernel import native
from tidewire.model import Column, TableName, TableSchema

def broken(type_, offsets):
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32).tobytes()), pa.py_buffer(b"abcdefgh")]
    return pa.Array.from_buffers(type_, len(offsets) - 1, buffers)

table = TableSchema(TableName("s", "t"), (Column.of("a", "text"),))
whole = pa.array([b"a", b"b"], pa.binary())
for offsets in ([0, 1 << 30, 8], [0, -(1 << 30), 8], [4, 2, 8]):
    after = pa.StructArray.from_arrays([broken(pa.string(), offsets)], names=["a"])
    head = {"_op": pa.array([0, 0], pa.int8()), "_commit_ts": pa.array([5, 5], pa.int64())}
    head |= {name: pa.array([0, 0], pa.int32()) for name in ("_pos", "_sub")}
    head |= {"_partition": pa.nulls(2, pa.int64()), "_key_only": pa.array([False, False])}
    bad = broken(pa.binary(), offsets)
    works = [
        partial(BatchDecoder("canal-json", kernel=kernel).decode, pa.record_batch(messages))
        for kernel in Kernel
        for messages in ({"key": bad, "value": whole}, {"key": whole, "value": bad})
    ]
    works.append(partial(native().Kernel("canal-json", True, True, "UTC").scan, bad, whole, 0))
    for work in (*works, partial(encode_batch, "canal-json", table, pa.record_batch({**head, "after": after}))):
        try:
            work()
        except ValueError as error:
            print(error)
"""


@needs_native
def test_arrays_whose_offsets_are_broken_are_refused() -> None:
    ran = subprocess.run([sys.executable, "-c", BROKEN_ARRAYS], capture_output=True, text=True, env=HERE)

    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 3 * 6


def test_a_setting_chooses_the_kernel() -> None:
    assert chosen("python") is Kernel.PYTHON
    assert chosen("") is (Kernel.NATIVE if NATIVE_IS_HERE else Kernel.PYTHON)
    assert description().startswith(KERNEL.value)


def test_a_kernel_that_does_not_exist_is_refused() -> None:
    with pytest.raises(OptionError, match="'fast' is not a kernel; there are python and native"):
        chosen("fast")


def test_without_the_native_kernel_the_python_kernel_reads() -> None:
    program = """
import os, sys
sys.modules["tidewire_native"] = None
from tidewire.arrow.kernel import KERNEL, chosen
from tidewire.errors import OptionError
print(KERNEL)
try:
    chosen("native")
except OptionError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=HERE, check=True)

    assert ran.stdout.splitlines()[0] == "python"
    assert "tidewire-native is not installed" in ran.stdout
    assert SETTING in ran.stdout
