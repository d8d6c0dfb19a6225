"""Dumps of TiDB, unpacked where a test wants them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final

DUMPS: Final = Path(__file__).parent / "dumps"

KINDS: Final = ("csv", "csv-gzip", "csv-odd", "sql", "sql-chunks", "parquet")

ODD_DIALECT: Final = {
    "csv-separator": "|+|",
    "csv-delimiter": "'",
    "csv-null-value": "NULL",
    "csv-line-terminator": "\\n",
    "escape-backslash": "false",
}
"""The options of kind ``csv-odd``, which nothing in the dump tells."""

MOMENTS: Final = {
    "seed11": (470490294711746569, 470490294811623432),
    "seed23-classic": (470490095059730437, 470490095155150854),
}
"""The watermarks at which the states of recorded topics were dumped."""

SEED11_TS: Final = MOMENTS["seed11"][0]


def unpack(name: str, folder: Path, ts: int = SEED11_TS) -> Path:
    """The folder of a dump: of ``odd``, or of a recorded topic at a ts. The kinds are below it."""
    with tarfile.open(DUMPS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name if name == "odd" else folder / name / str(ts)
