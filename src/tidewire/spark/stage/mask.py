"""Masks on columns of rows, before anything of them is written."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidewire.arrow.convert import scalar_of_text
from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import Fractions, model_values
from tidewire.model import Column, TableSchema
from tidewire.model.types import ENUM_SET
from tidewire.sync.rules import Mask, Rules, hashed, redaction

_IMAGES = ("after", "before")


def masked(rows: pa.RecordBatch, shape: TableSchema, rules: Rules, policy: Policy) -> pa.RecordBatch:
    """Rows of a shape with their masks applied: hashed, redacted or dropped values in both images.

    A key that is dropped, which the planner refuses, is empty here.
    """
    masks = rules.masks(shape)
    if not masks:
        return rows
    dropped = {name for name, mask in masks.items() if mask is Mask.DROP and name not in shape.handle_key}
    columns = [column for column in shape.columns if column.name not in dropped]
    for image in _IMAGES:
        old = rows.column(image)
        kept = [column for column in columns if old.type.get_field_index(column.name) >= 0]
        arrays = [_values(old.field(each.name), each, masks.get(each.name), rules, policy) for each in kept]
        fields = [pa.field(each.name, array.type) for each, array in zip(kept, arrays, strict=True)]
        struct = pa.StructArray.from_arrays(arrays, fields=fields, mask=old.is_null())
        rows = rows.set_column(rows.schema.get_field_index(image), pa.field(image, struct.type), struct)
    if not dropped:
        return rows
    places = {number: columns.index(column) for number, column in enumerate(shape.columns) if column in columns}
    index = rows.schema.get_field_index("_absent")
    return rows.set_column(index, rows.schema.field(index), _renumbered(rows.column(index), places))


def _values(values: pa.Array, column: Column, mask: Mask | None, rules: Rules, policy: Policy) -> pa.Array:
    if mask is None:
        return values
    if mask is Mask.HASH:
        return _hashes(values, column, rules.salt, policy)
    text = redaction(column) if mask is Mask.REDACT else None
    if text is None:
        return pa.nulls(len(values), values.type)
    if isinstance(text, str) and not (column.type in ENUM_SET and column.elements):
        return pa.repeat(scalar_of_text(text, column, policy), len(values))
    return pa.repeat(pa.scalar(text, values.type), len(values))


def _hashes(values: pa.Array, column: Column, salt: str, policy: Policy) -> pa.Array:
    """The hashes of values. A value has one hash, whatever other values stand beside it.

    What is hashed is MySQL's text of the value. The fraction of a second has the digits that the message declares for
    the column. If it declares none (Open Protocol, Avro, Craft, by default Canal-JSON), the fraction has no trailing
    zeros. Release 0.1 printed the digits that the longest fraction of the batch needed: its hashes are the same if the
    digits were declared, or if no value of the batch needed more of them than this one.
    """
    texts = model_values(values, column, policy.time_zone, fractions=Fractions.OWN)
    return pa.array([hashed(text, salt) for text in texts], pa.string())


def _renumbered(absent: pa.Array, places: Mapping[int, int]) -> pa.Array:
    """The numbers of columns that old rows leave out, among those that are left."""
    if absent.null_count == len(absent):
        return absent
    numbers = [None if row is None else [places[n] for n in row if n in places] for row in absent.to_pylist()]
    return pa.array(numbers, absent.type)
