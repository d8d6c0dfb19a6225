"""``tw.rows``: the changes of one table in typed columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from tidewire.errors import OptionError
from tidewire.spark.frames.decode import chosen, messages_of, reading
from tidewire.spark.frames.executors import on_executors
from tidewire.spark.frames.learn import infer
from tidewire.spark.frames.schemas import Schemas
from tidewire.spark.frames.types import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def rows(
    df: DataFrame,
    name: str,
    table: str,
    *,
    schema: StructType | str | None = None,
    split_key_updates: bool = True,
    options: Mapping[str, str] | None = None,
    schemas: Schemas | str | None = None,
    on_bad: Literal["fail", "skip"] = "fail",
) -> DataFrame:
    """The changes of one table such as ``shop.orders``: its columns, and columns that describe the change.

    ``schema`` says which columns are wanted, as a StructType or text such as ``id bigint, state string``; values are
    made to fit it. Without it the columns of a batch are inferred, at the cost of reading it once more; a stream needs
    it. A deleted row has its old values. An update that changes the key becomes a delete and an insert, unless
    ``split_key_updates`` is false. A message that cannot be read, or a value that does not fit, fails the query;
    ``on_bad="skip"`` leaves such messages out, and :func:`decode` gives them.
    """
    if table.count(".") != 1 or not all(table.split(".")):
        raise OptionError("table", f"{table!r} is not of the form schema.table")
    settings = {
        **reading(name, options, schemas),
        "table": table,
        "split_key_updates": split_key_updates,
        "on_bad": chosen("on_bad", on_bad, ("fail", "skip")),
    }
    wanted = columns_of(
        _schema(df, schema) if schema is not None else _inferred(df, name, table, options, schemas, on_bad)
    )
    if not wanted:
        raise OptionError("schema", "it has no columns")
    columns = ", ".join(f"{_quoted(column)} {type_}" for column, type_ in wanted)
    images = ", ".join(f"{_quoted(column)}: {type_}" for column, type_ in wanted)
    return messages_of(df).mapInArrow(
        on_executors("rows_task", {**settings, "columns": wanted}),
        f"{columns}, _op string, _commit_ts bigint, _topic string, _partition int, _offset bigint, _sub int, "
        f"_before struct<{images}>, _absent array<string>",
    )


def _schema(df: DataFrame, schema: StructType | str) -> StructType:
    if isinstance(schema, str):
        return df.sparkSession.createDataFrame([], schema).schema
    return schema


def _inferred(
    df: DataFrame,
    name: str,
    table: str,
    options: Mapping[str, str] | None,
    schemas: Schemas | str | None,
    on_bad: Literal["fail", "skip"],
) -> StructType:
    if df.isStreaming:
        raise OptionError("schema", "a stream needs it; tw.infer gives it for a batch of the same topic")
    found = infer(df, name, options=options, tables=table, schemas=schemas, on_bad=on_bad)
    for known, columns in found.items():
        if known.lower() == table.lower():
            return columns
    raise OptionError("schema", f"the batch has no rows of {table}, so its columns are not known; give them")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
