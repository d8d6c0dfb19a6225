"""How much faster than the Python kernel does the native kernel decode?

Prints, per protocol and width, CPU time per row of both kernels and the ratio of each to the yardstick measured in the
same run: the standard library's ``json.loads`` of the Canal-JSON message of that width. The limit is the native
kernel's. The inputs are those of ``bench_arrow_decode``, in batches as large as those of a sync.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from bench_arrow_decode import CASES, best, loaded, messages, registry
from tidewire.arrow import BatchDecoder, Kernel
from tidewire.arrow.kernel import native
from tidewire.codec import Options, Resources
from tidewire.errors import OptionError

COPIES = 16
"""So often the thousand messages are in a batch: a task of a sync reads 16384 at once."""

LIMITS = {
    "narrow": {
        "canal-json": 0.11,
        "open-protocol": 0.09,
        "open-protocol, 16 rows": 0.09,
        "craft, 16 rows": 0.04,
        "avro": 0.025,
        "simple-json": 0.06,
        "simple-avro": 0.03,
    },
    "wide": {
        "canal-json": 0.25,
        "open-protocol": 0.25,
        "open-protocol, 16 rows": 0.25,
        "craft, 16 rows": 0.1,
        "avro": 0.07,
        "simple-json": 0.13,
        "simple-avro": 0.08,
    },
}
"""The most a row may cost the native kernel, in yardsticks."""


def decoder(case: str, width: str, kernel: Kernel) -> BatchDecoder:
    """A decoder that knows the schemas of a case."""
    protocol, _, settings = CASES[case]
    resources = Resources(registry=registry(width))
    found = BatchDecoder(protocol, Options.parse(settings), resources, before=False, kernel=kernel)
    if protocol == "simple":
        found.decode(messages(f"{case.partition(',')[0]}-{width}.bootstrap"))
    return found


def measured(case: str, width: str) -> dict[str, Any]:
    canal = messages(f"canal-json-{width}").column("value").to_pylist()
    batch = pa.concat_batches([messages(f"{case.partition(',')[0]}-{width}{CASES[case][1]}")] * COPIES)
    fast, slow = (decoder(case, width, kernel) for kernel in (Kernel.NATIVE, Kernel.PYTHON))
    rows = sum(found.num_rows for _, found in slow.decode(batch).batches)
    yardstick, arrow = best(partial(loaded, canal), partial(fast.decode, batch), rounds=10)
    (python,) = best(partial(slow.decode, batch), rounds=2)
    each = yardstick / len(canal)
    return {
        "case": case,
        "width": width,
        "arrow_ns": arrow / rows * 1e9,
        "ratio": arrow / rows / each,
        "limit": LIMITS[width][case],
        "python_ns": python / rows * 1e9,
        "python_ratio": python / rows / each,
    }


def measure() -> list[dict[str, Any]]:
    """Each protocol and width that the native kernel reads; nothing if it is not installed."""
    try:
        protocols = native().PROTOCOLS
    except OptionError:
        return []
    return [measured(case, width) for width in LIMITS for case in CASES if case.partition(",")[0] in protocols]


def main() -> None:
    print(f"{'':24} {'width':7} {'native ns':>9} {'ratio':>6} {'limit':>6} {'python ns':>9} {'ratio':>6}")
    for found in measure():
        print(
            f"{found['case']:24} {found['width']:7} {found['arrow_ns']:9.0f} {found['ratio']:6.3f} "
            f"{found['limit']:6.3f} {found['python_ns']:9.0f} {found['python_ratio']:6.2f}"
        )


if __name__ == "__main__":
    main()
