"""What do bad messages cost? One in a hundred of a batch of ten thousand is broken, or holds a bad value.

Prints, per protocol and kind of bad, the CPU time of the batch as a ratio to the same batch without, and whether
exactly the bad ones are rejected. Where a message has sixteen rows, a sixteenth of the messages makes the batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from bench_arrow_decode import CASES, best, prepared

MESSAGES = 10_000
LIMIT = 1.3
ROUNDS = 15

Spoil = Callable[[bytes], bytes]


def replaced(pattern: bytes, text: bytes) -> Spoil:
    """Puts something else of the same size in, so that lengths in the message stay right."""
    return lambda value: re.sub(pattern, text, value, count=1)


KINDS: Mapping[str, Spoil] = {
    "one byte": lambda value: b"\0",
    "end missing": lambda value: value[:-1],
    "half missing": lambda value: value[: len(value) // 2],
    "a byte before": lambda value: b"\0" + value,
    "a byte behind": lambda value: value + b"x",
    "some text": lambda value: b"not a message",
    "empty object": lambda value: b"{}",
    "deep nesting": lambda value: b"[" * 200,
    "zeros": lambda value: bytes(len(value)),
    "backwards": lambda value: value[::-1],
    "bad DATETIME": replaced(rb"(\d\d-\d\d) \d\d(:\d\d:\d\d)", rb"\1 99\2"),
    "bad DECIMAL": replaced(rb"(\d)\.(\d\d)", rb"\1x\2"),
    "bad INT": replaced(rb'("user_id":")\d', rb"\1x"),
    "bad UTF-8": replaced(rb"user-", b"\xffser-"),
}
"""A kind that leaves a protocol's messages as they are is not measured there."""


def repeated(batch: pa.RecordBatch, count: int = MESSAGES) -> pa.RecordBatch:
    times = -(-count // batch.num_rows)
    return pa.Table.from_batches([batch] * times).slice(0, count).combine_chunks().to_batches()[0]


def spoiled(batch: pa.RecordBatch, spoil: Spoil) -> tuple[pa.RecordBatch, list[int]]:
    values = batch.column("value").to_pylist()
    bad = list(range(50, len(values), 100))
    for row in bad:
        values[row] = spoil(values[row])
    return pa.record_batch({"key": batch.column("key"), "value": pa.array(values, pa.binary())}), bad


def measured(case: str) -> list[dict[str, Any]]:
    decoder, batch = prepared(case, "narrow", fast=True)
    clean = repeated(batch, MESSAGES // 16 if "16" in case else MESSAGES)
    dirty = {kind: spoiled(clean, spoil) for kind, spoil in KINDS.items()}
    dirty = {kind: found for kind, found in dirty.items() if not found[0].equals(clean)}
    took, *times = best(
        partial(decoder.decode, clean), *(partial(decoder.decode, found) for found, _ in dirty.values()), rounds=ROUNDS
    )
    return [
        {
            "case": case,
            "kind": kind,
            "clean_ms": took * 1e3,
            "bad_ms": seconds * 1e3,
            "ratio": seconds / took,
            "limit": LIMIT,
            "exact": [reject.pos for reject in decoder.decode(found).rejects] == bad,
        }
        for (kind, (found, bad)), seconds in zip(dirty.items(), times, strict=True)
    ]


def measure() -> list[dict[str, Any]]:
    """Each protocol and kind of bad: the times, their ratio and its limit, and were exactly the bad ones rejected?"""
    return [found for case in CASES for found in measured(case)]


def main() -> None:
    print(f"{'':24} {'kind':14} {'clean ms':>9} {'1 % bad ms':>11} {'ratio':>6} {'limit':>6}  rejected")
    for found in measure():
        print(
            f"{found['case']:24} {found['kind']:14} {found['clean_ms']:9.0f} {found['bad_ms']:11.0f} "
            f"{found['ratio']:6.2f} {found['limit']:6.2f}  {'exactly those' if found['exact'] else 'OTHERS'}"
        )


if __name__ == "__main__":
    main()
