"""Typed columns back to messages.

A protocol's *writer* turns whole columns into messages without making event objects. What it does not cover (rows
above the size limit, old rows with gaps, options that compare rows, values out of the ordinary) goes through the
readable codec. So there is one set of rules, and a writer is a faster way to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import ToModel, to_model
from tidewire.arrow.write import writer_for
from tidewire.codec import Options, Resources, protocol
from tidewire.model import (
    Row,
    RowChange,
    TableSchema,
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
    return pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})


def row_changes(table: TableSchema, rows: pa.RecordBatch, policy: Policy) -> Iterator[RowChange]:
    """The changes in a batch as events."""
    convert = {column.name: to_model(column, policy.time_zone) for column in table.columns}
    names = [column.name for column in table.columns]
    for row in rows.to_pylist():
        absent = {names[number] for number in row.get("_absent") or ()}
        yield RowChange(
            table,
            row["_commit_ts"],
            before=_image(row.get("before"), convert, absent),
            after=_image(row["after"], convert, set()),
            table_id=table.table_id if row["_partition"] is None else row["_partition"],
            partitioned=row["_partition"] is not None,
            handle_key_only=row["_key_only"],
        )


def _image(image: Mapping[str, Any] | None, convert: Mapping[str, ToModel], absent: set[str]) -> Row | None:
    if image is None:
        return None
    return {
        name: None if value is None else convert[name](value) for name, value in image.items() if name not in absent
    }
