"""Maintenance inside a sync: every so often, between two batches."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tidewire.errors import OptionError
from tidewire.spark.maintain.ages import parse_age
from tidewire.spark.maintain.run import Maintained, Settings, maintain
from tidewire.spark.targets import Target
from tidewire.spark.work import Work

NEVER: Final = "never"
_NAME = "maintain/last.json"
_SECONDS: Final = 300.0
"""No table is begun after so long: new changes wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Every:
    """How often: after so many seconds or so many batches; neither is never."""

    seconds: float | None = None
    batches: int | None = None

    @classmethod
    def parse(cls, text: str) -> Every:
        """The time or the number of batches in a text such as ``1h``, ``100b`` or ``never``.

        >>> Every.parse("100b")
        Every(seconds=None, batches=100)
        """
        if text == NEVER:
            return cls()
        if re.fullmatch(r"\d{1,9}b", text, re.ASCII) and int(text[:-1]):
            return cls(batches=int(text[:-1]))
        try:
            seconds = parse_age(text).total_seconds()
        except OptionError:
            seconds = 0.0
        if not seconds:
            raise OptionError(
                "maintain-every", f"{text!r} is neither a time such as 1h, nor batches such as 100b, nor {NEVER}"
            )
        return cls(seconds=seconds)


DEFAULT: Final = Every(batches=100)
"""A batch leaves a few small files in each table it changes; after a hundred a merge has to open a few hundred."""


class Schedule:
    """When the next round is due. It is counted from the last one, whichever process did that."""

    def __init__(
        self,
        every: Every,
        target: Target,
        work: Work,
        settings: Settings = Settings(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._every = every
        self._target = target
        self._work = work
        self._settings = replace(settings, seconds=_SECONDS)
        self._clock = clock
        self._last: tuple[int, float] | None = None

    def after(self, sequence: int) -> tuple[str, ...]:
        """Do a round after a plan, if it is due; what there is to tell of it. Whatever goes wrong is only told."""
        if not self._due(sequence):
            return ()
        self._note(sequence)
        try:
            return tuple(told(maintain(self._target, self._work, self._settings)))
        except Exception as error:
            return (f"maintenance: {(str(error) or repr(error)).splitlines()[0]}",)

    def _due(self, sequence: int) -> bool:
        if self._every == Every():
            return False
        if self._last is None:
            document = self._work.read(_NAME)
            self._last = None if document is None else (document["sequence"], document["at"])
        if self._last is None:
            self._note(0 if self._every.batches else sequence)
        assert self._last is not None
        plan, at = self._last
        batches, seconds = self._every.batches, self._every.seconds
        return (batches is not None and sequence - plan >= batches) or (
            seconds is not None and self._clock() - at >= seconds
        )

    def _note(self, sequence: int) -> None:
        self._last = sequence, self._clock()
        self._work.write(_NAME, {"sequence": sequence, "at": self._last[1]})


def told(done: Maintained) -> Iterator[str]:
    """A round in a few sentences."""
    before, after = ([getattr(each, side) for each in done.tables] for side in ("before", "after"))
    files, versions = (
        [sum(getattr(size, what) for size in sizes) for sizes in (before, after)] for what in ("files", "versions")
    )
    yield (
        f"maintenance of {len(done.tables)} tables took {done.seconds:.1f} s: files {files[0]} to {files[1]}, "
        f"versions {versions[0]} to {versions[1]}, {done.moments} moments and {done.leftovers} leftovers gone"
    )
    if done.left:
        yield f"maintenance: {done.left} tables wait for the next round"
    yield from (f"maintenance of {problem}" for problem in done.problems)
