"""Files in folders of tables: on a disk and in an object store the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from changefeed.config.config_requests import check
from changefeed.pieces import SetClock, create, delete, insert, table, update
from object_stores import S3, s3_server
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.service.errors import code_of
from tidewire.changefeed.sink.open import open_sink
from tidewire.changefeed.sink.storage import StorageSink, records_for
from tidewire.codec import Options, Resources
from tidewire.codec.storage_sink.csv_config import CsvConfig
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.errors import ChangefeedError, StorageError
from tidewire.model import Ddl, DdlType, TableName
from tidewire.storage import Storage, open_storage

START = 1000
NAME = "CDC00000000000000000001.csv"


class Scene:
    """A sink on a store, with clocks that are set."""

    def __init__(self, store: Storage, protocol: str = "csv", start_ts: int = START, **settings: Any) -> None:
        self.store = store
        self.today = datetime(2026, 11, 16)
        self.clock = SetClock()
        made = StorageSettings("unused", **{"terminator": "\n", **settings})
        records = records_for(protocol, made, Options(enable_tidb_extension=True), Resources())
        self.sink = StorageSink(store, records, made, start_ts, today=lambda: self.today, clock=self.clock)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "cdc" if request.param == "file" else request.getfixturevalue("s3").uri())


def names(store: Storage, folder: str) -> list[str]:
    return [entry.name.removeprefix(f"{folder}/") for entry in store.list(folder)]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_rows_are_filed_under_table_version_and_date(store: Storage) -> None:
    scene = Scene(store)

    scene.sink.rows([insert(1, 1001), update(1, 1, 1002), delete(1, 1003)])
    assert names(store, "test/t/1000/2026-11-16") == []
    scene.sink.flush()

    folder = "test/t/1000/2026-11-16"
    assert names(store, folder) == [NAME]
    assert store.read(f"{folder}/{NAME}") == b'"I","t","test",1,"x"\n"U","t","test",1,"y"\n"D","t","test",1,"x"\n'
    assert store.read(f"{folder}/meta/CDC.index") == f"{NAME}\n".encode()
    (schema,) = names(store, "test/t/meta")
    assert schema.startswith("schema_1000_")
    assert json.loads(store.read(f"test/t/meta/{schema}") or b"")["Query"] == ""


def test_numbers_go_on_and_begin_again_with_a_new_date(store: Storage) -> None:
    scene = Scene(store, file_index_digit=6)
    for day in (16, 16, 17):
        scene.today = datetime(2026, 11, day)
        scene.sink.rows([insert(1, 1001)])
        scene.sink.flush()
    again = Scene(store, file_index_digit=6, start_ts=2000)
    again.sink.rows([insert(1, 2001)])
    again.sink.flush()

    assert names(store, "test/t/1000/2026-11-16") == ["CDC000001.csv", "CDC000002.csv", "CDC000003.csv"]
    assert names(store, "test/t/1000/2026-11-17") == ["CDC000001.csv"]
    assert store.read("test/t/1000/2026-11-16/meta/CDC.index") == b"CDC000003.csv\n"


def test_a_file_without_an_index_is_not_written_over(tmp_path: Path) -> None:
    store = open_storage(tmp_path)
    store.put("test/t/1000/CDC000004.csv", b"mine")
    scene = Scene(store, file_index_digit=6, date_separator=DateSeparator.NONE)

    scene.sink.rows([insert(1, 1001)])
    scene.sink.flush()

    assert store.read("test/t/1000/CDC000004.csv") == b"mine"
    assert names(store, "test/t/1000") == ["CDC000004.csv", "CDC000005.csv"]


@pytest.mark.parametrize(
    ("separator", "folder"), [("none", ""), ("year", "/2026"), ("month", "/2026-11"), ("day", "/2026-11-16")]
)
def test_dates_are_as_fine_as_wanted(tmp_path: Path, separator: str, folder: str) -> None:
    scene = Scene(open_storage(tmp_path), date_separator=DateSeparator(separator))

    scene.sink.rows([insert(1, 1001)])
    scene.sink.flush()

    assert (tmp_path / f"test/t/1000{folder}/{NAME}").is_file()


def test_a_statement_gives_the_table_a_new_version(tmp_path: Path) -> None:
    scene = Scene(open_storage(tmp_path), date_separator=DateSeparator.NONE)
    scene.sink.rows([insert(1, 1001)])

    altered = replace(table(), version=1005)
    scene.sink.ddl(Ddl(altered.name, 1005, "ALTER TABLE t COMMENT 'x'", 17, table_schema=altered))
    scene.sink.rows([insert(2, 1006, altered)])
    scene.sink.flush()

    checksum = "0000000000"
    (first, second) = sorted(path.name for path in (tmp_path / "test/t/meta").iterdir())
    assert (first[: -len(checksum) - 5], second[: -len(checksum) - 5]) == ("schema_1000_", "schema_1005_")
    assert (tmp_path / f"test/t/1000/{NAME}").is_file()
    assert (tmp_path / f"test/t/1005/{NAME}").is_file()
    said = json.loads((tmp_path / "test/t/meta" / second).read_bytes())
    assert (said["Query"], said["Type"], said["TableVersion"]) == ("ALTER TABLE t COMMENT 'x'", 17, 1005)


def test_statements_about_databases_and_renames_have_their_places(tmp_path: Path) -> None:
    scene = Scene(open_storage(tmp_path))
    new = table("new")

    scene.sink.ddl(Ddl(TableName("schema1", ""), 1001, "CREATE DATABASE schema1", DdlType.CREATE_SCHEMA))
    scene.sink.ddl(Ddl(new.name, 1002, "RENAME TABLE t TO new", 14, table_schema=new, old_name=TableName("test", "t")))

    assert files(tmp_path)[0] == "schema1/meta/schema_1001_3233644819.json"
    assert files(tmp_path)[1].startswith("test/new/meta/schema_1002_")
    assert len(files(tmp_path)) == 2


def test_an_exchanged_partition_is_told_in_two_files_and_executed_once(tmp_path: Path) -> None:
    scene = Scene(open_storage(tmp_path))
    parted, plain = table("parted", table_id=1), table("plain", table_id=2)

    scene.sink.ddl(
        Ddl(parted.name, 1001, "ALTER TABLE parted EXCHANGE PARTITION p WITH TABLE plain",
            DdlType.EXCHANGE_TABLE_PARTITION, table_schema=parted, pre_table_schema=plain)
    )  # fmt: skip

    said = [json.loads((tmp_path / path).read_bytes()) for path in files(tmp_path)]
    assert [(one["Table"], bool(one["Query"]), one["Type"]) for one in said] == [
        ("parted", True, 42),
        ("plain", False, 0),
    ]
    assert {one["TableVersion"] for one in said} == {1001}


def test_partitions_and_table_ids_make_folders(tmp_path: Path) -> None:
    rows = [replace(insert(number, 1001), table_id=200 + number, partitioned=True) for number in (1, 2)]
    cases: dict[str, dict[str, Any]] = {
        "apart": {},
        "together": {"enable_partition_separator": False},
        "ids": {"use_table_id_as_path": True},
    }
    for folder, settings in cases.items():
        scene = Scene(open_storage(tmp_path / folder), date_separator=DateSeparator.NONE, **settings)
        scene.sink.rows(rows)
        scene.sink.flush()

    data = [path for path in files(tmp_path) if path.endswith(".csv")]
    assert data == [
        f"apart/test/t/1000/201/{NAME}",
        f"apart/test/t/1000/202/{NAME}",
        f"ids/201/1000/{NAME}",
        f"ids/202/1000/{NAME}",
        f"together/test/t/1000/{NAME}",
    ]


def test_a_full_file_is_written_but_a_transaction_is_not_torn_apart(tmp_path: Path) -> None:
    scene = Scene(open_storage(tmp_path), file_size=30, date_separator=DateSeparator.NONE, file_index_digit=6)

    scene.sink.rows([insert(1, 1001), insert(2, 1001), insert(3, 1001), insert(4, 1002), insert(5, 1003)])
    first = (tmp_path / "test/t/1000/CDC000001.csv").read_text()
    scene.sink.flush()
    second = (tmp_path / "test/t/1000/CDC000002.csv").read_text()

    assert (first.count("\n"), second.count("\n")) == (3, 2)


def test_the_checkpoint_is_written_every_two_seconds_and_at_the_end(store: Storage) -> None:
    scene = Scene(store)

    scene.sink.watermark(1001, [])
    assert store.read("metadata") == b'{"checkpoint-ts":1001}'
    scene.clock.now = 1.9
    scene.sink.watermark(1002, [])
    assert store.read("metadata") == b'{"checkpoint-ts":1001}'
    scene.clock.now = 2.0
    scene.sink.watermark(1003, [])
    assert store.read("metadata") == b'{"checkpoint-ts":1003}'
    scene.sink.watermark(1004, [])
    scene.sink.close()

    assert store.read("metadata") == b'{"checkpoint-ts":1004}'


def test_canal_json_is_a_message_for_each_row_with_a_terminator(tmp_path: Path) -> None:
    scene = Scene(open_storage(tmp_path), "canal-json", terminator="\r\n", date_separator=DateSeparator.NONE)

    scene.sink.ddl(create(table(), 1001))
    scene.sink.rows([insert(1, 1002), delete(1, 1003)])
    scene.sink.flush()

    text = (tmp_path / "test/t/1001/CDC00000000000000000001.json").read_bytes().decode()
    one, other, rest = text.split("\r\n")
    assert [json.loads(line)["_tidb"] for line in (one, other)] == [{"commitTs": 1002}, {"commitTs": 1003}]
    assert rest == ""


def test_a_header_begins_every_file(tmp_path: Path) -> None:
    scene = Scene(
        open_storage(tmp_path),
        csv=CsvConfig(output_field_header=True),
        file_index_digit=6,
        date_separator=DateSeparator.NONE,
    )
    for _ in range(2):
        scene.sink.rows([insert(1, 1001)])
        scene.sink.flush()

    for number in (1, 2):
        text = (tmp_path / f"test/t/1000/CDC00000{number}.csv").read_text()
        assert text.splitlines()[0] == "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,id,name"


def test_a_schema_that_changed_unheard_gets_a_version_of_its_own(tmp_path: Path) -> None:
    scene = Scene(open_storage(tmp_path), date_separator=DateSeparator.NONE)
    narrow = replace(table(version=1005), columns=table().columns[:1])

    scene.sink.rows([insert(1, 1001), replace(insert(2, 1006), table=narrow, after={"id": 2})])
    scene.sink.flush()

    assert (tmp_path / f"test/t/1000/{NAME}").is_file()
    assert (tmp_path / f"test/t/1005/{NAME}").is_file()


def test_a_replay_uses_the_versions_of_its_own_time(tmp_path: Path) -> None:
    store = open_storage(tmp_path)
    first = Scene(store, date_separator=DateSeparator.NONE)
    first.sink.rows([insert(1, 1001)])
    first.sink.ddl(Ddl(table().name, 2000, "TRUNCATE TABLE t", DdlType.TRUNCATE_TABLE, table_schema=table()))

    again = Scene(store, start_ts=1500, date_separator=DateSeparator.NONE, file_index_digit=6)
    again.sink.rows([insert(2, 1501)])
    again.sink.flush()

    assert (tmp_path / "test/t/1000/CDC000002.csv").is_file()
    assert not (tmp_path / "test/t/2000").exists()


def test_only_what_can_be_stored_is_taken(tmp_path: Path) -> None:
    with pytest.raises(ChangefeedError) as refusal:
        Scene(open_storage(tmp_path), "open-protocol")
    assert refusal.value.code == "CDC:ErrSinkUnknownProtocol"


def test_the_sinks_uri_says_where_the_store_is(s3: S3, tmp_path: Path) -> None:
    query = urlencode({**s3.parameters(), "protocol": "csv", "csv-config": "ignored"})
    uris = {
        f"file://{tmp_path}/a%20b?protocol=csv": open_storage(tmp_path / "a b"),
        f"s3://bucket/a%20b?{query}": open_storage(s3.uri("a b")),
    }
    for uri, store in uris.items():
        sink = open_sink(check(uri).settings, START)
        sink.watermark(1001, [])
        sink.close()

        assert store.read("metadata") == b'{"checkpoint-ts":1001}'


def test_a_store_that_refuses_is_told_about(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()

    with pytest.raises(StorageError) as refusal:
        Scene(open_storage(tmp_path)).sink.watermark(1001, [])

    assert code_of(refusal.value) == "CDC:ErrExternalStorageAPI"
