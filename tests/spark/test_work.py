"""The work directory: documents that are whole, and files by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyarrow import fs

from tidewire.errors import OptionError
from tidewire.spark import work as work_module
from tidewire.spark.work import Work


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    work = Work.of(tmp_path / "target")
    document = {"ts": 1 << 63, "name": "表", "list": [None, 1.5]}

    work.write("state/7.json", document)
    work.write("state/7.json", document | {"again": True})

    assert work.read("state/7.json") == document | {"again": True}
    assert work.read("state/8.json") is None
    assert (work.exists("state/7.json"), work.exists("state"), work.exists("plans")) == (True, True, False)
    assert work.local_path("lock") == tmp_path / "target" / "_tidewire" / "lock"
    assert [path.name for path in (tmp_path / "target" / "_tidewire" / "state").iterdir()] == ["7.json"]


def test_documents_are_listed_without_what_is_half_written(tmp_path: Path) -> None:
    work = Work(tmp_path)
    for number in (10, 9, 11):
        work.write(f"plans/{number}.json", number)
    (tmp_path / "plans" / ".12.json.1.partial").write_text("{")
    (tmp_path / "plans" / "folder.json").mkdir()

    assert work.names("plans") == ["10.json", "11.json", "9.json"]
    assert work.names("nothing") == []


def test_a_document_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.write("state/1.json", "old")

    with pytest.raises(TypeError):
        work.write("state/1.json", object())

    assert work.read("state/1.json") == "old"


def test_files_are_listed_and_deleted_by_the_names_spark_takes(tmp_path: Path) -> None:
    work = Work(tmp_path)
    paths = [work.path("staged", "3", name) for name in ("b.parquet", "a.parquet")]
    for path in paths:
        with work.create(path) as stream:
            stream.write(b"rows")

    assert work.files("staged/3") == sorted(paths)
    assert work.files("staged") == sorted(paths)
    assert Path(paths[0]).read_bytes() == b"rows"
    work.delete([paths[0], work.path("staged", "3", "never there")])
    assert work.files("staged/3") == [paths[1]]
    work.delete(paths)
    assert not (tmp_path / "staged" / "3").exists()


def test_only_files_below_it_are_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("keep")

    with pytest.raises(OptionError, match="is not below"):
        Work(tmp_path / "work").delete([str(outside)])

    assert outside.exists()


def test_a_uri_and_a_path_name_the_same_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (f"file://{tmp_path}/w", str(tmp_path / "w"), "w"):
        assert Work(place).path("state") == str(tmp_path / "w" / "state")


def test_it_travels_as_its_uri(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.write("state/1.json", 1)

    copy = pickle.loads(pickle.dumps(work))

    assert copy == work
    assert copy.read("state/1.json") == 1


def test_a_uri_nobody_knows_is_refused() -> None:
    with pytest.raises(OptionError, match="neither a path nor a URI"):
        Work("gopher://hole/x")


@pytest.mark.parametrize("kind", ["object store", "other"])
def test_other_stores_hold_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = fs.FileSystem.from_uri("mock:///")
    store.create_dir("bucket/w/state")
    monkeypatch.setattr(work_module, "open_filesystem", lambda uri: (store, uri.partition("://")[2]))
    if kind == "object store":
        store.create_dir("bucket/w/staged/0")
        monkeypatch.setattr(work_module, "_WRITERS", {"mock": work_module._put})
        monkeypatch.setattr(work_module, "_OBJECT_STORES", {"mock"})
    work = Work("s3a://bucket/w")

    work.write("state/1.json", [1])
    work.write("state/1.json", [2])
    with work.create(work.path("staged", "0", "x.parquet")) as stream:
        stream.write(b"rows")

    assert work.read("state/1.json") == [2]
    assert work.names("state") == ["1.json"]
    assert work.files("staged/0") == ["s3a://bucket/w/staged/0/x.parquet"]
    work.delete(work.files("staged"))
    assert work.files("staged") == []
