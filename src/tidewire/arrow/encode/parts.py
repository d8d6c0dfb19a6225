"""Of what a message is made: bytes that are the same in every row, and values between them.

The native kernel knows how values stand in messages by the names of *formats*. Which format a column has, and what
stands around it, is said here and in the templates, out of the codec's own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from tidewire.arrow import kernel
from tidewire.codec.gotext import Quoting
from tidewire.model import Column, Generated, MySQLType, TableSchema
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS


class NotOnFastPath(ValueError):
    """These rows are for the codec."""


class Format(NamedTuple):
    """How a column's values stand in messages.

    ``size`` is a number of digits or bytes, or a limit; ``texts`` are names, or the texts to choose from.
    """

    name: str
    size: int | None = None
    texts: Sequence[bytes] = ()
    escapes: Any = None


class Around(NamedTuple):
    """What stands before and behind a value, and in place of it and both if it is NULL; None if it must not be."""

    before: bytes = b""
    null: bytes | None = None
    behind: bytes = b""


class Value(NamedTuple):
    """A value of a row: in which struct, and the number of its column there.

    ``counted`` values stand behind their length, as Avro's bytes do.
    """

    place: tuple[str, int]
    format: Format
    around: Around = Around()
    counted: bool = False


Part: TypeAlias = "bytes | Value"
"""A part of every message of a kind."""

FormatOf: TypeAlias = Callable[[Column], Format]

QUOTED: Final = Around(b'"', b"null", b'"')
"""A JSON string, or null."""


def listed(members: Iterable[Iterable[Part]]) -> Iterable[Part]:
    """Members with commas between them."""
    for number, member in enumerate(members):
        if number:
            yield b","
        yield from member


class Columns:
    """The columns of a table that go on the wire, with their numbers."""

    def __init__(self, table: TableSchema) -> None:
        self.all = [
            (number, column) for number, column in enumerate(table.columns) if column.generated is not Generated.VIRTUAL
        ]

    def of_deleted(self, *, only_keys: bool) -> list[tuple[int, Column]]:
        """The columns of a deleted row: all, or only those of the handle key, of which there must be one."""
        found = [(number, column) for number, column in self.all if column.handle_key or not only_keys]
        if not found:
            raise NotOnFastPath
        return found


def digits(_: Column) -> Format:
    """Integers in digits."""
    return Format("digits")


def unsigned_digits(_: Column) -> Format:
    """Integers of 64 bits without a sign, in digits."""
    return Format("unsigned digits")


def names(column: Column) -> list[bytes]:
    """The names of an ENUM or SET."""
    return [element.encode() for element in column.elements]


def numbered(number: str) -> FormatOf:
    """The number behind the names of an ENUM or SET: ``digits``, ``zigzag`` or ``uvarint``."""

    def format_(column: Column) -> Format:
        if not column.elements:
            return Format("unsigned digits" if number == "digits" else number)
        # The empty text is the error value of an ENUM, unless the column has an empty name.
        texts = [b"", *names(column)] if column.type is MySQLType.ENUM else names(column)
        return Format(f"{column.type.name.lower()} {number}", texts=texts)

    return format_


def always(name: str) -> FormatOf:
    """A format that does not depend on the column."""
    return lambda _: Format(name)


PLAIN: Final[Mapping[MySQLType, FormatOf]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, digits),
    MySQLType.BIGINT: lambda column: unsigned_digits(column) if column.unsigned else digits(column),
    MySQLType.BIT: unsigned_digits,
    **dict.fromkeys(FLOATS, always("float")),
    MySQLType.DECIMAL: always("decimal"),
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), always("date")),
    **dict.fromkeys((MySQLType.DATETIME, MySQLType.TIMESTAMP), lambda column: Format("clock", column.decimal)),
    MySQLType.TIME: lambda column: Format("time", column.decimal),
    **dict.fromkeys(ENUM_SET, numbered("digits")),
    MySQLType.VECTOR: always("vector"),
}
"""The texts of every type that all protocols print alike and that need no escapes. Strings are the protocol's."""


def format_of(column: Column, formats: Mapping[MySQLType, FormatOf]) -> Format:
    """The format of a column; NotOnFastPath if its type has none."""
    found = formats.get(column.type)
    if found is None:
        raise NotOnFastPath
    return found(column)


@cache
def escaped(quoting: Quoting) -> Format:
    """Text as it stands between the quotes of a JSON string."""
    table = [quoting.escapes.get(code, chr(code)).encode() for code in range(0x80)]
    longer = [(chr(code).encode(), text.encode()) for code, text in quoting.escapes.items() if code >= 0x80]
    escapes = kernel.native().Escapes([*table, *map(_byte, range(0x80, 0x100))], longer)
    return Format("escaped", escapes=escapes)


@cache
def latin1_escaped(quoting: Quoting) -> Format:
    """Bytes as the characters of the same number, between the quotes of a JSON string."""
    table = [quoting.escapes.get(code, chr(code)).encode() for code in range(0x100)]
    return Format("escaped", escapes=kernel.native().Escapes(table, []))


def _byte(code: int) -> bytes:
    return bytes([code])
