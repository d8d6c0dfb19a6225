"""A MySQL type is added in at most five files: the page that says so is applied, and its type sent everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "how-to" / "add-a-type.md").read_text()

USE = """
import pyarrow as pa

from tidewire import *
from tidewire.arrow import BatchDecoder, encode_batch
from tidewire.arrow.kernel import KERNEL, Kernel
from tidewire.registry import MemoryRegistry

A = "123e4567-e89b-12d3-a456-426614174000"
columns = [Column.of("id", "int", primary_key=True), Column.of("a", "uuid")]
table = TableSchema.build(TableName("s", "t"), columns, [], table_id=1, version=1)
events = [
    RowChange(table, 5, after={"id": 1, "a": A}),
    RowChange(table, 6, before={"id": 1, "a": A}, after={"id": 1, "a": None}),
]
bad = RowChange(table, 7, after={"id": 2, "a": "no uuid"})
for name in PROTOCOLS:
    codec, resources = protocol(name), Resources(registry=MemoryRegistry())
    first = [Bootstrap(table)] if name == "simple" else []
    options = Options(max_batch_size=1)
    messages = list(codec.Encoder(options, resources).encode([*first, *events, bad]))
    decoder = codec.Decoder(options, resources)
    found = [event for message in messages[:-1] for event in decoder.decode(message)][-2:]
    assert [event.after for event in found] == [event.after for event in events], name
    assert found[0].table.columns[1].base_type == "uuid", name
    batch = {
        part: pa.array([getattr(message, part) for message in messages], pa.binary()) for part in ("key", "value")
    }
    for settings in ({"fast": False}, {"kernel": Kernel.PYTHON}, {"kernel": KERNEL}):
        decoder = BatchDecoder(name, options, resources, **settings)
        decoded = decoder.decode(pa.record_batch(batch))
        assert [reject.reason for reject in decoded.rejects] == ["column a (uuid): 'no uuid' is not a UUID"], name
        rows = decoded.batches[-1]
        assert rows.after().column("a").to_pylist()[-2:] == [A, None], name
        assert encode_batch(name, rows.plan.table, rows.batch, options, resources).num_rows, name
"""


def test_the_page_adds_a_type_to_every_protocol(tmp_path: Path) -> None:
    patches = re.findall(r"^```diff\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^\d\. .*?`(arrow/\w+\.py)`", PAGE, re.MULTILINE)
    assert len(patches) + len(named) == 5
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for patch in patches:
        done = subprocess.run(
            ["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0, f"the page no longer fits the source: {done.stderr}"

    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={"PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
