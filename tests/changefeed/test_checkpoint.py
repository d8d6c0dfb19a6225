"""A checkpoint is kept whole, or the one before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidewire.changefeed.checkpoint import Checkpoint, CheckpointStore, FileCheckpoints, MemoryCheckpoints
from tidewire.errors import ChangefeedError

LARGE = Checkpoint((1 << 64) - 1, {"file": "binlog.000001", "position": 4, "gtid": None})


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    stores: list[CheckpointStore] = [MemoryCheckpoints(), FileCheckpoints(tmp_path / "new" / "checkpoint.json")]
    for store in stores:
        assert store.load() is None

        store.save(Checkpoint(1))
        store.save(LARGE)

        assert store.load() == LARGE


def test_only_the_checkpoint_is_left_in_the_folder(tmp_path: Path) -> None:
    FileCheckpoints(tmp_path / "checkpoint.json").save(LARGE)

    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checkpoint-ts": 1}', '{"checkpoint-ts": "x", "place": null}'])
def test_a_file_that_is_no_checkpoint_is_not_overlooked(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_text(text)

    with pytest.raises(ChangefeedError, match="not a checkpoint"):
        FileCheckpoints(path).load()
