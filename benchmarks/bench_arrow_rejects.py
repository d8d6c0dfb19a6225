"""What do bad messages cost? One in a hundred of a batch of ten thousand is broken, in ten ways.

Prints the CPU time of the batch with them, as a ratio to the same batch without, and checks that exactly the broken
ones are rejected.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from bench_arrow_decode import CASES, best, prepared

ROWS = 10_000
WAYS = (
    lambda value: b"\0",
    lambda value: value[:-1],
    lambda value: value[: len(value) // 2],
    lambda value: b"\0" + value,
    lambda value: value + b"x",
    lambda value: b"not a message",
    lambda value: b"{}",
    lambda value: b"[" * 200,
    lambda value: bytes(len(value)),
    lambda value: value[::-1],
)


def repeated(batch: pa.RecordBatch) -> pa.RecordBatch:
    times = -(-ROWS // batch.num_rows)
    return pa.Table.from_batches([batch] * times).slice(0, ROWS).combine_chunks().to_batches()[0]


def spoiled(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
    values = batch.column("value").to_pylist()
    bad = list(range(50, len(values), 100))
    for number, row in enumerate(bad):
        values[row] = WAYS[number % len(WAYS)](values[row])
    return pa.record_batch({"key": batch.column("key"), "value": pa.array(values, pa.binary())}), bad


def main() -> None:
    print(f"{'':24} {'clean ms':>9} {'1 % bad ms':>11} {'ratio':>6}  rejected")
    for case in CASES:
        decoder, batch = prepared(case, "narrow", fast=True)
        clean = repeated(batch)
        dirty, bad = spoiled(clean)
        found = [reject.pos for reject in decoder.decode(dirty).rejects]
        times = best(partial(decoder.decode, clean), partial(decoder.decode, dirty), rounds=5)
        verdict = "exactly those" if found == bad else f"{len(found)} of {len(bad)}"
        print(f"{case:24} {times[0] * 1e3:9.0f} {times[1] * 1e3:11.0f} {times[1] / times[0]:6.2f}  {verdict}")


if __name__ == "__main__":
    main()
