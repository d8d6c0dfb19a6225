"""What Avro registers: names, schemas and values one by one, and the examples of TiCDC's own document."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from tidewire.codec import Options, Resources, avro
from tidewire.codec.avro.layout import read_layout
from tidewire.codec.avro.names import namespace, sanitized, subject, topic_of
from tidewire.codec.avro.schema import key_schema, value_schema
from tidewire.errors import DecodeError, EncodeError
from tidewire.model import (
    Checksum,
    Column,
    Date,
    DateTime,
    Ddl,
    EnumValue,
    Event,
    Generated,
    Message,
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)
from tidewire.registry import MemoryRegistry

STRINGS = {"avro-decimal-handling-mode": "string", "avro-bigint-unsigned-handling-mode": "string"}
MODES = ("avro_decimal_handling_mode", "avro_bigint_unsigned_handling_mode")
PERSON = TableSchema(TableName("test", "person"), (Column.of("id", "int", primary_key=True), Column.of("age", "int")))


def not_null(type_: str) -> Column:
    return Column.of("c", type_, nullable=False)


def field_of(column: Column, **options: str) -> str:
    """The one field of a table with one column."""
    table = TableSchema(TableName("test", "t"), (column,))
    text = value_schema(table, Options.parse(options)).text
    head, tail = '{"type":"record","name":"t","namespace":"default.test","fields":[', "]}"
    assert text.startswith(head)
    assert text.endswith(tail)
    return text.removeprefix(head).removesuffix(tail)


def body_of(column: Column, value: Value, **options: str) -> str:
    """The bytes of one value, in hexadecimal digits, which are read back too."""
    registry = MemoryRegistry()
    table = TableSchema(TableName("test", "t"), (column,))
    encoder = avro.Encoder(Options.parse(options), Resources(registry=registry))
    (message,) = encoder.encode([RowChange(table, 1, after={column.name: value})])
    assert message.value is not None
    (event,) = avro.decode(Message(None, message.value), registry=registry)
    assert isinstance(event, RowChange)
    assert event.after is not None
    assert event.after[column.name] == value or column.type is MySQLType.DECIMAL
    return message.value[5:].hex()


def typed(avro_type: str, tidb_type: str) -> str:
    return f'{{"type":"{avro_type}","connect.parameters":{{"tidb_type":"{tidb_type}"}}}}'


HELLO = "16" + b"hello world".hex()
DECIMAL_10 = (
    '{"type":"bytes","connect.parameters":{"tidb_type":"DECIMAL"},"logicalType":"decimal","precision":10,"scale":0}'
)
TYPES: list[tuple[str, dict[str, str], Any, str, str]] = [
    *((word, {}, 1, typed("int", "INT"), "02") for word in ("tinyint", "smallint", "mediumint", "int", "bool")),
    ("bigint", {}, 1, typed("long", "BIGINT"), "02"),
    *(
        (f"{word} unsigned", {}, 1, typed("int", "INT UNSIGNED"), "02")
        for word in ("tinyint", "smallint", "mediumint")
    ),
    ("int unsigned", {}, 1, typed("long", "INT UNSIGNED"), "02"),
    ("int(10) unsigned zerofill", {}, 4294967295, typed("long", "INT UNSIGNED"), "feffffff1f"),
    ("bigint unsigned", {}, 1, typed("long", "BIGINT UNSIGNED"), "02"),
    ("bigint unsigned", {}, 1 << 63, typed("long", "BIGINT UNSIGNED"), "ffffffffffffffffff01"),
    ("bigint unsigned", {}, (1 << 64) - 1, typed("long", "BIGINT UNSIGNED"), "01"),
    ("bigint unsigned", STRINGS, 1, typed("string", "BIGINT UNSIGNED"), "0231"),
    ("float", {}, 3.140000104904175, typed("float", "FLOAT"), "c3f54840"),
    ("float unsigned", {}, 3.140000104904175, typed("float", "FLOAT"), "c3f54840"),
    ("double", {}, 3.14, typed("double", "DOUBLE"), "1f85eb51b81e0940"),
    ("bit", {}, 1, '{"type":"bytes","connect.parameters":{"length":"1","tidb_type":"BIT"}}', "0201"),
    ("bit(10)", {}, 65, '{"type":"bytes","connect.parameters":{"length":"10","tidb_type":"BIT"}}', "040041"),
    ("decimal", {}, Decimal("129012.1230000"), DECIMAL_10, "0601f7f4"),
    ("decimal", STRINGS, Decimal("129012.1230000"), typed("string", "DECIMAL"), "1c" + b"129012.1230000".hex()),
    *(
        (word, {}, "hello world", typed("string", "TEXT"), HELLO)
        for word in ("tinytext", "text", "mediumtext", "longtext", "varchar(20)", "char(20)")
    ),
    *(
        (word, {}, b"hello world", typed("bytes", "BLOB"), HELLO)
        for word in ("tinyblob", "blob", "mediumblob", "longblob", "varbinary(20)", "binary(11)")
    ),
    (
        "enum('a','b')", {}, EnumValue(1),
        '{"type":"string","connect.parameters":{"allowed":"a,b","tidb_type":"ENUM"}}', "0261",
    ),
    (
        "set('a','b')", {}, SetValue(1),
        '{"type":"string","connect.parameters":{"allowed":"a,b","tidb_type":"SET"}}', "0261",
    ),
    ("json", {}, '{"key": "value"}', typed("string", "JSON"), "20" + b'{"key": "value"}'.hex()),
    ("date", {}, Date("2000-01-01"), typed("string", "DATE"), "14" + b"2000-01-01".hex()),
    ("datetime", {}, DateTime("2015-12-20 23:58:58"), typed("string", "DATETIME"), "26" + b"2015-12-20 23:58:58".hex()),
    (
        "timestamp", {}, Timestamp("1973-12-30 15:30:00"),
        typed("string", "TIMESTAMP"), "26" + b"1973-12-30 15:30:00".hex(),
    ),
    ("time", {}, Time("23:59:59"), typed("string", "TIME"), "10" + b"23:59:59".hex()),
    ("year(4)", {}, 1970, typed("int", "YEAR"), "e41e"),
    ("vector", {}, "[1,2]", typed("string", "TiDBVECTORFloat32"), "0a5b312c325d"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "options", "value", "schema", "body"), TYPES)
def test_a_type_has_its_schema_and_its_bytes(
    type_: str, options: dict[str, str], value: Any, schema: str, body: str
) -> None:
    column = not_null(type_)

    assert field_of(column, **options) == f'{{"name":"c","type":{schema}}}'
    assert body_of(column, value, **options) == body
    nullable = replace(column, nullable=True)
    assert field_of(nullable, **options) == f'{{"default":null,"name":"c","type":["null",{schema}]}}'
    assert body_of(nullable, value, **options) == "02" + body
    assert body_of(nullable, None, **options) == "00"


@pytest.mark.parametrize(
    ("number", "body"),
    [
        ("0.00", "0200"),
        ("1.28", "040080"),
        ("-1.28", "0280"),
        ("-12.34", "04fb2e"),
        ("12.3400", "0601e208"),
        ("-179394.2330", "0895129cc6"),
    ],
)
def test_a_precise_decimal_is_the_shortest_signed_integer(number: str, body: str) -> None:
    scale = len(number.partition(".")[2])

    assert body_of(not_null(f"decimal(12,{scale})"), Decimal(number)) == body


def test_digits_beyond_the_scale_are_cut_towards_less() -> None:
    assert body_of(not_null("decimal(10,1)"), Decimal("-1.25")) == "02f3"
    assert body_of(not_null("decimal(10,1)"), Decimal("1.25")) == "020c"


DEFAULTS: list[tuple[str, str | bytes, dict[str, str], str, str]] = [
    ("tinyint unsigned", "2", {}, "2", typed("int", "INT UNSIGNED")),
    ("int unsigned", "17", {}, "17", typed("long", "INT UNSIGNED")),
    ("bigint", "9007199254740993", {}, "9007199254740993", typed("long", "BIGINT")),
    ("bigint unsigned", "22", {}, "22", typed("long", "BIGINT UNSIGNED")),
    ("bigint unsigned", "18446744073709551615", {}, "-1", typed("long", "BIGINT UNSIGNED")),
    ("bigint unsigned", "22", STRINGS, '"22"', typed("string", "BIGINT UNSIGNED")),
    ("float", "3.14", {}, "3.140000104904175", typed("float", "FLOAT")),
    ("double", "2.7182818284", {}, "2.7182818284", typed("double", "DOUBLE")),
    ("double", "1e-7", {}, "1e-7", typed("double", "DOUBLE")),
    ("double", "-2.5e-10", {}, "-2.5e-10", typed("double", "DOUBLE")),
    ("double", "1e21", {}, "1e+21", typed("double", "DOUBLE")),
    ("double", "1e20", {}, "100000000000000000000", typed("double", "DOUBLE")),
    ("decimal(12,6)", "179394.2333", STRINGS, '"179394.2333"', typed("string", "DECIMAL")),
    ("varchar(20)", "测试Varchar default", {}, '"测试Varchar default"', typed("string", "TEXT")),
    ("varchar(20)", "null", {}, '"null"', typed("string", "TEXT")),
    ("varchar(20)", "", {}, '""', typed("string", "TEXT")),
    ("varchar(20)", 'a<b>&"\\\u2028\b\x01', {}, r'"a\u003cb\u003e\u0026\"\\\u2028\b\u0001"', typed("string", "TEXT")),
    ("varbinary(20)", "测试varbinary default", {}, '"5rWL6K+VdmFyYmluYXJ5IGRlZmF1bHQ="', typed("bytes", "BLOB")),
    ("varbinary(100)", "null", {}, '"bnVsbA=="', typed("bytes", "BLOB")),
    ("binary(4)", "a", {}, '"YQAAAA=="', typed("bytes", "BLOB")),
    ("timestamp", "CURRENT_TIMESTAMP", {}, '"CURRENT_TIMESTAMP"', typed("string", "TIMESTAMP")),
    ("time", "12:27:23", {}, '"12:27:23"', typed("string", "TIME")),
    ("year(4)", "2023", {}, "2023", typed("int", "YEAR")),
    (
        "enum('a','b','c')", "b", {}, '"b"',
        '{"type":"string","connect.parameters":{"allowed":"a,b,c","tidb_type":"ENUM"}}',
    ),
    (
        "bit(10)", b"\x02\xaa", {}, '"Aqo="',
        '{"type":"bytes","connect.parameters":{"length":"10","tidb_type":"BIT"}}',
    ),
    ("vector", "[1]", {}, '"[1]"', typed("string", "TiDBVECTORFloat32")),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "default", "options", "told", "schema"), DEFAULTS)
def test_a_default_is_told_and_puts_the_value_before_null(
    type_: str, default: str | bytes, options: dict[str, str], told: str, schema: str
) -> None:
    column = replace(not_null(type_), default=default)
    nullable = replace(column, nullable=True)

    assert field_of(column, **options) == f'{{"default":{told},"name":"c","type":{schema}}}'
    assert field_of(nullable, **options) == f'{{"default":{told},"name":"c","type":[{schema},"null"]}}'
    assert body_of(nullable, None, **options) == "02"


def test_a_default_is_read_back() -> None:
    for type_, default, options, _, _ in DEFAULTS:
        column = replace(not_null(type_), default=default)
        table = TableSchema(TableName("test", "t"), (column,))
        layout = read_layout(value_schema(table, Options.parse(options)).text, 1)

        wanted: Any = default.encode() if isinstance(default, str) and column.is_binary else default
        wanted = {"1e-7": "1e-07", "1e21": "1e+21", "1e20": "100000000000000000000"}.get(wanted, wanted)
        assert layout.columns[0].default == (b"a\0\0\0" if type_ == "binary(4)" else wanted), type_


@pytest.mark.parametrize("nullable", [True, False])
def test_a_precise_decimal_loses_its_default(nullable: bool) -> None:
    column = replace(Column.of("c", "decimal(12,6)", nullable=nullable), default="179394.2333")

    assert field_of(column) == field_of(replace(column, default=None))


def test_a_value_comes_before_null_where_there_is_a_default() -> None:
    column = replace(Column.of("c", "int"), default="15")

    assert body_of(column, 2147483647) == "00feffffff0f"
    assert body_of(column, None) == "02"


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (replace(Column.of("c", "int"), default="uuid()"), "CDC:ErrAvroEncodeFailed"),
        (replace(Column.of("c", "double"), default="nan"), "CDC:ErrAvroEncodeFailed"),
        (replace(Column.of("c", "bigint"), default="9223372036854775807"), "CDC:ErrAvroSchemaAPIError"),
        (Column.of("c", "geometry"), "CDC:ErrAvroEncodeFailed"),
    ],
)
def test_what_has_no_schema_is_refused(column: Column, code: str) -> None:
    with pytest.raises(EncodeError) as refusal:
        field_of(column)

    assert refusal.value.code == code


def test_a_large_default_of_a_column_that_is_not_null_is_fine() -> None:
    column = replace(not_null("bigint"), default="9223372036854775807")

    assert '"default":9223372036854775807,' in field_of(column)


@pytest.mark.parametrize(
    ("elements", "allowed"),
    [
        (("a", "b,c"), r"a,b\,c"),
        (("it's",), "it's"),
        (("two''quotes", r"back\'quote"), "two'quotes,back'quote"),
        (("back\\slash",), "back\\slash"),
        (("",), ""),
    ],
)
def test_allowed_names_are_escaped_and_found_again(elements: tuple[str, ...], allowed: str) -> None:
    column = replace(not_null("enum"), elements=elements)

    assert json.loads(field_of(column))["type"]["connect.parameters"]["allowed"] == allowed
    for index, name in enumerate(elements, 1):
        assert bytes.fromhex(body_of(column, EnumValue(index)))[1:] == name.encode()


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("enum('a','b')", b"b", EnumValue(2, "b")),
        ("enum('a','b')", b"2", EnumValue(2)),
        ("enum('1','2')", b"1", EnumValue(1, "1")),
        ("set('a','b','c')", b"a,c", SetValue(5, "a,c")),
        ("set('a','b','c')", b"6", SetValue(6)),
        ("set('a','b','c')", b"", SetValue(0, "")),
    ],
)
def test_a_number_in_place_of_a_name_is_taken(type_: str, text: bytes, expected: Value) -> None:
    table = TableSchema(TableName("test", "t"), (not_null(type_),))
    registry = MemoryRegistry({1: value_schema(table, Options()).text})

    (event,) = avro.decode(Message(None, b"\0\0\0\0\1" + bytes([len(text) * 2]) + text), registry=registry)

    assert isinstance(event, RowChange)
    assert event.after == {"c": expected}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("normalColumnName123", "normalColumnName123"),
        ("1ColumnNameStartWithNumber", "_1ColumnNameStartWithNumber"),
        ("A.B", "A_B"),
        ("columnNameWith中文", "columnNameWith__"),
        ("", ""),
        ("-x", "_x"),
        ("٣", "_"),
    ],
)
def test_names_are_bent_to_what_avro_allows(name: str, expected: str) -> None:
    assert sanitized(name) == expected


@pytest.mark.parametrize(
    ("keyspace", "schema", "expected"),
    [
        ("normalNamespace", "normalSchema", "normalNamespace.normalSchema"),
        ("1Namespace", "1Schema", "_1Namespace._1Schema"),
        ("N-amespace", "S.chema", "N_amespace.S_chema"),
        ("normalNamespace", "", "normalNamespace"),
    ],
)
def test_a_namespace_is_the_keyspace_and_the_schema(keyspace: str, schema: str, expected: str) -> None:
    assert namespace(keyspace, schema) == expected


@pytest.mark.parametrize(
    ("space", "schema"), [("keyspace.schema", "schema"), (".schema", "schema"), ("keyspace", ""), ("", "")]
)
def test_a_schema_name_is_what_follows_the_first_dot(space: str, schema: str) -> None:
    text = json.dumps({"type": "record", "name": "t", "namespace": space, "fields": []})

    assert read_layout(text, 1).table == TableName(schema, "t")


def test_a_subject_is_the_topic_without_dots() -> None:
    assert subject("tidb.test.t", "key") == "tidb_test_t-key"
    assert topic_of(TableName("My Db.`x`", "tab le")) == "My_Db._x__tab_le"


def test_an_empty_namespace_is_refused() -> None:
    with pytest.raises(EncodeError, match="is no namespace") as refusal:
        value_schema(PERSON, Options(namespace=""))

    assert refusal.value.code == "CDC:ErrAvroSchemaAPIError"


@pytest.mark.parametrize("names", [("a.b", "a-b"), ("_tidb_op", "x")])
def test_two_fields_of_one_name_are_refused(names: tuple[str, str]) -> None:
    table = TableSchema(TableName("test", "t"), tuple(Column.of(name, "int") for name in names))

    with pytest.raises(EncodeError, match="two fields called") as refusal:
        value_schema(table, Options(enable_tidb_extension=True))

    assert refusal.value.code == "CDC:ErrAvroSchemaAPIError"


def test_a_column_called_like_an_extension_field_is_still_a_column() -> None:
    table = TableSchema(TableName("test", "t"), (Column.of("_tidb_op", "int"),))
    registry = MemoryRegistry()

    (message,) = avro.encode([RowChange(table, 1, after={"_tidb_op": 7})], registry=registry)
    (event,) = avro.decode(message, registry=registry)

    assert isinstance(event, RowChange)
    assert event.after == {"_tidb_op": 7}


def test_a_key_is_the_primary_key_in_the_order_of_the_table() -> None:
    columns = [Column.of("c", "int"), Column.of("b", "int", primary_key=True), Column.of("a", "int", primary_key=True)]
    unique = replace(Column.of("u", "int", nullable=False), handle_key=True)

    key = key_schema(TableSchema(TableName("test", "t"), tuple(columns)), Options())

    assert key is not None
    assert [field.column.name for field in key.fields] == ["b", "a"]
    assert key_schema(TableSchema(TableName("test", "t"), (unique,)), Options()) is None


def test_with_checksums_columns_come_in_the_order_of_their_ids() -> None:
    columns = (replace(Column.of("new", "int"), id=9), replace(Column.of("old", "int"), id=1))
    table = TableSchema(TableName("test", "t"), columns)
    options = Options.parse({"integrity-check-level": "correctness", "enable-tidb-extension": True, **STRINGS})

    schema = value_schema(table, options)

    assert [field["name"] for field in json.loads(schema.text)["fields"]] == [
        "old", "new", "_tidb_op", "_tidb_commit_ts", "_tidb_commit_physical_time",
        "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version",
    ]  # fmt: skip


def test_a_virtual_column_is_sent_as_null() -> None:
    column = replace(Column.of("v", "int"), generated=Generated.VIRTUAL)
    table = TableSchema(TableName("test", "t"), (Column.of("a", "int"), column))

    (message,) = avro.encode([RowChange(table, 1, after={"a": 1})])

    assert message.value is not None
    assert message.value[5:].hex() == "020200"


PERSON_SCHEMA = (
    '{"type":"record","name":"person","namespace":"default.test","fields":['
    '{"name":"id","type":{"type":"int","connect.parameters":{"tidb_type":"INT"}}},'
    '{"default":null,"name":"age","type":["null",{"type":"int","connect.parameters":{"tidb_type":"INT"}}]},'
    '{"default":"","name":"_tidb_op","type":"string"},'
    '{"default":0,"name":"_tidb_commit_ts","type":"long"},'
    '{"default":0,"name":"_tidb_commit_physical_time","type":"long"}]}'
)


@pytest.mark.parametrize(
    ("before", "after", "commit_ts", "before_value", "body"),
    [
        (None, (1, 18), 1024, False, "02 02 24 02 63 8010 00"),
        ((1, 18), (1, 20), 1025, True, "02 02 28 02 02 02 24 02 75 8210 00"),
        ((1, 20), None, 1026, True, "02 02 28 02 02 02 28 02 64 8410 00"),
    ],
)
def test_a_small_table_in_whole(before: Any, after: Any, commit_ts: int, before_value: bool, body: str) -> None:
    rows = [None if row is None else dict(zip(("id", "age"), row, strict=True)) for row in (before, after)]
    registry = MemoryRegistry()
    event = RowChange(PERSON, commit_ts, before=rows[0], after=rows[1])

    (message,) = avro.encode(
        [event], registry=registry, enable_tidb_extension=True, avro_include_before_value=before_value
    )
    (got,) = avro.decode(message, registry=registry)

    assert message.value is not None
    assert message.value[5:] == bytes.fromhex(body)
    assert before_value or PERSON_SCHEMA in registry.schemas().values()
    assert isinstance(got, RowChange)
    assert (got.before, got.after, got.commit_ts) == (rows[0], rows[1], commit_ts)


def test_a_delete_with_its_row_has_the_checksum_of_that_row() -> None:
    options = {"integrity-check-level": "correctness", "enable-tidb-extension": True, "avro-include-before-value": True}
    event = RowChange(PERSON, 1, before={"id": 1, "age": 2}, checksum=Checksum(1, current=11, previous=22))
    registry = MemoryRegistry()

    (message,) = avro.Encoder(Options.parse(options), Resources(registry=registry)).encode([event])
    (got,) = avro.decode(message, registry=registry)

    assert isinstance(got, RowChange)
    assert got.checksum == Checksum(1, previous=22)


def test_a_row_that_says_it_has_no_checksum_has_none() -> None:
    registry = MemoryRegistry()
    event = RowChange(PERSON, 1, after={"id": 1, "age": 2}, checksum=Checksum())

    (message,) = avro.Encoder(CHECKED, Resources(registry=registry)).encode([event])
    assert message.value is not None
    assert message.value.endswith(b"\x020\0\0")
    empty = Message(message.key, message.value.removesuffix(b"\x020\0\0") + b"\0\0\0")
    (got,) = avro.Decoder(CHECKED, Resources(registry=registry)).decode(empty)

    assert isinstance(got, RowChange)
    assert got.checksum is None


CHECKED = Options.parse(
    {
        "integrity-check-level": "correctness",
        "corruption-handle-level": "error",
        "enable-tidb-extension": True,
        "avro-include-before-value": True,
    }
)
EVERY_TYPE: dict[str, Value] = {
    "bigint unsigned": (1 << 64) - 2,
    "int": -5,
    "float": 3.14,
    "double": 2.5,
    "decimal(10,4)": Decimal("1.5"),
    "bit(10)": 513,
    "varchar(20)": "hello",
    "varbinary(20)": b"\xff\0",
    "enum('a','b')": EnumValue(2),
    "set('a','b','c')": SetValue(5),
    "date": Date("2000-01-01"),
    "datetime": DateTime("2015-12-20 23:58:58"),
    "timestamp": Timestamp("1973-12-30 15:30:00", "Asia/Shanghai"),
    "time": Time("23:59:59"),
    "year(4)": 1970,
    "json": '{"a": 1}',
    "vector": "[1,2.5]",
}


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("modes", [{}, STRINGS])
def test_a_checksum_is_made_where_there_is_none_and_finds_every_changed_column(
    modes: dict[str, str], deleted: bool
) -> None:
    """The columns' ids are not in their order in the table, and a virtual column does not count."""
    columns = [replace(Column.of(f"c{number}", type_), id=99 - number) for number, type_ in enumerate(EVERY_TYPE)]
    columns.append(replace(Column.of("v", "int"), id=3, generated=Generated.VIRTUAL))
    table = TableSchema(TableName("test", "t"), tuple(columns))
    row = {column.name: value for column, value in zip(columns, EVERY_TYPE.values(), strict=False)} | {"v": 7}
    options = replace(CHECKED, **{name: getattr(Options.parse(modes), name) for name in MODES})
    resources = Resources(registry=MemoryRegistry())
    event = RowChange(table, 1, before=row) if deleted else RowChange(table, 1, after=row)

    (message,) = avro.Encoder(options, resources).encode([event])
    (got,) = avro.Decoder(options, resources).decode(message)

    assert isinstance(got, RowChange)
    assert got.checksum is not None
    assert not got.checksum.corrupted
    assert (got.checksum.current == 0, got.checksum.previous == 0) == (deleted, not deleted)
    assert message.value is not None
    fields = [field for field in avro.inspect(message, options, resources) if field.name in row and field.name != "v"]
    assert len(fields) == len(EVERY_TYPE)
    for field in fields:
        last = field.offset + len(field.data) - 1
        flipped = message.value[:last] + bytes([message.value[last] ^ 1]) + message.value[last + 1 :]
        with pytest.raises(DecodeError):
            list(avro.Decoder(options, resources).decode(Message(None, flipped)))


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_another_value_has_another_checksum(name: str) -> None:
    others: dict[str, Value] = EVERY_TYPE | {
        "bigint unsigned": 1, "int": 5, "float": 3.5, "double": -2.5, "decimal(10,4)": Decimal("1.6"), "bit(10)": 1,
        "varchar(20)": "hellp", "varbinary(20)": b"\xff\1", "enum('a','b')": EnumValue(1),
        "set('a','b','c')": SetValue(4), "date": Date("2000-01-02"), "datetime": DateTime("2015-12-20 23:58:59"),
        "timestamp": Timestamp("1973-12-30 15:30:01"), "time": Time("23:59:58"), "year(4)": 1971, "json": "{}",
        "vector": "[1,2]",
    }  # fmt: skip
    table = TableSchema(TableName("test", "t"), (Column.of("c", name),))
    resources = Resources(registry=MemoryRegistry())
    encoder = avro.Encoder(CHECKED, resources)
    checksums = []
    for value in (EVERY_TYPE[name], others[name], None):
        (got,) = avro.Decoder(CHECKED, resources).decode(
            next(encoder.encode([RowChange(table, 1, after={"c": value})]))
        )
        assert isinstance(got, RowChange)
        assert got.checksum is not None
        checksums.append(got.checksum)
    changed = RowChange(table, 1, after={"c": others[name]}, checksum=checksums[0])

    assert len(set(checksums)) == 3
    with pytest.raises(DecodeError, match="the row's checksum is"):
        list(avro.Decoder(CHECKED, resources).decode(next(encoder.encode([changed]))))


