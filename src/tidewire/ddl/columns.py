"""Column definitions: a name, a type, and what may follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from tidewire.ddl.defaults import NOW, TODAY
from tidewire.ddl.lex import Kind
from tidewire.ddl.reader import LONGEST_INTEGER, Reader
from tidewire.ddl.types import read_charset, read_type, with_charset
from tidewire.model import Column, Generated, MySQLType
from tidewire.model.types import ENUM_SET, TEMPORAL
from tidewire.model.values import enum_text, set_text


@dataclass(frozen=True, slots=True)
class Definition:
    """A column as a statement defines it.

    A charset the statement does not name is ``None`` in the column. ``primary`` and ``unique`` are the keys declared
    with it, ``clustered`` what is said of the primary one. ``numbered``: the server counts its values;
    ``computed``: its default is an expression. What either gives to existing rows is not in the statement.
    """

    column: Column
    primary: bool = False
    unique: bool = False
    clustered: bool = True
    numbered: bool = False
    computed: bool = False


_NOW_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"), NOW),
    **dict.fromkeys(("CURRENT_DATE", "CURDATE"), TODAY),
}
_CONSTANTS = {"TRUE": "1", "FALSE": "0", "NULL": None}


class Default(NamedTuple):
    """A default: its value, or ``computed`` where it is an expression, which has none here.

    ``moment``: the value is a word for the current time, and not a string that reads like it. ``number``: it is a
    number, and not a string of digits.
    """

    value: str | bytes | None = None
    computed: bool = False
    moment: bool = False
    number: bool = False


def read_default(reader: Reader) -> Default:
    """A default value."""
    if reader.sees("("):
        return _parenthesised_default(reader)
    word = reader.peek().word
    if word in _NOW_WORDS:
        reader.pass_call()
        return Default(_NOW_WORDS[word], moment=True)
    if word in _CONSTANTS:
        reader.next()
        return Default(_CONSTANTS[word], number=True)
    if reader.accept("NEXT", "VALUE", "FOR"):
        reader.table()
        return Default(computed=True)
    if word in ("DATE", "TIME", "TIMESTAMP") and reader.peek(1).kind is Kind.STRING:
        reader.next()
    elif reader.peek(1).word == "(" and reader.peek().kind is Kind.WORD:
        reader.pass_call()
        return Default(computed=True)
    return _literal(reader)


def _literal(reader: Reader) -> Default:
    sign = reader.accept_any("-", "+")
    if reader.peek().kind is Kind.NUMBER:
        text = reader.next().text
        digits = text.lstrip("0") or "0" if text.isdecimal() else text
        return Default(("-" if sign == "-" else "") + digits, number=True)
    if reader.peek().text.startswith("_") and reader.peek(1).kind is Kind.BYTES:
        reader.next()
    if reader.peek().kind is Kind.BYTES:
        return Default(bytes.fromhex(reader.next().text))
    return Default(reader.string())


def _parenthesised_default(reader: Reader) -> Default:
    """A default in parentheses: a value like any other where it is a single literal, else an expression."""

    def single() -> Default:
        reader.expect("(")
        if reader.sees("("):
            raise reader.wrong("a literal")
        value = read_default(reader)
        reader.expect(")")
        return value

    default = reader.attempt(single)
    if default is None:
        reader.pass_parentheses()
    return default or Default(computed=True)


def read_column(reader: Reader) -> Definition:
    """A column definition, up to the comma, the parenthesis or the place that follows it."""
    name = reader.column_name()
    serial = reader.sees("SERIAL")
    definition = Definition(read_type(reader, name), unique=serial, numbered=serial)
    while True:
        attribute = _ATTRIBUTES.get(reader.peek().word)
        if attribute is None:
            charset = read_charset(reader)
            if charset is None:
                return definition
            definition = replace(definition, column=with_charset(definition.column, *charset))
        else:
            reader.next()
            definition = attribute(reader, definition)


Attribute: TypeAlias = Callable[[Reader, Definition], Definition]


def _with(definition: Definition, **changes: Any) -> Definition:
    return replace(definition, column=replace(definition.column, **changes))


def _not(reader: Reader, definition: Definition) -> Definition:
    if reader.accept("ENFORCED"):
        return definition
    reader.expect("NULL")
    return _with(definition, nullable=False)


def _null(reader: Reader, definition: Definition) -> Definition:
    return _with(definition, nullable=True)


def _default(reader: Reader, definition: Definition) -> Definition:
    default = read_default(reader)
    if default.computed or (default.moment and definition.column.type not in TEMPORAL):
        return replace(definition, computed=True)
    return _with(definition, default=_meant(definition.column, default.value, default.number))


def _meant(column: Column, raw: str | bytes | None, number: bool) -> str | bytes | None:
    """A literal as its column takes it: a number is the place of an ENUM's element, a string the bytes of a BIT."""
    if not isinstance(raw, str):
        return raw
    if number and column.type in ENUM_SET and raw.isdecimal() and len(raw) <= LONGEST_INTEGER:
        named = enum_text if column.type is MySQLType.ENUM else set_text
        found = named(int(raw), column.elements)
        return raw if found is None else found
    return raw if number or column.type is not MySQLType.BIT else raw.encode()


