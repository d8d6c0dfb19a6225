"""``tw.learn`` and ``tw.infer``: the schemas and columns that a batch of messages contains."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from tidewire.codec import Options, protocol
from tidewire.errors import OptionError
from tidewire.registry import open_registry
from tidewire.spark.frames.decode import chosen, messages_of, reading, rules
from tidewire.spark.frames.executors import on_executors
from tidewire.spark.frames.schemas import Schemas, table_schema
from tidewire.spark.frames.types import struct_of, wider

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def learn(df: DataFrame, name: str, *, options: Mapping[str, str] | None = None) -> Schemas:
    """The schemas that the messages of a batch need, for ``decode(schemas=…)`` and ``rows(schemas=…)``.

    Simple sends a table's schema once and rows without it. A task that reads another part of the topic does not see the
    schema, so its rows would be parked; with the learned schemas every task knows all of them. For Avro the schemas are
    fetched from the registry here, in the driver, so that executors need no connection to it. The other protocols need
    no schemas, and nothing is read.
    """
    parsed = Options.parse({str(key): str(value) for key, value in (options or {}).items()})
    if name == "avro":
        if not parsed.schema_registry:
            raise OptionError(
                "schema-registry", "the schemas are fetched from it: give options={'schema-registry': URL}"
            )
        registry = open_registry(parsed.schema_registry)
        ids = sorted(int(line) for line in _found(df, "ids", reading(name, options, None)))
        return Schemas(texts={number: registry.schema(number) for number in ids})
    if not protocol(name).capabilities(parsed).needs_schema:
        return Schemas()
    lines = _found(df, "schemas", reading(name, options, None))
    tables = [table_schema(json.loads(line)) for line in sorted(lines)]
    return Schemas(tuple(sorted(tables, key=lambda table: (table.version or 0, table.name))))


def infer(
    df: DataFrame,
    name: str,
    *,
    options: Mapping[str, str] | None = None,
    tables: str | Iterable[str] = (),
    schemas: Schemas | str | None = None,
    on_bad: Literal["skip", "fail"] = "fail",
) -> dict[str, StructType]:
    """The columns of the tables that a batch of messages has rows of, by names such as ``shop.orders``.

    A table that changed on the way has the columns of its newest rows, then those that only older rows have; a column
    has a type that holds the values of all of them.
    """
    settings = {
        **reading(name, options, schemas),
        "tables": rules(tables),
        "on_bad": chosen("on_bad", on_bad, ("skip", "fail")),
    }
    shapes: dict[str, list[tuple[int, list[tuple[str, str]]]]] = {}
    for line in _found(df, "shapes", settings):
        schema, table, newest, columns = json.loads(line)
        shapes.setdefault(f"{schema}.{table}", []).append((newest, columns))
    return {table: struct_of(_merged(found)) for table, found in sorted(shapes.items())}


def _merged(shapes: list[tuple[int, list[tuple[str, str]]]]) -> dict[str, str]:
    """The columns of all shapes of a table, those of the newest first."""
    columns: dict[str, tuple[str, str]] = {}
    for _, found in sorted(shapes, key=lambda shape: shape[0], reverse=True):
        for name, type_ in found:
            known = columns.get(name.lower())
            columns[name.lower()] = (name, type_) if known is None else (known[0], wider(known[1], type_))
    return dict(columns.values())


def _found(df: DataFrame, find: str, settings: Mapping[str, Any]) -> set[str]:
    if df.isStreaming:
        raise OptionError("df", "it is a stream, which never ends; give a batch of the same topic (spark.read)")
    found = messages_of(df).mapInArrow(on_executors("learn_task", {**settings, "find": find}), "found string")
    return {row[0] for row in found.distinct().collect()}