def test_before_values_without_the_extension_have_the_operation_only() -> None:
    fields = json.loads(value_schema(PERSON, Options(avro_include_before_value=True)).text)["fields"]

    assert [field["name"] for field in fields] == ["id", "age", "_ticdc_before", "_tidb_op"]


def test_control_messages_have_the_servers_bytes() -> None:
    query = "ALTER TABLE test.t1 ADD COLUMN a int"
    events: list[Event] = [
        Watermark(1591943372224),
        Ddl(TableName("test", "t1"), 1030, query, 5),
        RowChange(PERSON, 417318403368288260, before={"id": 7, "age": 1}),
    ]

    watermark, ddl, delete = avro.encode(events, enable_tidb_extension=True, avro_enable_watermark=True)

    assert watermark == Message(None, bytes.fromhex("0200000172a7381dc0"))
    assert ddl == Message(
        None, b'\x01{"query":"%s","type":5,"schema":"test","table":"t1","commitTs":1030}' % query.encode()
    )
    assert delete == Message(bytes.fromhex("00000000010e"), bytes.fromhex("0305ca9ce077000004"))


class TestTheDocument:
    """Every example of TiCDC's page on Avro, with its placeholders filled in; where code and page differ it says so."""

    TABLE = TableSchema(TableName("test", "t"), (Column.of("id", "int", primary_key=True), Column.of("n", "int")))
    ID: ClassVar = {"name": "id", "type": {"connect.parameters": {"tidb_type": "INT"}, "type": "int"}}
    N: ClassVar = {
        "default": None,
        "name": "n",
        "type": ["null", {"connect.parameters": {"tidb_type": "INT"}, "type": "int"}],
    }

    def record(self, *fields: Any) -> dict[str, Any]:
        return {"name": "t", "namespace": "default.test", "type": "record", "fields": list(fields)}

    def test_the_key_format(self) -> None:
        schema = key_schema(self.TABLE, Options())

        assert schema is not None
        assert json.loads(schema.text) == self.record(self.ID)

    def test_the_value_format(self) -> None:
        assert json.loads(value_schema(self.TABLE, Options()).text) == self.record(self.ID, self.N)

    def test_the_extension_fields_which_in_fact_have_defaults(self) -> None:
        extension = [
            {"name": "_tidb_op", "type": "string"},
            {"name": "_tidb_commit_ts", "type": "long"},
            {"name": "_tidb_commit_physical_time", "type": "long"},
        ]
        defaults: list[Any] = ["", 0, 0]

        text = value_schema(self.TABLE, Options(enable_tidb_extension=True)).text

        registered = [{"default": default, **field} for default, field in zip(defaults, extension, strict=True)]
        assert json.loads(text) == self.record(self.ID, self.N, *registered)
        assert self.read(self.record(self.ID, self.N, *extension), "02 0224 0263 8010 00") == {"id": 1, "n": 18}

    def test_the_column_format(self) -> None:
        assert json.loads(field_of(replace(not_null("int"), name="id"))) == self.ID

    def test_the_nullable_column_format(self) -> None:
        assert json.loads(field_of(Column.of("n", "int"))) == self.N

    @pytest.mark.parametrize(
        ("type_", "tidb_type", "avro_type"),
        [
            ("bool", "INT", "int"),
            ("tinyint", "INT", "int"),
            ("smallint", "INT", "int"),
            ("mediumint", "INT", "int"),
            ("int", "INT", "int"),
            ("tinyint unsigned", "INT UNSIGNED", "int"),
            ("smallint unsigned", "INT UNSIGNED", "int"),
            ("mediumint unsigned", "INT UNSIGNED", "int"),
            ("int unsigned", "INT UNSIGNED", "long"),
            ("bigint", "BIGINT", "long"),
            ("bigint unsigned", "BIGINT UNSIGNED", "long"),
            ("tinyblob", "BLOB", "bytes"),
            ("blob", "BLOB", "bytes"),
            ("mediumblob", "BLOB", "bytes"),
            ("longblob", "BLOB", "bytes"),
            ("binary(1)", "BLOB", "bytes"),
            ("varbinary(1)", "BLOB", "bytes"),
            ("tinytext", "TEXT", "string"),
            ("text", "TEXT", "string"),
            ("mediumtext", "TEXT", "string"),
            ("longtext", "TEXT", "string"),
            ("char(1)", "TEXT", "string"),
            ("varchar(1)", "TEXT", "string"),
            ("float", "FLOAT", "float"),  # the page says double, which it was before 6.5.2 and 7.0
            ("double", "DOUBLE", "double"),
            ("date", "DATE", "string"),
            ("datetime", "DATETIME", "string"),
            ("timestamp", "TIMESTAMP", "string"),
            ("time", "TIME", "string"),
            ("year(4)", "YEAR", "int"),
            ("bit(1)", "BIT", "bytes"),
            ("json", "JSON", "string"),
            ("enum('a')", "ENUM", "string"),
            ("set('a')", "SET", "string"),
            ("decimal(10,4)", "DECIMAL", "bytes"),
        ],
    )
    def test_the_type_table(self, type_: str, tidb_type: str, avro_type: str) -> None:
        found = json.loads(field_of(not_null(type_)))["type"]

        assert (found["connect.parameters"]["tidb_type"], found["type"]) == (tidb_type, avro_type)

    def test_a_float_as_the_page_has_it(self) -> None:
        double = {"name": "f", "type": {"connect.parameters": {"tidb_type": "FLOAT"}, "type": "double"}}

        assert self.read(self.record(double), "00000060b81e0940") == {"f": 3.140000104904175}

    @pytest.mark.parametrize("type_", ["decimal(10,4)", "bigint unsigned"])
    def test_the_string_modes(self, type_: str) -> None:
        assert json.loads(field_of(not_null(type_), **STRINGS))["type"]["type"] == "string"

    def test_bit(self) -> None:
        assert json.loads(field_of(not_null("bit(64)"))) == {
            "name": "c",
            "type": {"connect.parameters": {"tidb_type": "BIT", "length": "64"}, "type": "bytes"},
        }

    @pytest.mark.parametrize("word", ["ENUM", "SET"])
    def test_enum_and_set_whose_names_the_page_writes_in_one(self, word: str) -> None:
        assert json.loads(field_of(not_null(f"{word}('a','b','c')"))) == {
            "name": "c",
            "type": {"connect.parameters": {"tidb_type": word, "allowed": "a,b,c"}, "type": "string"},
        }

    def test_decimal_where_the_page_has_a_comma_too_many(self) -> None:
        assert json.loads(field_of(not_null("decimal(10,4)"))) == {
            "name": "c",
            "type": {
                "connect.parameters": {"tidb_type": "DECIMAL"},
                "logicalType": "decimal",
                "precision": 10,
                "scale": 4,
                "type": "bytes",
            },
        }

    def test_only_a_key_is_a_delete_and_a_value_is_an_insert_or_an_update(self) -> None:
        registry = MemoryRegistry()
        rows = {"id": 1, "n": 2}
        events = [
            RowChange(self.TABLE, 1, after=rows),
            RowChange(self.TABLE, 2, before=rows, after=rows),
            RowChange(self.TABLE, 3, before=rows),
        ]

        insert, update, delete = avro.encode(events, registry=registry)

        assert insert == update
        assert insert.value is not None
        assert delete == Message(insert.key, None)
        (got,) = avro.decode(delete, registry=registry)
        assert isinstance(got, RowChange)
        assert (got.before, got.after, got.commit_ts) == ({"id": 1}, None, None)

    def read(self, schema: dict[str, Any], body: str) -> Any:
        registry = MemoryRegistry({1: json.dumps(schema)})
        (event,) = avro.decode(Message(None, b"\0\0\0\0\1" + bytes.fromhex(body)), registry=registry)
        assert isinstance(event, RowChange)
        return event.after
