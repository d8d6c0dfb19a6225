"""What changes say about keys: which change is the last one of a key, and where a row's values come from."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidewire.spark.apply.changes import EVERYTHING, Changes, KeyRange
from tidewire.spark.apply.keys import Keys, Numbers


class Effects(NamedTuple):
    """What changes say about keys, in order of key and rank: of two at one ts an upsert wins over a delete.

    ``record`` is the number of the change whose row a key has, -1 if the row left the key.
    """

    keys: Keys
    ids: Numbers
    ts: Numbers
    live: Numbers
    offset: Numbers
    sub: Numbers
    record: Numbers

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, chosen: Numbers) -> Effects:
        """Some of the effects."""
        return Effects(self.keys, *(column[chosen] for column in self[1:]))

    @property
    def is_last(self) -> Numbers:
        """Is it the last one of its key?"""
        return ends_of(self.ids)


def effects_of(changes: Changes, keys: KeyRange = EVERYTHING) -> Effects:
    """What changes say about keys within a range."""
    count, moved = len(changes), changes.moved
    columns = [
        pa.chunked_array([*told.chunks, *left.chunks], told.type)
        for told, left in zip(changes.key, changes.left_key, strict=True)
    ]
    record = np.concatenate([np.arange(count), np.full(len(moved), -1)])
    from_ = np.concatenate([np.arange(count), moved])
    live = np.concatenate([changes.live, np.zeros(len(moved), bool)])
    if keys != EVERYTHING:
        inside = keys.has(columns[0].combine_chunks())
        columns = [column.filter(pa.array(inside)) for column in columns]
        record, from_, live = record[inside], from_[inside], live[inside]
    found = Keys(columns)
    ts, offset, sub = (numbers[from_] for numbers in (changes.ts, changes.offset, changes.sub))
    order = np.lexsort((sub, offset, live, ts, found.ids))
    return Effects(found, *(column[order] for column in (found.ids, ts, live, offset, sub, record)))


def starts_of(*columns: Numbers) -> Numbers:
    """Does a row differ from the one before it?"""
    found = np.ones(len(columns[0]), bool)
    if len(found):
        found[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return found


def ends_of(*columns: Numbers) -> Numbers:
    """Does a row differ from the one after it?"""
    found = np.ones(len(columns[0]), bool)
    if len(found):
        found[:-1] = starts_of(*columns)[1:]
    return found


DEFAULT: Final = -1
STORED: Final = -2


def sources_of(effects: Effects, told: Numbers) -> Numbers:
    """Which change has the value of a column that some changes do not tell, for each effect.

    It is the change itself, or the key's last change before it that tells the column, so that the result does not
    depend on where passes end. ``STORED`` if only the stored row can tell, ``DEFAULT`` if the key was deleted before.
    """
    places = np.arange(len(effects))
    lives = np.cumsum(~effects.live)
    first = np.maximum.accumulate(np.where(starts_of(effects.ids), places, 0))
    before = np.where(first > 0, lives[np.maximum(first - 1, 0)], 0)
    life = lives - before
    start = np.maximum.accumulate(np.where(starts_of(effects.ids, life), places, 0))
    tells = effects.live & (effects.record >= 0) & told[np.maximum(effects.record, 0)]
    last = np.maximum.accumulate(np.where(tells, places, -1))
    return np.where(last >= start, effects.record[np.maximum(last, 0)], np.where(life == 0, STORED, DEFAULT))
