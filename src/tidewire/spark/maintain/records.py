"""What maintenance remembers of tables, so that it need not look at those that have not changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tidewire.model import TableName
from tidewire.spark.work import Work

_NAME = "maintain/tables.json"


@dataclass(frozen=True, slots=True)
class Record:
    """A table when it was last looked at; times are seconds since the epoch.

    ``since`` is when this version was first seen, ``swept`` when files nobody has were last looked for. ``resting``:
    there is nothing to do until there is another version.
    """

    version: str = ""
    since: float = 0.0
    looked: float = 0.0
    swept: float = 0.0
    resting: bool = False


def read_records(work: Work) -> dict[str, Record]:
    """The records by the tables' identities."""
    return {identity: Record(**record) for identity, record in (work.read(_NAME) or {}).items()}


def write_records(work: Work, records: Mapping[str, Record]) -> None:
    """Keep the records."""
    work.write(_NAME, {identity: asdict(record) for identity, record in records.items()})


def moved_on(work: Work, versions: Mapping[TableName, str]) -> frozenset[TableName]:
    """The tables of which maintenance made another version than these, of the same rows."""
    records = read_records(work)
    known = ((name, version, records.get(version.partition("@")[0])) for name, version in versions.items())
    return frozenset(name for name, version, record in known if record is not None and record.version != version)
