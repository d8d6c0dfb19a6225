"""The transforms of DataFrames, on whichever Spark runs the tests: ``make spark-matrix`` runs this file on all."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import tidewire.spark as tw
import topic_files
from plain_spark import KIND, plain_session
from tidewire import Column, Message, OptionError, RowChange, TableName, TableSchema, UnknownProtocol, protocol
from tidewire.arrow import BatchDecoder, OpCode, Policy
from tidewire.codec import Resources
from tidewire.errors import SyncError
from tidewire.model import Position
from tidewire.model.values import float32
from tidewire.topic.files import FileTopics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGE = pa.schema(
    {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "key": pa.binary(), "value": pa.binary()}
)
TOPICS = [
    ("seed11", "canal-json"),
    ("seed11", "open-protocol"),
    ("seed11", "avro"),
    ("seed11", "simple-json"),
    ("seed11", "simple-avro"),
    ("seed11-classic", "craft"),
]
SECRET = "hunter2"
VARIABLE = "TIDEWIRE_TEST_PASSWORD"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(events: Path, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session that all tests of the suite share; one of its own where a version is tried."""
    if KIND not in os.environ:
        yield request.getfixturevalue("spark")
        return
    os.environ[VARIABLE] = SECRET  # Java's environment is that of this process when it starts
    with plain_session(events) as session:
        yield session


@cache
def messages(topic: str, name: str) -> pa.Table:
    """The messages of a recorded topic, in produced order."""
    lines = topic_files.lines(topic, name)
    return pa.table(
        {
            "topic": [line.get("topic", "t") for line in lines],
            "partition": [line["partition"] for line in lines],
            "offset": [line["offset"] for line in lines],
            **{
                part: [None if line[part] is None else base64.b64decode(line[part]) for line in lines] for part in PARTS
            },
        },
        schema=MESSAGE,
    )


PARTS = ("key", "value")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def written(table: pa.Table, folder: Path, files: int = 1) -> str:
    """The messages as Parquet files, each of which becomes a task."""
    size = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")
    return str(folder)


def options(topic: str, name: str, folder: Path) -> dict[str, str]:
    found = dict(topic_files.expected(topic)["options"][name.removesuffix(".faults")])
    if name.startswith("avro"):
        path = folder / "schemas.json"
        path.write_text(topic_files.read(topic, "avro.schemas.json"))
        found["schema-registry"] = f"file:{path}"
    return found


def name_of(file: str) -> str:
    return topic_files.PROTOCOLS.get(file, file)


def one_process(topic: str, file: str) -> Counter[tuple[Any, ...]]:
    """Rows as the batch decoder gives them for the whole topic in one process."""
    table, settings = messages(topic, file).combine_chunks(), topic_files.options(topic, file)
    resources = Resources(registry=topic_files.registry(topic) if file == "avro" else None)
    policy = Policy(settings.time_zone, lost_floats=file == "craft")
    decoded = BatchDecoder(name_of(file), settings, resources, policy=policy).decode(table.to_batches()[0])
    assert not decoded.rejects
    assert not decoded.parked
    found: Counter[tuple[Any, ...]] = Counter()
    for plan, rows in decoded.batches:
        for row in rows.to_pylist():
            place = tuple(table[name][row["_pos"]].as_py() for name in ("topic", "partition", "offset"))
            gone = [plan.columns[number].column.name for number in row["_absent"] or ()]
            before = None if row["before"] is None else {k: v for k, v in row["before"].items() if k not in gone}
            op = ("insert", "update", "delete")[OpCode(row["_op"])]
            images = (_frozen(before), _frozen(row["after"]))
            found[(*place, row["_sub"], *plan.table.name, op, row["_commit_ts"], *images)] += 1
    return found


