"""Checks that the native kernel and the readable codec write the same messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidewire.arrow import encode_batch
from tidewire.codec import PROTOCOLS, Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import TidewireError
from tidewire.model import TableSchema
from tidewire.registry import MemoryRegistry

ENCODINGS = {
    **{name: (name, Options()) for name in PROTOCOLS if name != "simple"},
    **{f"simple-{form}": ("simple", Options.parse({"encoding-format": form})) for form in ("json", "avro")},
}
"""Every encoding: its protocol, and the options that choose it."""

_CHOICES: dict[str, tuple[Any, ...]] = {
    "enable_tidb_extension": (False, True),
    "max_batch_size": (1, 3, 16),
    "max_batched_bytes": (None, 600),
    "max_message_bytes": (10 << 20, 10 << 20, 400),
    "output_old_value": (True, False),
    "delete_only_output_handle_key_columns": (False, True),
    "content_compatible": (False, False, True),
    "output_row_key": (False, True),
    "avro_include_before_value": (False, True),
    "avro_enable_watermark": (False, True),
    "avro_decimal_handling_mode": ("precise", "string"),
    "avro_bigint_unsigned_handling_mode": ("long", "string"),
    "time_zone": ("UTC", "America/New_York"),
}


def any_options(chance: random.Random, options: Options) -> Options:
    """These options with others beside them by chance."""
    chosen: dict[str, Any] = {name: chance.choice(values) for name, values in _CHOICES.items()}
    return replace(options, **chosen)


def outcome(name: str, table: TableSchema, rows: pa.RecordBatch, options: Options, *, fast: bool) -> object:
    """The messages, or how their making failed."""
    resources = Resources(MemoryStore({}), MemoryRegistry(), clock=lambda: 7, file_name=lambda: "part.json")
    try:
        return encode_batch(name, table, rows, options, resources, fast=fast).to_pylist()
    except (TidewireError, ValueError, KeyError, ArithmeticError) as error:
        return type(error), str(error)


def differences(table: TableSchema, rows: pa.RecordBatch, chance: random.Random) -> Iterator[str]:
    """The encodings, with their options, in which the kernel and the codec write other messages."""
    for encoding, (name, options) in ENCODINGS.items():
        chosen = any_options(chance, options)
        fast, slow = (outcome(name, table, rows, chosen, fast=way) for way in (True, False))
        if fast != slow:
            yield f"{encoding} of {table.name} with {chosen}"
