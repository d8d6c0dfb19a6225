"""The state documents of tidewire 0.1, read once when a newer release takes over a target.

0.1 wrote JSON of version 2: now and then a whole state, and in between what was different from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from tidewire.errors import StateError
from tidewire.model import Bootstrap, Ddl, Position, TableName, TableSchema
from tidewire.plain import event_from_plain
from tidewire.sync.frontier import Frontier, Progress
from tidewire.sync.manifest import FoundDdl, Parked, Partition, StagedFile
from tidewire.sync.state import DdlId, Hold, HoldKind, Pending, State
from tidewire.sync.target_tables import TargetTable

_VERSION: Final = 2

_BY_NAME: Final = {"tables": "tables", "marks": "last_ddl_ts", "copies": "target_tables"}
_GROWING: Final = ("log", "schemas")

Value = TypeVar("Value")


def state_from_documents(document: Any, whole: Any = None) -> State:
    """The state of a document of 0.1. If the document names a base, ``whole`` is the document of that base.

    Raises :class:`StateError` if it is not such a document, or has a hole: 0.1 could read past missing offsets.
    """
    try:
        if "base" not in document:
            return _state(document)
        base, part = _state(whole), _state(document["part"])
        grown: dict[str, Any] = {
            name: getattr(base, name)[: document["shared"][name]] + getattr(part, name) for name in _GROWING
        }
        merged: dict[str, Any] = {
            now: _merged(getattr(base, now), getattr(part, now), document["gone"][name])
            for name, now in _BY_NAME.items()
        }
        return replace(part, **grown, **merged)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StateError(f"the state document of tidewire 0.1 is damaged: {error!r}") from error


def schema_from_plain(plain: Mapping[str, Any]) -> TableSchema:
    """The table schema that a dict stands for."""
    event = event_from_plain({"kind": "bootstrap", "table_schema": plain})
    assert isinstance(event, Bootstrap)
    return event.table_schema


def _state(plain: Mapping[str, Any]) -> State:
    if plain["version"] != _VERSION:
        raise StateError(
            f"the state document of tidewire 0.1 has version {plain['version']}; this release reads {_VERSION}. "
            "Begin anew with an empty target"
        )
    schema = [schema_from_plain(shape) for shape in plain["shapes"]].__getitem__
    queue = tuple(_ddl(each) for each in plain["queue"])
    return State(
        sync=plain["sync"],
        sequence=plain["sequence"],
        batch=plain["batch"],
        applied=plain["applied"],
        rejected=plain["rejected"],
        frontier=Frontier(
            {Partition(topic, number): _progress(*progress) for topic, number, *progress in plain["partitions"]},
            frozenset(plain["retired"]),
        ),
        tables={schema(number).name: schema(number) for number in plain["tables"]},
        last_ddl_ts={TableName(database, table): ts for database, table, ts in plain["marks"]},
        pending=tuple(Pending(_file(file, schema), *rest) for file, *rest in plain["pending"]),
        queue=queue,
        log=tuple(DdlId(ts, TableName(database, table), query) for ts, database, table, query in plain["log"]),
        schemas=tuple(schema(number) for number in plain["schemas"]),
        parked=tuple(_parked(*parked) for parked in plain["parked"]),
        holds=_holds(plain["holds"], plain["rejected"], {found.at for found in queue}),
        target_tables={
            TableName(database, table): None if number is None else _target_table(schema(number), *differing)
            for database, table, number, *differing in plain["copies"]
        },
        kept=tuple(schema(number) for number in plain["kept"]),
    )


def _progress(next_: int, watermark: int, previous: int, joined_at: int, ahead: list[Any]) -> Progress:
    if ahead:
        raise StateError(
            f"tidewire 0.1 has read past offset {next_} of a partition without what is before it; "
            "run tidewire 0.1 once more with --once, then this version"
        )
    return Progress(next_ or None, watermark, previous, joined_at)


def _file(plain: list[Any], schema: Callable[[int], TableSchema]) -> StagedFile:
    path, shape, topic, number, *rest = plain
    return StagedFile(path, schema(shape), Partition(topic, number), *rest)


def _ddl(plain: Mapping[str, Any]) -> FoundDdl:
    ddl = event_from_plain(plain["ddl"])
    assert isinstance(ddl, Ddl)
    return FoundDdl(Position(**plain["at"]), plain["sub"], ddl)


def _parked(at: Mapping[str, Any], database: str, table: str, version: int, commit_ts: int, path: str) -> Parked:
    return Parked(Position(**at), TableName(database, table), version, commit_ts, path)


def _holds(plain: list[list[Any]], rejected: int, statements: Collection[Position]) -> tuple[Hold, ...]:
    """The holds. 0.1 kept one for all bad messages of a table, so each stands for any message not accounted for."""
    found = []
    for ts, place, reason, table, frozen in plain:
        at, name = Position(**place), None if table is None else TableName(*table)
        kind = HoldKind.POLICY if frozen else HoldKind.STATEMENT if at in statements else HoldKind.MESSAGE
        found.append(Hold(ts, at, reason, name, kind))
    messages = sum(hold.kind is HoldKind.MESSAGE for hold in found)
    return tuple(
        replace(hold, count=max(1, rejected - messages + 1)) if hold.kind is HoldKind.MESSAGE else hold
        for hold in found
    )


def _target_table(table: TableSchema, differing: Mapping[str, str | None]) -> TargetTable:
    return TargetTable(table, tuple(differing.get(column.name, column.name) for column in table.columns))


def _merged(
    before: Mapping[TableName, Value], changed: Mapping[TableName, Value], gone: list[list[str]]
) -> dict[TableName, Value]:
    left = {TableName(*each) for each in gone}
    return {name: value for name, value in before.items() if name not in left} | dict(changed)
