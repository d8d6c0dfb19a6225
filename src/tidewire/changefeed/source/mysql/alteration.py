"""ALTER TABLE: which of TiDB's actions it is, and what it makes of a table's columns and indexes.

That includes statements whose new values are not in the statement. A row consumer must stop at one; a binlog reader can
continue, because the next rows have the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidewire.ddl.columns import Definition, read_column
from tidewire.ddl.edits import AddColumn, AlterTable, ColumnEdit, ColumnPosition, Edit, Impossible, RenameTable
from tidewire.ddl.lex import Kind, Token, lex
from tidewire.ddl.parse import edits
from tidewire.ddl.reader import Reader
from tidewire.ddl.tables import Element, keys_of, read_element
from tidewire.ddl.types import sized
from tidewire.model import Ddl, DdlType, TableName

_Type = DdlType
_KEYS = ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL")

_ADD_TYPES: Mapping[str, DdlType | None] = {
    **dict.fromkeys(_KEYS, _Type.ADD_INDEX),
    "PRIMARY": _Type.ADD_PRIMARY_KEY,
    "FOREIGN": _Type.ADD_FOREIGN_KEY,
    "CHECK": None,
    "PARTITION": _Type.ADD_TABLE_PARTITION,
    "SYSTEM": None,
    "PERIOD": None,
}
_DROP_TYPES: Mapping[str, DdlType | None] = {
    **dict.fromkeys(("INDEX", "KEY"), _Type.DROP_INDEX),
    "PRIMARY": _Type.DROP_PRIMARY_KEY,
    "FOREIGN": _Type.DROP_FOREIGN_KEY,
    "PARTITION": _Type.DROP_TABLE_PARTITION,
    **dict.fromkeys(("CHECK", "CONSTRAINT", "SYSTEM", "PERIOD"), None),
}
_OTHER_TYPES: Mapping[str, DdlType] = {
    **dict.fromkeys(("MODIFY", "CHANGE"), _Type.MODIFY_COLUMN),
    **dict.fromkeys(("CONVERT", "CHARACTER", "CHARSET", "COLLATE", "DEFAULT"), _Type.MODIFY_TABLE_CHARSET_AND_COLLATE),
    "COMMENT": _Type.MODIFY_TABLE_COMMENT,
    "AUTO_INCREMENT": _Type.REBASE_AUTO_ID,
    "TRUNCATE": _Type.TRUNCATE_TABLE_PARTITION,
    "EXCHANGE": _Type.EXCHANGE_TABLE_PARTITION,
    **dict.fromkeys(("REORGANIZE", "COALESCE"), _Type.REORGANIZE_PARTITION),
    "PARTITION": _Type.ALTER_TABLE_PARTITIONING,
}


def alter_type(tokens: Sequence[Token]) -> DdlType | None:
    """The action of an ALTER TABLE, from the tokens after the table's name; ``None`` if TiDB has no such action."""
    found = [action for part in parts(tokens) for action in _types_of(part)]
    kinds = [action for action in found if action is not None]
    if len(kinds) > 1:
        return DdlType.MULTI_SCHEMA_CHANGE
    return kinds[0] if kinds else None


def parts(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The actions of a statement: the tokens between commas that are not in parentheses."""
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if token.kind is Kind.END or (token.word in (",", ";") and not depth):
            if part:
                yield part
            part = []
        else:
            part.append(token)


def _types_of(part: Sequence[Token]) -> Iterator[DdlType | None]:
    words = [token.word for token in part if token.word not in ("IF", "NOT", "EXISTS")]
    verb, rest = words[0], [*words[1:], "", "", ""]
    if verb == "ADD":
        yield from _types_of_add(part, rest)
    elif verb == "DROP":
        yield _DROP_TYPES.get(rest[0], DdlType.DROP_COLUMN)
    elif verb == "RENAME":
        yield {"COLUMN": _Type.MODIFY_COLUMN, "INDEX": _Type.RENAME_INDEX, "KEY": _Type.RENAME_INDEX}.get(
            rest[0], _Type.RENAME_TABLE
        )
    elif verb == "ALTER":
        yield {"INDEX": _Type.ALTER_INDEX_VISIBILITY, "KEY": _Type.ALTER_INDEX_VISIBILITY, "CHECK": None}.get(
            rest[0], _Type.SET_DEFAULT_VALUE
        )
    elif verb == "REMOVE":
        yield DdlType.REMOVE_PARTITIONING
    else:
        yield _OTHER_TYPES.get(verb)


def _types_of_add(part: Sequence[Token], rest: Sequence[str]) -> Iterator[DdlType | None]:
    if rest[0] == "CONSTRAINT":
        yield next((_ADD_TYPES[word] for word in rest[1:] if word in _ADD_TYPES), None)
    elif rest[0] in _ADD_TYPES:
        yield _ADD_TYPES[rest[0]]
    elif rest[0] == "(" or rest[:2] == ["COLUMN", "("]:
        opening = next(number for number, token in enumerate(part) if token.word == "(")
        for element in parts([*part[opening + 1 : -1], Token(Kind.SIGN, ",", 0, 0)]):
            yield _ADD_TYPES.get(element[0].word, DdlType.ADD_COLUMN)
    else:
        yield DdlType.ADD_COLUMN


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes of a table's columns and indexes, and its name after them."""

    changes: tuple[ColumnEdit, ...]
    name: TableName


def alteration(table: TableName, text: str, start: int) -> Alteration:
    """What an ALTER TABLE, CREATE INDEX or DROP INDEX does; its actions begin at ``start``.

    Raises ``Unreadable`` if the statement cannot be read.
    """
    found = edits(Ddl(table, None, text))
    if any(isinstance(edit, Impossible) for edit in found):
        found = tuple(edit for action in _action_texts(text, start) for edit in _edits(table, action))
    changes = [change for edit in found if isinstance(edit, AlterTable) for change in edit.changes]
    names = [edit.new for edit in found if isinstance(edit, RenameTable)]
    return Alteration(tuple(changes), names[-1] if names else table)


def _action_texts(text: str, start: int) -> Iterator[str]:
    tokens = [token for token in lex(text) if token.start >= start]
    for part in parts(tokens):
        yield text[part[0].start : part[-1].end]


def _edits(table: TableName, action: str) -> tuple[Edit, ...]:
    """The edits of one action; actions that only move rows have none."""
    name = ".".join(f"`{part.replace('`', '``')}`" for part in table)
    found = edits(Ddl(table, None, f"ALTER TABLE {name} {action}"))
    if not any(isinstance(edit, Impossible) for edit in found):
        return found
    reader = Reader(action, table.schema)
    if not reader.accept("ADD") or reader.sees("PARTITION"):
        return ()
    return (AlterTable(table, tuple(_additions(reader))),)


def _additions(reader: Reader) -> Iterator[ColumnEdit]:
    reader.accept("COLUMN")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if reader.sees("("):
        for element in reader.listed(lambda: read_element(reader)):
            yield from _element(element, ColumnPosition(), if_not_exists)
        return
    definition = read_column(reader)
    position = ColumnPosition(first=reader.accept("FIRST"))
    if reader.accept("AFTER"):
        position = ColumnPosition(after=reader.column_name())
    yield from _element(definition, position, if_not_exists)


def _element(element: Element, position: ColumnPosition, if_not_exists: bool) -> Iterator[ColumnEdit]:
    if isinstance(element, Definition):
        yield AddColumn(sized(element.column, "utf8mb4"), position, if_not_exists)
        yield from keys_of(element)
    elif element.add is not None:
        yield element.add
