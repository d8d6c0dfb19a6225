"""Which offset ranges a pass reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.errors import SyncError
from tidewire.spark.source import Extent, OffsetRange, planned_ranges
from tidewire.sync.manifest import Partition

A, B, C = (Partition("feed", number) for number in range(3))

offsets = st.integers(0, 5000)
extents = st.dictionaries(
    st.builds(Partition, st.sampled_from(["a", "b"]), st.integers(0, 4)),
    st.tuples(offsets, offsets).map(lambda pair: Extent(min(pair), max(pair))),
    max_size=8,
)


def read(ranges: list[OffsetRange]) -> dict[Partition, int]:
    counts: dict[Partition, int] = {}
    for each in ranges:
        counts[each.partition] = counts.get(each.partition, 0) + each.offsets
    return counts


@given(extents, st.data(), st.integers(1, 20000), st.integers(1, 900))
def test_ranges_go_on_without_gaps_fairly_and_within_the_limits(
    found: dict[Partition, Extent], data: st.DataObject, most: int, per_task: int
) -> None:
    known = {
        at: data.draw(st.integers(extent.first, extent.end)) for at, extent in found.items() if data.draw(st.booleans())
    }

    ranges = planned_ranges(found, known, most, per_task)

    starts = {at: known.get(at, extent.first) for at, extent in found.items()}
    wanted = {at: found[at].end - start for at, start in starts.items()}
    assert ranges == sorted(ranges, key=lambda each: (each.partition, each.start))
    for each in ranges:
        assert each.start == starts[each.partition]
        assert 0 < each.offsets <= per_task
        starts[each.partition] = each.end
    counts = read(ranges)
    assert sum(counts.values()) == min(most, sum(wanted.values()))
    assert all(counts.get(at, 0) <= count for at, count in wanted.items())
    cut = [counts.get(at, 0) for at, count in wanted.items() if counts.get(at, 0) < count]
    if cut:  # those that do not get all they have get the same, and none gets more than they do
        assert max(cut) - min(cut) <= 1
        assert max(counts.values()) <= max(cut) + 1
    assert planned_ranges(dict(reversed(found.items())), known, most, per_task) == ranges


def test_passes_one_after_another_read_everything_once() -> None:
    found = {A: Extent(3, 100), B: Extent(0, 1), C: Extent(5, 5)}
    known: dict[Partition, int] = {}
    passes = 0
    while ranges := planned_ranges(found, known, 10, 4):
        passes += 1
        for each in ranges:
            assert known.get(each.partition, found[each.partition].first) == each.start
            known[each.partition] = each.end

    assert known == {A: 100, B: 1}
    assert passes == 10


def test_a_small_partition_gets_all_it_has() -> None:
    found = {A: Extent(0, 1000), B: Extent(0, 10), C: Extent(0, 1000)}

    assert read(planned_ranges(found, {}, 110)) == {A: 50, B: 10, C: 50}


def test_a_large_range_is_split_for_several_tasks() -> None:
    assert planned_ranges({A: Extent(0, 10)}, {A: 1}, 100, 4) == [
        OffsetRange(A, 1, 4),
        OffsetRange(A, 4, 7),
        OffsetRange(A, 7, 10),
    ]


def test_messages_that_expired_unread_are_an_error_with_the_way_out() -> None:
    with pytest.raises(
        SyncError, match=r"feed\[0\]: messages from offset 4 on are gone \(the first that is left is 9\)"
    ):
        planned_ranges({A: Extent(9, 9)}, {A: 4}, 100)
    with pytest.raises(SyncError, match="empty target, and give the topic a longer retention"):
        planned_ranges({A: Extent(9, 12)}, {A: 8}, 100)

    assert planned_ranges({A: Extent(9, 9)}, {A: 9}, 100) == []
    assert planned_ranges({A: Extent(9, 9)}, {}, 100) == []


def test_a_partition_that_became_shorter_is_an_error() -> None:
    with pytest.raises(SyncError, match=r"ends at offset 5, but messages up to offset 8 were read before"):
        planned_ranges({A: Extent(0, 5)}, {A: 8}, 100)
