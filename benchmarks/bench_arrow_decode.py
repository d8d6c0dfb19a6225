"""How fast do messages become typed Arrow columns?

Prints, per protocol and width, CPU time per row of ``tidewire.arrow`` with the Python kernel and of the readable codec,
and the ratio of each to the yardstick measured in the same run: the standard library's ``json.loads`` of the
Canal-JSON message of that width. The limit stands next to the ratio it is for. The inputs are about a thousand inserts
of 6 and of 31 columns, made by TiCDC's own encoders.
"""

from __future__ import annotations

import base64
import json
import lzma
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidewire.arrow import BatchDecoder, Kernel
from tidewire.codec import Options, Resources
from tidewire.registry import MemoryRegistry

DATA = Path(__file__).parent / "data"
ROUNDS = 15
CODEC_ROUNDS = 2
CASES = {
    "canal-json": ("canal-json", "", {}),
    "open-protocol": ("open-protocol", "", {}),
    "open-protocol, 16 rows": ("open-protocol", "-batch16", {}),
    "craft, 16 rows": ("craft", "-batch16", {}),
    "avro": ("avro", "", {}),
    "simple-json": ("simple", "", {}),
    "simple-avro": ("simple", "", {"encoding-format": "avro"}),
}
LIMITS = {
    "narrow": {
        "canal-json": 0.65,
        "open-protocol": 0.8,
        "open-protocol, 16 rows": 0.8,
        "craft, 16 rows": 1.0,
        "avro": 1.0,
        "simple-json": 0.6,
        "simple-avro": 2.5,
    },
    "wide": {
        "canal-json": 1.2,
        "open-protocol": 2.2,
        "open-protocol, 16 rows": 2.2,
        "craft, 16 rows": 1.2,
        "avro": 1.0,
        "simple-json": 1.2,
        "simple-avro": 3.0,
    },
}
"""The most a row may cost, in yardsticks."""


def read(name: str) -> str:
    with lzma.open(DATA / f"{name}.xz", "rt", encoding="utf-8") as text:
        return text.read()


def decoded(data: str | None) -> bytes | None:
    return None if data is None else base64.b64decode(data)


def messages(name: str) -> pa.RecordBatch:
    lines = [json.loads(line) for line in read(f"{name}.jsonl").splitlines()]
    return pa.record_batch(
        {part: pa.array([decoded(line[part]) for line in lines], pa.binary()) for part in ("key", "value")}
    )


def registry(width: str) -> MemoryRegistry:
    schemas = json.loads(read(f"avro-{width}.schemas.json"))
    return MemoryRegistry({int(number): text for number, text in schemas.get("schemas", schemas).items()})


def best(*works: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """The least CPU time of each work in seconds, in rounds that do all of them, so that noise hits all alike."""
    times = [[cpu_time(work) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def cpu_time(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def prepared(case: str, width: str, *, fast: bool) -> tuple[BatchDecoder, pa.RecordBatch]:
    protocol, suffix, settings = CASES[case]
    file = case.partition(",")[0]
    decoder = BatchDecoder(
        protocol,
        Options.parse(settings),
        Resources(registry=registry(width)),
        before=False,
        fast=fast,
        kernel=Kernel.PYTHON,
    )
    if protocol == "simple":
        decoder.decode(messages(f"{file}-{width}.bootstrap"))
    return decoder, messages(f"{file}-{width}{suffix}")


def loaded(values: list[bytes]) -> list[Any]:
    return [json.loads(value) for value in values]


def measured(case: str, width: str) -> dict[str, Any]:
    canal = messages(f"canal-json-{width}").column("value").to_pylist()
    (decoder, batch), (codec, _) = (prepared(case, width, fast=fast) for fast in (True, False))
    rows = sum(found.num_rows for _, found in decoder.decode(batch).batches)
    yardstick, arrow = best(partial(loaded, canal), partial(decoder.decode, batch))
    (readable,) = best(partial(codec.decode, batch), rounds=CODEC_ROUNDS)
    each = yardstick / len(canal)
    return {
        "case": case,
        "width": width,
        "arrow_ns": arrow / rows * 1e9,
        "ratio": arrow / rows / each,
        "limit": LIMITS[width][case],
        "codec_ns": readable / rows * 1e9,
        "codec_ratio": readable / rows / each,
    }


def measure() -> list[dict[str, Any]]:
    """Each protocol and width: nanoseconds a row, the ratio to the yardstick, and its limit."""
    return [measured(case, width) for width in LIMITS for case in CASES]


def main() -> None:
    print(f"{'':24} {'width':7} {'arrow ns':>9} {'ratio':>6} {'limit':>6} {'codec ns':>9} {'ratio':>6}")
    for found in measure():
        print(
            f"{found['case']:24} {found['width']:7} {found['arrow_ns']:9.0f} {found['ratio']:6.2f} "
            f"{found['limit']:6.2f} {found['codec_ns']:9.0f} {found['codec_ratio']:6.2f}"
        )


if __name__ == "__main__":
    main()
