"""How much memory does a batch take on its way into columns? Prints the peak as a ratio to the input's size.

The peak is Python's and Arrow's, each at its highest, with the columns that come out.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import pyarrow as pa

from bench_arrow_decode import CASES, prepared
from bench_arrow_rejects import repeated

LIMIT = 4.0


def measured(case: str) -> dict[str, Any]:
    decoder, batch = prepared(case, "narrow", fast=True)
    decoder.decode(batch)
    messages = repeated(batch)
    usual, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    tracemalloc.start()
    try:
        decoder.decode(messages)
        peak = tracemalloc.get_traced_memory()[1] + counting.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    return {
        "case": case,
        "input_mb": messages.nbytes / 1e6,
        "peak_mb": peak / 1e6,
        "ratio": peak / messages.nbytes,
        "limit": LIMIT,
    }


def measure() -> list[dict[str, Any]]:
    """Each protocol, narrow: the size of ten thousand messages, the peak, their ratio, and its limit."""
    return [measured(case) for case in CASES]


def main() -> None:
    print(f"{'':24} {'input MB':>9} {'peak MB':>8} {'ratio':>6} {'limit':>6}")
    for found in measure():
        print(
            f"{found['case']:24} {found['input_mb']:9.1f} {found['peak_mb']:8.1f} "
            f"{found['ratio']:6.2f} {found['limit']:6.2f}"
        )


if __name__ == "__main__":
    main()
