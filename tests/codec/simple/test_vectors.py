"""The servers' Simple messages mean their events, and the events make the new server's bytes."""

from __future__ import annotations

import base64
import json
from itertools import chain, repeat
from typing import Any

import pytest

from codec.simple.simple_messages import ENCODINGS, known_schemas, unpacked
from tidewire.codec import Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.compression import decompress
from tidewire.codec.simple import Decoder, Encoder
from tidewire.errors import EncodeError
from tidewire.model import Ddl, DdlType, RowChange
from tidewire.plain import event_to_plain
from vector_files import Vector, files, vectors

CASES = [(name, file) for name in ENCODINGS for file in files(name)]
REFUSED = [(name, file) for name in ENCODINGS for file in files(name, "*.errors")]


def told(plain: dict[str, Any]) -> dict[str, Any]:
    """An event without what Simple has no place for."""
    row = {key: value for key, value in plain.items() if key not in ("start_ts", "row_id", "ddl_kind", "type_code")}
    for member in ("table_schema", "pre_table_schema"):
        if row.get(member):
            row[member] = row[member] | {"columns": told_columns(row[member]["columns"])}
    if "columns" in row:
        row["columns"] = told_columns(row["columns"])
    return row


def told_columns(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns by name (the classic server sorts them by id), without ids and what makes them generated."""
    found = []
    for column in sorted(columns, key=lambda column: str(column["name"])):
        generated = "generated" in column or column["base_type"] == "unspecified"
        unsent = {"id", "generated"} | ({"flag"} if generated else set())
        unsent |= {"decimal", "mysql_type"} if column["base_type"] in ("float", "double") else set()
        found.append({key: value for key, value in column.items() if key not in unsent})
    return found


def generated_flags(want: Any, got: Any) -> Any:
    """The flags that came, for columns of which the wire does not tell that they are generated."""
    for ours, theirs in zip(want, got, strict=True):
        if "flag" not in ours:
            theirs.pop("flag", None)
    return got


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_message_means_its_events(name: str, file: str) -> None:
    schemas = known_schemas(name, file.rpartition(".")[2])
    for vector in vectors(name, file):
        (event,) = Decoder(vector.options, Resources(claim_check=vector.claim_checks), schemas).decode(vector.message)
        (sent,) = vector.events
        want, got = told(event_to_plain(sent)), told(event_to_plain(event))
        for member in ("table_schema", "pre_table_schema"):
            if want.get(member):
                generated_flags(want[member]["columns"], got[member]["columns"])
        match sent, event:
            case RowChange(), RowChange():
                generated_flags(want["columns"], got["columns"])
                assert event.partition_id == sent.partition_id, vector.id
                if event.handle_key_only:
                    assert got.pop("handle_key_only"), vector.id
                    want |= {
                        side: image and {key: image[key] for key in want["handle_key"]}
                        for side, image in ((side, want[side]) for side in ("before", "after"))
                    }
            case Ddl(), Ddl():
                for key in ("old_schema", "old_table", *(("schema", "table") if not event.table_schema else ())):
                    want.pop(key, None), got.pop(key, None)
                if sent.type == DdlType.EXCHANGE_TABLE_PARTITION:
                    want["table"] = got["table"]
        assert got == want, vector.id


@pytest.mark.parametrize(("name", "file"), [case for case in CASES if case[1].endswith(".ticdc")])
def test_events_make_the_new_servers_bytes(name: str, file: str) -> None:
    for vector in vectors(name, file):
        kept = vector.claim_checks.blobs
        whole = [message_in_file(vector, data) for data in kept.values()]
        clock = chain((unpacked(vector, value)["buildTs"] for value in whole), repeat(build_ts(vector)))
        names, store = iter(kept), MemoryStore()
        resources = Resources(store, clock=clock.__next__, file_name=names.__next__)
        (message,) = Encoder(vector.options, resources).encode(vector.events)

        assert message.key is None
        assert set(store.blobs) == set(kept), vector.id
        if name == "simple-avro" and vector.plain[0]["kind"] == "row":
            # The server leaves the order of the columns to chance.
            assert unpacked(vector, message.value) == unpacked(vector, vector.message.value), vector.id
            for file_name, data in store.blobs.items():
                ours, theirs = (unpacked(vector, message_in_file(vector, blob)) for blob in (data, kept[file_name]))
                assert ours == theirs, vector.id
        else:
            assert plain_bytes(vector, message.value) == plain_bytes(vector, vector.message.value), vector.id
            for file_name, data in store.blobs.items():
                mine, others = (plain_bytes(vector, message_in_file(vector, blob)) for blob in (data, kept[file_name]))
                assert mine == others, vector.id


def plain_bytes(vector: Vector, value: bytes | None) -> bytes:
    """A value before it was compressed: packers differ in what they write."""
    assert value is not None
    return decompress(value, vector.options.large_message_handle_compression)


def build_ts(vector: Vector) -> int:
    return int(unpacked(vector, vector.message.value)["buildTs"])


def message_in_file(vector: Vector, data: bytes) -> bytes:
    return data if vector.options.claim_check_raw_value else base64.b64decode(json.loads(data)["value"])


@pytest.mark.parametrize(("name", "file"), REFUSED)
def test_what_the_server_refuses_is_refused(name: str, file: str) -> None:
    for vector in vectors(name, file):
        with pytest.raises(EncodeError) as refusal:
            list(Encoder(vector.options, Resources(claim_check=MemoryStore())).encode(vector.events))

        assert refusal.value.code == vector.error, vector.id
