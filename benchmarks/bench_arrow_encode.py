"""How much faster than the readable codec does the native kernel encode?

A topic in Simple-JSON is decoded into typed columns, which become messages of each encoding, as if the topic was
transcoded. Prints, per encoding and width, CPU time per row of the native kernel and of the readable codec, and how
many times faster the kernel is, with the least that it may be. The bytes of both are compared.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pyarrow as pa

from bench_arrow_decode import CASES, best, prepared
from tidewire.arrow import encode_batch
from tidewire.arrow.kernel import KERNEL, Kernel
from tidewire.arrow.plan import Plan
from tidewire.codec import Options, Resources
from tidewire.registry import MemoryRegistry

LEAST = 10.0
COPIES = 16
"""So often the topic's thousand rows are in the kernel's batch; the codec writes them once."""

SETTINGS = {"": {"max-batch-size": "1"}, "-batch16": {"max-batch-size": "16"}}


@cache
def topic(width: str) -> tuple[Plan, pa.RecordBatch]:
    """The rows of a topic, and of which table they are."""
    decoder, messages = prepared("simple-json", width, fast=True)
    ((plan, rows),) = decoder.decode(messages).batches
    return plan, rows


def measured(case: str, width: str) -> dict[str, Any]:
    protocol, suffix, settings = CASES[case]
    (plan, rows), options = topic(width), Options.parse({**settings, **SETTINGS[suffix]})
    many = pa.Table.from_batches([rows] * COPIES).combine_chunks().to_batches()[0]
    resources = Resources(registry=MemoryRegistry(), clock=lambda: 0)
    fast, slow = (partial(encode_batch, protocol, plan.table, fast=way) for way in (True, False))
    (encode,) = best(partial(fast, many, options, resources), rounds=10)
    (codec,) = best(partial(slow, rows, options, resources), rounds=2)
    return {
        "case": case,
        "width": width,
        "encode_ns": encode / many.num_rows * 1e9,
        "codec_ns": codec / rows.num_rows * 1e9,
        "ratio": codec / rows.num_rows / (encode / many.num_rows),
        "least": LEAST,
        "equal": fast(rows, options, resources).equals(slow(rows, options, resources)),
    }


def measure() -> list[dict[str, Any]]:
    """Each encoding and width; nothing if the native kernel is not installed."""
    if KERNEL is not Kernel.NATIVE:
        return []
    return [measured(case, width) for width in ("narrow", "wide") for case in CASES]


def main() -> None:
    print(f"{'':24} {'width':7} {'native ns':>9} {'codec ns':>9} {'times':>6} {'least':>6}  bytes")
    for found in measure():
        print(
            f"{found['case']:24} {found['width']:7} {found['encode_ns']:9.0f} {found['codec_ns']:9.0f} "
            f"{found['ratio']:6.1f} {found['least']:6.1f}  {'equal' if found['equal'] else 'DIFFERENT'}"
        )


if __name__ == "__main__":
    main()
