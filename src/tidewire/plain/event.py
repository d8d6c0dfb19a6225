"""Events to plain dicts and back."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, assert_never

from tidewire.model import (
    Bootstrap,
    Checksum,
    Column,
    ColumnFlag,
    Ddl,
    DdlKind,
    Event,
    Generated,
    Index,
    MySQLType,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)
from tidewire.model.types import TEXTUAL, parse_type
from tidewire.plain.value import value_from_plain, value_to_plain

PlainDict = dict[str, Any]


def event_to_plain(event: Event) -> PlainDict:
    """An event as a dict that ``json`` can write."""
    match event:
        case RowChange():
            return _row_change(event)
        case Ddl():
            return _ddl(event)
        case Watermark(ts):
            return {"kind": "watermark", "ts": ts}
        case Bootstrap(schema):
            return {"kind": "bootstrap", "table_schema": _table_schema(schema)}
        case _:
            assert_never(event)


def event_from_plain(plain: Mapping[str, Any]) -> Event:
    """The event a dict stands for; raises ``ValueError`` if it stands for none."""
    read = _READERS.get(plain.get("kind", ""))
    if read is None:
        raise ValueError(f"an event's kind is one of {', '.join(_READERS)}, not {plain.get('kind')!r}")
    try:
        return read(plain)
    except KeyError as error:
        raise ValueError(f"a {plain['kind']} event needs {error}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a {plain['kind']} event is not in the expected form: {error}") from error


def _known(**members: Any) -> PlainDict:
    return {name: value for name, value in members.items() if value is not None}


def _row_change(event: RowChange) -> PlainDict:
    columns = {column.name: column for column in event.table.columns}
    return {
        "kind": "row",
        "op": str(event.op),
        "schema": event.table.name.schema,
        "table": event.table.name.table,
        **_known(
            commit_ts=event.commit_ts,
            start_ts=event.start_ts,
            table_id=event.table_id,
            logical_table_id=event.table.table_id,
            schema_version=event.table.version,
            partition_id=event.partition_id,
            row_id=event.row_id,
            row_key=None if event.row_key is None else {"base64": base64.b64encode(event.row_key).decode()},
            handle_key_only=event.handle_key_only or None,
            checksum=None if event.checksum is None else _checksum(event.checksum),
        ),
        "handle_key": list(event.table.handle_key),
        "columns": [_column(column) for column in event.table.columns],
        "before": _image(event.before, columns),
        "after": _image(event.after, columns),
    }


def _image(row: Row | None, columns: Mapping[str, Column]) -> PlainDict | None:
    if row is None:
        return None
    return {name: value_to_plain(value, columns.get(name)) for name, value in row.items()}


def _checksum(checksum: Checksum) -> PlainDict:
    return {name: getattr(checksum, name) for name in ("version", "corrupted", "current", "previous")}


def _column(column: Column) -> PlainDict:
    return {
        "name": column.name,
        "type_code": int(column.type),
        "base_type": column.base_type,
        "mysql_type": column.mysql_type,
        "primary_key": column.primary_key,
        "unsigned": column.unsigned,
        **_known(
            id=column.id,
            flag=None if column.flags is None else int(column.flags),
            nullable=column.nullable,
            charset=column.charset,
            collation=column.collation,
            length=column.length,
            decimal=column.decimal,
            handle_key=column.handle_key or None,
            zerofill=column.zerofill or None,
            elements=list(column.elements) or None,
            generated=None if column.generated is None else str(column.generated),
            default=None if column.default is None else value_to_plain(column.default),
        ),
    }


def _ddl(event: Ddl) -> PlainDict:
    return {
        "kind": "ddl",
        "query": event.query,
        "schema": event.table.schema,
        "table": event.table.table,
        **_known(
            type_code=event.type,
            ddl_kind=None if event.kind is None else str(event.kind),
            commit_ts=event.commit_ts,
            start_ts=event.start_ts,
            table_schema=None if event.table_schema is None else _table_schema(event.table_schema),
            pre_table_schema=None if event.pre_table_schema is None else _table_schema(event.pre_table_schema),
            old_schema=None if event.old_name is None else event.old_name.schema,
            old_table=None if event.old_name is None else event.old_name.table,
        ),
    }


def _table_schema(schema: TableSchema) -> PlainDict:
    return {
        "schema": schema.name.schema,
        "table": schema.name.table,
        **_known(table_id=schema.table_id, version=schema.version),
        "columns": [_column(column) for column in schema.columns],
        "indexes": [
            {
                "name": index.name,
                "unique": index.unique,
                "primary": index.primary,
                "nullable": index.nullable,
                "columns": list(index.columns),
            }
            for index in schema.indexes
        ],
        "pk_is_handle": schema.pk_is_handle,
        "primary_key": list(schema.handle_key),
    }


def _read_row_change(plain: Mapping[str, Any]) -> RowChange:
    key = frozenset(plain.get("handle_key", ()))
    columns = tuple(_read_column(column, key) for column in plain["columns"])
    by_name = {column.name: column for column in columns}
    checksum, row_key = plain.get("checksum"), plain.get("row_key")
    partition_id = plain.get("partition_id")
    return RowChange(
        table=TableSchema(
            TableName(plain["schema"], plain["table"]),
            columns,
            table_id=plain.get("logical_table_id"),
            version=plain.get("schema_version"),
        ),
        commit_ts=plain.get("commit_ts"),
        before=_read_image(plain.get("before"), by_name),
        after=_read_image(plain.get("after"), by_name),
        start_ts=plain.get("start_ts"),
        table_id=plain.get("table_id") if partition_id is None else partition_id,
        partitioned=partition_id is not None,
        handle_key_only=plain.get("handle_key_only", False),
        checksum=None if checksum is None else Checksum(**checksum),
        row_id=plain.get("row_id"),
        row_key=None if row_key is None else base64.b64decode(row_key["base64"]),
    )


def _read_image(plain: Mapping[str, Any] | None, columns: Mapping[str, Column]) -> Row | None:
    if plain is None:
        return None
    unknown = plain.keys() - columns.keys()
    if unknown:
        raise ValueError(f"values without a column: {', '.join(sorted(unknown))}")
    # In table order, whatever order the line has them in.
    return {name: value_from_plain(plain[name], column) for name, column in columns.items() if name in plain}


def _read_column(plain: Mapping[str, Any], handle_key: frozenset[str]) -> Column:
    parsed = parse_type(plain["mysql_type"]) if "type_code" not in plain else None
    type_ = MySQLType(plain["type_code"]) if parsed is None else parsed.type
    binary = parsed is not None and (parsed.binary or parsed.type not in TEXTUAL)
    flag, generated, default = (plain.get(name) for name in ("flag", "generated", "default"))
    return Column(
        name=plain["name"],
        type=type_,
        flags=None if flag is None else ColumnFlag(flag),
        handle_key=plain.get("handle_key", False) or plain["name"] in handle_key,
        primary_key=plain.get("primary_key", False),
        nullable=plain.get("nullable"),
        unsigned=plain.get("unsigned", parsed is not None and parsed.unsigned),
        zerofill=plain.get("zerofill", parsed is not None and parsed.zerofill),
        charset=plain.get("charset", "binary" if binary else None),
        collation=plain.get("collation"),
        length=_specified(plain.get("length", None if parsed is None else parsed.length)),
        decimal=_specified(plain.get("decimal", None if parsed is None else parsed.decimal)),
        elements=tuple(plain.get("elements", () if parsed is None else parsed.elements)),
        generated=None if generated is None else Generated(generated),
        default=base64.b64decode(default["base64"]) if isinstance(default, dict) else default,
        id=plain.get("id"),
    )


def _specified(number: int | None) -> int | None:
    """The declared length or scale; TiDB sends -1 if it was not declared."""
    return None if number is None or number < 0 else number


def _read_ddl(plain: Mapping[str, Any]) -> Ddl:
    after, before, kind = (plain.get(name) for name in ("table_schema", "pre_table_schema", "ddl_kind"))
    return Ddl(
        table=TableName(plain["schema"], plain["table"]),
        commit_ts=plain.get("commit_ts"),
        query=plain["query"],
        type=plain.get("type_code"),
        kind=None if kind is None else DdlKind(kind),
        start_ts=plain.get("start_ts"),
        table_schema=None if after is None else _read_table_schema(after),
        pre_table_schema=None if before is None else _read_table_schema(before),
        old_name=TableName(plain["old_schema"], plain["old_table"]) if "old_table" in plain else None,
    )


def _read_table_schema(plain: Mapping[str, Any]) -> TableSchema:
    return TableSchema(
        TableName(plain["schema"], plain["table"]),
        tuple(_read_column(column, frozenset()) for column in plain["columns"]),
        tuple(
            Index(
                index["name"],
                tuple(index["columns"]),
                index.get("unique", False),
                index.get("primary", False),
                index.get("nullable", False),
            )
            for index in plain.get("indexes", ())
        ),
        plain.get("table_id"),
        plain.get("version"),
        plain.get("pk_is_handle", False),
    )


def _read_watermark(plain: Mapping[str, Any]) -> Watermark:
    return Watermark(plain["ts"])


def _read_bootstrap(plain: Mapping[str, Any]) -> Bootstrap:
    return Bootstrap(_read_table_schema(plain["table_schema"]))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Event]] = {
    "row": _read_row_change,
    "ddl": _read_ddl,
    "watermark": _read_watermark,
    "bootstrap": _read_bootstrap,
}
