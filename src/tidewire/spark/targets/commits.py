"""Commits: how one is tried until it is there, and how those of several tables are sent at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from py4j.protocol import Py4JNetworkError

from tidewire.errors import Retry, SyncError, TidewireError
from tidewire.model import TableName
from tidewire.spark.targets.base import CommitTag, Java, first_line, java_kind
from tidewire.spark.targets.files import FileChange

_PAUSES: Final = (0.0, 0.1, 0.5, 1.0, 2.0)
"""Seconds before each try of a commit."""

_WRONG: Final = (
    "IllegalArgumentException",
    "UnsupportedOperationException",
    "IllegalStateException",
    "AnalysisException",
    "DeltaAnalysisException",
    "ParseException",
)
"""Java exceptions that are not a matter of luck: the same commit raises them again."""

_FAULTS: Final = (AttributeError, TypeError, NameError, LookupError, AssertionError)
"""Faults in the program that makes a commit, raised before anything is sent."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A commit of rows that is made in a transaction in memory, and not sent yet.

    ``base`` is the metadata that the transaction began with, ``version`` is what the commit makes. ``written`` is to be
    told the version when the commit is there.
    """

    name: TableName
    tag: CommitTag
    transaction: Java
    base: Java
    version: str
    written: Callable[[str], None]


Answer: TypeAlias = str | TidewireError | None
"""What became of one of several commits that were sent at once: the version that it made, or why its table refused it.

``None`` if the table has not changed, so that the commit can be sent again.
"""


class Together(Protocol):
    """A target that commits to several tables at once, to all of them or to none."""

    def begin(self, name: TableName, change: FileChange, tag: CommitTag) -> Begun | str:
        """Make in memory what :meth:`Target.write` commits; raises what that raises.

        If the tag's step turns out to be done, the version that it made.
        """
        ...

    def exchange(self, begun: Sequence[Begun]) -> Sequence[Answer]:
        """Send commits at once. If one table refuses, no table is changed.

        Raises ``Fenced`` if a driver with a newer epoch has committed to one of the tables.
        """
        ...


Result = TypeVar("Result")


def tried(
    name: object, place: str, attempt: Callable[[bool], Result], look: Callable[[], Result | None] = lambda: None
) -> Result:
    """Try a commit until it is there, or cannot be.

    ``attempt`` is told whether it is tried again. Then it looks for the commit first, because a commit that raised may
    be there all the same; ``look`` does so after the last try. ``name`` is what is committed, ``place`` where it is.
    """
    trouble: Exception | None = None
    for pause in _PAUSES:
        time.sleep(pause)
        try:
            return attempt(trouble is not None)
        except (TidewireError, Py4JNetworkError, *_FAULTS):
            raise
        except Exception as error:
            kind = java_kind(error)
            if kind == "ValidationException":
                raise Retry(f"{name}: another program changed the files of a commit: {first_line(error)}") from error
            if kind in _WRONG:
                raise
            trouble = error
    assert trouble is not None
    found = look()
    if found is None:
        raise SyncError(
            f"{name} in {place} could not be committed: {first_line(trouble)}; check the store and the catalog"
        ) from trouble
    return found
