"""Publications: which version of which table belongs to which moment of the upstream.

::

    published/<ts>-<plan>.json      a moment: the tables that differ from those of an earlier plan
    published/tables/<plan>.json    all tables after a plan

So a moment costs what changed, and not what there is. When as many changes are told as there are tables, the tables are
written anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidewire.errors import SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply import Mode
from tidewire.spark.work import Work
from tidewire.sync.shapes import schema_from_plain, schema_to_plain

_FOLDER = "published"
_TABLES = "published/tables"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table at a moment. ``held`` is the ts it really is at, where that is earlier."""

    schema: TableSchema
    version: str
    mode: Mode
    held: int | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """The tables after a plan, which later moments are told by; ``told`` counts the changes told since."""

    sequence: int
    tables: Mapping[TableName, PublishedTable]
    told: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """All tables at a moment; ``ts`` is ``None`` where the protocol has no watermarks and no moment can be named."""

    sequence: int
    ts: int | None
    tables: Mapping[TableName, PublishedTable]
    base: Base | None = field(default=None, compare=False, repr=False)


def publish(work: Work, published: Published, before: Published | None = None) -> Published:
    """Keep a publication; what comes back is to be given as ``before`` with the next one."""
    base = None if before is None else before.base
    changed, gone = _differences({} if base is None else base.tables, published.tables)
    if base is None or base.told + len(changed) + len(gone) > len(base.tables):
        base, changed, gone = Base(published.sequence, published.tables), [], []
        work.write(_tables_of(base.sequence), [_table_to_plain(table) for table in base.tables.values()])
    base = replace(base, told=base.told + len(changed) + len(gone))
    document = {
        "sequence": published.sequence,
        "ts": published.ts,
        "base": base.sequence,
        "told": base.told,
        "tables": [_table_to_plain(table) for table in changed],
        "gone": gone,
    }
    work.write(f"{_FOLDER}/{_name(published)}", document)
    return replace(published, base=base)


def newest(work: Work, at: int | None = None) -> Published | None:
    """The newest publication, or the newest one not after a moment."""
    names = work.names(_FOLDER)
    if at is not None:
        names = [name for name in names if ts_of(name) <= at]
    return _read(work, names[-1]) if names else None


def required(work: Work, at: int | None = None) -> Published:
    """The newest publication not after a moment; :class:`SyncError` where there is none."""
    found = newest(work, at)
    if found is None:
        when = "" if at is None else f" not after {at}"
        raise SyncError(f"nothing is published in {work.uri}{when}")
    return found


# What there is of them


def documents(work: Work) -> list[str]:
    """The names of all publications, oldest first."""
    return work.names(_FOLDER)


def ts_of(name: str) -> int:
    """The moment in the name of a publication; 0 for none."""
    return int(name.partition("-")[0])


def sequence_of(name: str) -> int:
    """The plan in the name of a publication."""
    return int(name.partition("-")[2].partition(".")[0])


def versions(work: Work, names: Iterable[str]) -> set[str]:
    """All versions that publications name."""
    found: set[str] = set()
    bases: dict[int, dict[TableName, str]] = {}
    for document in filter(None, (work.read(f"{_FOLDER}/{name}") for name in names)):
        base = document["base"]
        if base not in bases:
            bases[base] = _versions(work.read(_tables_of(base)) or ())
        told = _versions(document["tables"])
        hidden = told.keys() | {TableName(*name) for name in document["gone"]}
        found |= {version for name, version in bases[base].items() if name not in hidden} | {*told.values()}
    return found


def forget(work: Work, names: Collection[str], stay: Iterable[str]) -> None:
    """Remove publications, and tables that none of those that ``stay`` is told by."""
    documents = (work.read(f"{_FOLDER}/{name}") for name in stay)
    needed = {document["base"] for document in documents if document is not None}
    work.delete([work.path(_FOLDER, name) for name in names])
    oldest = min(needed, default=0)
    bases = [name for name in work.names(_TABLES) if int(name.partition(".")[0]) < oldest]
    work.delete([work.path(_TABLES, name) for name in bases])


def _differences(
    before: Mapping[TableName, PublishedTable], after: Mapping[TableName, PublishedTable]
) -> tuple[list[PublishedTable], list[TableName]]:
    changed = [table for name, table in after.items() if before.get(name) != table]
    return changed, [name for name in before if name not in after]


def _name(published: Published) -> str:
    return f"{published.ts or 0:020}-{published.sequence:012}.json"


def _tables_of(sequence: int) -> str:
    return f"{_TABLES}/{sequence:012}.json"


def _read(work: Work, name: str) -> Published:
    document = work.read(f"{_FOLDER}/{name}")
    told = None if document is None else work.read(_tables_of(document["base"]))
    if document is None or told is None:
        raise SyncError(f"the publication {name} in {work.uri} is not whole; maintenance may have removed it just now")
    base = Base(document["base"], _tables(told), document["told"])
    gone = {TableName(*name) for name in document["gone"]}
    tables = {name: table for name, table in base.tables.items() if name not in gone} | _tables(document["tables"])
    return Published(document["sequence"], document["ts"], tables, base)


def _tables(plain: Iterable[Mapping[str, Any]]) -> dict[TableName, PublishedTable]:
    tables = (
        PublishedTable(schema_from_plain(table["schema"]), table["version"], Mode(table["mode"]), table["held"])
        for table in plain
    )
    return {table.schema.name: table for table in tables}


def _table_to_plain(table: PublishedTable) -> dict[str, Any]:
    return {
        "name": table.schema.name,
        "schema": schema_to_plain(table.schema),
        "version": table.version,
        "mode": str(table.mode),
        "held": table.held,
    }


def _versions(plain: Iterable[Mapping[str, Any]]) -> dict[TableName, str]:
    return {TableName(*table["name"]): table["version"] for table in plain}
