"""Small files of a table, written anew together with the rows that a pass adds.

Every pass adds a small file. Once there are some of about the same size, the next pass takes their rows into its own
file, in the same commit. So a table has few small files whatever its passes hold, and each row is written again only a
few times until maintenance makes large files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tidewire.spark.apply.find import Opened, Wanted, live_rows
from tidewire.spark.targets.files import LINEAGE, DataFile, FileAccess, StoredColumn, StoredTable

FILES: Final = 8
"""The number of files of about the same size that become one."""

_MOST_ROWS: Final = 250_000
_MOST_BYTES: Final = 32 << 20
"""The most rows, and the most bytes in files, that are folded at once. The rest is left to maintenance."""

_MOST_MEMORY: Final = 128 << 20
"""Rows of long values can be small in files and large in memory."""


def foldable(files: Sequence[DataFile], rows: int, taken: int = 0) -> tuple[DataFile, ...]:
    """The files whose rows go into the file of ``rows`` more, if so many bytes of other files are ``taken``.

    Files of about the same size as those rows are taken, if there are enough of them. What they make together may be
    as large as other files, which then are taken too.
    """
    left = sorted((file for file in files if file.rows <= 4 * _MOST_ROWS), key=lambda file: file.live)
    chosen: list[DataFile] = []
    size, room = max(rows, 1), _MOST_BYTES - taken
    while True:
        alike = [file for file in left if file.live < FILES * size]
        room -= sum(file.size for file in alike)
        if len(alike) < FILES - 1 or size + sum(file.live for file in alike) > _MOST_ROWS or room < 0:
            break
        chosen += alike
        left = left[len(alike) :]
        size += sum(file.live for file in alike)
    return tuple(chosen)


def fitting(files: Sequence[DataFile], access: FileAccess) -> tuple[DataFile, ...]:
    """The first of some files, as many as can be in memory together; none if that is fewer than two."""
    room, found = _MOST_MEMORY, []
    for file in files:
        with Opened(file, access) as opened:
            room -= opened.memory
        if room < 0:
            break
        found.append(file)
    return tuple(found) if len(found) > 1 else ()


def folded_rows(table: StoredTable, file: DataFile, dead: BitMap64) -> pa.Table:
    """The rows of a file that are not dead."""
    parts = list(kept_rows(table, file, dead))
    return pa.concat_tables(parts) if parts else pa.table({})


def kept_rows(
    table: StoredTable,
    file: DataFile,
    dead: BitMap64,
    key: Sequence[StoredColumn] = (),
    wanted: Wanted = lambda _: True,
) -> Iterator[pa.Table]:
    """The rows of a file that are not dead, row group by row group. In a format with row lineage they keep their ids.

    ``wanted`` chooses row groups by the statistics of the ``key`` columns.
    """
    columns = (*table.columns, *(LINEAGE if table.has_lineage else ()))
    for positions, rows in live_rows(file, table.access, columns, dead, key, wanted):
        if table.has_lineage:
            assert file.lineage is not None
            first_row, sequence = file.lineage
            ids, numbers = (rows[column.name] for column in LINEAGE)
            rows = rows.drop_columns([column.name for column in LINEAGE])
            rows = rows.append_column(LINEAGE[0].name, pc.coalesce(ids, pa.array(positions + first_row)))
            rows = rows.append_column(LINEAGE[1].name, pc.fill_null(numbers, sequence))
        yield rows
