"""The work of applying, in pieces that a Spark task does, or the driver if they are small.

A piece reads staged changes of a range of keys, looks for the rows that these keys have, and writes new files. It
commits nothing: what it returns is small, and the driver commits all pieces of a step at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark import SparkContext

from tidewire.arrow.cast import cast
from tidewire.arrow.policy import Policy
from tidewire.model import Column
from tidewire.spark.apply.changes import KeyRange, Staged, field_of, key_columns, read_changes, told_column
from tidewire.spark.apply.find import Search
from tidewire.spark.apply.fold import fitting, foldable, folded_rows
from tidewire.spark.apply.layout import Batch, Edit, Mode, alike, as_stored
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.apply.rewrite import Rewrite, rewritten
from tidewire.spark.apply.write import GROUP_ROWS, sorted_rows, write_rows
from tidewire.spark.targets.files import (
    DataFile,
    FileChange,
    NewFile,
    StoredTable,
    comparable,
    dead_positions,
)
from tidewire.spark.tasks import TaskWork, run_in_tasks
from tidewire.sync.manifest import Rejected
from tidewire.sync.steps import Merge

FEW_CHANGES: Final = 20_000
"""The most changes that are applied in the driver: a Spark job alone takes longer."""

CHANGES_PER_TASK: Final = 500_000
"""The changes that a task applies, about, so that its memory is bounded whatever a pass holds."""

ROWS_PER_TASK: Final = 30_000_000
"""The rows that a task searches, about."""

BYTES_PER_TASK: Final = 512 << 20
"""The bytes of values that a task takes, about."""

_SAMPLED: Final = 16
"""Row groups of staged files from which the ranges of keys are estimated."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a piece has written, and the bitmaps of all dead positions of the files that it touched."""

    added: tuple[NewFile, ...] = ()
    dead: Mapping[str, bytes] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    changes: int = 0


@dataclass(frozen=True, slots=True)
class MergePiece:
    """Apply the changes of a step that are about keys of a range. The rows of files in ``fold`` are written again."""

    merge: Merge
    mode: Mode
    stored: StoredTable
    staged: Staged
    label: str
    fold: tuple[DataFile, ...] = ()

    def run(self) -> Written:
        """Reduce, find, write."""
        changes = read_changes(self.merge, self.staged)
        if not len(changes):
            return Written(rejected=changes.rejected)
        layout, search = LAYOUTS[self.mode], Search(self.stored.files, self.stored.access, self.stored.partition)
        edit = layout.edit(Batch(changes, self.stored, search, self.staged.keys))
        dead = {} if edit.dead is None else search.bitmaps(edit.dead)
        fold = fitting(self.fold, self.stored.access)
        edit = self._folded(edit, fold, dead)
        added = written(self.stored, edit, layout.order(self.merge.table), self.label)
        gone = tuple(file.path for file in fold)
        left = {path: bitmap for path, bitmap in dead.items() if path not in gone}
        return Written(added, left, gone, changes.rejected, len(changes))

    def _folded(self, edit: Edit, fold: Sequence[DataFile], dead: Mapping[str, bytes]) -> Edit:
        """An edit with the rows of small files that are not dead."""
        groups: list[list[pa.Table]] = [[rows] for rows in edit.rows]
        for file in fold:
            bitmap = dead.get(file.path)
            gone = dead_positions(file, self.stored.access) if bitmap is None else BitMap64.deserialize(bitmap)
            groups[LAYOUTS[self.mode].group(self.stored, file)].append(folded_rows(self.stored, file, gone))
        return edit._replace(rows=tuple(_together(self.stored, tables) for tables in groups))


def _together(stored: StoredTable, tables: Sequence[pa.Table]) -> pa.Table:
    """New rows and those of small files."""
    if len(tables) == 1:
        return tables[0]
    same = [as_stored(stored, rows) for rows in tables if rows.num_rows]
    return pa.concat_tables(same, promote_options="default") if same else tables[0]


def written(stored: StoredTable, edit: Edit, order: Sequence[str], label: str) -> tuple[NewFile, ...]:
    """Write the rows of an edit."""
    order = stored.order or order
    return tuple(
        file for rows in edit.rows if rows.num_rows for file in write_rows(stored, sorted_rows(rows, order), label)
    )


@dataclass(frozen=True, slots=True)
class RewritePiece:
    """Write a file anew."""

    stored: StoredTable
    file: DataFile
    rewrite: Rewrite
    policy: Policy
    label: str

    def run(self) -> Written:
        """Write the file anew."""
        new = rewritten(self.stored, self.file, self.rewrite, self.policy, self.label)
        return Written(() if new is None else (new,), removed=(self.file.path,))


@dataclass(frozen=True, slots=True)
class InvalidChangesPiece:
    """Look for changes that do not fit their table."""

    merge: Merge
    staged: Staged
    columns: tuple[Column, ...]

    def run(self) -> Written:
        """Read the columns in which that may be so."""
        return Written(rejected=read_changes(self.merge, self.staged, self.columns).rejected)


