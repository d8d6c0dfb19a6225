"""Which partition a row change goes to.

TiCDC's hash is the exclusive or of CRC-32 sums, one for the table's name and one for each column that counts, so their
order does not matter.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Self

from tidewire.codec.gotext import plain_number
from tidewire.dispatch.per_table import PerTable
from tidewire.errors import OptionError
from tidewire.model import Column, EnumValue, MySQLType, RowChange, SetValue, TableSchema, Value

FAILED = "CDC:ErrDispatcherFailed"


class Dispatcher(StrEnum):
    """What the partition of a row is computed from."""

    TABLE = "table"
    INDEX_VALUE = "index-value"
    COLUMNS = "columns"
    TS = "ts"

    @classmethod
    def named(cls, name: str) -> Dispatcher:
        """The dispatcher of a name, in any case; raises ``ValueError`` if the name is unknown."""
        return _ALIASES.get(name.lower()) or cls(name.lower())


_ALIASES: Mapping[str, Dispatcher] = {"default": Dispatcher.TABLE, "rowid": Dispatcher.INDEX_VALUE}
"""Other names of dispatchers; the second is deprecated."""


class Hash:
    """TiCDC's PositionInertia hash. The order of writes does not matter; a write's two parts count as one text."""

    def __init__(self) -> None:
        self.sum = 0

    def write(self, first: bytes, second: bytes) -> Self:
        """Add a pair to the hash."""
        self.sum ^= zlib.crc32(second, zlib.crc32(first))
        return self


@dataclass(frozen=True, slots=True)
class Rule:
    """A dispatcher, with its index or columns if it does not use the handle key.

    ``hashes_null``: the classic server hashes a NULL as the text ``null``, the new one leaves the column out.
    """

    dispatcher: Dispatcher = Dispatcher.TABLE
    index: str | None = None
    columns: tuple[str, ...] = ()
    hashes_null: bool = False

    @classmethod
    def parse(cls, text: str) -> Rule:
        """A rule from a dispatcher's name, and behind a colon its index or columns.

        >>> Rule.parse("columns:id,name").columns
        ('id', 'name')
        """
        name, _, rest = text.partition(":")
        names = tuple(part.strip() for part in rest.split(",") if part.strip())
        try:
            dispatcher = Dispatcher.named(name)
        except ValueError:
            known = ", ".join((*Dispatcher, *_ALIASES))
            raise OptionError("dispatcher", f"{name!r} is not one of {known}") from None
        fewest, most = _NAMES[dispatcher]
        if not fewest <= len(names) <= (len(names) if most is None else most):
            raise OptionError("dispatcher", f"{text!r}: {_HOW[dispatcher]}")
        if dispatcher is Dispatcher.COLUMNS:
            return cls(dispatcher, columns=names)
        return cls(dispatcher, index=names[0] if names else None)


_NAMES: Mapping[Dispatcher, tuple[int, int | None]] = {
    Dispatcher.TABLE: (0, 0),
    Dispatcher.TS: (0, 0),
    Dispatcher.INDEX_VALUE: (0, 1),
    Dispatcher.COLUMNS: (1, None),
}
_HOW: Mapping[Dispatcher, str] = {
    Dispatcher.TABLE: "it takes no names",
    Dispatcher.TS: "it takes no names",
    Dispatcher.INDEX_VALUE: "it takes one index at most, as in index-value:name",
    Dispatcher.COLUMNS: "it needs columns, as in columns:one,other",
}


def partition(event: RowChange, rule: Rule, count: int) -> int:
    """The partition that a row change goes to, given the number of partitions."""
    return _POSITIONS[rule.dispatcher](event, rule) % count


def partition_key(event: RowChange, rule: Rule) -> str:
    """What TiCDC groups rows by before it packs them: the table's name, or the number behind the partition."""
    if rule.dispatcher is Dispatcher.TABLE:
        return str(event.table.name)
    return str(_POSITIONS[rule.dispatcher](event, rule))


def columns_of(table: TableSchema, rule: Rule) -> tuple[Column, ...]:
    """The columns whose values a rule hashes; raises ``OptionError`` if the table does not have them."""
    match rule.dispatcher:
        case Dispatcher.COLUMNS:
            return _named(table, rule.columns)
        case Dispatcher.INDEX_VALUE if rule.index is not None:
            wanted = rule.index.lower()
            for index in table.indexes:
                if index.name.lower() == wanted and (index.unique or index.primary):
                    return _named(table, index.columns)
            if wanted == "primary" and table.primary_key:
                return _named(table, table.primary_key)
            raise OptionError("index", f"{table.name} has no unique index {rule.index!r} [{FAILED}]")
        case Dispatcher.INDEX_VALUE:
            return tuple(column for column in table.columns if column.handle_key)
        case _:
            return ()


@lru_cache(maxsize=256)
def _columns(rule: Rule) -> PerTable[tuple[Column, ...]]:
    return PerTable(lambda table: columns_of(table, rule))


def _named(table: TableSchema, names: Iterable[str]) -> tuple[Column, ...]:
    known = {column.name.lower(): column for column in table.columns}
    missing = [name for name in names if name.lower() not in known]
    if missing:
        raise OptionError("columns", f"{table.name} has no column {', '.join(missing)} [{FAILED}]")
    return tuple(known[name.lower()] for name in names)


def _by_ts(event: RowChange, _: Rule) -> int:
    if event.commit_ts is None:
        raise OptionError(
            "dispatcher", f"a change of {event.table.name} has no commit ts, which dispatcher ts needs [{FAILED}]"
        )
    return event.commit_ts


def _by_hash(event: RowChange, rule: Rule) -> int:
    hashed = Hash().write(event.table.name.schema.encode(), event.table.name.table.encode())
    row = event.before if event.after is None else event.after
    for column in _columns(rule)(event.table):
        value = None if row is None else row.get(column.name)
        if value is not None:
            hashed.write(column.name.encode(), value_text(value, column))
        elif rule.hashes_null:
            hashed.write(column.name.encode(), b"null")
    return hashed.sum


_POSITIONS: Mapping[Dispatcher, Callable[[RowChange, Rule], int]] = {
    **dict.fromkeys(Dispatcher, _by_hash),
    Dispatcher.TS: _by_ts,
}


def value_text(value: Value, column: Column) -> bytes:
    """The bytes that a value contributes to the hash."""
    match value:
        case bytes():
            return value
        case EnumValue(index) | SetValue(index):
            return b"%d" % index
        case float():
            return plain_number(value, single=column.type is MySQLType.FLOAT).encode()
        case Decimal():
            return format(value, "f").encode()
        case _:
            return str(value).encode()
