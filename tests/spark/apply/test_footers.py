"""Footers of data files, and searching by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.spark.apply import footers
from tidewire.spark.apply.find import Opened, Search
from tidewire.spark.apply.keys import Bounds, Keys
from tidewire.spark.apply.write import GROUP_ROWS, write_rows
from tidewire.spark.targets.files import DataFile, LocalAccess, StoredColumn, StoredTable

ID, NAME, VECTOR = (
    StoredColumn("id", 1, pa.int64(), "id"),
    StoredColumn("na.me", 2, pa.string(), "na.me"),
    StoredColumn("v", 3, pa.list_(pa.float32()), "v", 4),
)
ROWS = 3 * GROUP_ROWS + 5


def written(folder: Path, rows: pa.Table) -> DataFile:
    """A data file with these rows, whose key is the id."""
    table = StoredTable("x@1", (ID, NAME, VECTOR), (), LocalAccess(), str(folder), ("id",), 3)
    (file,) = write_rows(table, rows, "test")
    return DataFile(file.path, file.rows, file.stats, size=file.size)


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    """A file of several row groups; every key is there twice."""
    ids = np.arange(ROWS) // 2
    return written(tmp_path, pa.table({"id": ids, "na.me": ids.astype(str), "v": [[1.5]] * ROWS}))


def test_integers_of_the_key_are_as_they_are_and_the_rest_is_compressed(file: DataFile) -> None:
    group = pq.read_metadata(file.path).row_group(0)

    found = {group.column(place).path_in_schema: group.column(place) for place in range(3)}

    assert {path: column.compression for path, column in found.items()} == {
        "id": "UNCOMPRESSED",
        "na.me": "ZSTD",
        "v.list.element": "ZSTD",
    }
    assert found["id"].dictionary_page_offset is None
    assert group.num_rows == GROUP_ROWS


def test_a_search_opens_only_the_row_groups_that_are_hit(file: DataFile) -> None:
    keys = Keys([pa.array([1, GROUP_ROWS])])  # each group has half as many keys as rows

    with Opened(file, LocalAccess()) as opened:
        assert list(opened.runs([ID], keys, ROWS)) == [[0, 2]]
        assert opened.positions([0, 2], np.array([0, GROUP_ROWS, GROUP_ROWS + 1])).tolist() == [
            0,
            2 * GROUP_ROWS,
            2 * GROUP_ROWS + 1,
        ]
    found = Search([file], LocalAccess()).find([ID], keys)
    assert found.position.tolist() == [2, 3, 2 * GROUP_ROWS, 2 * GROUP_ROWS + 1]
    assert found.ids.tolist() == [0, 0, 1, 1]


def test_a_footer_is_read_once(file: DataFile, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys([pa.array([5])])
    first = Search([file], LocalAccess()).find([ID], keys)
    monkeypatch.setattr(footers, "_read", None)

    assert Search([file], LocalAccess()).find([ID], keys).position.tolist() == first.position.tolist()


def test_footers_are_kept_up_to_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [written(tmp_path, pa.table({"id": [number], "na.me": ["x"]})) for number in range(4)]
    kept = footers._Footers()
    sizes = [pq.read_metadata(file.path).serialized_size for file in files]
    monkeypatch.setattr(footers, "_MOST_BYTES", sum(sizes[2:]))

    for file in files:
        kept.of(file, file.path)

    assert [path for path, _ in kept._kept] == [file.path for file in files[2:]]
    assert kept._bytes == sum(sizes[2:])


INTEGERS = st.integers(-5, 5)


@given(st.lists(INTEGERS, max_size=12), st.lists(INTEGERS, min_size=1, max_size=5), st.booleans())
def test_keys_are_found_in_rows_of_any_order(rows: list[int], wanted: list[int], in_order: bool) -> None:
    rows = sorted(rows) if in_order else rows
    keys = Keys([pa.array(wanted, pa.int64())])

    places, ids = keys.find([pa.array(rows, pa.int64())])

    numbers = dict(zip(wanted, keys.ids.tolist(), strict=True))
    assert list(zip(places.tolist(), ids.tolist(), strict=True)) == [
        (place, numbers[row]) for place, row in enumerate(rows) if row in numbers
    ]


BOUND = st.none() | INTEGERS


@given(st.lists(st.tuples(BOUND, BOUND), max_size=6), st.lists(INTEGERS, min_size=1, max_size=4))
def test_bounds_of_many_row_groups_say_what_those_of_one_say(pairs: list[tuple[Any, Any]], wanted: list[int]) -> None:
    keys = Keys([pa.array(wanted, pa.int64())])
    lower, upper = (pa.array([pair[side] for pair in pairs], pa.int64()) for side in (0, 1))

    found = keys.may_be_within([Bounds(lower, upper)], len(pairs)).tolist()

    assert found == [None in pair or any(pair[0] <= key <= pair[1] for key in wanted) for pair in pairs]
