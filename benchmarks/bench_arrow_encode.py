"""How fast do typed Arrow columns become messages?

Prints, per protocol and width, CPU time per row of ``encode_batch`` and its ratio to decoding the same rows, measured
in the same run, and checks that the bytes are those of the readable codec.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from bench_arrow_decode import CASES, best, prepared
from tidewire.arrow import encode_batch
from tidewire.codec import Options, Resources
from tidewire.registry import MemoryRegistry

LIMIT = 2.0
BATCHED = {"": 1, "-batch16": 16}


def resources() -> Resources:
    return Resources(registry=MemoryRegistry(), clock=lambda: 0)


def measured(case: str, width: str) -> dict[str, Any]:
    protocol, suffix, settings = CASES[case]
    options = Options.parse({**settings, "max-batch-size": BATCHED[suffix]})
    decoder, messages = prepared(case, width, fast=True)
    ((plan, rows),) = decoder.decode(messages).batches
    fast, slow = (encode_batch(protocol, plan.table, rows, options, resources(), fast=way) for way in (True, False))
    encode, decode = best(
        partial(encode_batch, protocol, plan.table, rows, options, resources()),
        partial(decoder.decode, messages),
    )
    return {
        "case": case,
        "width": width,
        "encode_ns": encode / rows.num_rows * 1e9,
        "decode_ns": decode / rows.num_rows * 1e9,
        "ratio": encode / decode,
        "limit": LIMIT,
        "equal": pa.Table.from_batches([fast]).equals(pa.Table.from_batches([slow])),
    }


def measure() -> list[dict[str, Any]]:
    """Each protocol and width: nanoseconds a row, the ratio to decoding and its limit, and are the bytes equal?"""
    return [measured(case, width) for width in ("narrow", "wide") for case in CASES]


def main() -> None:
    print(f"{'':24} {'width':7} {'encode ns':>9} {'decode ns':>9} {'ratio':>6} {'limit':>6}  bytes")
    for found in measure():
        print(
            f"{found['case']:24} {found['width']:7} {found['encode_ns']:9.0f} {found['decode_ns']:9.0f} "
            f"{found['ratio']:6.2f} {found['limit']:6.2f}  {'equal' if found['equal'] else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
