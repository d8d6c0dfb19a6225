"""How much memory does a batch take on its way into columns? Prints the peak as a ratio to the input's size."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa

from bench_arrow_decode import CASES, prepared
from bench_arrow_rejects import repeated


def main() -> None:
    print(f"{'':24} {'input MB':>9} {'peak MB':>8} {'ratio':>6}")
    for case in CASES:
        decoder, batch = prepared(case, "narrow", fast=True)
        decoder.decode(batch)
        messages = repeated(batch)
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        decoded = decoder.decode(messages)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        peak += pa.total_allocated_bytes() - before
        print(f"{case:24} {messages.nbytes / 1e6:9.1f} {peak / 1e6:8.1f} {peak / messages.nbytes:6.2f}")
        del decoded


if __name__ == "__main__":
    main()
