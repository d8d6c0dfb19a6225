"""A column as TiCDC's flag bits describe it: what Open Protocol and Craft tell of one."""

from __future__ import annotations

from tidewire.model import Column, ColumnFlag, Generated, MySQLType
from tidewire.model.types import TEXTUAL


def described_column(name: str, type_: MySQLType, flags: ColumnFlag | None, handle_key: bool) -> Column:
    """A column from its type and flags; ``None`` for flags that were not sent."""
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
