"""Folders that Dumpling wrote: what is in them, and the values of their files."""

from __future__ import annotations

import gzip
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pytest

from dump_files import KINDS, ODD_DIALECT, SEED11_TS, unpack
from object_stores import s3_server
from tidewire.arrow.policy import Policy
from tidewire.errors import LoadError
from tidewire.load.chunks import chunks_of, first_line, read_part
from tidewire.load.compression import Compression, unpacked
from tidewire.load.dialect import BinaryFormat, Dialect
from tidewire.load.dumpling import Dump, read_dump
from tidewire.load.sql import read_sql
from tidewire.load.values import typed
from tidewire.model import Column, TableName
from tidewire.storage import open_storage

CHUNK = 64 << 20


def values(folder: Path | str, dialect: Dialect, size: int = CHUNK) -> tuple[Dump, dict[str, list[dict[str, Any]]]]:
    """All rows of a dump."""
    storage = open_storage(folder)
    dump, found = read_dump(storage), dict[str, list[dict[str, Any]]]()
    for table in dump.tables:
        rows = found.setdefault(str(table.schema.name), [])
        parts = [part for chunk in chunks_of(table.files, dialect, size) for part in chunk.parts]
        for read in (each for part in parts for each in read_part(storage, part, table.schema, dialect)):
            assert not read.bad
            columns = {}
            for name, array in zip(read.names, read.columns, strict=True):
                columns[name], misfits = typed(table.schema.column(name), array, Policy(), dialect.binary)
                assert not misfits
            rows += pa.table(columns).to_pylist()
    return dump, found


def test_every_kind_of_dump_has_the_same_values(tmp_path: Path) -> None:
    folder = unpack("seed11", tmp_path)
    dialects = {"csv-odd": Dialect.parse(ODD_DIALECT)}

    found = {kind: values(folder / kind, dialects.get(kind, Dialect())) for kind in KINDS}

    assert {dump.ts for dump, _ in found.values()} == {SEED11_TS}
    wanted = {name: sorted(map(repr, rows)) for name, rows in found["sql"][1].items()}
    assert {name: len(rows) for name, rows in wanted.items()} == {
        "test.accounts": 25,
        "test.metrics": 22,
        "test.order_items": 30,
        "test.sessions": 25,
        "test.wide": 24,
    }
    for _, rows in found.values():
        assert {name: sorted(map(repr, each)) for name, each in rows.items()} == wanted


@pytest.mark.parametrize("size", [7, 100, 1000])
def test_a_file_that_is_cut_has_the_same_rows(tmp_path: Path, size: int) -> None:
    folder = unpack("seed11", tmp_path) / "csv"

    assert values(folder, Dialect(), size)[1] == values(folder, Dialect())[1]


@pytest.mark.parametrize("kind", ["csv", "sql", "parquet"])
def test_odd_names_and_values(tmp_path: Path, kind: str) -> None:
    dump, rows = values(unpack("odd", tmp_path) / kind, Dialect())

    assert dump.skipped == (TableName("shop", "sq"), TableName("shop", "vw"))
    assert rows["my-db.a.b c"][0] == {"the id": 1, "v.x": 'x,"y"', "we`ird": 3}
    assert rows["shop.empty_one"] == []
    assert rows["shop.nokey"] == [{"a": 1, "b": "a"}, {"a": 1, "b": "a"}, {"a": 2, "b": None}]
    assert rows["shop.gen"] == [{"id": 1, "a": 10, "j": '{"k": "kk"}'}, {"id": 2, "a": None, "j": None}]
    assert rows["shop.bytes"][0] == {
        "id": 1,
        "b": b"\0\1\0\0",
        "vb": bytes(range(20)),
        "bl": b'\\N\0\xff"\r\n\t\\',
        "bt": Decimal(2**64 - 1),
        "g": "中文",
        "l": "abc",
        "tx": "line\nbreak\r\n\"q\" 'q' \\b \\N ,;\t\0",
    }
    assert rows["shop.bytes"][1]["vb"] == b""
    assert [row["e"] for row in rows["shop.kinds"]] == ["b,c", 'd"e', None]
    assert [row["s"] for row in rows["shop.kinds"]] == ["x,z", "", None]
    assert [row["t"] for row in rows["shop.times"]] == [-3020399 * 10**6, 3020399 * 10**6]
    assert [row["d"] is None for row in rows["shop.times"]] == [True, False]
    assert rows["数据.表"][0]["n"] == "12345678901234567890123456789012345.123456789012345678901234567890"


def test_a_dump_that_did_not_end_is_refused(tmp_path: Path) -> None:
    folder = unpack("seed11", tmp_path) / "csv"
    metadata = folder / "metadata"
    whole = metadata.read_text()

    metadata.write_text(whole.partition("Finished")[0])
    with pytest.raises(LoadError, match="did not end: metadata has no line"):
        read_dump(open_storage(folder))
    metadata.rename(folder / "metadata.partial")
    with pytest.raises(LoadError, match=r"not a dump that ended: it has metadata\.partial"):
        read_dump(open_storage(folder))
    metadata.write_text(whole.replace("tidb-binlog", "mysql-bin.000002"))
    (folder / "metadata.partial").unlink()
    assert read_dump(open_storage(folder)).ts is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [("rows-of-accounts.csv", "its table is not known"), ("test.other.000000000.csv", "no CREATE TABLE of it")],
)
def test_a_file_whose_table_cannot_be_told_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    folder = unpack("seed11", tmp_path) / "csv"
    (folder / name).write_text("1\r\n")

    with pytest.raises(LoadError, match=reason):
        read_dump(open_storage(folder))


