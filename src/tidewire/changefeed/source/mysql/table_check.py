"""Checks that the binlog's description of a table fits the known table; otherwise values would get wrong columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from tidewire.changefeed.source.mysql.events import TableMap, WireColumn
from tidewire.errors import ChangefeedError
from tidewire.model import Column, MySQLType, TableSchema
from tidewire.model.types import BLOBS, FLOATS, INTEGERS

_T = MySQLType
_TYPES: Mapping[int, frozenset[MySQLType]] = {
    1: frozenset({_T.TINYINT}),
    2: frozenset({_T.SMALLINT}),
    3: frozenset({_T.INT}),
    4: frozenset({_T.FLOAT}),
    5: frozenset({_T.DOUBLE}),
    8: frozenset({_T.BIGINT}),
    9: frozenset({_T.MEDIUMINT}),
    10: frozenset({_T.DATE}),
    **dict.fromkeys((7, 17), frozenset({_T.TIMESTAMP})),
    **dict.fromkeys((11, 19), frozenset({_T.TIME})),
    **dict.fromkeys((12, 18), frozenset({_T.DATETIME})),
    13: frozenset({_T.YEAR}),
    **dict.fromkeys((15, 253), frozenset({_T.VARCHAR})),
    16: frozenset({_T.BIT}),
    245: frozenset({_T.JSON}),
    246: frozenset({_T.DECIMAL}),
    247: frozenset({_T.ENUM}),
    248: frozenset({_T.SET}),
    252: BLOBS,
    254: frozenset({_T.CHAR, _T.VARCHAR}),
    255: frozenset({_T.LONGBLOB}),
}
"""The column types a number in a table map may stand for; what TiDB does not have is told as VARCHAR or LONGBLOB."""

_BIGINT = 8
_WITHOUT_FRACTION = frozenset({7, 11, 12})
_SIGNED = INTEGERS | FLOATS | {_T.DECIMAL}
_HIDDEN = ("DB_ROW_HASH_", "!hidden!")
"""How names of columns behind an index begin: over long text in MariaDB, over expressions in MySQL. They are last."""


def check_fit(table: TableSchema, described: TableMap) -> None:
    """Raise ``ChangefeedError`` if the binlog's table differs from the known one."""
    for reason in _misfits(table, described):
        raise ChangefeedError(
            "CDC:ErrSchemaSnapshotNotFound",
            f"{table.name} in the binary log is not the table the changefeed knows: {reason}; "
            "begin with a new snapshot",
        )


def _misfits(table: TableSchema, described: TableMap) -> Iterator[str]:
    for number, (wire, column) in enumerate(zip_longest(described.columns, table.columns), 1):
        if wire is None:
            yield f"column {number}, {column.name!r}, is missing"
        elif column is None:
            if not (wire.name.startswith(_HIDDEN) if wire.name else wire.type == _BIGINT):
                yield f"column {number}, {wire.name or 'without a name'}, is new"
        else:
            yield from _misfit(wire, column)


def _misfit(wire: WireColumn, column: Column) -> Iterator[str]:
    if wire.type not in _TYPES:
        yield f"{column.name!r} has type {wire.type}, which cannot be read; a compressed column is such a one"
    elif wire.name is not None and wire.name != column.name:
        yield f"{column.name!r} is called {wire.name!r}"
    elif column.type not in _TYPES[wire.type]:
        yield f"{column.name!r} is {column.mysql_type} here and has type {wire.type} there"
    elif wire.unsigned is not None and column.type in _SIGNED and wire.unsigned != column.unsigned:
        yield f"{column.name!r} is {column.mysql_type} here and {'unsigned' if wire.unsigned else 'signed'} there"
    elif wire.type in _WITHOUT_FRACTION and column.decimal:
        yield f"{column.name!r} is in the format of old servers; run ALTER TABLE … FORCE to renew it"
    elif wire.type in (15, 252) and wire.charset and (wire.charset == "binary") != column.is_binary:
        yield f"{column.name!r} is {column.mysql_type} here and in the charset {wire.charset} there"
