"""Column types in all of MySQL's spellings, and the charsets that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidewire.ddl.lex import Kind
from tidewire.ddl.reader import Reader, Unreadable
from tidewire.model import Column, MySQLType
from tidewire.model.types import ENUM_SET, FACTS, FLOATS, INTEGERS, TEMPORAL, default_length

_T = MySQLType
_NO_WORDS = (_T.UNSPECIFIED, _T.NULL, _T.NEWDATE, _T.VAR_STRING)
_TYPES: Mapping[str, tuple[MySQLType, bool]] = {
    **{facts.name.upper(): (type_, False) for type_, facts in FACTS.items() if type_ not in _NO_WORDS},
    **{
        facts.binary_name.upper(): (type_, True)
        for type_, facts in FACTS.items()
        if facts.binary_name and type_ not in _NO_WORDS
    },
    **dict.fromkeys(("INT1", "BOOL", "BOOLEAN"), (_T.TINYINT, False)),
    "INT2": (_T.SMALLINT, False),
    **dict.fromkeys(("INT3", "MIDDLEINT"), (_T.MEDIUMINT, False)),
    **dict.fromkeys(("INTEGER", "INT4"), (_T.INT, False)),
    **dict.fromkeys(("INT8", "SERIAL"), (_T.BIGINT, False)),
    **dict.fromkeys(("DEC", "NUMERIC", "FIXED"), (_T.DECIMAL, False)),
    "FLOAT4": (_T.FLOAT, False),
    **dict.fromkeys(("FLOAT8", "REAL"), (_T.DOUBLE, False)),
    **dict.fromkeys(("CHARACTER", "NCHAR"), (_T.CHAR, False)),
    **dict.fromkeys(("VARCHARACTER", "NVARCHAR", "VARYING"), (_T.VARCHAR, False)),
    **dict.fromkeys(("POINT", "LINESTRING", "POLYGON"), (_T.GEOMETRY, False)),
    **dict.fromkeys(("MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"), (_T.GEOMETRY, False)),
    **dict.fromkeys(("GEOMETRYCOLLECTION", "GEOMCOLLECTION"), (_T.GEOMETRY, False)),
}
"""A type's word to what it is, and whether it holds bytes."""

_BYTES_PER_CHARACTER = {"utf8": 3, "gbk": 2, "latin1": 1, "ascii": 1, "binary": 1}
"""How long a character may be; 4 in all other charsets."""


def _type_words(reader: Reader) -> tuple[MySQLType, bool, str | None]:
    """The words of a type: what it is, whether it holds bytes, and the charset that is part of its name."""
    if reader.accept("LONG"):
        # LONG and LONG VARCHAR are MEDIUMTEXT, LONG VARBINARY is MEDIUMBLOB.
        binary = reader.accept("VARBINARY")
        if not binary and reader.accept_any("VARCHAR", "VARCHARACTER", "CHAR", "CHARACTER"):
            reader.accept("VARYING")
        return MySQLType.MEDIUMBLOB, binary, None
    national = reader.accept("NATIONAL") or reader.sees_any("NCHAR", "NVARCHAR")
    word = reader.peek().word
    if word not in _TYPES:
        raise reader.wrong("a column type")
    reader.next()
    type_, binary = _TYPES[word]
    if word == "DOUBLE":
        reader.accept("PRECISION")
    if type_ is MySQLType.CHAR and reader.accept_any("VARYING", "VARCHAR", "VARCHARACTER"):
        type_ = MySQLType.VARCHAR
    if type_ is MySQLType.VECTOR and reader.accept("<"):
        reader.expect("FLOAT", ">")
    return type_, binary, "utf8" if national else None


