"""``tw.decode``: a DataFrame of messages to a DataFrame of changes, for batch and stream alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from tidewire.codec import Options, protocol
from tidewire.errors import OptionError
from tidewire.spark.frames.executors import on_executors
from tidewire.spark.frames.schemas import Schemas, schemas_text
from tidewire.sync.rules import wanted_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA: Final = (
    "topic string, partition int, offset bigint, sub int, kind string, schema_name string, table_name string, "
    "op string, commit_ts bigint, commit_time timestamp, table_version bigint, key_only boolean, "
    "before {image}, after {image}, absent array<string>, ddl struct<type: string, query: string>, "
    "error struct<reason: string, part: string, at: string>, raw struct<key: binary, value: binary>"
)
"""The columns of the result as a Spark schema; ``{image}`` is ``variant`` or ``string``."""

COLUMNS: Final = re.findall(r"(\w+) [^<,]+(?:<[^>]*>)?", SCHEMA)
"""The names of these columns."""

Values = Literal["variant", "json"]
_MESSAGE: Final = {"topic": "string", "partition": "int", "offset": "bigint", "key": "binary", "value": "binary"}
_BYTES: Final = ("binary", "string", "void")
"""The types that a column of bytes may have."""


def decode(
    df: DataFrame,
    protocol: str,
    *,
    options: Mapping[str, str] | None = None,
    tables: str | Iterable[str] = (),
    values: Values | None = None,
    before: bool = True,
    on_bad: Literal["row", "fail"] = "row",
    keep_bytes: bool = False,
    schemas: Schemas | str | None = None,
) -> DataFrame:
    """Decode messages into changes: one row for each event, with the same columns for all tables and DDL.

    ``df`` has the columns ``key``, ``value``, ``topic``, ``partition`` and ``offset``, as Spark's own Kafka source has
    them; other columns are ignored. ``options`` are TiCDC's, by TiCDC's names. ``tables`` are rules such as ``shop.*``
    and ``!shop.tmp_*``. ``values`` says what ``before`` and ``after`` are: ``variant`` (the default on Spark 4) or
    ``json`` text (on Spark 3.5). ``before=False`` leaves old rows out. ``on_bad="fail"`` raises if a message cannot be
    read; otherwise it is a row of kind ``bad``, with its bytes in ``raw`` if ``keep_bytes`` is set. ``schemas`` are
    what :func:`learn` found: Simple needs them as soon as a topic is read in parts.
    """
    settings = {
        **reading(protocol, options, schemas),
        "tables": rules(tables),
        "before": before,
        "on_bad": chosen("on_bad", on_bad, ("row", "fail")),
        "keep_bytes": keep_bytes,
    }
    image = _image(df, values)
    decoded = messages_of(df).mapInArrow(on_executors("decode_task", settings), SCHEMA.format(image="string"))
    if image == "string":
        return decoded
    from pyspark.sql.functions import parse_json

    return decoded.withColumns({name: parse_json(name) for name in ("before", "after")})


def _image(df: DataFrame, values: Values | None) -> str:
    has_variant = int(df.sparkSession.version.partition(".")[0]) >= 4
    if values == "variant" and not has_variant:
        raise OptionError("values", f"Spark {df.sparkSession.version} has no VARIANT; give values='json'")
    wanted = values or ("variant" if has_variant else "json")
    return {"variant": "variant", "json": "string"}[chosen("values", wanted, ("variant", "json"))]


def messages_of(df: DataFrame) -> DataFrame:
    """The columns of messages, in their types; :class:`~tidewire.OptionError` if one is missing or holds no bytes."""
    from pyspark.sql.functions import col

    found = {spelled: field for field in df.schema.fields for spelled in (field.name.lower(), field.name)}
    missing = [name for name in _MESSAGE if name not in found]
    if missing:
        raise OptionError(
            "df",
            f"a DataFrame of messages has the columns {', '.join(_MESSAGE)}; this one lacks {', '.join(missing)}. "
            "Rename the columns that hold them; where messages have no key, add a column key of NULLs",
        )
    for name in (name for name, type_ in _MESSAGE.items() if type_ == "binary"):
        type_ = found[name].dataType.simpleString()
        if type_ not in _BYTES:
            raise OptionError("df", f"column {name} is {type_}; give the bytes of the messages, as binary or string")
    return df.select(*(col(f"`{found[name].name}`").cast(type_).alias(name) for name, type_ in _MESSAGE.items()))


def reading(name: str, options: Mapping[str, str] | None, schemas: Schemas | str | None) -> dict[str, Any]:
    """Check the protocol, the options and the schemas, and return them as settings for executors."""
    protocol(name)
    if not isinstance(options, Mapping | None):
        raise OptionError("options", f"they are a {type(options).__name__}; give a mapping such as {{'name': 'value'}}")
    given = {str(key): str(value) for key, value in (options or {}).items()}
    parsed = Options.parse(given)
    text = schemas_text(schemas)
    if name == "avro" and text is None and not parsed.schema_registry:
        raise OptionError(
            "schema-registry",
            "Avro messages hold only the number of their schema; give options={'schema-registry': URL}, "
            "or schemas=tw.learn(df, 'avro', options=…)",
        )
    return {"protocol": name, "options": given, "schemas": text}


def rules(tables: str | Iterable[str]) -> list[str]:
    """Check rules about tables, and return them as a list."""
    listed = [tables] if isinstance(tables, str) else list(tables)
    wanted_by(listed)
    return listed


def chosen(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Return the value; raise :class:`~tidewire.OptionError` if it is not one of the choices."""
    if value not in choices:
        raise OptionError(option, f"{value!r} is not one of {', '.join(choices)}")
    return value
