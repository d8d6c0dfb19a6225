"""A storage source gives every row once or more, never a checkpoint before the rows that it covers."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from tidewire.codec.storage_sink.layout import METADATA, DataPath, SchemaPath, data_path, schema_path
from tidewire.errors import SyncError
from tidewire.model import Position
from tidewire.spark.source import StorageForm, open_source
from tidewire.spark.source.storage_sink import StorageSource, is_storage, store_uri
from tidewire.spark.source.storage_sink.journal import FOLDER, Journal, SourceFile
from tidewire.spark.source.storage_sink.source import PARTITION
from tidewire.storage import Storage, open_storage

ROWS = "shop/t/100/2026-11-16"


class Folder:
    """Files of a storage sink, a sync's storage, and what was read of them."""

    def __init__(self, folder: Path) -> None:
        self.store = open_storage(folder / "files")
        self.kept = open_storage(folder / "kept")
        self.offsets: dict[object, int] = {}
        self.begin()

    def begin(self) -> None:
        """Start the sync again."""
        self.source = StorageSource(StorageForm("canal-json", self.store))
        self.source.begin(self.kept, self.offsets)  # type: ignore[arg-type]

    def put(self, number: int, *rows: str, folder: str = ROWS) -> str:
        name = f"{folder}/CDC{number:020}.json"
        self.store.put(name, "".join(f"{row}\r\n" for row in rows).encode())
        return name

    def checkpoint(self, ts: int) -> None:
        self.store.put(METADATA, b'{"checkpoint-ts":%d}' % ts)

    def read(self) -> list[str]:
        """What one pass reads: rows, and checkpoints as ``@ts``."""
        found = []
        for range_ in self.source.ranges(self.source.partitions(), self.offsets):  # type: ignore[arg-type]
            for batch in pickle.loads(pickle.dumps(self.source.fetcher)).batches(range_):
                for row in batch.to_pylist():
                    assert range_.start <= row["offset"] < range_.end
                    is_mark = row["key"] == METADATA.encode()
                    found.append(f"@{row['value'][17:-1].decode()}" if is_mark else row["value"].decode())
            self.offsets[PARTITION] = range_.end
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_new_files_are_followed_and_come_before_their_checkpoint(folder: Folder) -> None:
    assert folder.read() == []
    folder.put(1, "a", "b")
    assert folder.read() == []  # nothing tells yet how far the files reach
    folder.checkpoint(150)
    assert folder.read() == ["a", "b", "@150"]
    assert folder.read() == []
    folder.put(2, "c")
    folder.put(1, "d", folder="shop/t/100/2026-11-17")
    folder.put(1, "later", folder="shop/t/300/2026-11-17")
    folder.begin()
    assert folder.read() == ["c", "d", "@150"]
    folder.checkpoint(310)
    assert folder.read() == ["later", "@310"]
    folder.checkpoint(320)
    assert folder.read() == ["@320"]
    folder.begin()
    assert folder.read() == ["@320"]


def test_files_are_read_by_version_date_and_number_whatever_their_folders_are(folder: Folder) -> None:
    for place, row in (
        ("shop/t/200/71/2026-11-17", "200, partition 71, 17th"),
        ("shop/t/200/9/2026-11-18", "200, partition 9, 18th"),
        ("shop/t/200/71/2026-11-16", "200, partition 71, 16th"),
        ("shop/t/100/2026-11", "100, November"),
        ("44/150/2026", "150, table 44"),
        ("shop/u/100", "100, no date"),
    ):
        folder.put(1, row, folder=place)
    for number, writer in ((1, "b"), (2, "a"), (1, "a")):
        folder.store.put(f"shop/v/300/CDC_{writer}_{number:06}.json", f"300, {writer}{number}\r\n".encode())
    folder.store.put("44/meta/schema_150_0000000000.json", b"{}")
    folder.store.put("shop/meta/schema_199_0000000000.json", b"{ }")
    folder.store.put("shop/t/200/9/2026-11-18/meta/CDC.index", b"CDC00000000000000000001.json\n")
    folder.store.put("shop/t/200/9/2026-11-18/CDC2.json.tmp.1", b"half")
    folder.checkpoint(300)

    assert folder.read() == [
        *("100, no date", "100, November", "{}", "150, table 44", "{ }", "200, partition 9, 18th"),
        *("200, partition 71, 16th", "200, partition 71, 17th", "300, a1", "300, a2", "300, b1", "@300"),
    ]


def test_a_pass_that_was_not_kept_is_read_again_with_its_offsets(folder: Folder) -> None:
    folder.checkpoint(150)
    folder.put(1, "a", "b")
    before = folder.source.partitions()
    folder.begin()
    folder.put(2, "c")

    assert folder.source.partitions()[PARTITION].end > before[PARTITION].end
    assert folder.read() == ["a", "b", "c", "@150"]


def test_what_is_written_again_is_read_again(folder: Folder) -> None:
    folder.checkpoint(150)
    name = folder.put(1, "a")
    folder.read()
    folder.put(1, "a", "b")
    assert folder.read() == ["a", "b", "@150"]
    there = folder.store.local
    assert there is not None
    os.utime(there / name, (1, 1))
    assert folder.read() == ["a", "b", "@150"]
    folder.begin()
    assert folder.read() == ["@150"]


