"""Row checksums: does a row still have the checksum that the database stored with it?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidewire.codec.checksum import row_checksum
from tidewire.codec.columns import emitted_columns
from tidewire.codec.options import CorruptionHandling, IntegrityCheck, Options
from tidewire.errors import ChangefeedError
from tidewire.model import Checksum, Row, RowChange

CORRUPTED = "CDC:ErrCorruptedDataMutation"

Check = Callable[[RowChange], RowChange]


def check_for(options: Options) -> Check | None:
    """The check of each row under these options; ``None`` if checksums are not checked."""
    if options.integrity_check_level is IntegrityCheck.NONE:
        return None
    return lambda change: checked(change, options)


def checked(change: RowChange, options: Options) -> RowChange:
    """The row, marked as corrupted if a checksum differs; raises ``ChangefeedError`` if such rows are refused.

    A row without a checksum passes: the encoder computes one if the protocol sends checksums.
    """
    stated = change.checksum
    if stated is None or stated.corrupted or _holds(change, stated, options.time_zone):
        return change
    if options.corruption_handle_level is CorruptionHandling.ERROR:
        raise ChangefeedError(
            CORRUPTED,
            f"a row of {change.table.name} at {change.commit_ts} does not have the checksum it was stored with",
        )
    return replace(change, checksum=replace(stated, corrupted=True))


def _holds(change: RowChange, stated: Checksum, time_zone: str) -> bool:
    pairs = ((change.after, stated.current), (change.before, stated.previous))
    try:
        return all(row is None or not sum_ or _sum(change, row, time_zone) == sum_ for row, sum_ in pairs)
    except ValueError:
        return False


def _sum(change: RowChange, row: Row, time_zone: str) -> int:
    columns = change.table.columns
    if all(column.id is not None for column in columns):
        columns = tuple(sorted(columns, key=lambda column: column.id or 0))
    return row_checksum(emitted_columns(row, columns), row, time_zone)
