"""Which steps of a sync's latest plan are done, where a table cannot tell."""

from __future__ import annotations

from dataclasses import dataclass

from tidewire.spark.targets.base import Mark


@dataclass(frozen=True, slots=True)
class DoneSteps:
    """Steps of one plan. Plans are done one after the other, so all steps of earlier plans are done.

    Steps of one plan may be done side by side, so each is noted.
    """

    sequence: int = -1
    steps: frozenset[int] = frozenset()

    def __contains__(self, mark: Mark) -> bool:
        return mark.sequence < self.sequence or (mark.sequence == self.sequence and mark.step in self.steps)

    def having(self, mark: Mark) -> DoneSteps:
        """These and one more."""
        if mark.sequence < self.sequence:
            return self
        return DoneSteps(
            mark.sequence, frozenset({mark.step}) | (self.steps if mark.sequence == self.sequence else set())
        )

    def __str__(self) -> str:
        return f"{self.sequence}/{','.join(map(str, sorted(self.steps)))}"

    @classmethod
    def parse(cls, text: str | None) -> DoneSteps:
        """Done steps out of their text; none out of no text.

        >>> str(DoneSteps.parse("7/1,3").having(Mark("s", 7, 2)))
        '7/1,2,3'
        """
        if text is None:
            return cls()
        sequence, _, steps = text.partition("/")
        return cls(int(sequence), frozenset(map(int, steps.split(","))))
