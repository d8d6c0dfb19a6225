"""Recorded bytes mean recorded events, and recorded events make recorded bytes."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.compression import decompress
from tidewire.errors import EncodeError
from tidewire.model import Message
from tidewire.plain import event_to_plain
from vector_files import Vector, files, vectors

CASES = [(name, file) for name in ("open-protocol", "canal-json") for file in files(name)]
NEW_SERVER = [(name, file) for name, file in CASES if file.endswith(".ticdc")]
REFUSED = [(name, file) for name in ("open-protocol", "canal-json") for file in files(name, "*.errors")]

ROW_FACTS = ("kind", "op", "schema", "table", "commit_ts")
COLUMN_FACTS = ("name", "type_code", "base_type", "flag", "unsigned", "primary_key", "nullable")


def decoded(name: str, vector: Vector) -> list[dict[str, Any]]:
    decoder = protocol(name).Decoder(vector.options, Resources(claim_check=vector.claim_checks))
    return [event_to_plain(event) for event in decoder.decode(vector.message)]


def comparable(plain: Any, column: Mapping[str, Any]) -> Any:
    """A canonical value in a form in which equal values are equal: floats as numbers, ENUM and SET by index."""
    if plain is None:
        return None
    match column["base_type"]:
        case "float":
            return struct.pack("<f", float(plain))
        case "double":
            return float(plain)
        case "enum" | "set":
            return plain["index"]
    return plain


def images(event: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any] | None]:
    for side in ("before", "after"):
        row = event[side]
        yield None if row is None else {name: comparable(value, columns[name]) for name, value in row.items()}


def left_out(vector: Vector, event: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """The columns that the options keep off the wire, in the old and in the new image."""
    options = vector.options
    key = set(event["handle_key"])
    others = {column["name"] for column in event["columns"]} - key
    if got.get("handle_key_only") or (event["op"] == "delete" and options.delete_only_output_handle_key_columns):
        return others, others
    if event["op"] == "update" and options.only_updated:
        same = {name for name, value in event["before"].items() if value == event["after"][name]}
        return same, set()
    return set(), set()


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_message_means_its_events(name: str, file: str) -> None:
    for vector in vectors(name, file):
        got = decoded(name, vector)

        assert len(got) == len(vector.plain), vector.id
        for want, event in zip(vector.plain, got, strict=True):
            if want["kind"] == "row":
                check_row(vector, want, event)
            else:
                facts = {fact: want[fact] for fact in ("kind", "query", "schema", "table", "ts") if fact in want}
                assert {fact: event[fact] for fact in facts} == facts, vector.id
            for optional in ("commit_ts", "type_code"):
                assert event.get(optional, want.get(optional)) == want.get(optional), vector.id


def check_row(vector: Vector, want: dict[str, Any], event: dict[str, Any]) -> None:
    columns = {column["name"]: column for column in want["columns"]}
    if want["op"] == "update" and not vector.options.output_old_value:
        want = want | {"op": "insert", "before": None}  # nothing on the wire tells them apart
    facts = {fact: want[fact] for fact in ROW_FACTS if fact in event}
    assert {fact: event[fact] for fact in facts} == facts, vector.id
    for column in event["columns"]:
        told = {fact: column[fact] for fact in COLUMN_FACTS if fact in column}
        assert told == {fact: columns[column["name"]][fact] for fact in told}, vector.id
    for side, (expected, got), missing in zip(
        ("before", "after"),
        zip(images(want, columns), images(event, columns), strict=True),
        left_out(vector, want, event),
        strict=True,
    ):
        if expected is None or got is None:
            assert expected == got, (vector.id, side)
            continue
        unnamed = unnamed_old_values(want) if side == "before" and forgets_names(vector) else set()
        assert set(expected) - set(got) == (missing | unnamed) & set(expected), (vector.id, side)
        assert got == {column: expected[column] for column in got}, (vector.id, side)


def forgets_names(vector: Vector) -> bool:
    """Was it written by the new server's Open Protocol in only-updated mode?"""
    return bool(vector.line["file"] == ("open-protocol", "types.only-updated.ticdc"))


def unnamed_old_values(event: dict[str, Any]) -> set[str]:
    """The columns whose old value the new server writes without their name: those that become NULL."""
    if event["op"] != "update":
        return set()
    return {name for name, value in event["after"].items() if value is None and event["before"][name] is not None}


@pytest.mark.parametrize(("name", "file"), NEW_SERVER)
def test_events_make_the_new_servers_bytes(name: str, file: str) -> None:
    for vector in vectors(name, file):
        store = MemoryStore()
        resources = Resources(
            claim_check=store,
            clock=partial(stamped, vector),
            file_name=partial(next, iter(vector.claim_checks.blobs)),
        )

        messages = list(protocol(name).Encoder(vector.options, resources).encode(vector.events))

        assert len(messages) == 1, vector.id
        assert canonical(name, messages[0], vector.options) == expected_bytes(name, vector), vector.id
        kept = {file: whole(name, data, vector.options) for file, data in store.blobs.items()}
        assert kept == {file: whole(name, data, vector.options) for file, data in vector.claim_checks.blobs.items()}, (
            vector.id
        )


