"""MySQL's column types, flags and Java types: the one table every codec looks into.

The numbers are those on the wire: TiDB's type bytes, TiCDC's flag bits, JDBC's type codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import NamedTuple


class MySQLType(IntEnum):
    """TiDB's type byte. Text and blob of a size share one; the charset tells them apart."""

    UNSPECIFIED = 0
    TINYINT = 1
    SMALLINT = 2
    INT = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    BIGINT = 8
    MEDIUMINT = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    VECTOR = 225
    JSON = 245
    DECIMAL = 246
    ENUM = 247
    SET = 248
    TINYBLOB = 249
    MEDIUMBLOB = 250
    LONGBLOB = 251
    BLOB = 252
    VAR_STRING = 253
    CHAR = 254
    GEOMETRY = 255


INTEGERS = frozenset({MySQLType.TINYINT, MySQLType.SMALLINT, MySQLType.MEDIUMINT, MySQLType.INT, MySQLType.BIGINT})
FLOATS = frozenset({MySQLType.FLOAT, MySQLType.DOUBLE})
TEMPORAL = frozenset({MySQLType.DATE, MySQLType.NEWDATE, MySQLType.TIME, MySQLType.DATETIME, MySQLType.TIMESTAMP})
BLOBS = frozenset({MySQLType.TINYBLOB, MySQLType.BLOB, MySQLType.MEDIUMBLOB, MySQLType.LONGBLOB})
CHARS = frozenset({MySQLType.CHAR, MySQLType.VARCHAR, MySQLType.VAR_STRING})
STRINGS = BLOBS | CHARS
"""Types that hold text, or bytes where the charset is ``binary``."""

ENUM_SET = frozenset({MySQLType.ENUM, MySQLType.SET})
"""Types whose values are an index or a bit mask into a list of names."""

TEXTUAL = STRINGS | ENUM_SET
"""Types that have a charset of their own; every other column counts as ``binary``."""


class ColumnFlag(IntFlag):
    """TiCDC's column bits, as Open Protocol and Craft send them."""

    BINARY = 0x01
    HANDLE_KEY = 0x02
    GENERATED = 0x04
    PRIMARY_KEY = 0x08
    UNIQUE_KEY = 0x10
    MULTIPLE_KEY = 0x20
    NULLABLE = 0x40
    UNSIGNED = 0x80


class JavaSQLType(IntEnum):
    """JDBC's type codes, as Canal-JSON sends them in ``sqlType``."""

    BIT = -7
    TINYINT = -6
    BIGINT = -5
    BINARY = -2
    NULL = 0
    CHAR = 1
    DECIMAL = 3
    INTEGER = 4
    SMALLINT = 5
    REAL = 7
    DOUBLE = 8
    VARCHAR = 12
    DATE = 91
    TIME = 92
    TIMESTAMP = 93
    BLOB = 2004
    CLOB = 2005


class TypeFacts(NamedTuple):
    """What never changes of a type. A new type is a row of these."""

    name: str
    """The SQL word; of text, where text and bytes share a type."""
    java: JavaSQLType = JavaSQLType.VARCHAR
    """What JDBC calls it, and so Canal-JSON."""
    zero: str = ""
    """MySQL's implicit default, as text."""
    length: int | None = None
    """The length that TiDB gives a column that declares none."""
    unsigned_length: int | None = None
    """The same of an unsigned column, where it differs."""
    binary_name: str | None = None
    """The SQL word if it holds bytes."""
    avro: str | None = None
    """The ``tidb_type`` in Avro: of the widest type, where several share one."""
    bits: int | None = None
    """How wide an integer is."""
    sized: bool = False
    """Does the length stand in the type's text, and can it differ from column to column?"""
    plain_text: bool = False
    """Are its values text in the model, which every protocol sends as it is?"""


_J = JavaSQLType

FACTS: Mapping[MySQLType, TypeFacts] = {
    MySQLType.UNSPECIFIED: TypeFacts("unspecified"),
    MySQLType.TINYINT: TypeFacts("tinyint", _J.TINYINT, "0", 4, 3, bits=8, sized=True),
    MySQLType.SMALLINT: TypeFacts("smallint", _J.SMALLINT, "0", 6, 5, bits=16, sized=True),
    MySQLType.INT: TypeFacts("int", _J.INTEGER, "0", 11, 10, avro="INT", bits=32, sized=True),
    MySQLType.FLOAT: TypeFacts("float", _J.REAL, "0", 12, avro="FLOAT", sized=True),
    MySQLType.DOUBLE: TypeFacts("double", _J.DOUBLE, "0", 22, avro="DOUBLE", sized=True),
    MySQLType.NULL: TypeFacts("null"),
    MySQLType.TIMESTAMP: TypeFacts("timestamp", _J.TIMESTAMP, "0000-00-00 00:00:00", 19, avro="TIMESTAMP"),
    MySQLType.BIGINT: TypeFacts("bigint", _J.BIGINT, "0", 20, avro="BIGINT", bits=64, sized=True),
    MySQLType.MEDIUMINT: TypeFacts("mediumint", _J.INTEGER, "0", 9, 8, bits=24, sized=True),
    MySQLType.DATE: TypeFacts("date", _J.DATE, "0000-00-00", 10, avro="DATE"),
    MySQLType.TIME: TypeFacts("time", _J.TIME, "00:00:00", 10, avro="TIME"),
    MySQLType.DATETIME: TypeFacts("datetime", _J.TIMESTAMP, "0000-00-00 00:00:00", 19, avro="DATETIME"),
    MySQLType.YEAR: TypeFacts("year", zero="0", length=4, avro="YEAR", sized=True),
    MySQLType.NEWDATE: TypeFacts("date", _J.DATE, "0000-00-00"),
    MySQLType.VARCHAR: TypeFacts("varchar", binary_name="varbinary", avro="TEXT", sized=True),
    MySQLType.BIT: TypeFacts("bit", _J.BIT, "0", 1, avro="BIT", sized=True),
    MySQLType.VECTOR: TypeFacts("vector", zero="[]", avro="TiDBVECTORFloat32", sized=True, plain_text=True),
    MySQLType.JSON: TypeFacts("json", zero="null", length=(1 << 32) - 1, avro="JSON", plain_text=True),
    MySQLType.DECIMAL: TypeFacts("decimal", _J.DECIMAL, "0", 10, avro="DECIMAL", sized=True),
    MySQLType.ENUM: TypeFacts("enum", _J.INTEGER, avro="ENUM"),
    MySQLType.SET: TypeFacts("set", _J.BIT, avro="SET"),
    MySQLType.TINYBLOB: TypeFacts("tinytext", _J.CLOB, "", (1 << 8) - 1, binary_name="tinyblob"),
    MySQLType.MEDIUMBLOB: TypeFacts("mediumtext", _J.CLOB, "", (1 << 24) - 1, binary_name="mediumblob"),
    MySQLType.LONGBLOB: TypeFacts("longtext", _J.CLOB, "", (1 << 32) - 1, binary_name="longblob", avro="BLOB"),
    MySQLType.BLOB: TypeFacts("text", _J.CLOB, "", (1 << 16) - 1, binary_name="blob"),
    MySQLType.VAR_STRING: TypeFacts("varchar", binary_name="varbinary", sized=True),
    MySQLType.CHAR: TypeFacts("char", _J.CHAR, "", 1, binary_name="binary", sized=True),
    MySQLType.GEOMETRY: TypeFacts("geometry"),
}

