"""A step's id says what it is, and is the same wherever the step is made."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from sync.scenes import SHAPE, T, shaped
from sync.upstream import column
from tidewire.ddl.column_steps import NewColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.model import TableName
from tidewire.sync.manifest import Partition, StagedFile
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, SetAside, Slice, Step, Truncate

FILE = StagedFile("staged/1", SHAPE, Partition("feed", 0), 1, 5, 9, 0, 3)
MERGE = Merge(SHAPE, (Slice(FILE, 0, 9),), 9, {"v": None})
ALTER = Alter(SHAPE, SHAPE, (NewColumn(column("n", "int"), ColumnPosition(), "7"),), 9)
STEPS: list[Step] = [
    MERGE,
    Create(SHAPE, 9),
    Drop(T, 9),
    Truncate(SHAPE, 9),
    Rename(((T, TableName("d", "u")), (TableName("d", "v"), T)), 9),
    ALTER,
    SetAside(("rejects/1",)),
]


def test_an_id_says_kind_tables_and_ts() -> None:
    assert [step.id.rpartition(":")[0] for step in STEPS] == [
        "merge:d.t:9",
        "create:d.t:9",
        "drop:d.t:9",
        "truncate:d.t:9",
        "rename:d.t,d.u+1:9",
        "alter:d.t:9",
        "set-aside:_tidewire.rejects:0",
    ]


def test_ids_differ_where_anything_differs() -> None:
    wider = replace(SHAPE, columns=(*SHAPE.columns, column("n", "int")))
    others: list[Step] = [
        replace(MERGE, table=wider),
        replace(MERGE, sources={}),
        replace(MERGE, slices=(Slice(FILE, 1, 9),)),
        replace(MERGE, slices=(Slice(replace(FILE, path="staged/2"), 0, 9),)),
        Create(shaped(TableName("d", "T")), 9),
        Create(wider, 9),
        Drop(T, 9, keep=True),
        replace(ALTER, columns=()),
        replace(ALTER, columns=(NewColumn(column("n", "int"), ColumnPosition(), b"7"),)),
    ]

    ids = [step.id for step in (*STEPS, *others)]

    assert len({*ids}) == len(ids)


def test_equal_steps_have_equal_ids_in_every_process() -> None:
    program = "from sync.test_steps import STEPS; print(*[step.id for step in STEPS], sep=chr(10))"
    paths = [path for path in sys.path if path]

    printed = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}; {program}"],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "7"},
    ).stdout

    assert printed.split() == [step.id for step in STEPS]