def run_pieces(pieces: Sequence[TaskWork[Written]], changes: int, context: SparkContext | None) -> Written:
    """Do pieces of one step, in Spark tasks or here; what they have written together."""
    if len(pieces) == 1 and (changes <= FEW_CHANGES or context is None):
        return pieces[0].run()
    if context is None:
        return joined([piece.run() for piece in pieces])
    return joined(run_in_tasks(context, pieces))


def joined(results: Sequence[Written]) -> Written:
    """What several pieces have written. A file that several of them touched has one bitmap."""
    dead: dict[str, BitMap64] = {}
    for result in results:
        for path, bitmap in result.dead.items():
            found = BitMap64.deserialize(bitmap)
            dead[path] = dead[path] | found if path in dead else found
    return Written(
        tuple(file for result in results for file in result.added),
        {path: bytes(bitmap.serialize()) for path, bitmap in dead.items()},
        tuple(path for result in results for path in result.removed),
        tuple(dict.fromkeys(each for result in results for each in result.rejected)),
        sum(result.changes for result in results),
    )


def merge_pieces(merge: Merge, mode: Mode, stored: StoredTable, staged: Staged, label: str) -> list[MergePiece]:
    """The pieces of a Merge step: one, or several ranges of its keys if there is much to do."""
    changes = sum(each.file.rows for each in merge.slices)
    searched = min(sum(file.rows for file in stored.files), changes * GROUP_ROWS)
    memory = sum(each.file.memory for each in merge.slices)
    count = max(-(-changes // CHANGES_PER_TASK), -(-searched // ROWS_PER_TASK), -(-memory // BYTES_PER_TASK))
    whole = MergePiece(merge, mode, stored, staged, label)
    if count > 1 and not key_columns(merge.table):  # a change is known by its place, so files can be read one by one
        return [replace(whole, merge=replace(merge, slices=(each,))) for each in merge.slices]
    if count <= 1:
        fold = (file for file in files_to_fold(merge, mode, stored) if file.lineage or not stored.has_lineage)
        return [replace(whole, fold=tuple(fold))]
    return [_ranged(whole, keys) for keys in _ranges(merge, staged, count)]


def _ranged(piece: MergePiece, keys: KeyRange) -> MergePiece:
    """A piece for a range of keys, with the files that may have some of them.

    In mode history rows are looked for by their time, so it needs all files.
    """
    stored, column = piece.stored, key_columns(piece.merge.table)[0]
    if piece.mode is not Mode.HISTORY:
        id_ = stored.column(column.name).id
        stored = replace(stored, files=tuple(file for file in stored.files if keys.overlaps(file.stats.get(id_))))
    return replace(piece, stored=stored, staged=replace(piece.staged, keys=keys))


def files_to_fold(merge: Merge, mode: Mode, stored: StoredTable) -> tuple[DataFile, ...]:
    """The small files whose rows are written again with the rows of a step, each group and partition for itself."""
    groups = alike(LAYOUTS[mode], stored)
    rows = sum(each.file.rows for each in merge.slices) // max(len({file.partition for file in stored.files}), 1)
    found: list[DataFile] = []
    for files in groups:
        found += foldable(files, rows, sum(file.size for file in found))
    return tuple(found)


def _ranges(merge: Merge, staged: Staged, count: int) -> list[KeyRange]:
    """Ranges of keys with about as many changes each, estimated from a sample."""
    column = key_columns(merge.table)[0]
    samples = []
    for each in merge.slices[:: max(1, len(merge.slices) // _SAMPLED)]:
        wire = told_column(merge, each.file.shape.columns, column)
        if wire is None:
            continue
        with staged.input(each.file.path) as source:
            parquet = pq.ParquetFile(source)
            if not parquet.num_row_groups:
                continue
            group = parquet.num_row_groups // 2
            rows = parquet.read_row_group(group, columns=["after", "before"], use_threads=False)
        for image in ("after", "before"):
            values = field_of(rows[image].combine_chunks(), wire)
            samples.append(comparable(cast(values, wire, column, staged.policy)[0]).drop_null())
    values = pa.concat_arrays(samples) if samples else pa.array([])
    if not len(values):
        return [KeyRange()]
    ordered = values.take(pc.sort_indices(values))
    cuts = np.linspace(0, len(ordered) - 1, count + 1)[1:-1].astype(int).tolist()
    limits = list(dict.fromkeys(ordered[cut].as_py() for cut in cuts))
    return [KeyRange(lower, upper) for lower, upper in zip([None, *limits], [*limits, None], strict=True)]


def change_of(stored: StoredTable, result: Written) -> FileChange:
    """The change of a table that pieces have prepared."""
    return FileChange(stored, result.added, result.dead, result.removed)
