"""A DDL in Simple says its kind and whose it is."""

from __future__ import annotations

import pytest

from codec.simple.simple_messages import AVRO, JSON, ODD
from tidewire.codec import Options
from tidewire.codec.simple import Decoder, Encoder
from tidewire.model import Ddl, DdlKind, DdlType, TableName


@pytest.mark.parametrize("options", [JSON, AVRO])
def test_a_ddl_says_its_kind_and_keeps_its_table(options: Options) -> None:
    kinds = {
        DdlType.CREATE_TABLE: DdlKind.CREATE,
        DdlType.CREATE_TABLES: DdlKind.CREATE,
        DdlType.EXCHANGE_TABLE_PARTITION: DdlKind.ALTER,
        DdlType.ADD_COLUMNS: DdlKind.QUERY,
        DdlType.ADD_PRIMARY_KEY: DdlKind.CINDEX,
        DdlType.DROP_FOREIGN_KEY: DdlKind.DINDEX,
        DdlType.RENAME_TABLES: DdlKind.RENAME,
        DdlType.CREATE_VIEW: DdlKind.QUERY,
        999: DdlKind.QUERY,
        None: DdlKind.QUERY,
    }
    for type_, kind in kinds.items():
        event = Ddl(ODD.name, 5, "ALTER TABLE odd …", type=type_, table_schema=ODD, pre_table_schema=ODD)
        (sent,) = Encoder(options).encode([event])
        (got,) = Decoder(options).decode(sent)
        assert isinstance(got, Ddl)
        assert (got.kind, got.table, got.query) == (kind, ODD.name, event.query)
        assert (got.pre_table_schema is not None) == (type_ in (None, DdlType.EXCHANGE_TABLE_PARTITION)), type_


@pytest.mark.parametrize("options", [JSON, AVRO])
def test_a_ddl_of_a_source_without_schemas_still_says_whose_it_is(options: Options) -> None:
    for name, want in ((TableName("a", "b"), TableName("a", "b")), (TableName("a", ""), TableName("", ""))):
        decoder = Decoder(options)
        (sent,) = Encoder(options).encode([Ddl(name, 5, "…", kind=DdlKind.ALTER)])
        (got,) = decoder.decode(sent)
        assert isinstance(got, Ddl)
        assert (got.table, got.table_schema, got.kind) == (want, None, DdlKind.ALTER)
        assert len(decoder.schemas) == 0