TEXTS = frozenset(type_ for type_, facts in FACTS.items() if facts.plain_text)
"""Types whose values are text in the model, which every protocol sends as it is."""


def default_length(type_: MySQLType, unsigned: bool = False) -> int | None:
    """The length that TiDB gives a column that declares none; None if it gives none either."""
    facts = FACTS[type_]
    return facts.length if facts.unsigned_length is None or not unsigned else facts.unsigned_length


_TYPES: Mapping[str, tuple[MySQLType, bool]] = {
    **{facts.name: (t, False) for t, facts in reversed(list(FACTS.items()))},
    **{facts.binary_name: (t, True) for t, facts in reversed(list(FACTS.items())) if facts.binary_name},
    "integer": (MySQLType.INT, False),
    "bool": (MySQLType.TINYINT, False),
    "boolean": (MySQLType.TINYINT, False),
    "numeric": (MySQLType.DECIMAL, False),
    "real": (MySQLType.DOUBLE, False),
}


def type_name(type_: MySQLType, binary: bool = False) -> str:
    """The SQL word for a type; ``binary`` turns text names into blob names."""
    facts = FACTS[type_]
    return facts.binary_name or facts.name if binary else facts.name


class TypeText(NamedTuple):
    """A MySQL type text taken apart: ``decimal(10, 2) unsigned``."""

    type: MySQLType
    binary: bool
    length: int | None
    decimal: int | None
    elements: tuple[str, ...]
    unsigned: bool
    zerofill: bool


_TYPE_TEXT = re.compile(
    r"(?P<name>[a-z]++)\s*+(?:\((?P<params>.*)\))?\s*+(?P<unsigned>unsigned)?\s*+(?P<zerofill>zerofill)?",
    re.IGNORECASE | re.DOTALL,
)
_ELEMENT = re.compile(r"\s*'((?:[^']|'')*)'\s*(,|$)")
_ESCAPES = {"''": "'", r"\n": "\n", r"\r": "\r", r"\0": "\0"}


def _elements(params: str) -> tuple[str, ...]:
    found, at = [], 0
    while at < len(params):
        match = _ELEMENT.match(params, at)
        if match is None:
            raise ValueError(f"not a list of quoted names: {params!r}")
        found.append(re.sub(r"''|\\[nr0]", lambda m: _ESCAPES[m[0]], match[1]))
        at = match.end()
    return tuple(found)


def quoted_elements(elements: tuple[str, ...]) -> str:
    """``'a','b'``: the names of an ENUM or SET as a type text writes them."""
    escape = {ord("'"): "''", ord("\n"): r"\n", ord("\r"): r"\r", 0: r"\0"}
    return ",".join(f"'{element.translate(escape)}'" for element in elements)


def parse_type(text: str) -> TypeText:
    """Parse the text of a MySQL type; raises ``ValueError`` if it is not valid.

    >>> parse_type("decimal(10, 4) unsigned")[2:6]
    (10, 4, (), True)
    """
    match = _TYPE_TEXT.fullmatch(text.strip())
    named = _TYPES.get(match["name"].lower()) if match else None
    if match is None or named is None:
        raise ValueError(f"not a MySQL type: {text!r}")
    type_, binary = named
    length = decimal = None
    elements: tuple[str, ...] = ()
    if match["params"] is not None:
        if type_ in ENUM_SET:
            elements = _elements(match["params"])
        else:
            numbers = [int(number) for number in match["params"].split(",")]
            if len(numbers) > 2 or min(numbers) < 0:
                raise ValueError(f"not a MySQL type: {text!r}")
            if type_ in TEMPORAL:
                decimal = numbers[0]
            else:
                length, decimal = numbers[0], numbers[1] if len(numbers) == 2 else None
    zerofill = match["zerofill"] is not None
    return TypeText(type_, binary, length, decimal, elements, zerofill or match["unsigned"] is not None, zerofill)