def _frozen(row: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(sorted((name, _plain(value)) for name, value in row.items()))


def _plain(value: Any) -> Any:
    """A value so that it can be compared with what JSON says."""
    match value:
        case bool() | None:
            return repr(value)
        case str():  # a DECIMAL without declared scale is text; VARIANT drops its trailing zeros
            return str(Decimal(value).normalize() + 0) if NUMBER.fullmatch(value) else repr(value)
        case int() | float() | Decimal():
            return repr(value + 0.0) if isinstance(value, float) else str(Decimal(value).normalize() + 0)
        case list():
            return repr([float(each) for each in value])
    return str(value)


def read_back(text: str | None, types: Mapping[str, pa.DataType]) -> tuple[Any, ...] | None:
    """An image in JSON as values of Arrow's types."""
    if text is None:
        return None
    row = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return _frozen({name: None if value is None else READ[str(types[name])[:9]](value) for name, value in row.items()})


def _clock(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _micros(text: Any) -> int:
    if isinstance(text, Decimal):
        return int(text)
    hours, minutes, seconds = text.lstrip("-").split(":")
    size = timedelta(hours=int(hours), minutes=int(minutes)) + timedelta(microseconds=int(Decimal(seconds) * 1_000_000))
    return (-1 if text.startswith("-") else 1) * (size // timedelta(microseconds=1))


READ: Mapping[str, Callable[[Any], Any]] = {
    "int32": int,
    "int64": _micros,
    "float": lambda value: float32(float(value)),
    "double": float,
    "decimal12": lambda value: value,
    "date32[da": date.fromisoformat,
    "timestamp": _clock,
    "string": str,
    "binary": base64.b64decode,
    "list<item": lambda value: [float(each) for each in value],
}


def types_of(topic: str, file: str) -> dict[tuple[str, str], dict[str, pa.DataType]]:
    """The types of all columns that a table ever had."""
    resources = Resources(registry=topic_files.registry(topic) if file == "avro" else None)
    decoded = BatchDecoder(name_of(file), topic_files.options(topic, file), resources).decode(
        messages(topic, file).combine_chunks().to_batches()[0]
    )
    found: dict[tuple[str, str], dict[str, pa.DataType]] = {}
    for plan, _ in decoded.batches:
        columns = found.setdefault((plan.table.name.schema, plan.table.name.table), {})
        columns |= {each.column.name: each.type for each in plan.columns}
    return found


@pytest.mark.parametrize(("topic", "file"), TOPICS)
def test_rows_equal_those_of_one_process_and_every_message_is_accounted_for(
    topic: str, file: str, spark: SparkSession, tmp_path: Path
) -> None:
    table, name, given = messages(topic, file), name_of(file), options(topic, file, tmp_path)
    (tmp_path / "topic").mkdir()
    df = spark.read.parquet(written(table, tmp_path / "topic", 6)).repartition(6)

    decoded = tw.decode(df, name, options=given, schemas=tw.learn(df, name, options=given))

    kinds = _with_text(decoded).collect()
    empty = {row.error.reason for row in kinds if row.kind == "bad"}
    assert {row.kind for row in kinds} <= {"row", "ddl", "watermark", "bootstrap", *(["bad"] if file == "avro" else [])}
    # The new server sends a delete without key and value if the table has only a unique key.
    assert empty == ({"the message is empty"} if file == "avro" else set())
    assert {(row.topic, row.partition, row.offset) for row in kinds} == {
        (row["topic"], row["partition"], row["offset"]) for row in table.drop_columns(list(PARTS)).to_pylist()
    }
    types = types_of(topic, file)
    rows = Counter(
        (
            *(row.topic, row.partition, row.offset, row.sub, row.schema_name, row.table_name, row.op, row.commit_ts),
            read_back(row.before, types[row.schema_name, row.table_name]),
            read_back(row.after, types[row.schema_name, row.table_name]),
        )
        for row in kinds
        if row.kind == "row"
    )
    assert rows == one_process(topic, file)
    assert rows.total() == (1041 if file == "avro" else 1094)


def _with_text(decoded: DataFrame) -> DataFrame:
    from pyspark.sql.functions import col

    return decoded.withColumns({name: col(name).cast("string") for name in ("before", "after")})


def test_a_stream_gives_the_same_rows_as_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    folder = written(messages("seed11", "simple-json"), tmp_path / "topic", 3)
    batch = spark.read.parquet(folder)
    schemas = tw.learn(batch, "simple")
    stream = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", "1").parquet(folder)

    query = (
        tw.decode(stream, "simple", schemas=schemas, values="json")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    found = spark.read.parquet(str(tmp_path / "out"))
    assert Counter(row[0] for row in found.select("kind").collect()) == {
        "row": 1094,
        "bootstrap": 21,
        "watermark": 153,
        "ddl": 51,
    }
    whole = tw.decode(batch, "simple", schemas=schemas, values="json")
    assert found.exceptAll(whole.select(*found.columns)).count() == 0


def test_schemas_can_be_pickled_kept_as_json_and_joined(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.read.parquet(written(messages("seed11", "simple-json"), tmp_path, 2))

    schemas = tw.learn(df, "simple")

    assert len(schemas) == 16
    assert pickle.loads(pickle.dumps(schemas)) == schemas
    assert tw.Schemas.from_json(schemas.to_json()) == schemas
    assert len(schemas | schemas) == 16
    assert tw.learn(df, "canal-json") == tw.Schemas()
    kinds = tw.decode(df.repartition(6), "simple", schemas=schemas.to_json(), tables="test.accounts").select(
        "kind", "table_name"
    )
    assert {(row.kind, row.table_name) for row in kinds.distinct().collect()} == {
        ("row", "accounts"),
        ("ddl", "accounts"),
        ("bootstrap", "accounts"),
        ("watermark", None),
    }


def test_avro_schemas_that_were_learned_need_no_registry(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    df = spark.read.parquet(written(messages("seed11", "avro"), tmp_path / "topic"))
    given = options("seed11", "avro", tmp_path)

    schemas = tw.learn(df, "avro", options=given)
    del given["schema-registry"]

    assert tw.decode(df, "avro", options=given, schemas=schemas).where("kind = 'row'").count() == 1041


ORDERS = TableSchema(
    TableName("shop", "orders"),
    (
        Column.of("id", "bigint", primary_key=True),
        Column.of("state", "varchar(10)"),
        Column.of("price", "decimal(10,2)"),
    ),
)


def _message(change: RowChange) -> Message:
    (message,) = protocol("canal-json").encode([change], enable_tidb_extension=True)
    return message


def _df(spark: SparkSession, *found: Message | bytes | RowChange) -> DataFrame:
    rows = []
    for offset, each in enumerate(found):
        message = _message(each) if isinstance(each, RowChange) else each
        value = message if isinstance(message, bytes) else message.value
        rows.append((value, None, "orders", 0, offset))
    return spark.createDataFrame(rows, "value binary, key binary, topic string, partition int, offset bigint")


def test_a_bad_message_is_a_row_with_its_reason_and_bytes_on_demand(spark: SparkSession) -> None:
    df = _df(spark, RowChange(ORDERS, 1, after={"id": 1, "state": "new", "price": Decimal("1.50")}), b"broken")

    (bad,) = tw.decode(df, "canal-json").where("kind = 'bad'").collect()
    (kept,) = tw.decode(df, "canal-json", keep_bytes=True).where("kind = 'bad'").collect()

    assert (bad.topic, bad.partition, bad.offset, bad.raw) == ("orders", 0, 1, None)
    assert bad.error.reason == "not JSON: Expecting value"
    assert bad.error.part == "value"
    assert bytes(kept.raw.value) == b"broken"


def test_a_bad_message_fails_a_query_that_says_so_without_its_value(spark: SparkSession) -> None:
    df = _df(spark, b'{"broken":' + SECRET.encode())

    for query in (
        tw.decode(df, "canal-json", on_bad="fail"),
        tw.rows(df, "canal-json", "shop.orders", schema="id bigint"),
    ):
        place = r"the message at offset 0 of orders, partition 0, cannot be read in value at .*; .* column error"
        with pytest.raises(Exception, match=place) as error:
            query.collect()
        assert SECRET not in str(error.value)


def test_rows_have_typed_columns_and_a_changed_key_is_a_delete_and_an_insert(spark: SparkSession) -> None:
    first: Any = {"id": 1, "state": "new", "price": Decimal("1.50")}
    df = _df(
        spark,
        RowChange(ORDERS, 1, after=first),
        RowChange(ORDERS, 2, before=first, after={**first, "state": "paid"}),
        RowChange(ORDERS, 3, before={**first, "state": "paid"}, after={**first, "id": 2}),
        RowChange(ORDERS, 4, before={**first, "id": 2}),
    )
    schema = "id bigint, state string, price decimal(12,3), added string"

    rows = tw.rows(df, "canal-json", "shop.orders", schema=schema).orderBy("_offset", "_op").collect()
    whole = tw.rows(df, "canal-json", "Shop.Orders", split_key_updates=False)

    assert [(row._offset, row._op, row.id, row.state, row._commit_ts) for row in rows] == [
        (0, "insert", 1, "new", 1),
        (1, "update", 1, "paid", 2),
        (2, "delete", 1, "paid", 3),
        (2, "insert", 2, "new", 3),
        (3, "delete", 2, "new", 4),
    ]
    assert rows[0].price == Decimal("1.500")
    assert rows[1]._before.state == "new"
    assert all(row.added is None and row._absent == ["added"] for row in rows)
    assert [row._op for row in whole.orderBy("_offset").collect()] == ["insert", "update", "update", "delete"]
    assert whole.schema["price"].dataType.simpleString() == "string"
    assert tw.infer(df, "canal-json")["shop.orders"].simpleString() == "struct<id:bigint,state:string,price:string>"


def test_a_value_that_does_not_fit_fails_or_is_left_out(spark: SparkSession) -> None:
    df = _df(spark, *(RowChange(ORDERS, 1, after={"id": 1, "state": text, "price": None}) for text in (SECRET, "5")))

    with pytest.raises(Exception, match=r"the message at offset 0 .* has a value that does not fit") as error:
        tw.rows(df, "canal-json", "shop.orders", schema="state int").collect()
    left = tw.rows(df, "canal-json", "shop.orders", schema="state int", on_bad="skip").collect()

    assert SECRET not in str(error.value)
    assert [row.state for row in left] == [5]


def test_what_cannot_work_is_refused_before_anything_runs(spark: SparkSession) -> None:
    df = _df(spark, b"")
    stream = spark.readStream.format("rate").load()

    for refused, words in (
        (lambda: tw.decode(df.drop("offset"), "canal-json"), "lacks offset. Rename"),
        (
            lambda: tw.decode(df.selectExpr("*", "5 n").drop("value").withColumnRenamed("n", "value"), "craft"),
            "is int;",
        ),
        (lambda: tw.decode(df, "canal-json", options="a=b"), "they are a str; give a mapping"),  # type: ignore[arg-type]
        (lambda: tw.decode(df, "avro"), "give options={'schema-registry'"),
        (lambda: tw.decode(df, "canal-json", options={"nonsense": "1"}), "nonsense"),
        (lambda: tw.decode(df, "canal-json", on_bad="drop"), "'drop' is not one of row, fail"),  # type: ignore[arg-type]
        (lambda: tw.decode(df, "canal-json", tables="orders"), "not of the form schema.table"),
        (lambda: tw.rows(df, "canal-json", "orders"), "not of the form schema.table"),
        (lambda: tw.rows(df, "canal-json", "shop.orders", schema="a boolean"), "boolean is not one of int, bigint"),
        (lambda: tw.rows(df, "canal-json", "shop.orders", schema="_op int"), "_op: tw.rows adds"),
        (lambda: tw.learn(stream, "simple"), "it is a stream"),
        (lambda: tw.Schemas.from_json("[]"), "not the JSON text of learned schemas"),
    ):
        with pytest.raises(OptionError, match=words.replace("{", r"\{")):
            refused()
    with pytest.raises(UnknownProtocol):
        tw.decode(df, "protobuf")


def test_messages_may_be_text_in_columns_of_any_case_without_keys(spark: SparkSession) -> None:
    df = _df(spark, RowChange(ORDERS, 1, after={"id": 1, "state": "new", "price": None}))

    for found in (
        df.toDF(*map(str.upper, df.columns)),
        df.selectExpr("topic", "partition", "offset", "null AS key", "cast(value AS string) AS value"),
    ):
        assert [row.kind for row in tw.decode(found, "canal-json").collect()] == ["row"]


def test_a_password_is_in_no_plan_and_no_log(
    spark: SparkSession, events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    df = _df(spark, b"")
    given = {"schema-registry": f"http://user:{SECRET}@127.0.0.1:1"}

    decoded = tw.decode(df, "avro", options=given)
    decoded.explain(True)
    tw.learn(df, "avro", options=given)

    assert "MapInArrow" in capsys.readouterr().out
    for log in events.rglob("*"):
        assert not log.is_file() or SECRET.encode() not in log.read_bytes()


def test_a_registry_that_does_not_answer_fails_the_query_and_makes_no_message_bad(spark: SparkSession) -> None:
    df = _df(spark, bytes.fromhex("00 00000001 02"))

    decoded = tw.decode(df, "avro", options={"schema-registry": "http://127.0.0.1:1"})

    with pytest.raises(Exception, match="RegistryError"):
        decoded.collect()


def test_times_of_commits_are_the_wall_clock_of_the_tso(spark: SparkSession) -> None:
    df = _df(spark, RowChange(ORDERS, 429918007904436226, after={"id": 1, "state": None, "price": None}))

    (row,) = tw.decode(df, "canal-json").selectExpr("unix_millis(commit_time) as at").collect()

    assert row.at == datetime(2021, 12, 20, 13, 30, 49, 196000, timezone.utc).timestamp() * 1000


def _in_files(table: pa.Table, folder: Path) -> str:
    """Messages as a topic in files."""
    topics = FileTopics(folder)
    with topics.appending() as appending:
        for row in table.to_pylist():
            at = Position(row["topic"], row["partition"], row["offset"])
            appending.add(at, Message(row["key"], row["value"]))
    return folder.as_uri()


VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
OLD = VERSION < (4, 0)
LIMITED = VERSION >= (4, 2)


@pytest.mark.skipif(OLD, reason="Python data sources came with Spark 4.0")
def test_the_data_source_gives_the_rows_of_decode_as_batch_and_as_stream(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    table = messages("seed11", "simple-json")
    half = table.num_rows // 2
    df = spark.read.parquet(written(table, tmp_path / "messages"))
    schemas = tw.learn(df, "simple")
    wanted = tw.decode(df, "simple", schemas=schemas, values="json")
    spark.dataSource.register(tw.TicdcSource)
    place = _in_files(table.slice(0, half), tmp_path / "topics")
    given = {"protocol": "simple", "schemas": schemas.to_json(), **({"max_messages": "100"} if LIMITED else {})}

    def streamed() -> None:
        reading = spark.readStream.format("ticdc").options(**given).load(place)
        writing = reading.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        checkpoint = str(tmp_path / "checkpoint")
        writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    streamed()
    first = spark.read.parquet(str(tmp_path / "out")).count()
    _in_files(table.slice(half), tmp_path / "topics")
    streamed()

    given.pop("max_messages", None)
    batch = spark.read.format("ticdc").options(**given).load(place)
    assert batch.schema == wanted.schema
    assert 0 < first < wanted.count() == batch.count()
    for found in (batch, spark.read.parquet(str(tmp_path / "out"))):
        assert found.count() == wanted.count()
        assert found.exceptAll(wanted.select(*found.columns)).count() == 0


@pytest.mark.skipif(OLD, reason="Python data sources came with Spark 4.0")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "protocol"),
        ({"protocol": "simple", "values": "variant"}, "a Python data source cannot give VARIANT"),
        ({"protocol": "simple", "maxOffsetsPerTrigger": "5"}, "is called max_messages here"),
        ({"protocol": "simple", "speed": "5"}, "speed"),
        ({"protocol": "simple", "before": "perhaps"}, "before"),
        *([] if LIMITED else [({"protocol": "simple", "max_messages": "5"}, "needs Spark 4.2, and this is")]),
    ],
)
def test_options_that_the_data_source_cannot_honour_are_refused_by_name(
    spark: SparkSession, tmp_path: Path, given: dict[str, str], complaint: str
) -> None:
    spark.dataSource.register(tw.TicdcSource)

    with pytest.raises(Exception, match=complaint):
        _ = spark.readStream.format("ticdc").options(**given).load(tmp_path.as_uri()).schema


@pytest.mark.skipif(OLD, reason="Python data sources came with Spark 4.0")
def test_the_data_source_refuses_other_columns_and_a_folder_without_a_scheme(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.dataSource.register(tw.TicdcSource)
    place = _in_files(messages("seed11", "canal-json").slice(0, 1), tmp_path / "topics")

    for columns in ("a int", "after string, kind string"):
        with pytest.raises(Exception, match="leave schema"):
            spark.read.format("ticdc").schema(columns).options(protocol="canal-json").load(place).collect()
    with pytest.raises(Exception, match="is not file:FOLDER; write file:/some/folder"):
        spark.read.format("ticdc").options(protocol="canal-json").load("/some/folder").collect()


@pytest.mark.skipif(OLD, reason="Python data sources came with Spark 4.0")
def test_a_password_of_the_data_source_is_in_no_plan_and_no_log(
    spark: SparkSession, events: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.dataSource.register(tw.TicdcSource)
    place = _in_files(messages("seed11", "avro").slice(0, 1), tmp_path / "topics")
    password = f"${{{VARIABLE}}}" if os.environ.get(KIND) == "connect" else SECRET
    given = {"protocol": "avro", "schema-registry": f"http://user:{password}@127.0.0.1:1"}

    found = spark.read.format("ticdc").options(**given).load(place)
    found.explain(True)
    with pytest.raises(Exception, match="RegistryError") as refused:
        found.collect()

    assert SECRET not in str(refused.value)
    assert SECRET not in capsys.readouterr().out
    for log in events.rglob("*"):
        assert not log.is_file() or SECRET.encode() not in log.read_bytes()


@pytest.mark.skipif(not OLD, reason="it is there")
def test_the_data_source_says_which_spark_it_needs() -> None:
    with pytest.raises(OptionError, match=r"need Spark 4\.0"):
        _ = tw.TicdcSource


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "auto-cdc.md"
PIPELINE = """
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


@pytest.mark.skipif(VERSION < (4, 3), reason="AutoCDC came with Spark 4.3")
def test_the_pipeline_of_the_page_on_auto_cdc_is_built_and_analysed(tmp_path: Path) -> None:
    """Files take the place of Kafka. A dry run makes the dataflow graph and resolves it, and writes no table."""
    (tmp_path / "messages").mkdir()
    pq.write_table(MESSAGE.empty_table(), tmp_path / "messages" / "0.parquet")
    columns = "topic string, partition int, offset bigint, key binary, value binary"
    stream = f'messages = spark.readStream.schema("{columns}").parquet("{tmp_path / "messages"}")'
    (code,) = re.findall(r"^```\n(from pyspark import pipelines.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    code, replaced = re.subn(r"^messages = .*$", stream, code, flags=re.MULTILINE)
    (tmp_path / "transformations").mkdir()
    session = "from pyspark.sql import SparkSession\n\nspark = SparkSession.active()\n"
    (tmp_path / "transformations" / "orders.py").write_text(session + code)
    (tmp_path / "spark-pipeline.yml").write_text(PIPELINE.format(storage=(tmp_path / "storage").as_uri()))

    done = subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli", "dry-run"],
        cwd=tmp_path,
        env=os.environ | {"SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert replaced == 1
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr


NEEDED = r"needs Spark( 4\.1|'s driver in its own process), and this is Spark [0-9.Conect]+: tw\.decode, "


@pytest.mark.skipif(
    os.environ.get(KIND) != "connect" and pyspark.__version__.startswith("4.1."), reason="a sync works on this Spark"
)
def test_what_needs_another_spark_says_so_and_what_works_here(spark: SparkSession, tmp_path: Path) -> None:
    sync = tw.Sync(tmp_path.as_uri(), tmp_path / "lake", protocol="simple")

    for beginning in (sync.run, sync.start):
        with pytest.raises(SyncError, match=f"a sync {NEEDED}"):
            beginning(spark)
    if os.environ.get(KIND) != "connect":
        with pytest.raises(SyncError, match=NEEDED):
            tw.Lake.for_path(spark, tmp_path)
        with pytest.raises(SyncError, match=NEEDED):
            tw.session()
