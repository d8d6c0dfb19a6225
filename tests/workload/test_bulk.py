"""Many changes in columns lead to the table they say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidewire.arrow import BatchDecoder, OpCode
from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.errors import OptionError
from tidewire.model import Message, Watermark
from tidewire.registry import MemoryRegistry
from tidewire.workload.bulk import Bulk
from tidewire.workload.delivery import Delivery


def applied(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for batch in batches:
        for change in batch.to_pylist():
            if change["_op"] == OpCode.DELETE:
                assert rows.pop(change["before"]["id"]) == change["before"]
            else:
                assert rows.get(change["after"]["id"]) == change["before"]
                rows[change["after"]["id"]] = change["after"]
    return [rows[key] for key in sorted(rows)]


@pytest.mark.parametrize("columns", [2, 6, 20])
def test_changes_lead_to_the_end(columns: int) -> None:
    bulk = Bulk(3, rows=3000, columns=columns)

    batches = list(bulk.changes(700))

    assert applied(batches) == bulk.end().to_pylist()
    assert bulk.end().num_columns == columns


def test_proportions_are_sixty_thirty_ten() -> None:
    ops = pa.concat_arrays([batch.column("_op") for batch in Bulk(1, rows=20_000).changes()]).to_pylist()

    assert ops.count(OpCode.INSERT) / len(ops) == pytest.approx(0.6, abs=0.02)
    assert ops.count(OpCode.UPDATE) / len(ops) == pytest.approx(0.3, abs=0.02)


def test_the_size_of_a_piece_changes_nothing() -> None:
    one, other = (pa.Table.from_batches(Bulk(1, rows=1000).changes(size)) for size in (100, 1000))

    assert one.drop(["_pos"]).equals(other.drop(["_pos"]))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_brings_the_rows_to_their_partitions(name: str) -> None:
    registry = MemoryRegistry()
    options = Options.parse({"enable-tidb-extension": "true"})
    bulk = Bulk(2, rows=400)
    delivery = Delivery(name, options, partitions=2)
    decoder = BatchDecoder(name, options, Resources(registry=registry))
    found: dict[int, list[int]] = {0: [], 1: []}

    for part in bulk.parts(delivery, Resources(registry=registry), size=100):
        for _, batch in decoder.decode(part.messages).batches:
            for change in batch.to_pylist():
                found[part.partition].append((change["after"] or change["before"])["id"])

    assert sorted(found[0] + found[1]) == sorted(
        (change["after"] or change["before"])["id"] for batch in bulk.changes() for change in batch.to_pylist()
    )
    assert {key % 2 for key in found[0]} == {0}
    assert {key % 2 for key in found[1]} == {1}


def test_each_piece_ends_with_a_watermark() -> None:
    options = Options.parse({"enable-tidb-extension": "true"})
    parts = list(Bulk(2, rows=300).parts(Delivery("canal-json", options, partitions=2), size=100))
    decoder = protocol("canal-json").Decoder(options)

    last = [Message(None, part.messages.column("value")[-1].as_py()) for part in parts[1:]]
    marks = [event.ts for message in last for event in decoder.decode(message) if isinstance(event, Watermark)]

    assert len(marks) == 6
    assert marks == sorted(marks)
    assert {part.partition for part in parts[:1]} == {0}


def test_a_table_of_a_key_only_is_refused() -> None:
    with pytest.raises(OptionError):
        Bulk(columns=1)
