"""Columns whose values are not for everybody: hashed, redacted, or not there at all."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from enum import StrEnum

from tidewire.ddl.defaults import fill
from tidewire.model import Column, EnumValue, SetValue, Value
from tidewire.plain import value_to_plain


class Mask(StrEnum):
    """What becomes of a column's values."""

    HASH = "hash"
    REDACT = "redact"
    DROP = "drop"


def hashed(value: Value, salt: str = "") -> str | None:
    """SHA-256 of the salt and the value's bytes or canonical text, as hexadecimal digits; NULL stays NULL.

    >>> hashed(7) == hashed("7"), hashed("7") == hashed("7", "salt")
    (True, False)
    """
    if value is None:
        return None
    return hashlib.sha256(salt.encode() + _content(value)).hexdigest()


def _content(value: Value) -> bytes:
    match value:
        case bytes():
            return value
        case EnumValue(index, text) | SetValue(index, text):
            return (str(index) if text is None else text).encode()
        case _:
            return str(value_to_plain(value)).encode()


def redaction(column: Column) -> str | bytes | None:
    """What stands in place of every value, as on the wire: NULL, or MySQL's zero where NULL is not allowed."""
    return fill(replace(column, default=None))


def masked_column(column: Column, mask: Mask, salt: str = "") -> Column:
    """The column of masked values: a hash is text, a redacted value has its column's type."""
    if mask is not Mask.HASH:
        return replace(column, default=None)
    text = Column.of(column.name, "varchar(64)", nullable=column.nullable)
    return replace(
        text,
        handle_key=column.handle_key,
        primary_key=column.primary_key,
        nullable=column.nullable,
        charset="ascii",
        default=hashed(_default(column), salt),
        id=column.id,
    )


def _default(column: Column) -> str | bytes | None:
    try:
        return None if column.default is None else fill(column)
    except ValueError:
        return None


def masked_fill(value: str | bytes | None, column: Column, mask: Mask, salt: str = "") -> str | bytes | None:
    """What existing rows get in place of a new column's default."""
    return hashed(value, salt) if mask is Mask.HASH else redaction(column)
