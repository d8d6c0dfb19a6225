"""The partitions of a batch's rows, computed without an object per row."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.plan import OpCode
from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import to_model
from tidewire.changefeed.source.base import RowBatch
from tidewire.dispatch.partition import Dispatcher, Hash, Rule, columns_of, value_text
from tidewire.model import Column, MySQLType
from tidewire.model.types import INTEGERS, STRINGS

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]


class Share(NamedTuple):
    """The rows of a batch that go to one partition."""

    partition: int
    rows: pa.RecordBatch


def shares(batch: RowBatch, rule: Rule, partitions: int) -> Iterator[Share]:
    """The rows of each partition that gets some, in the order of the batch."""
    positions = _POSITIONS[rule.dispatcher](batch, rule) % np.uint64(partitions)
    for number in np.unique(positions):
        yield Share(int(number), batch.rows.filter(pa.array(positions == number)))


def _by_table(batch: RowBatch, _: Rule) -> Numbers:
    return np.full(batch.rows.num_rows, _table_hash(batch), np.uint64)


def _by_ts(batch: RowBatch, _: Rule) -> Numbers:
    return np.asarray(batch.rows.column("_commit_ts")).astype(np.uint64)


def _by_values(batch: RowBatch, rule: Rule) -> Numbers:
    rows = batch.rows
    deleted = pc.equal(rows.column("_op"), int(OpCode.DELETE))
    sums = np.full(rows.num_rows, _table_hash(batch), np.uint64)
    for column in columns_of(batch.table, rule):
        after, before = (rows.column(name).field(column.name) for name in ("after", "before"))
        sums ^= np.array(_sums(column, pc.if_else(deleted, before, after), rule, Policy(batch.time_zone)), np.uint64)
    return sums


def _table_hash(batch: RowBatch) -> int:
    schema, table = batch.table.name
    return Hash().write(schema.encode(), table.encode()).sum


def _sums(column: Column, values: pa.Array, rule: Rule, policy: Policy) -> Sequence[int]:
    """The contribution of each value to its row's hash; NULL adds 0, or the hash of ``null`` if the rule says so."""
    name = zlib.crc32(column.name.encode())
    null = zlib.crc32(b"null", name) if rule.hashes_null else 0
    return [null if text is None else zlib.crc32(text, name) for text in _texts(column, values, policy)]


def _texts(column: Column, values: pa.Array, policy: Policy) -> Iterable[bytes | None]:
    casts = _CASTS.get(column.type)
    if casts is not None:
        for type_ in casts:
            values = pc.cast(values, type_)
        return list(values.to_pylist())
    write = to_model(column, policy.time_zone)
    return (None if value is None else value_text(write(value), column) for value in values.to_pylist())


_CASTS: Mapping[MySQLType, Sequence[pa.DataType]] = {
    **dict.fromkeys(INTEGERS, (pa.string(), pa.binary())),
    **dict.fromkeys(STRINGS, (pa.binary(),)),
}
"""Types that Arrow can turn into text, and the casts for it."""

_POSITIONS: Mapping[Dispatcher, Callable[[RowBatch, Rule], Numbers]] = {
    Dispatcher.TABLE: _by_table,
    Dispatcher.TS: _by_ts,
    Dispatcher.INDEX_VALUE: _by_values,
    Dispatcher.COLUMNS: _by_values,
}
