"""Writers: one for each protocol, which turns whole columns into messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

import pyarrow as pa

from tidewire.arrow.policy import Policy
from tidewire.codec import Options, Resources
from tidewire.model import TableSchema


class Writer(Protocol):
    """Turns the rows of one table into messages of one protocol."""

    def write(self, rows: pa.RecordBatch) -> tuple[Sequence[bytes | None], Sequence[bytes | None]] | None:
        """The keys and values of the messages; ``None`` where the rows are for the codec."""
        ...


WRITERS: Mapping[str, str] = {
    "avro": "tidewire.arrow.write.avro",
    "canal-json": "tidewire.arrow.write.canal_json",
    "craft": "tidewire.arrow.write.craft",
    "open-protocol": "tidewire.arrow.write.open_protocol",
    "simple-json": "tidewire.arrow.write.simple_json",
    "simple-avro": "tidewire.arrow.write.simple_avro",
}
"""The module of each protocol's writer, loaded when first asked for; Simple has one for each of its encodings."""


def writer_for(
    protocol_name: str, table: TableSchema, options: Options, policy: Policy, resources: Resources
) -> Writer | None:
    """The writer of a protocol, if it has one."""
    name = f"simple-{options.encoding_format}" if protocol_name == "simple" else protocol_name
    module = WRITERS.get(name)
    return None if module is None else cast("Writer", import_module(module).Writer(table, options, policy, resources))
