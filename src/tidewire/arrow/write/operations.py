"""Rows by what happened to them: inserts, updates and deletes make messages of different shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.types import arrow_type
from tidewire.arrow.write.pieces import LEFT_TO_CODEC, NotOnFastPath, Piece, joined
from tidewire.codec import Options
from tidewire.codec.compression import compress
from tidewire.codec.options import Compression
from tidewire.codec.size_limits import RECORD_OVERHEAD
from tidewire.model import Op, TableSchema

Shape = Callable[[Op, pa.RecordBatch], Iterable[Piece]]
"""The pieces of the messages of rows to which the same happened."""

_MOST_BYTES: Final = 1 << 28
"""Escapes make six characters of one at most, and an array has no place for 2 GiB; not every call of Arrow's checks."""


def by_op(rows: pa.RecordBatch) -> tuple[Sequence[tuple[Op, pa.RecordBatch]], pa.Array | None]:
    """Rows apart by what happened to them, and how they are put together again, if that is not all the same.

    Partial rows are the codec's.
    """
    names = rows.schema.names
    partial = "_absent" in names and rows.column("_absent").null_count < rows.num_rows
    if partial or rows.nbytes > _MOST_BYTES or pc.any(rows.column("_key_only")).as_py():
        raise NotOnFastPath
    after = rows.column("after").is_valid()
    before = rows.column("before").is_valid() if "before" in names else pa.repeat(False, rows.num_rows)
    places = {
        Op.INSERT: pc.indices_nonzero(pc.and_not(after, before)),
        Op.UPDATE: pc.indices_nonzero(pc.and_(after, before)),
        Op.DELETE: pc.indices_nonzero(pc.and_not(before, after)),
    }
    present = {op: found for op, found in places.items() if len(found)}
    if sum(map(len, present.values())) < rows.num_rows:
        raise NotOnFastPath
    if len(present) == 1:
        return [(op, rows) for op in present], None
    order = pc.sort_indices(pa.concat_arrays(list(present.values())))
    return [(op, rows.take(found)) for op, found in present.items()], order


def together(parts: Sequence[pa.Array], order: pa.Array | None) -> pa.Array:
    """What was made of rows apart, in the order of the rows."""
    return parts[0] if order is None else pa.concat_arrays(parts).take(order)


def written(rows: pa.RecordBatch, shape: Shape) -> list[bytes]:
    """The text of each row, in the order of the rows."""
    if not rows.num_rows:
        return []
    apart, order = by_op(rows)
    texts = together([joined(shape(op, part), part.num_rows).cast(pa.binary()) for op, part in apart], order)
    listed: list[Any] = texts.to_pylist()
    return listed


class Changes:
    """Rows of one kind of change: the columns of their images by name, and when they were committed."""

    def __init__(self, op: Op, rows: pa.RecordBatch) -> None:
        self.op = op
        self.rows = rows
        self.after = _columns(rows, "after") if op is not Op.DELETE else {}
        self.before = _columns(rows, "before") if op is not Op.INSERT else {}

    @property
    def row(self) -> Mapping[str, pa.Array]:
        """The new row, of a delete the old one."""
        return self.after or self.before

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def commit_ts(self) -> pa.UInt64Array:
        """When the changes were committed."""
        return commit_times(self.rows)


def commit_times(rows: pa.RecordBatch) -> pa.UInt64Array:
    """When the rows' changes were committed; ``ValueError`` where that is not known."""
    times = rows.column("_commit_ts")
    if times.null_count:
        raise ValueError("a change without a commit ts")
    return times.cast(pa.uint64())


def _columns(rows: pa.RecordBatch, image: str) -> Mapping[str, pa.Array]:
    struct = rows.column(image)
    return dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))


def changes_of(table: TableSchema, rows: pa.RecordBatch) -> tuple[Sequence[Changes], pa.Array | None]:
    """Rows of this table apart by what happened to them, and how they are put together again."""
    struct = pa.struct([pa.field(column.name, arrow_type(column)) for column in table.columns])
    images = [field.type for field in rows.schema if field.name in ("after", "before")]
    if not table.columns or any(type_ != struct for type_ in images):
        raise NotOnFastPath
    apart, order = by_op(rows)
    return [Changes(op, part) for op, part in apart], order


def stamped(rows: pa.RecordBatch, clock: Callable[[], int]) -> pa.RecordBatch:
    """The rows with a column ``_built``: when each message was made."""
    return rows.append_column("_built", pa.array([clock() for _ in range(rows.num_rows)], pa.int64()))


def without_keys(
    rows: pa.RecordBatch, shape: Shape, options: Options, clock: Callable[[], int]
) -> tuple[Sequence[bytes | None], Sequence[bytes | None]] | None:
    """Keys and values of messages that have no key; ``None`` where the rows are for the codec."""
    try:
        values = packed(written(stamped(rows, clock), shape), options)
    except LEFT_TO_CODEC:
        return None
    return [None] * len(values), values


def compressed(values: list[bytes], options: Options) -> list[bytes]:
    """The values as they go on the wire."""
    how = options.large_message_handle_compression
    return values if how is Compression.NONE else [compress(value, how) for value in values]


def packed(values: list[bytes], options: Options) -> list[bytes]:
    """The values as they go on the wire, if none needs a large message's treatment."""
    values = compressed(values, options)
    if max(map(len, values), default=0) + RECORD_OVERHEAD > options.max_message_bytes:
        raise NotOnFastPath
    return values
