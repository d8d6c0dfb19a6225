"""Which columns of a row go on the wire, and what the flag bits of one say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from tidewire.model import Column, ColumnFlag, Generated, MySQLType, Row, RowChange, Value
from tidewire.model.types import TEXTUAL


def emitted_columns(row: Row, columns: Iterable[Column]) -> Iterable[Column]:
    """The columns of an image: those the row has a value for, never a virtual generated one."""
    return (column for column in columns if column.name in row and column.generated is not Generated.VIRTUAL)


def handle_key_columns(event: RowChange) -> Sequence[Column]:
    """The columns that identify the row."""
    return [column for column in event.table.columns if column.handle_key]


def changed_columns(event: RowChange, columns: Iterable[Column]) -> Sequence[Column]:
    """The columns whose value changed; DECIMAL compares as a number, so 1.0 is 1.00."""
    before, after = event.before or {}, event.after or {}
    return [
        column
        for column in columns
        if column.name in before and not (column.name in after and _same(before[column.name], after[column.name]))
    ]


def _same(before: Value, after: Value) -> bool:
    if isinstance(before, Decimal) and isinstance(after, Decimal):
        return before == after
    return type(before) is type(after) and before == after


def described_column(name: str, type_: MySQLType, flags: ColumnFlag | None, handle_key: bool) -> Column:
    """A column from its type and flags, as Open Protocol and Craft send it; ``None`` for flags that were not sent."""
    known = flags or ColumnFlag(0)
    binary = type_ not in TEXTUAL or ColumnFlag.BINARY in known
    return Column(
        name,
        type_,
        flags=flags,
        handle_key=handle_key,
        primary_key=ColumnFlag.PRIMARY_KEY in known,
        nullable=None if flags is None else ColumnFlag.NULLABLE in known,
        unsigned=ColumnFlag.UNSIGNED in known,
        zerofill=type_ is MySQLType.YEAR,
        charset="binary" if binary else None,
        generated=Generated.STORED if ColumnFlag.GENERATED in known else None,
    )