def test_a_dump_that_lacks_a_part_of_a_chunk_is_refused(tmp_path: Path) -> None:
    folder = unpack("seed11", tmp_path) / "sql-chunks"
    (folder / "test.metrics.0000000020000.sql").unlink()  # a chunk without rows has no file
    assert len(read_dump(open_storage(folder)).tables) == 5

    (folder / "test.accounts.0000000010001.sql").unlink()

    with pytest.raises(LoadError, match=r"lacks test\.accounts\.0000000010001\.sql, and has files after it"):
        read_dump(open_storage(folder))


def test_a_row_has_the_line_of_its_file(tmp_path: Path) -> None:
    folder = unpack("seed11", tmp_path) / "csv"
    storage = open_storage(folder)
    table = next(each for each in read_dump(storage).tables if each.schema.name.table == "accounts")
    parts = [part for chunk in chunks_of(table.files, Dialect(), 500) for part in chunk.parts]

    found = []
    for part in parts:
        base = first_line(storage, part, Dialect())
        for rows in read_part(storage, part, table.schema, Dialect()):
            found += [
                (base + line, id_)
                for line, id_ in zip(rows.lines.to_pylist(), rows.columns[0].to_pylist(), strict=True)
            ]

    lines = (folder / table.files[0].name).read_bytes().splitlines()
    assert len(parts) > 3
    assert found == [(number + 2, line.partition(b",")[0]) for number, line in enumerate(lines[1:])]


def test_rows_of_sql_are_read_whatever_the_size_of_a_block() -> None:
    text = (
        b"/*!40101 SET NAMES binary*/;\nINSERT INTO `a``b` (`x`,`y``z`) VALUES\n(1,'it\\'s'),\n(-2.5,x'00ff');\n"
        b"INSERT INTO `a``b` VALUES\n(NULL,'a\\\\''b\\n,('),\n(3,''),(4,NULL);\n"
    )

    for block in (1, 5, 1000):
        found = [*read_sql(io.BytesIO(text), ("x", "y`z"), block=block)]
        rows = [row for each in found for row in zip(*(column.to_pylist() for column in each.columns), strict=True)]
        assert rows == [(b"1", b"it's"), (b"-2.5", b"\0\xff"), (None, b"a\\'b\n,("), (b"3", b""), (b"4", None)]


@pytest.mark.parametrize(
    "text", [b"INSERT INTO `a` VALUES\n(1,2", b"UPDATE `a` SET x = 1;", b"INSERT INTO `a` VALUES 1;"]
)
def test_damaged_sql_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"line [12]:"):
        [*read_sql(io.BytesIO(text), ("x", "y"), block=3)]


@pytest.mark.parametrize(
    ("how", "packed"),
    [
        (Compression.GZIP, gzip.compress(b"some text " * 9999)),
        (Compression.ZSTD, bytes(cramjam.zstd.compress(b"some text " * 9999))),
        (Compression.SNAPPY, bytes(cramjam.snappy.compress(b"some text " * 9999))),
    ],
)
def test_packed_files_are_unpacked_and_cut_ones_refused(how: Compression, packed: bytes) -> None:
    with unpacked(io.BytesIO(packed), how) as stream:
        assert stream.read() == b"some text " * 9999
    with pytest.raises(LoadError), unpacked(io.BytesIO(packed[: len(packed) // 2]), how) as stream:
        stream.read()


def test_byte_strings_of_other_dialects() -> None:
    column, number = Column.of("b", "varbinary(10)"), Column.of("n", "bit(12)")

    for binary, text in ((BinaryFormat.HEX, b"0aff"), (BinaryFormat.BASE64, b"Cv8=")):
        assert typed(column, pa.array([text, None], pa.binary()), Policy(), binary)[0].to_pylist() == [
            b"\x0a\xff",
            None,
        ]
        assert typed(number, pa.array([text], pa.binary()), Policy(), binary)[0].to_pylist() == [0x0AFF]


def test_a_value_that_does_not_fit_is_named() -> None:
    found, misfits = typed(
        Column.of("n", "int"), pa.array([b"1", b"two", None], pa.binary()), Policy(), BinaryFormat.RAW
    )

    assert found.to_pylist() == [1, None, None]
    assert list(misfits) == [1]
    assert misfits[1].startswith("column n (int): ")


@pytest.mark.parametrize("kind", ["csv-gzip", "parquet"])
def test_a_dump_in_a_store_has_the_same_values(tmp_path: Path, kind: str) -> None:
    folder = unpack("seed11", tmp_path) / kind
    with s3_server() as server:
        uri = server.uri()
        storage = open_storage(uri)
        for file in folder.iterdir():
            storage.put(file.name, file.read_bytes())

        assert values(uri, Dialect()) == values(folder, Dialect())


def test_a_file_in_a_store_is_cut_too(tmp_path: Path) -> None:
    folder = unpack("seed11", tmp_path) / "csv"
    with s3_server() as server:
        uri = server.uri()
        for file in folder.iterdir():
            open_storage(uri).put(file.name, file.read_bytes())

        assert values(uri, Dialect(), 1000)[1] == values(folder, Dialect())[1]
