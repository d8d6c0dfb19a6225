"""What a load reads: a source is opened at one moment, and gives its tables' rows in chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tidewire.load.dialect import BinaryFormat
from tidewire.load.rows import Rows
from tidewire.model import TableSchema
from tidewire.storage import Storage


class Place(Protocol):
    """Where rows come from. Rows go by the numbers in :attr:`Rows.lines`."""

    @property
    def name(self) -> str:
        """The file, or the table."""
        ...

    def number(self, line: int) -> int:
        """The number of a row, for its position."""
        ...

    def text(self, line: int, masked: Collection[str]) -> str:
        """A row in words, such as ``shop.orders.000.csv line 5`` or ``shop.orders, the row with id = 5``.

        Values of ``masked`` columns are not in it.
        """
        ...


class ChunkRows(Protocol):
    """The rows of one chunk. If they can be read in Spark tasks, it can be pickled."""

    @property
    def table(self) -> TableSchema:
        """The table they are of."""
        ...

    @property
    def size(self) -> int:
        """How large the chunk is: bytes of files, or rows."""
        ...

    @property
    def files(self) -> int:
        """How many files it has."""
        ...

    @property
    def time_zone(self) -> str:
        """The time zone that TIMESTAMPs are written in."""
        ...

    @property
    def binary(self) -> BinaryFormat:
        """How byte strings are written."""
        ...

    def read(self) -> Iterator[tuple[Place, Rows]]:
        """The rows, and where they come from."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """What is loaded: tables as of a ts."""

    ts: int
    tables: tuple[TableSchema, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """A source that can be read now. ``in_tasks``: can its chunks be read in Spark tasks?"""

    moment: Moment
    chunks: tuple[ChunkRows, ...]
    in_tasks: bool = True


class Source(Protocol):
    """Something that can be loaded."""

    @property
    def facts(self) -> object:
        """What two loads have in common if one continues the other; its ``repr`` tells."""
        ...

    def begun(self, ledger: Storage, folder: str) -> Moment | None:
        """The moment of the load, if it is known already. ``folder`` is the load's in the ledger."""
        ...

    def opened(self, ledger: Storage, folder: str, told: Callable[[str], None]) -> AbstractContextManager[Opened]:
        """The source at one moment: the one that an earlier run of the same load began with, if there was one.

        What people must know is ``told``.
        """
        ...
