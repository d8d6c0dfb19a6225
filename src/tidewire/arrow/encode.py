"""Typed columns back to messages.

A protocol's *writer* turns whole columns into messages without making event objects. What it does not cover (rows
above the size limit, old rows with gaps, options that compare rows, values out of the ordinary) goes through the
readable codec. So there is one set of rules, and a writer is a faster way to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidewire.arrow.policy import Policy
from tidewire.arrow.write import writer_for
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.gotext import plain_number
from tidewire.model import (
    Column,
    Date,
    DateTime,
    EnumValue,
    MySQLType,
    Row,
    RowChange,
    SetValue,
    TableSchema,
    Time,
    Timestamp,
    Value,
)


def encode_batch(
    protocol_name: str,
    table: TableSchema,
    rows: pa.RecordBatch,
    options: Options = Options(),
    resources: Resources = Resources(),
    *,
    policy: Policy | None = None,
    fast: bool = True,
) -> pa.RecordBatch:
    """The messages that rows in the shape of a :class:`~tidewire.arrow.plan.Plan` make: columns ``key``, ``value``.

    ``fast``: may the protocol's writer be used? Without it only the codec writes.
    """
    policy = policy or Policy(options.time_zone)
    encoder = protocol(protocol_name).Encoder(options, resources)
    writer = writer_for(protocol_name, table, options, policy, resources) if fast else None
    written = None if writer is None else writer.write(rows)
    if written is None:
        messages = list(encoder.encode(row_changes(table, rows, policy)))
        written = [message.key for message in messages], [message.value for message in messages]
    keys, values = written
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def row_changes(table: TableSchema, rows: pa.RecordBatch, policy: Policy) -> Iterator[RowChange]:
    """The changes in a batch as events."""
    write = {column.name: value_writer(column, policy) for column in table.columns}
    names = [column.name for column in table.columns]
    for row in rows.to_pylist():
        absent = {names[number] for number in row.get("_absent") or ()}
        yield RowChange(
            table,
            row["_commit_ts"],
            before=_image(row.get("before"), write, absent),
            after=_image(row["after"], write, set()),
            table_id=table.table_id if row["_partition"] is None else row["_partition"],
            partitioned=row["_partition"] is not None,
            handle_key_only=row["_key_only"],
        )


Write = Callable[[Any], Value]


def value_writer(column: Column, policy: Policy) -> Write:
    """How a column's values, as Arrow gives them to Python, become those of the model."""
    write = _WRITERS[column.type](column, policy)
    kept = _KEPT_TEXTS.get(column.type)
    return write if kept is None else lambda value: kept(value) if isinstance(value, str) else write(value)


def _image(image: Mapping[str, Any] | None, write: Mapping[str, Write], absent: set[str]) -> Row | None:
    if image is None:
        return None
    return {name: None if value is None else write[name](value) for name, value in image.items() if name not in absent}


def _same(_: Column, __: Policy) -> Write:
    return lambda value: value


def _integer(_: Column, __: Policy) -> Write:
    return int


def _decimal(_: Column, __: Policy) -> Write:
    return lambda value: Decimal(value) if isinstance(value, str) else value


def _date(_: Column, __: Policy) -> Write:
    return lambda value: Date(value.isoformat())


def _fraction(micros: int, digits: int | None) -> str:
    """A fraction of a second with the column's digits, or with as many as it needs where they are not known."""
    text = f"{micros:06d}"
    shown = text.rstrip("0") if digits is None else text[:digits]
    return f".{shown}" if shown else ""


def _datetime(column: Column, _: Policy) -> Write:
    return lambda value: DateTime(_moment(value, column))


def _moment(value: datetime, column: Column) -> str:
    whole = value.replace(microsecond=0, tzinfo=None).isoformat(" ")
    return whole + _fraction(value.microsecond, column.decimal)


def _timestamp(column: Column, policy: Policy) -> Write:
    zone = ZoneInfo(policy.time_zone)
    return lambda value: Timestamp(_moment(value.astimezone(zone), column))


def _time(column: Column, _: Policy) -> Write:
    def write(micros: int) -> Time:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return Time("-" * (micros < 0) + clock + _fraction(fraction, column.decimal))

    return write


def _enum(column: Column, _: Policy) -> Write:
    if not column.elements:
        return lambda value: EnumValue(int(value))
    indexes = {name: number for number, name in enumerate(("", *column.elements))}
    return lambda value: EnumValue(indexes[value], value)


def _set(column: Column, _: Policy) -> Write:
    if not column.elements:
        return lambda value: SetValue(int(value))
    bits = {name: 1 << number for number, name in enumerate(column.elements)}
    return lambda value: SetValue(sum(bits[name] for name in value.split(",") if name), value)


def _vector(_: Column, __: Policy) -> Write:
    return lambda value: "[" + ",".join(plain_number(number, single=True) for number in value) + "]"


_KEPT_TEXTS: Mapping[MySQLType, Callable[[str], Value]] = {
    MySQLType.DATE: Date,
    MySQLType.NEWDATE: Date,
    MySQLType.DATETIME: DateTime,
    MySQLType.TIMESTAMP: Timestamp,
}
"""Dates that a policy kept as text."""

_WRITERS: Mapping[MySQLType, Callable[[Column, Policy], Write]] = {
    **dict.fromkeys(MySQLType, _same),
    **dict.fromkeys((MySQLType.BIGINT, MySQLType.BIT), _integer),
    MySQLType.DECIMAL: _decimal,
    MySQLType.DATE: _date,
    MySQLType.NEWDATE: _date,
    MySQLType.DATETIME: _datetime,
    MySQLType.TIMESTAMP: _timestamp,
    MySQLType.TIME: _time,
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
    MySQLType.VECTOR: _vector,
}
