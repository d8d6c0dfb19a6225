"""What becomes of values where MySQL and Arrow differ, as the caller wishes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from tidewire.arrow.types import arrow_type
from tidewire.errors import OptionError
from tidewire.model import Column, MySQLType
from tidewire.model.types import TEMPORAL

_DATED: Final = TEMPORAL - {MySQLType.TIME}


class ZeroDates(StrEnum):
    """What becomes of dates that the calendar does not have, such as ``0000-00-00``."""

    NULL = "null"
    REJECT = "reject"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Policy:
    """How values are read where MySQL and Arrow differ.

    ``time_zone`` is the TiCDC server's, in which TIMESTAMP values are. ``zero_dates`` makes dates that the calendar
    does not have NULL, rejects their messages, or keeps all columns with dates as MySQL's text. ``lost_floats`` makes a
    FLOAT that no FLOAT column can hold NULL instead of rejecting its message: servers since v8.2 write such values in
    Craft. ``counts`` says how often a value became NULL because a policy said so.
    """

    time_zone: str = "UTC"
    zero_dates: ZeroDates = ZeroDates.NULL
    lost_floats: bool = False
    counts: dict[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise OptionError("time-zone", f"{self.time_zone!r} is not a time zone") from error

    def keeps_text(self, column: Column) -> bool:
        """Do the dates of this column stay text?"""
        return self.zero_dates is ZeroDates.TEXT and column.type in _DATED

    def nulls_zeros(self, column: Column) -> bool:
        """Do this column's dates become NULL if the calendar does not have them?"""
        return self.nulls_dates and column.type in _DATED

    @property
    def nulls_dates(self) -> bool:
        """Do dates become NULL if the calendar does not have them?"""
        return self.zero_dates is ZeroDates.NULL

    def type_of(self, column: Column) -> pa.DataType:
        """The type of a column's values in Arrow."""
        return pa.string() if self.keeps_text(column) else arrow_type(column)

    def count(self, what: str, times: int) -> None:
        """Add to the count of a kind of value."""
        self.counts[what] = self.counts.get(what, 0) + times
