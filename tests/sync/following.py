"""Many histories at once, and what to show when one goes wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from sync.consumer import Clumsy, follow
from sync.healing import Replayed, Retrying
from sync.histories import Changefeed, changefeed, described

CHUNK = 500
CHUNKS = 20 if os.environ.get("CI") else 2
"""How many chunks each of the two modules follows: 20 000 histories in CI, a taste of them elsewhere."""


HABITS: tuple[Callable[[Changefeed, int], Clumsy], ...] = (*[Clumsy] * 5, Retrying, Replayed)
"""Consumers of histories, in turn: plain ones, and such as meet bad messages that heal."""


def failure(seeds: Iterable[int], kind: Callable[[Changefeed, int], Clumsy] | None = None) -> str:
    """The shortest history that goes wrong, in words; nothing if all go well."""
    wrong = []
    for seed in seeds:
        feed = changefeed(seed)
        try:
            follow(feed, seed, kind or HABITS[seed % len(HABITS)])
        except Exception as error:
            wrong.append((seed, f"{type(error).__name__}: {error}", described(feed.history)))
    if not wrong:
        return ""
    shortest, reason, text = min(wrong, key=lambda each: len(each[2]))
    seeds = [each[0] for each in wrong]
    return f"{len(wrong)} histories go wrong: {seeds}\nthe shortest is {shortest}: {reason}\n{text}"


def first_failure(seeds: Iterable[int], kind: Callable[[Changefeed, int], Clumsy]) -> int | None:
    """The first seed whose history goes wrong."""
    return next((seed for seed in seeds if failure([seed], kind)), None)