def stamped(vector: Vector) -> int:
    """The wall clock in a message, which nobody can reproduce."""
    value = vector.message.value
    assert value is not None
    return int(json.loads(decompress(value, vector.options.large_message_handle_compression))["ts"])


def expected_bytes(name: str, vector: Vector) -> Any:
    message = vector.message
    if forgets_names(vector) and unnamed_old_values(vector.plain[0]):
        # The one bug that is not imitated: the name of a column that became NULL is missing.
        message = named(message, vector)
    return canonical(name, message, vector.options)


def named(message: Message, vector: Vector) -> Message:
    """The message with the old values' names put in, in the order of the table's columns."""
    assert message.value is not None
    (event,) = vector.plain
    head, _, old = message.value[8:].partition(b',"p":{')
    unnamed = unnamed_old_values(event)
    repaired = b""
    for column in event["columns"]:
        changed = (
            column["name"] in event["before"] and event["before"][column["name"]] != event["after"][column["name"]]
        )
        if not changed:
            continue
        prefix = b'"%s":' % column["name"].encode()
        body, old = _take(old, prefix, column["name"] in unnamed)
        repaired += (b"," if repaired else b"") + prefix + body
    value = head + b',"p":{' + repaired + b"}}"
    return Message(message.key, struct.pack(">Q", len(value)) + value)


def _take(old: bytes, prefix: bytes, unnamed: bool) -> tuple[bytes, bytes]:
    """The next old value as an object, and what comes after it."""
    old = old.removeprefix(b",")
    if not unnamed:
        assert old.startswith(prefix)
        value, end = json.JSONDecoder().raw_decode(old[len(prefix) :].decode())
        assert isinstance(value, dict)
        end = len(old[len(prefix) :].decode()[:end].encode())
        return old[len(prefix) : len(prefix) + end], old[len(prefix) + end :]
    text = old.decode()
    at = text.index('"v":') + 4
    _, end = json.JSONDecoder().raw_decode(text, at)
    return b"{" + text[:end].encode() + b"}", text[end:].encode()


def canonical(name: str, message: Message, options: Options) -> Any:
    if name == "open-protocol":
        return message.key, unpacked(message.value, options)
    assert message.value is not None
    assert message.key is None
    return unordered(decompress(message.value, options.large_message_handle_compression), options)


def unpacked(value: bytes | None, options: Options) -> bytes | list[bytes] | None:
    """The events in a value of Open Protocol, each unpacked: packers differ in what they write."""
    if value is None or options.large_message_handle_compression == "none":
        return value
    events, at = [], 0
    while at < len(value):
        (length,) = struct.unpack_from(">Q", value, at)
        at += 8 + length
        event = value[at - length : at]
        events.append(event and decompress(event, options.large_message_handle_compression))
    return events


def unordered(value: bytes, options: Options) -> bytes:
    """The text with ``mysqlType``, whose order the server leaves to chance, sorted.

    Not in the vectors' events, so not compared: the TiKV row key.
    """
    start = value.index(b'"mysqlType":') + len(b'"mysqlType":')
    types, length = json.JSONDecoder().raw_decode(value[start:].decode())
    end = start + len(value[start:].decode()[:length].encode())
    value = value[:start] + json.dumps(types, sort_keys=True).encode() + value[end:]
    return value.partition(b',"rowkey":')[0] if options.output_row_key else value


def whole(name: str, data: bytes, options: Options) -> Any:
    """A claim-check file, without the wall clock, which was read twice."""
    if name == "open-protocol":
        return unpacked(data if options.claim_check_raw_value else base64.b64decode(json.loads(data)["value"]), options)
    value = data if options.claim_check_raw_value else base64.b64decode(json.loads(data)["value"])
    return json.loads(decompress(value, options.large_message_handle_compression)) | {"ts": None}


@pytest.mark.parametrize(("name", "file"), REFUSED)
def test_what_the_server_refuses_is_refused(name: str, file: str) -> None:
    for vector in vectors(name, file):
        with pytest.raises(EncodeError) as refusal:
            list(protocol(name).Encoder(vector.options).encode(vector.events))

        assert refusal.value.code == vector.error, vector.id


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
def test_where_both_servers_write_the_same_bytes_so_do_we(name: str) -> None:
    """The classic server sorts columns and escapes differently, so most lines differ; the rest must be equal."""
    equal = 0
    for file in files(name, "*.tiflow"):
        for vector in vectors(name, file):
            if vector.options.large_message_handle_option != "none":
                continue
            resources = Resources(clock=partial(stamped, vector))
            messages = list(protocol(name).Encoder(vector.options, resources).encode(vector.events))
            equal += canonical(name, messages[0], vector.options) == canonical(name, vector.message, vector.options)

    assert equal > 100