def test_what_follows_a_missing_file_waits_and_a_file_that_stays_away_stops_the_sync(folder: Folder) -> None:
    folder.checkpoint(150)
    folder.put(1, "a")
    folder.put(3, "c")
    assert folder.read() == ["a"]
    folder.put(2, "b")
    assert folder.read() == ["b", "c", "@150"]
    folder.put(6, "f")
    folder.read()
    with pytest.raises(SyncError, match="2026-11-16: CDC4 is missing"):
        folder.read()


def test_a_file_that_is_gone_before_it_was_read_stops_the_sync(folder: Folder) -> None:
    folder.checkpoint(150)
    name = folder.put(1, "a")
    folder.source.partitions()
    folder.store.delete([name])
    folder.begin()

    with pytest.raises(SyncError, match=r"CDC00000000000000000001\.json is gone"):
        folder.read()


def test_messages_are_found_by_their_positions(folder: Folder) -> None:
    folder.checkpoint(150)
    folder.put(1, "a", "b")
    (range_,) = folder.source.ranges(folder.source.partitions(), {})
    at = [
        Position("storage", 0, row) for batch in folder.source.fetcher.batches(range_) for row in batch[4].to_pylist()
    ]

    found = folder.source.fetch([at[1], Position("storage", 0, 5), at[2]])

    assert {at: (message.key, message.value) for at, message in found.items()} == {
        at[1]: (f"{ROWS}/CDC00000000000000000001.json:2".encode(), b"b")
    }
    assert [message.value for message in folder.source.sample(1)] == [b"a"]


def test_a_backlog_is_read_in_whole_files(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.spark.source.storage_sink.source._ROWS_PER_TASK", 4)
    folder.checkpoint(150)
    for number in range(1, 6):
        folder.put(number, "x" * 1000)
    folder.source.max_messages = 8

    one, two = folder.source.ranges(folder.source.partitions(), {})

    assert (one.start, one.end, one.messages) == (0, two.start, 6)
    assert [len(folder.read()) for _ in range(4)] == [2, 2, 2, 0]


def test_two_drivers_share_one_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewire.spark.source.storage_sink.journal._TOGETHER", 4)
    storage: Storage = open_storage(tmp_path)
    old, new = Journal(storage), Journal(storage)

    assert new.add((SourceFile("a", 1, 1.0),))
    assert not old.add((SourceFile("b", 1, 1.0),))
    assert [old.file(1).path, old.last] == ["a", 1]
    for number in range(6):
        assert new.add((SourceFile(f"f{number}", number, 1.0),))
    joined = Journal(storage)
    assert len(storage.list(FOLDER)) == 1
    assert joined.add((SourceFile("z", 1, 1.0),))
    assert Journal(storage).file(8).path == "z"


PATHS = {
    "shop/t/100/CDC1.json": DataPath("shop/t", 100, 0, "", "", 1),
    "shop/t/100/2026/CDC000002.json": DataPath("shop/t", 100, 0, "2026", "", 2),
    "shop/t/100/2026-11/CDC2.csv": DataPath("shop/t", 100, 0, "2026-11", "", 2),
    "shop/t/100/71/2026-11-16/CDC2.csv": DataPath("shop/t", 100, 71, "2026-11-16", "", 2),
    "shop/t/100/71/CDC_7f-a_b_003.csv": DataPath("shop/t", 100, 71, "", "7f-a_b", 3),
    "12/100/2026-11-16/CDC2.csv": DataPath("12", 100, 0, "2026-11-16", "", 2),
    "13/100/2026/CDC2.csv": DataPath("13", 100, 0, "2026", "", 2),
    "shop/t/100/meta/CDC.index": None,
    "shop/t/x/CDC1.csv": None,
    "metadata": None,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_tells_whose_rows_a_file_has(path: str) -> None:
    assert data_path(path, {"shop/t", "13"}) == PATHS[path]


def test_a_path_tells_whose_schema_a_file_has() -> None:
    assert schema_path("shop/t/meta/schema_100_0123456789.json") == SchemaPath("shop/t", 100)
    assert schema_path("shop/meta/schema_100_0123456789.json") == SchemaPath("shop", 100)
    assert schema_path("shop/t/meta/schema_100_1.json") is None


def test_a_folder_with_metadata_is_a_storage_sinks(tmp_path: Path) -> None:
    uri = f"file:{tmp_path}?protocol=canal-json&flush-interval=5s"
    assert not is_storage(uri)
    (tmp_path / "metadata").write_text("{}")
    assert is_storage(uri)
    assert is_storage("s3://bucket/prefix?protocol=csv")
    assert not is_storage("kafka://broker:9092/topic")
    assert store_uri("s3://b/p?protocol=csv&region=x&file-size=1") == "s3://b/p?region=x"
    assert isinstance(open_source(uri, StorageForm("canal-json", open_storage(tmp_path))), StorageSource)
