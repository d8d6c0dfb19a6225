"""Rows whose checksum does not hold are marked or refused; rows without one pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from changefeed.pieces import delete, insert, update
from tidewire.changefeed.integrity import check_for
from tidewire.codec import Options
from tidewire.codec.checksum import row_checksum
from tidewire.codec.options import CorruptionHandling, IntegrityCheck
from tidewire.errors import ChangefeedError
from tidewire.model import Checksum, RowChange

WARN = Options(integrity_check_level=IntegrityCheck.CORRECTNESS)
ERROR = replace(WARN, corruption_handle_level=CorruptionHandling.ERROR)


def summed(change: RowChange, by: int = 0) -> RowChange:
    sums = [
        0 if row is None else row_checksum(change.table.columns, row, "UTC") for row in (change.after, change.before)
    ]
    return replace(change, checksum=Checksum(current=sums[0] and sums[0] + by, previous=sums[1] and sums[1] + by))


@pytest.mark.parametrize("change", [insert(1, 10), update(1, 1, 10), delete(1, 10)])
def test_a_checksum_holds_or_the_row_is_marked_or_refused(change: RowChange) -> None:
    warn, error = check_for(WARN), check_for(ERROR)
    assert warn is not None
    assert error is not None
    good, bad = summed(change), summed(change, by=1)

    assert warn(good) is good
    assert error(good) is good
    marked = warn(bad).checksum
    assert marked is not None
    assert marked.corrupted
    with pytest.raises(ChangefeedError) as refusal:
        error(bad)
    assert refusal.value.code == "CDC:ErrCorruptedDataMutation"


def test_rows_without_a_checksum_pass_and_without_the_option_nothing_is_looked_at() -> None:
    check = check_for(ERROR)
    assert check is not None

    assert check(insert(1, 10)) == insert(1, 10)
    assert check_for(Options()) is None