def _on_update(reader: Reader, definition: Definition) -> Definition:
    reader.expect("UPDATE")
    if reader.peek().word not in _NOW_WORDS:
        raise reader.wrong("CURRENT_TIMESTAMP")
    reader.pass_call()
    return definition


def _auto_random(reader: Reader, definition: Definition) -> Definition:
    if reader.sees("("):
        reader.pass_parentheses()
    return replace(definition, numbered=True)


def _serial(reader: Reader, definition: Definition) -> Definition:
    reader.expect("DEFAULT", "VALUE")
    return replace(_with(definition, nullable=False), unique=True, numbered=True)


def _unique(reader: Reader, definition: Definition) -> Definition:
    reader.accept("KEY")
    return replace(definition, unique=True)


def _primary(reader: Reader, definition: Definition) -> Definition:
    reader.expect("KEY")
    return _key(reader, definition)


def _key(reader: Reader, definition: Definition) -> Definition:
    return replace(_with(definition, nullable=False), primary=True)


def _generated(reader: Reader, definition: Definition) -> Definition:
    reader.expect("ALWAYS", "AS")
    return _as(reader, definition)


def _as(reader: Reader, definition: Definition) -> Definition:
    reader.pass_parentheses()
    stored = reader.accept_any("STORED", "PERSISTENT")
    reader.accept("VIRTUAL")
    return _with(definition, generated=Generated.STORED if stored else Generated.VIRTUAL)


def _constraint(reader: Reader, definition: Definition) -> Definition:
    if not reader.sees("CHECK"):
        reader.name()
    return definition


def _check(reader: Reader, definition: Definition) -> Definition:
    reader.pass_parentheses()
    return definition


def _references(reader: Reader, definition: Definition) -> Definition:
    reader.table()
    if reader.sees("("):
        reader.pass_parentheses()
    while True:
        if reader.accept("MATCH"):
            reader.name()
        elif reader.sees("ON", "DELETE") or reader.sees("ON", "UPDATE"):
            reader.expect("ON", reader.peek(1).word)
            if reader.accept_any("SET", "NO"):
                reader.accept_any("NULL", "DEFAULT", "ACTION")
            else:
                reader.name()
        else:
            return definition


def _auto_increment(reader: Reader, definition: Definition) -> Definition:
    return replace(_with(definition, nullable=False), numbered=True)


def _nonclustered(reader: Reader, definition: Definition) -> Definition:
    return replace(definition, clustered=False)


def _ignored(reader: Reader, definition: Definition) -> Definition:
    return definition


def _word_ignored(reader: Reader, definition: Definition) -> Definition:
    reader.accept("=")
    reader.next()
    return definition


_ATTRIBUTES: Mapping[str, Attribute] = {
    "NOT": _not,
    "NULL": _null,
    "DEFAULT": _default,
    "ON": _on_update,
    "AUTO_INCREMENT": _auto_increment,
    "AUTO_RANDOM": _auto_random,
    "SERIAL": _serial,
    "UNIQUE": _unique,
    "PRIMARY": _primary,
    "KEY": _key,
    "NONCLUSTERED": _nonclustered,
    "GENERATED": _generated,
    "AS": _as,
    "CONSTRAINT": _constraint,
    "CHECK": _check,
    "REFERENCES": _references,
    **dict.fromkeys(("ENFORCED", "CLUSTERED", "GLOBAL", "LOCAL", "VISIBLE", "INVISIBLE"), _ignored),
    **dict.fromkeys(("COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID"), _word_ignored),
    **dict.fromkeys(("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"), _word_ignored),
}
"""What may follow a type, by its first word; the charset's words are read by ``read_charset``."""
