"""Large messages: packed, with their key only, or kept elsewhere; and what a hostile one may not do."""

from __future__ import annotations

import base64
import json
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MAX_BYTES, FolderStore, MemoryStore, file_name
from tidewire.codec.compression import compress
from tidewire.codec.open_protocol.wire import VERSION, frame
from tidewire.codec.options import Compression
from tidewire.errors import BadClaimCheck, ClaimCheckError, DecodeError, EncodeError, OptionError
from tidewire.model import Column, Index, Message, RowChange, TableName, TableSchema, Watermark

NAMES = ["open-protocol", "canal-json"]
URI = "s3://bucket/prefix"
TABLE = TableSchema.build(
    TableName("test", "t"),
    [Column.of("id", "int", primary_key=True), Column.of("v", "text")],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
)
EVENT = RowChange(TABLE, 1, after={"id": 7, "v": random.Random(7).randbytes(1500).hex()})


def options(**more: Any) -> Options:
    return Options.parse(
        {
            "enable-tidb-extension": True,
            "large-message-handle-option": "claim-check",
            "claim-check-storage-uri": URI,
            "max-message-bytes": 700,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
    )


def with_location(name: str, location: str) -> Message:
    """The small message of a row that is kept elsewhere."""
    if name == "open-protocol":
        key = {"ts": 1, "scm": "test", "tbl": "t", "t": 1, "ccl": location}
        value = {"u": {"id": {"t": 3, "h": True, "f": 11, "v": 7}}}
        return Message(VERSION + frame(json.dumps(key).encode()), frame(json.dumps(value).encode()))
    wire = {
        "database": "test",
        "table": "t",
        "isDdl": False,
        "type": "INSERT",
        "es": 0,
        "mysqlType": {"id": "int"},
        "data": [{"id": "7"}],
        "_tidb": {"commitTs": 1, "claimCheckLocation": location},
    }
    return Message(None, json.dumps(wire).encode())


def kept(message: Message) -> bytes:
    """A message as its claim-check file holds it."""
    parts = (None if part is None else base64.b64encode(part).decode() for part in (message.key, message.value))
    return json.dumps(dict(zip(("key", "value"), parts, strict=True))).encode()


def whole(name: str) -> Message:
    (message,) = protocol(name).Encoder(Options(enable_tidb_extension=True)).encode([EVENT])
    return message


def check_out(name: str, file: bytes | None, location: str = f"{URI}/x.json", **more: Any) -> list[Any]:
    store = MemoryStore({} if file is None else {"x.json": file})
    return list(
        protocol(name).Decoder(options(**more), Resources(claim_check=store)).decode(with_location(name, location))
    )


# Both ways.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("compression", Compression)
def test_a_row_goes_out_and_comes_back_through_a_folder(name: str, compression: Compression, tmp_path: Path) -> None:
    resources = Resources(claim_check=FolderStore(tmp_path / "new" / "folder"))
    chosen = options(large_message_handle_compression=compression)

    (sent,) = protocol(name).Encoder(chosen, resources).encode([EVENT])

    (file,) = (tmp_path / "new" / "folder").iterdir()
    assert file.suffix == ".json"
    assert len(sent.key or b"") + len(sent.value or b"") < 500
    (back,) = protocol(name).Decoder(chosen, resources).decode(sent)
    assert isinstance(back, RowChange)
    assert (back.after, back.commit_ts, back.handle_key_only) == (EVENT.after, 1, False)
    (written,) = protocol(name).Encoder(Options.parse({"enable-tidb-extension": True})).encode([EVENT])
    if name == "open-protocol":
        assert json.loads(file.read_bytes())["key"] == base64.b64encode(written.key or b"").decode()
    else:
        assert json.loads(file.read_bytes())["key"] is None


def test_a_raw_file_is_the_value_itself(tmp_path: Path) -> None:
    for compression in Compression:
        resources = Resources(claim_check=FolderStore(tmp_path / compression), clock=lambda: 5)
        chosen = options(claim_check_raw_value=True, large_message_handle_compression=compression)
        codec = protocol("canal-json")

        (sent,) = codec.Encoder(chosen, resources).encode([EVENT])

        plain = Options.parse({"enable-tidb-extension": True, "large-message-handle-compression": compression})
        (value,) = codec.Encoder(plain, resources).encode([EVENT])
        (file,) = (tmp_path / compression).iterdir()
        assert file.read_bytes() == value.value
        (back,) = codec.Decoder(chosen, resources).decode(sent)
        assert isinstance(back, RowChange)
        assert back.after == EVENT.after


@pytest.mark.parametrize("name", NAMES)
def test_the_location_has_one_slash_before_the_name(name: str) -> None:
    for uri in ("s3://bucket/prefix", "s3://bucket/prefix/", "s3://bucket/prefix//"):
        resources = Resources(claim_check=MemoryStore(), file_name=lambda: "n.json")
        (sent,) = protocol(name).Encoder(options(claim_check_storage_uri=uri), resources).encode([EVENT])
        assert b'"s3://bucket/prefix/n.json"' in (sent.key or b"") + (sent.value or b"")


@pytest.mark.parametrize("name", NAMES)
def test_packing_comes_before_the_limit(name: str) -> None:
    event = RowChange(TABLE, 1, after={"id": 7, "v": "x" * 5000})
    for compression in ("lz4", "snappy"):
        chosen = Options.parse({"max-message-bytes": 700, "large-message-handle-compression": compression})

        (sent,) = protocol(name).Encoder(chosen).encode([event])

        (back,) = protocol(name).Decoder(chosen).decode(sent)
        assert isinstance(back, RowChange)
        assert back.after == event.after
        with pytest.raises(DecodeError):
            list(protocol(name).decode(sent))


def test_a_watermark_is_packed_in_canal_json_only() -> None:
    chosen = Options.parse({"large-message-handle-compression": "lz4", "enable-tidb-extension": True})
    (opened,) = protocol("open-protocol").Encoder(chosen).encode([Watermark(5)])
    (canal,) = protocol("canal-json").Encoder(chosen).encode([Watermark(5)])

    assert opened.value == bytes(8)
    assert (canal.value or b"").startswith(bytes.fromhex("04224d18"))
    for name, sent in (("open-protocol", opened), ("canal-json", canal)):
        assert list(protocol(name).Decoder(chosen).decode(sent)) == [Watermark(5)]


# Where it goes wrong.


@pytest.mark.parametrize("name", NAMES)
def test_without_a_store_neither_way_works(name: str) -> None:
    with pytest.raises(EncodeError, match="needs a store"):
        list(protocol(name).Encoder(options()).encode([EVENT]))
    with pytest.raises(OptionError, match="option claim-check-storage-uri: it is needed"):
        list(protocol(name).Decoder(options()).decode(with_location(name, f"{URI}/x.json")))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_not_there_is_a_bad_message(name: str, tmp_path: Path) -> None:
    for store in (MemoryStore(), FolderStore(tmp_path)):
        decoder = protocol(name).Decoder(options(), Resources(claim_check=store))
        with pytest.raises(DecodeError, match=r"x\.json") as refusal:
            list(decoder.decode(with_location(name, f"{URI}/x.json")))
        assert refusal.value.at in ("$.ccl", "$._tidb.claimCheckLocation")


BAD_LOCATIONS = [
    "..",
    "s3://bucket/..",
    "../x\\..\\y",
    "s3://bucket/prefix/",
    "/",
    ".hidden",
    "s3://bucket/.hidden",
    "a\\b",
    "C:\\x.json",
    "x.json\0",
    "\0",
    "x\n.json",
    "x.json\n",
    "x json",
    "~",
    "x.json?y=1",
    "ü.json",
    "x" * 256,
]


@pytest.mark.parametrize("location", BAD_LOCATIONS)
def test_a_location_that_could_lead_elsewhere_is_refused(location: str, tmp_path: Path) -> None:
    with pytest.raises(BadClaimCheck):
        file_name(location)
    for name in NAMES:
        decoder = protocol(name).Decoder(options(), Resources(claim_check=FolderStore(tmp_path)))
        with pytest.raises(DecodeError, match="not a plain file name"):
            list(decoder.decode(with_location(name, location)))


def test_only_the_last_part_of_a_location_counts() -> None:
    for location in ("../x.json", "/etc/x.json", "file:///../../x.json", "x.json", "s3:/bucket/x.json", "a/../x.json"):
        assert file_name(location) == "x.json"
        for name in NAMES:
            (event,) = check_out(name, kept(whole(name)), location)
            assert event.after == EVENT.after


def test_a_folder_takes_and_gives_plain_names_only(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"outside")
    store = FolderStore(tmp_path / "folder")
    for name in ("../x.json", str(tmp_path / "x.json"), "a/b", "", ".", "..", ".x.json", "x\0", "a\\b"):
        with pytest.raises(BadClaimCheck):
            store.get(name)
        with pytest.raises(BadClaimCheck):
            store.put(name, b"inside")
    assert (tmp_path / "x.json").read_bytes() == b"outside"


def test_a_folder_follows_no_link_and_reads_no_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_bytes(b"{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "dangling.json").symlink_to(tmp_path / "nothing")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    store = FolderStore(folder)

    for name in ("link.json", "dangling.json", "folder.json", "pipe.json"):
        with pytest.raises(BadClaimCheck, match="no such file"):
            store.get(name)
    store.put("link.json", b"new")
    assert (tmp_path / "secret.json").read_bytes() == b"{}"
    assert store.get("link.json") == b"new"


def test_a_folder_leaves_no_partial_files_and_says_what_failed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("a.json", b"1")
    store.put("a.json", b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert store.get("a.json") == b"2"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ClaimCheckError):
        FolderStore(tmp_path / "file" / "below").put("a.json", b"")
    with pytest.raises(ClaimCheckError, match="there is no folder") as caught:
        FolderStore(tmp_path / "file" / "below").get("a.json")
    assert not isinstance(caught.value, BadClaimCheck)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(MAX_BYTES + 1)

    for name in NAMES:
        decoder = protocol(name).Decoder(options(), Resources(claim_check=FolderStore(tmp_path)))
        with pytest.raises(DecodeError, match="larger than"):
            list(decoder.decode(with_location(name, f"{URI}/x.json")))


def other(name: str, **more: Any) -> Message:
    """A whole message of another change."""
    facts = {"commit_ts": 1, "after": EVENT.after, **more}
    table = TableSchema.build(facts.pop("table", TABLE.name), TABLE.columns)
    (message,) = protocol(name).Encoder(Options(enable_tidb_extension=True)).encode([RowChange(table, **facts)])
    return message


BAD_FILES: list[tuple[Callable[[str], bytes], str]] = [
    (lambda _: b"", "not JSON"),
    (lambda _: b"{", "not JSON"),
    (lambda _: b"[]", "an object was expected"),
    (lambda _: b"\xff", "not JSON"),
    (lambda _: b'{"key":5,"value":5}', "text was expected"),
    (lambda _: b'{"key":"*","value":"*"}', "not Base64"),
    (lambda _: b'{"key":"YQ","value":"YQ"}', "not Base64"),
    (lambda _: b'{"key":"\xc3\xbc","value":"YQ=="}', "not Base64"),
    (lambda _: b"{}", "shorter than the protocol version|no value"),
    (lambda _: b'{"key":null,"value":null}', "shorter than the protocol version|no value"),
    (lambda _: b'{"key":"","value":""}', "shorter than the protocol version|no value"),
    (lambda name: kept(whole(name))[:-30], "not JSON"),
    (lambda name: kept(Message(whole(name).key, (whole(name).value or b"")[:-5])), "bytes, but|not JSON"),
    (lambda name: kept(with_location(name, f"{URI}/x.json")), "a claim check behind a claim check"),
    (lambda name: kept(with_location(name, f"{URI}/y.json")), "a claim check behind a claim check"),
    (lambda name: kept(other(name, table=TableName("test", "u"))), "not the change it was kept for"),
    (lambda name: kept(other(name, commit_ts=1 << 40)), "not the change it was kept for"),
    (lambda name: kept(next(watermark(name))), "not the change it was kept for"),
    (lambda name: kept(other(name, after=None, before=EVENT.after)), "not the change|d are there|DELETE"),
]


def watermark(name: str) -> Any:
    return protocol(name).Encoder(Options(enable_tidb_extension=True)).encode([Watermark(1)])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_wrong_with_a_kept_message_is_a_bad_message(name: str) -> None:
    for make, reason in BAD_FILES:
        if name == "open-protocol" and "DELETE" in reason:
            continue  # only the value tells a delete there
        with pytest.raises(DecodeError, match=reason) as refusal:
            check_out(name, make(name))
        assert (refusal.value.part or "").startswith("claim check"), refusal.value


def test_a_claim_check_holds_one_event() -> None:
    message = whole("open-protocol")
    assert message.key is not None
    assert message.value is not None
    twice = Message(message.key + message.key[8:], message.value * 2)

    for wrong in (twice, Message(VERSION, b"")):
        with pytest.raises(DecodeError, match="one was expected"):
            check_out("open-protocol", kept(wrong))


def test_a_raw_file_is_checked_alike() -> None:
    (event,) = check_out("canal-json", whole("canal-json").value, claim_check_raw_value=True)
    assert event.after == EVENT.after
    for file in (b"", b"{", with_location("canal-json", f"{URI}/x.json").value):
        with pytest.raises(DecodeError):
            check_out("canal-json", file, claim_check_raw_value=True)


# Bombs.

BOMBS = {
    "a snappy block that claims 4 GiB": ("snappy", b"\xff\xff\xff\xff\x0f" + b"\0" * 100),
    "a snappy block that claims 128 MiB": ("snappy", b"\x80\x80\x80\x40" + b"\0" * 100),
    "a snappy length without end": ("snappy", b"\xff" * 20),
    "an LZ4 frame of zeros that never ends": ("lz4", compress(bytes(2_000_000), Compression.LZ4)[:-8]),
    "an LZ4 frame of zeros": ("lz4", compress(bytes(8_000_000), Compression.LZ4)),
    "an LZ4 frame that claims its content has 2**63 bytes": (
        "lz4",
        bytes.fromhex("04224d18 6c70 0000000000000080 00") + b"\0" * 50,
    ),
    "a frame to be skipped": ("lz4", bytes.fromhex("502a4d18 ffffffff") + b"\0" * 50),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_and_takes_little_memory(name: str, bomb: str) -> None:
    compression, data = BOMBS[bomb]
    key = b'{"ts":1,"scm":"test","tbl":"t","t":1}'
    message = Message(VERSION + frame(key), frame(data)) if name == "open-protocol" else Message(None, data)
    decoder = protocol(name).Decoder(Options.parse({"large-message-handle-compression": compression}))

    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as refusal:
            list(decoder.decode(message))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 64_000_000
    assert len(str(refusal.value)) < 300
