"""Columns become messages that hold the same columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import WORDS, row_changes, tables
from tidewire.arrow import BatchDecoder, Policy, encode_batch
from tidewire.arrow.convert import value_reader
from tidewire.arrow.plan import BufferedRow, OpCode, Plan
from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.model import Bootstrap, RowChange
from tidewire.registry import MemoryRegistry

OPTIONS = Options(enable_tidb_extension=True, avro_enable_watermark=True, avro_include_before_value=True)
OPS = {"insert": OpCode.INSERT, "update": OpCode.UPDATE, "delete": OpCode.DELETE}


@pytest.mark.parametrize("name", PROTOCOLS)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(name: str, data: st.DataObject) -> None:
    table = data.draw(tables(WORDS))
    events = [
        replace(event, partitioned=False, table_id=1)
        for event in data.draw(st.lists(row_changes(table), min_size=1, max_size=5))
    ]
    policy = Policy()
    plan = Plan(table[0], value_reader, policy)
    rows, misfits = plan.batch(gathered(events))
    if misfits or policy.counts:
        return  # dates that the calendar does not have are lost on the way in
    resources = Resources(registry=MemoryRegistry())

    messages = encode_batch(name, table[0], rows, OPTIONS, resources)

    decoder = BatchDecoder(name, OPTIONS, resources)
    if name == "simple":
        decoder.decode(as_batch(name, table[0], resources))
    decoded = decoder.decode(messages)
    assert decoded.rejects == []
    assert sum(batch.num_rows for _, batch in decoded.batches) == len(events)
    again = [row for _, batch in decoded.batches for row in batch.select(["_op", "_commit_ts"]).to_pylist()]
    assert sorted(again, key=str) == sorted(rows.select(["_op", "_commit_ts"]).to_pylist(), key=str)


def gathered(events: list[RowChange]) -> list[BufferedRow]:
    return [
        (pos, 0, OPS[event.op], event.commit_ts, event.partition_id, False, event.after, event.before)
        for pos, event in enumerate(events)
    ]


def as_batch(name: str, table: object, resources: Resources) -> pa.RecordBatch:
    (message,) = protocol(name).Encoder(OPTIONS, resources).encode([Bootstrap(table)])  # type: ignore[arg-type]
    return pa.record_batch(
        {"key": pa.array([message.key], pa.binary()), "value": pa.array([message.value], pa.binary())}
    )
