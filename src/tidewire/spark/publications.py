"""Publications: which version of which table belongs to which upstream time.

::

    published/<ts>-<sequence>     one upstream time: the version of every table
    schemas/<digest>              the columns of a table; written once, named by publications

A publication is written after all commits of its plan, so its existence also says that the plan is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tidewire.errors import SyncError
from tidewire.model import TableName, TableSchema
from tidewire.storage import Storage
from tidewire.sync.documents import decode, encode

FOLDER: Final = "published"
_SCHEMAS: Final = "schemas"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of a publication.

    ``held`` is the ts it really is at, if that is earlier than the publication's. ``rows_since`` is the ts from which
    on changes are in it, if older rows are missing because the topic does not have them.
    """

    schema: TableSchema
    version: str
    mode: str
    held: int | None = None
    rows_since: int | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """All tables at one upstream time; ``ts`` is ``None`` if the protocol has no watermarks."""

    sequence: int
    ts: int | None
    tables: Mapping[TableName, PublishedTable]


class _Row(msgspec.Struct, frozen=True, array_like=True):
    name: TableName
    schema: str
    version: str
    mode: str
    held: int | None
    rows_since: int | None = None


class _Document(msgspec.Struct, frozen=True):
    sequence: int
    ts: int | None
    tables: tuple[_Row, ...]


class Publications:
    """The publications of a target."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._digests: dict[TableSchema, str] = {}
        self._schemas: dict[str, TableSchema] = {}

    def publish(self, published: Published) -> str:
        """Keep a publication; its name."""
        rows = tuple(
            _Row(name, self._digest(table.schema), table.version, table.mode, table.held, table.rows_since)
            for name, table in published.tables.items()
        )
        name = f"{published.ts or 0:020}-{published.sequence:012}"
        self._storage.put(f"{FOLDER}/{name}", encode(_Document(published.sequence, published.ts, rows)))
        return name

    def newest(self, at: int | None = None) -> Published | None:
        """The newest publication, or the newest one not after a TSO."""
        names = self.names()
        if at is not None:
            names = [name for name in names if ts_of(name) <= at]
        return self.read(names[-1]) if names else None

    def required(self, at: int | None = None) -> Published:
        """The newest publication not after a TSO; :class:`SyncError` if there is none."""
        found = self.newest(at)
        if found is None:
            when = "" if at is None else f" that is not after {at}"
            raise SyncError(
                f"{self._storage.uri} has no publication{when}: start tidewire sync, or ask for a later TSO"
            )
        return found

    def names(self) -> list[str]:
        """The names of all publications, oldest first."""
        names = (entry.name.rpartition("/")[2] for entry in self._storage.list(FOLDER))
        return sorted(name for name in names if "." not in name)

    def read(self, name: str) -> Published:
        """The publication of a name."""
        document = self._read(name)
        if document is None:
            raise SyncError(f"publication {name} in {self._storage.uri} was removed by maintenance just now; ask again")
        tables = {
            row.name: PublishedTable(self._schema(row.schema), row.version, row.mode, row.held, row.rows_since)
            for row in document.tables
        }
        return Published(document.sequence, document.ts, tables)

    def versions(self, names: Iterable[str]) -> dict[str, str]:
        """All versions that publications name, each with the name of the oldest one that has it."""
        found: dict[str, str] = {}
        for name in sorted(names):
            document = self._read(name)
            for row in () if document is None else document.tables:
                found.setdefault(row.version, name)
        return found

    def forget(self, names: Iterable[str]) -> None:
        """Remove publications."""
        self._storage.delete(f"{FOLDER}/{name}" for name in names)

    def _read(self, name: str) -> _Document | None:
        data = self._storage.read(f"{FOLDER}/{name}")
        return None if data is None else decode(data, _Document)

    def _digest(self, schema: TableSchema) -> str:
        """The name of a schema's document, which is written if it is new."""
        found = self._digests.get(schema)
        if found is None:
            data = encode(schema)
            found = self._digests[schema] = hashlib.sha256(data).hexdigest()[:24]
            self._storage.put_if_absent(f"{_SCHEMAS}/{found}", data)
        return found

    def _schema(self, digest: str) -> TableSchema:
        found = self._schemas.get(digest)
        if found is None:
            data = self._storage.read(f"{_SCHEMAS}/{digest}")
            if data is None:
                raise SyncError(f"{_SCHEMAS}/{digest} is missing from {self._storage.uri}; restore it from a backup")
            found = self._schemas[digest] = decode(data, TableSchema)
        return found


def ts_of(name: str) -> int:
    """The ts in the name of a publication; 0 if the protocol has no watermarks."""
    return int(name.partition("-")[0])


def sequence_of(name: str) -> int:
    """The sequence in the name of a publication."""
    return int(name.partition("-")[2])


def label(name: str) -> str:
    """What a publication is called in a table's own history: its ts and its sequence, without leading zeros."""
    return f"{ts_of(name)}-{sequence_of(name)}"
