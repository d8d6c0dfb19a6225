"""Holds a codec to what it says it carries."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.codec.capabilities import DDL_FACTS, ROW_FACTS, Capabilities, Fact
from tidewire.model import Bootstrap, Ddl, Event, Op, Row, RowChange


def check_carried(original: Event, got: Event, capabilities: Capabilities) -> None:
    """What the protocol says it carries must be there, and nothing may be wrong."""
    match original, got:
        case RowChange(), RowChange():
            assert got.table.name == original.table.name
            assert got.after is None or _part_of(got.after, original.after, whole=not got.handle_key_only)
            assert got.before is None or _part_of(got.before, original.before)
            if got.handle_key_only:
                return
            if original.before is not None and original.op is Op.DELETE:
                assert got.op is Op.DELETE
                assert set(original.table.handle_key) <= set(got.before or ())
            _check_facts(ROW_FACTS, capabilities.row, original, got)
        case Ddl(), Ddl():
            assert got.query == original.query
            _check_facts(DDL_FACTS, capabilities.ddl or frozenset(), original, got)
        case Bootstrap(), Bootstrap():
            assert got.table_schema.name == original.table_schema.name
            assert got.table_schema.version == original.table_schema.version
        case _:
            assert got == original


def _part_of(row: Row, whole_row: Row | None, *, whole: bool = False) -> bool:
    assert whole_row is not None
    assert not whole or row.keys() == whole_row.keys()
    return all(type(value) is type(whole_row[name]) and value == whole_row[name] for name, value in row.items())


def _check_facts(facts: Mapping[str, Fact], carried: frozenset[str], original: Event, got: Event) -> None:
    for name in carried:
        told, came = facts[name](original), facts[name](got)
        if told is None or name in ("old values", "deleted values"):
            continue  # values were compared already; those that had to be there are checked below
        if name == "handle key":  # that it is not the primary key may be lost
            assert isinstance(got, RowChange)
            came = got.table.handle_key
        if isinstance(told, dict):  # of columns that were left out nothing is told
            assert isinstance(got, RowChange)
            sent = {**(got.before or {}), **(got.after or {})}
            assert {column: fact for column, fact in told.items() if column in sent}.items() <= (came or {}).items(), (
                name
            )
        elif isinstance(told, list):
            assert set(came or ()) <= set(told), name
        else:
            assert came == told, name
    for name in carried & {"old values", "deleted values"}:
        assert facts[name](got) == facts[name](original), name