def _base(reader: Reader, name: str) -> Column:
    """A column with its type and the type's numbers or names."""
    bool_, serial = reader.sees_any("BOOL", "BOOLEAN"), reader.sees("SERIAL")
    type_, binary, charset = _type_words(reader)
    column = Column(name, type_, nullable=True, decimal=None if type_ in FLOATS else 0)
    length = None if type_ in _DECIDED_LATER else default_length(type_)
    column = replace(column, charset="binary" if binary else charset, length=length)
    if type_ in ENUM_SET:
        elements = tuple(element.rstrip(" ") for element in reader.listed(reader.string))
        widths = [len(element.encode()) for element in elements]
        length = max(widths) if type_ is MySQLType.ENUM else sum(widths) + len(widths) - 1
        return replace(column, elements=elements, length=length)
    numbers = reader.listed(reader.integer) if reader.sees("(") else []
    if len(numbers) > (2 if type_ in FLOATS | {MySQLType.DECIMAL} else 1):
        raise Unreadable(f"{len(numbers)} numbers are too many for the type of {name}")
    if type_ in TEMPORAL and numbers:
        # A fraction takes its digits and the point before them.
        return replace(column, decimal=numbers[0], length=(default_length(type_) or 0) + numbers[0] + bool(numbers[0]))
    if type_ is MySQLType.FLOAT and len(numbers) == 1:
        # FLOAT(p) names a precision in bits: from 25 on it is a DOUBLE, and it limits no digits.
        wide = numbers[0] > 24
        return replace(column, type=MySQLType.DOUBLE, length=default_length(MySQLType.DOUBLE)) if wide else column
    if type_ is MySQLType.VARCHAR and not numbers:
        raise reader.wrong("the length of a VARCHAR")
    if numbers and type_ is not MySQLType.YEAR:
        # DECIMAL(0) and BIT(0) are DECIMAL and BIT.
        length = numbers[0] or (length if type_ in (MySQLType.DECIMAL, MySQLType.BIT) else 0)
        column = replace(column, length=length, decimal=numbers[1] if len(numbers) == 2 else column.decimal)
    if bool_:
        column = replace(column, length=1)
    return replace(column, unsigned=True, nullable=False) if serial else column


_DECIDED_LATER = INTEGERS | {MySQLType.BLOB}
"""Types whose default length depends on what follows: a sign, a charset."""


def read_type(reader: Reader, name: str) -> Column:
    """A column of that name with the type that comes next: signs, charset and collation included.

    What the statement does not say is ``None``, except for lengths: those are TiDB's own.
    """
    column = _base(reader, name)
    while True:
        if reader.accept("UNSIGNED"):
            column = replace(column, unsigned=True)
        elif reader.accept("ZEROFILL"):
            column = replace(column, unsigned=True, zerofill=True)
        elif not reader.accept_any("SIGNED"):
            charset = read_charset(reader)
            if charset is None:
                break
            column = with_charset(column, *charset)
    if column.type in INTEGERS and column.length is None:
        # Without a sign to show TiDB's default display width is one less, except that of BIGINT.
        less = column.unsigned and column.type is not MySQLType.BIGINT
        column = replace(column, length=(default_length(column.type) or 0) - less)
    if column.type in (MySQLType.YEAR, MySQLType.BIT):
        column = replace(column, unsigned=True, zerofill=column.type is MySQLType.YEAR)
    return column


def read_charset(reader: Reader) -> tuple[str | None, str | None] | None:
    """A charset or a collation, the other one ``None``; nothing if none comes next.

    An empty collation is the charset's own, which BINARY asks for whatever the table's is.
    """
    if reader.accept("CHARACTER", "SET") or reader.accept("CHAR", "SET") or reader.accept("CHARSET"):
        reader.accept("=")
        return _charset_name(reader), None
    if reader.accept("COLLATE"):
        reader.accept("=")
        return None, _charset_name(reader)
    word = reader.accept_any("ASCII", "UNICODE", "BYTE")
    if word:
        return {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}[word], None
    return (None, "") if reader.accept("BINARY") else None


def _charset_name(reader: Reader) -> str | None:
    """The name of a charset or a collation; none where it is left to a default."""
    if reader.accept("DEFAULT"):
        return None
    name = (reader.string() if reader.peek().kind is Kind.STRING else reader.name()).lower()
    return name.replace("utf8mb3", "utf8")


def with_charset(column: Column, charset: str | None, collation: str | None) -> Column:
    """A column with a charset or a collation that is said of it; a collation's name begins with its charset."""
    if collation:
        charset = collation.split("_")[0]
    elif charset is None:
        return replace(column, collation=column.collation or collation)
    return replace(column, charset=charset, collation=collation)


def sized(column: Column, charset: str) -> Column:
    """TEXT(n) and BLOB(n) as the smallest type that holds n characters; ``charset`` is the one of the table."""
    if column.type is not MySQLType.BLOB:
        return column
    per_character = _BYTES_PER_CHARACTER.get(column.charset or charset, 4)
    needed = (1 << 16) - 1 if column.length is None else column.length * per_character
    sizes = (MySQLType.TINYBLOB, MySQLType.BLOB, MySQLType.MEDIUMBLOB)
    type_ = next((size for size in sizes if needed <= (default_length(size) or 0)), MySQLType.LONGBLOB)
    return replace(column, type=type_, length=default_length(type_))
