"""Spark's own decoders, and tidewire's inside Spark, on the same messages: CPU time per row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType

from pipelines import connector
from process_tree import tree_cpu_time
from tidewire.arrow import BatchDecoder, Plan
from tidewire.codec import Options, Resources
from tidewire.model import MySQLType
from tidewire.registry import MemoryRegistry
from tidewire.spark.sessions import session

COPIES = {"narrow": 200, "wide": 50}
"""How often a thousand messages are repeated, so that starting a job hardly counts."""

WARM_UPS = {"spark": 5, "tidewire": 1}
"""Runs before any counts: while Java compiled, ``from_json`` took until its sixth run to settle, tidewire one."""

ROUNDS = 3

CASTS: Mapping[pa.DataType, str] = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.decimal128(20): "decimal(20)",
}


class SparkPeer(NamedTuple):
    """A decoder of Spark's, what comes out of it, and its columns as they are before text gets its types."""

    name: str
    gives: str
    columns: Callable[[DataFrame, Plan, Mapping[str, str]], DataFrame]


class Times(NamedTuple):
    """CPU seconds per row."""

    spark: float
    tidewire: float


def canal_columns(messages: DataFrame, plan: Plan, _: Mapping[str, str]) -> DataFrame:
    data = ", ".join(f"`{column.name}`: STRING" for column in plan.table.columns)
    schema = f"type STRING, _tidb STRUCT<commitTs: BIGINT>, data ARRAY<STRUCT<{data}>>"
    parsed = functions.from_json(messages.value.cast("string"), schema, {"mode": "FAILFAST"})
    row = messages.select(parsed.alias("row")).selectExpr("row.type", "row._tidb.commitTs", "row.data[0] AS data")
    return row.select("type", "commitTs", "data.*")


def avro_columns(messages: DataFrame, _: Plan, schemas: Mapping[str, str]) -> DataFrame:
    row = from_avro(functions.expr("substring(value, 6)"), schemas["2"])  # one byte of magic, four of schema id
    return messages.select(row.alias("row")).select("row.*")


SPARK_PEERS: Mapping[str, SparkPeer] = {
    "canal-json": SparkPeer(
        "Spark from_json", "typed columns by a schema and casts written by hand; TIME is text", canal_columns
    ),
    "avro": SparkPeer("Spark from_avro", "typed columns by one schema, dates cast; no key, TIME is text", avro_columns),
}


def spark_times(
    case: str, width: str, batch: pa.RecordBatch, plan: Plan, rows: pa.RecordBatch, schemas: Mapping[str, str]
) -> Times:
    """Spark's decoder and tidewire's in Spark, both to the columns that the messages become, which then are dropped."""
    messages = repeated(batch, COPIES[width])
    wanted = {field.name: field.type for field in rows.schema.field("after").type}
    flat = SPARK_PEERS[case].columns(messages, plan, schemas)
    texts = {field.name for field in flat.schema.fields if isinstance(field.dataType, StringType)}
    times = {column.name for column in plan.table.columns if column.type is MySQLType.TIME}
    typed = [cast(flat[name], wanted.get(name)) if name in texts - times else flat[name] for name in flat.columns]
    columns = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    frames = {
        "spark": flat.select(*typed),
        "tidewire": messages.mapInArrow(decoding(case, schemas), columns),
    }
    for name, frame in frames.items():
        for _ in range(WARM_UPS[name]):
            run(frame)
    rounds = [[tree_cpu_time(partial(run, frame)) for frame in frames.values()] for _ in range(ROUNDS)]
    spark, tidewire = (min(times) / (batch.num_rows * COPIES[width]) for times in zip(*rounds, strict=True))
    return Times(spark, tidewire)


def cast(text: Column, wanted: pa.DataType | None) -> Column:
    """Text as the type that tidewire makes of it. Canal-JSON has a character for each byte of a binary value."""
    if wanted == pa.binary():
        return functions.encode(text, "ISO-8859-1")
    return text.cast(CASTS[wanted]) if wanted in CASTS else text


def decoding(case: str, schemas: Mapping[str, str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a Python worker does; defined inside so that it travels whole, for workers do not see this file."""
    numbered = {int(number): text for number, text in schemas.items()}

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = BatchDecoder(case, Options(), Resources(registry=MemoryRegistry(numbered)), before=False)
        for batch in batches:
            for _, rows in decoder.decode(batch).batches:
                yield rows

    return decoded


def run(frame: DataFrame) -> None:
    """Compute every column of every row and drop them."""
    frame.write.format("noop").mode("overwrite").save()


def repeated(batch: pa.RecordBatch, copies: int) -> DataFrame:
    """The messages so many times over, made as they are read, so that reading costs next to nothing."""
    once = started().createDataFrame(pa.Table.from_batches([batch])).cache()
    return started().range(0, copies, 1, 2).crossJoin(functions.broadcast(once)).select("key", "value")


@cache
def started() -> SparkSession:
    return session("tidewire peers", master="local[2]", conf={"spark.driver.memory": "2g"} | connector())
