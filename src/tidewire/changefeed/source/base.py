"""What a changefeed reads from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidewire.model import Ddl, RowChange, TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

ResumePosition: TypeAlias = Mapping[str, Any]
"""Where a source resumes, in its own form; plain JSON values, because checkpoints store it."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything with a commit ts up to ``ts`` has been read, and nothing after it.

    Reading again from ``place`` gives what comes after, with the same commit timestamps.
    """

    ts: int
    place: ResumePosition


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Many changes of one table, in columns and in commit order: the shape :mod:`tidewire.arrow.plan` describes.

    ``time_zone`` is the zone in which TIMESTAMP values are told.
    """

    table: TableSchema
    rows: pa.RecordBatch
    time_zone: str = "UTC"


Upstream: TypeAlias = RowChange | RowBatch | Ddl | Resolved


class Source(Protocol):
    """A stream of changes in the order of their commit timestamps; the rows of one transaction are together."""

    def now(self) -> int:
        """The newest timestamp upstream: the default of ``start-ts``."""
        ...

    def tables(self) -> Sequence[TableSchema]:
        """The tables there are now, so that a configuration can be checked against them."""
        ...

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """Changes with a commit ts above ``start_ts``, from ``place`` where an earlier reading left one.

        Ends when the source has ended, which a live database never does: there it waits for more and gives a
        ``Resolved`` now and then.
        """
        ...

    def close(self) -> None:
        """Close all connections. A running ``read`` ends, also in another thread."""
        ...
