"""Records that the encoder writes read as the changes they were made of, and bad ones say why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidewire.codec.storage_sink.csv_config import CsvConfig
from tidewire.codec.storage_sink.csv_decoder import CsvDecoder, CsvReader
from tidewire.codec.storage_sink.csv_encoder import CsvEncoder
from tidewire.codec.storage_sink.schema_file import Definition
from tidewire.errors import DecodeError, OptionError
from tidewire.model import Column, Op, RowChange, TableName, TableSchema
from tidewire.model.values import EnumValue
from tidewire.spark.source.storage_sink.records import records

CONFIGS = [
    CsvConfig(include_commit_ts=True),
    CsvConfig("!", "", include_commit_ts=True, output_old_value=True),
    CsvConfig("[*]", "'", null="NULL", binary_encoding_method="hex"),
    CsvConfig("\t", '"', include_commit_ts=True, output_field_header=True),
    CsvConfig("***", "", output_old_value=True),
]


def odd_changes(folder: Path) -> list[RowChange]:
    """Changes of recorded topics, with values of every type."""
    from storage_files import upstream

    return [item for item in upstream("seed23", folder) if isinstance(item, RowChange)]


@pytest.mark.parametrize("terminator", ["\r\n", "\n", "|\n"])
@pytest.mark.parametrize("config", CONFIGS)
def test_what_was_written_is_read(tmp_path: Path, config: CsvConfig, terminator: str) -> None:
    encoder, reader = CsvEncoder(config, terminator), CsvReader(config, terminator)
    decoders: dict[TableSchema, CsvDecoder] = {}
    for change in odd_changes(tmp_path):
        header, names = encoder.header(change.table), None
        if header:
            names = reader.header(header)
        if change.table not in decoders:
            table = Definition.parse(Definition.of_table(change.table, 1).content()).table()
            decoders[change.table] = CsvDecoder(reader, table, names)

        found = [
            decoders[change.table].decode(record.data)
            for record in records(encoder.record(change), terminator.encode(), config.quote.encode())
        ]

        split = config.output_old_value and change.op is Op.UPDATE
        rows = [change.before, change.after] if split else [change.before if change.after is None else change.after]
        assert [each.before or each.after for each in found] == rows
        assert {each.commit_ts for each in found} == {change.commit_ts if config.include_commit_ts else None}
        assert {each.table.name for each in found} == {change.table.name}
        assert (found[-1].op is Op.DELETE) == (change.op is Op.DELETE)


TABLE = TableSchema(
    TableName("shop", "t"), (Column.of("id", "int", primary_key=True), Column.of("c", "enum('a','b,c')"))
)

BAD = {
    b'"I","t","shop",7,1': "cut short",
    b'"I","t","shop",7,1,"a\r\n': "no closing quote",
    b'"I","t","shop",7,1,"a"x\r\n': "no closing quote",
    b'"I","t","shop",7,1\r\n': "it has 1 columns, and the schema file of shop.t has 2",
    b'"I","t","shop",7,1,"a",3\r\n': "it has 3 columns",
    b'"I","t","shop","x",1,"a"\r\n': "the fourth cell is not a commit ts",
    b'"X","t","shop",7,1,"a"\r\n': "'X' is not one of I, U and D",
    b'"I","t"\r\n': "it has 2 cells",
    b'"I","t","shop",7,one,"a"\r\n': "column id (int): 'one' is not",
    b'"I","t","shop",7,1,"z"\r\n': "column c (enum('a','b,c')): 'z' is not one of its names",
}


@pytest.mark.parametrize("record", BAD)
def test_a_bad_record_says_why(record: bytes) -> None:
    decoder = CsvDecoder(CsvReader(CsvConfig(include_commit_ts=True)), TABLE)

    with pytest.raises(DecodeError) as refused:
        decoder.decode(record)

    assert BAD[record] in str(refused.value)


def test_a_handle_key_is_passed_over_and_names_of_a_header_choose_columns() -> None:
    config = CsvConfig(include_commit_ts=True, output_handle_key=True)
    change = CsvDecoder(CsvReader(config), TABLE).decode(b'"I","t","shop",7,"{1}",1,"b,c"\r\n')
    assert change.after == {"id": 1, "c": EnumValue(2, "b,c")}
    config = replace(config, output_handle_key=False, output_field_header=True)
    change = CsvDecoder(CsvReader(config), TABLE, ["ID"]).decode(b'"D","t","shop",7,1\r\n')
    assert change.before == {"id": 1}
    with pytest.raises(DecodeError, match=r"the header has the column x, and the schema file of shop\.t does not"):
        CsvDecoder(CsvReader(config), TABLE, ["id", "x"])


def test_names_of_an_enum_that_a_schema_file_does_not_list_are_text() -> None:
    table = Definition(TableName("s", "t"), 1, ({"ColumnName": "c", "ColumnType": "ENUM"},)).table()

    assert CsvDecoder(CsvReader(CsvConfig()), table).decode(b'"I","t","s","b"\r\n').after == {"c": "b"}


@pytest.mark.parametrize(
    "options", [{"delimiter": ""}, {"quote": "''"}, {"include-commit-ts": "maybe"}, {"binary-encoding-method": "raw"}]
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        CsvConfig.parse(options)
