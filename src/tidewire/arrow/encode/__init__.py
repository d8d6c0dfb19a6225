"""Typed columns back to messages.

With the native kernel a protocol's *template* says of what parts a table's messages are, and the kernel writes them
from whole columns. What it does not take (rows above the size limit, old rows with gaps, options that compare rows,
values out of the ordinary) goes through the readable codec, and so does everything without that kernel. So there is one
set of rules, and the kernel is a faster way to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidewire.arrow import kernel
from tidewire.arrow.encode.native import native_messages
from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import ToModel, to_model
from tidewire.codec import Options, Resources, protocol
from tidewire.model import Row, RowChange, TableSchema


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

    ``fast``: may the native kernel be used, if it is there? Without it only the codec writes. Raises ValueError if an
    array is broken, so that reading it would lead outside of its memory.
    """
    policy = policy or Policy(options.time_zone)
    encoder = protocol(protocol_name).Encoder(options, resources)
    if fast and kernel.KERNEL is kernel.Kernel.NATIVE:
        made = native_messages(protocol_name, table, rows, options, resources, policy)
        if made is not None:
            return made
    rows.validate(full=True)
    messages = list(encoder.encode(row_changes(table, rows, policy)))
    return pa.record_batch(
        {part: pa.array([getattr(message, part) for message in messages], pa.binary()) for part in ("key", "value")}
    )


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
