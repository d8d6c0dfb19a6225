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

SEED11_TS: Final = 470490294711746569


def unpack(name: str, folder: Path) -> Path:
    """The folder of a dump by its name: ``odd``, or ``seed11``, whose kinds are below its ts."""
    with tarfile.open(DUMPS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name if name == "odd" else folder / name / str(SEED11_TS)
