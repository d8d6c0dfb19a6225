"""Which published moments stay: all of the last day, then one an hour, then one a day, up to an age."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from tidewire.model.tso import physical_ms

_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)

TIERS: Final = ((_DAY, timedelta(0)), (3 * _DAY, _HOUR), (timedelta.max, _DAY))
"""Up to which age one moment stays of how much time; of each such time it is the last one."""


class Moment(NamedTuple):
    """A publication: its moment upstream, 0 where the protocol has none, its number, and its document."""

    ts: int
    sequence: int
    name: str


def kept(moments: Iterable[Moment], older_than: timedelta, least: int = 1) -> list[Moment]:
    """The moments that stay, in order.

    Ages are counted back from the newest moment, so a sync that stands still loses nothing. ``least`` of the newest
    stay however old they are. Without moments upstream there is no age, and only those stay.
    """
    ordered = sorted(moments)
    if not ordered:
        return []
    newest = [*ordered[-max(1, least) :]]
    now = physical_ms(ordered[-1].ts)
    stay: dict[tuple[timedelta, int], Moment] = {}
    for moment in ordered:
        age = timedelta(milliseconds=now - physical_ms(moment.ts))
        if moment.ts and age < older_than:
            stay[_place(moment, age)] = moment
    return sorted({*stay.values(), *newest})


def _place(moment: Moment, age: timedelta) -> tuple[timedelta, int]:
    """What a moment shares with those it is one of; of a day and of an hour by the clock."""
    every = next(every for limit, every in TIERS if age < limit)
    return every, moment.sequence if not every else physical_ms(moment.ts) // _ms(every)


def _ms(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


def dropped(moments: Sequence[Moment], stay: Iterable[Moment]) -> list[Moment]:
    """The others."""
    staying = set(stay)
    return [moment for moment in moments if moment not in staying]
