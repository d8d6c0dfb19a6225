"""Rows by what happened to them: inserts, updates and deletes make messages of different shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.fragments import Piece, Uncovered, joined
from tidewire.codec import Options
from tidewire.codec.compression import compress
from tidewire.codec.large import RECORD_OVERHEAD
from tidewire.codec.options import Compression
from tidewire.model import Op

Shape = Callable[[Op, pa.RecordBatch], Iterable[Piece]]
"""The pieces of the messages of rows to which the same happened."""


def written(rows: pa.RecordBatch, shape: Shape) -> list[bytes]:
    """The text of each row, in the order of the rows."""
    if not rows.num_rows:
        return []
    names = rows.schema.names
    if rows.nbytes > _MOST_BYTES:
        raise Uncovered
    # Partial images are the codec's.
    if pc.any(rows.column("_key_only")).as_py():
        raise Uncovered
    if "_absent" in names and rows.column("_absent").null_count < rows.num_rows:
        raise Uncovered
    after = rows.column("after").is_valid()
    before = (
        rows.column("before").is_valid()
        if "before" in names
        else pa.repeat(pa.scalar(False, pa.bool_()), rows.num_rows)
    )
    places = {
        Op.INSERT: pc.indices_nonzero(pc.and_not(after, before)),
        Op.UPDATE: pc.indices_nonzero(pc.and_(after, before)),
        Op.DELETE: pc.indices_nonzero(pc.and_not(before, after)),
    }
    present = {op: found for op, found in places.items() if len(found)}
    if sum(map(len, present.values())) < rows.num_rows:
        raise Uncovered
    if len(present) == 1:
        (op,) = present
        texts = _bytes(rows, op, shape)
    else:
        parts = [_bytes(rows.take(found), op, shape) for op, found in present.items()]
        order = pc.sort_indices(pa.concat_arrays(list(present.values())))
        texts = pa.concat_arrays(parts).take(order)
    listed: list[Any] = texts.to_pylist()
    return listed


_MOST_BYTES = 1 << 28
"""Escapes make six characters of one at most, and an array has no place for 2 GiB; not every call of Arrow's checks."""


def _bytes(rows: pa.RecordBatch, op: Op, shape: Shape) -> pa.BinaryArray:
    return pc.cast(joined(shape(op, rows), rows.num_rows), pa.binary())


def stamped(rows: pa.RecordBatch, clock: Callable[[], int]) -> pa.RecordBatch:
    """The rows with a column ``_built``: when each message was made."""
    return rows.append_column("_built", pa.array([clock() for _ in range(rows.num_rows)], pa.int64()))


def compressed(values: list[bytes], options: Options) -> list[bytes]:
    """The values as they go on the wire."""
    how = options.large_message_handle_compression
    return values if how is Compression.NONE else [compress(value, how) for value in values]


def packed(values: list[bytes], options: Options) -> list[bytes]:
    """The values as they go on the wire, if none needs a large message's treatment."""
    values = compressed(values, options)
    if max(map(len, values), default=0) + RECORD_OVERHEAD > options.max_message_bytes:
        raise Uncovered
    return values
