"""What the wire leaves open, a declaration settles."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from tidewire.arrow import decode_batch
from tidewire.arrow.declared_types import declared
from tidewire.codec import protocol
from tidewire.model import Column, EnumValue, Index, RowChange, SetValue, TableName, TableSchema

TABLE = TableSchema.build(
    TableName("s", "t"),
    [
        Column.of("id", "int", primary_key=True),
        Column.of("price", "decimal(10,2)"),
        Column.of("state", "enum('new','paid')"),
        Column.of("tags", "set('a','b','c')"),
        Column.of("bits", "bit(10)"),
        Column.of("note", "text"),
    ],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
)


def rows(*events: RowChange) -> pa.RecordBatch:
    (message,) = protocol("open-protocol").encode(events)
    messages = pa.record_batch({"key": pa.array([message.key]), "value": pa.array([message.value])})
    ((_, batch),) = decode_batch("open-protocol", messages).batches
    return batch


def row(number: int, state: int = 2, price: str = "1.50") -> dict[str, object]:
    return {
        "id": number,
        "price": Decimal(price),
        "state": EnumValue(state),
        "tags": SetValue(5),
        "bits": 1023,
        "note": None,
    }


def test_columns_become_what_they_are_declared_to_be() -> None:
    batch = rows(RowChange(TABLE, 1, after=row(1)), RowChange(TABLE, 2, before=row(1)))  # type: ignore[arg-type]
    assert batch.schema.field("after").type.field("price").type == pa.string()

    typed, misfits = declared(batch, TABLE)

    assert misfits == {}
    expected = {"id": 1, "price": Decimal("1.50"), "state": "paid", "tags": "a,c", "bits": 1023, "note": None}
    assert typed.column("after").to_pylist() == [expected, None]
    assert typed.column("before").to_pylist() == [None, expected]
    assert typed.schema.field("after").type.field("price").type == pa.decimal128(10, 2)
    assert typed.schema.field("after").type.field("bits").type == pa.int64()


def test_a_value_beyond_its_declaration_is_named() -> None:
    batch = rows(
        RowChange(TABLE, 1, after=row(1)),  # type: ignore[arg-type]
        RowChange(TABLE, 1, after=row(2, state=3)),  # type: ignore[arg-type]
        RowChange(TABLE, 1, after=row(3, price="1.555")),  # type: ignore[arg-type]
    )

    _, misfits = declared(batch, TABLE)

    assert sorted(misfits) == [1, 2]
    assert misfits[1].startswith("column state (enum('new','paid')): 3 is beyond")
    assert misfits[2].startswith("column price (decimal(10,2))")
