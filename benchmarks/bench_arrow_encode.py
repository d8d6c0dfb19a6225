"""How fast do typed Arrow columns become messages?

Prints, per protocol and width, CPU time per row of ``encode_batch`` and its ratio to decoding the same rows, measured
in the same run, and checks that the bytes are those of the readable codec.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from bench_arrow_decode import CASES, best, prepared
from tidewire.arrow import encode_batch
from tidewire.codec import Options, Resources
from tidewire.registry import MemoryRegistry

BATCHED = {"": 1, "-batch16": 16}


def resources() -> Resources:
    return Resources(registry=MemoryRegistry(), clock=lambda: 0)


def main() -> None:
    print(f"{'':24} {'width':7} {'encode ns':>9} {'decode ns':>9} {'ratio':>6}  bytes")
    for width in ("narrow", "wide"):
        for case, (protocol, suffix, settings) in CASES.items():
            options = Options.parse({**settings, "max-batch-size": BATCHED[suffix]})
            decoder, messages = prepared(case, width, fast=True)
            ((plan, rows),) = decoder.decode(messages).batches
            fast, slow = (
                encode_batch(protocol, plan.table, rows, options, resources(), fast=way) for way in (True, False)
            )
            encode, decode = best(
                partial(encode_batch, protocol, plan.table, rows, options, resources()),
                partial(decoder.decode, messages),
            )
            encode, decode = encode / rows.num_rows, decode / rows.num_rows
            same = "equal" if pa.Table.from_batches([fast]).equals(pa.Table.from_batches([slow])) else "DIFFERENT"
            print(f"{case:24} {width:7} {encode * 1e9:9.0f} {decode * 1e9:9.0f} {encode / decode:6.2f}  {same}")


if __name__ == "__main__":
    main()
