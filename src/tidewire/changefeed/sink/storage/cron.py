"""When something is done by the clock: ``second minute hour day month weekday``, as in ``0 0 2 * * *``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import product

from tidewire.errors import ChangefeedError

INVALID = "CDC:ErrStorageSinkInvalidConfig"
_RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@dataclass(frozen=True, slots=True)
class Cron:
    """Moments that repeat. A field is ``*``, a number, a range ``1-5``, any of these with a step ``/2``, or a list."""

    times: tuple[time, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parse a cron expression; raises ``CDC:ErrStorageSinkInvalidConfig`` if it is not valid."""
        fields = text.split()
        try:
            seconds, minutes, hours, days, months, weekdays = (
                _numbers(field, *limits) for field, limits in zip(fields, _RANGES, strict=True)
            )
        except ValueError as error:
            raise ChangefeedError(
                INVALID, f"file-cleanup-cron-spec {text!r}: {error}; write six fields such as 0 0 2 * * *"
            ) from None
        times = tuple(time(*each) for each in product(sorted(hours), sorted(minutes), sorted(seconds)))
        return cls(times, days, months, weekdays)

    def strikes(self, after: datetime, until: datetime) -> bool:
        """Is there such a moment after one and not after another?"""
        day = after.date()
        while day <= until.date():
            if day.day in self.days and day.month in self.months and day.isoweekday() % 7 in self.weekdays:
                moments = (datetime.combine(day, moment) for moment in self.times)
                if any(after < moment <= until for moment in moments):
                    return True
            day += timedelta(days=1)
        return False


def _numbers(field: str, least: int, most: int) -> frozenset[int]:
    return frozenset(number for part in field.split(",") for number in _part(part, least, most))


def _part(part: str, least: int, most: int) -> range:
    span, _, step = part.partition("/")
    first, dash, last = span.partition("-")
    begin = least if span in ("*", "?") else int(first)
    end = most if span in ("*", "?") or (step and not dash) else int(last or first)
    if not least <= begin <= end <= most:
        raise ValueError(f"{part!r} is not between {least} and {most}")
    return range(begin, end + 1, int(step or 1))
