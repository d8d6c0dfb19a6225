"""Which of TiDB's actions an ALTER TABLE is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidewire.ddl.lex import Kind, Token
from tidewire.model import DdlType

_T = DdlType
_KEYS = ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL")

_ADDED: Mapping[str, DdlType | None] = {
    **dict.fromkeys(_KEYS, _T.ADD_INDEX),
    "PRIMARY": _T.ADD_PRIMARY_KEY,
    "FOREIGN": _T.ADD_FOREIGN_KEY,
    "CHECK": None,
    "PARTITION": _T.ADD_TABLE_PARTITION,
    "SYSTEM": None,
    "PERIOD": None,
}
_DROPPED: Mapping[str, DdlType | None] = {
    **dict.fromkeys(("INDEX", "KEY"), _T.DROP_INDEX),
    "PRIMARY": _T.DROP_PRIMARY_KEY,
    "FOREIGN": _T.DROP_FOREIGN_KEY,
    "PARTITION": _T.DROP_TABLE_PARTITION,
    **dict.fromkeys(("CHECK", "CONSTRAINT", "SYSTEM", "PERIOD"), None),
}
_OTHER: Mapping[str, DdlType] = {
    **dict.fromkeys(("MODIFY", "CHANGE"), _T.MODIFY_COLUMN),
    **dict.fromkeys(("CONVERT", "CHARACTER", "CHARSET", "COLLATE", "DEFAULT"), _T.MODIFY_TABLE_CHARSET_AND_COLLATE),
    "COMMENT": _T.MODIFY_TABLE_COMMENT,
    "AUTO_INCREMENT": _T.REBASE_AUTO_ID,
    "TRUNCATE": _T.TRUNCATE_TABLE_PARTITION,
    "EXCHANGE": _T.EXCHANGE_TABLE_PARTITION,
    **dict.fromkeys(("REORGANIZE", "COALESCE"), _T.REORGANIZE_PARTITION),
    "PARTITION": _T.ALTER_TABLE_PARTITIONING,
}


def alter_type(tokens: Sequence[Token]) -> DdlType | None:
    """The action of an ALTER TABLE, from the tokens behind the table's name; ``None`` if TiDB has none for it."""
    found = [action for part in parts(tokens) for action in _actions(part)]
    kinds = [action for action in found if action is not None]
    if len(kinds) > 1:
        return DdlType.MULTI_SCHEMA_CHANGE
    return kinds[0] if kinds else None


def parts(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The actions between commas, without regard to commas in parentheses."""
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.word, 0)
        if token.kind is Kind.END or (token.word in (",", ";") and not depth):
            if part:
                yield part
            part = []
        else:
            part.append(token)


def _actions(part: Sequence[Token]) -> Iterator[DdlType | None]:
    words = [token.word for token in part if token.word not in ("IF", "NOT", "EXISTS")]
    verb, rest = words[0], [*words[1:], "", "", ""]
    if verb == "ADD":
        yield from _added(part, rest)
    elif verb == "DROP":
        yield _DROPPED.get(rest[0], DdlType.DROP_COLUMN)
    elif verb == "RENAME":
        yield {"COLUMN": _T.MODIFY_COLUMN, "INDEX": _T.RENAME_INDEX, "KEY": _T.RENAME_INDEX}.get(
            rest[0], _T.RENAME_TABLE
        )
    elif verb == "ALTER":
        yield {"INDEX": _T.ALTER_INDEX_VISIBILITY, "KEY": _T.ALTER_INDEX_VISIBILITY, "CHECK": None}.get(
            rest[0], _T.SET_DEFAULT_VALUE
        )
    elif verb == "REMOVE":
        yield DdlType.REMOVE_PARTITIONING
    else:
        yield _OTHER.get(verb)


def _added(part: Sequence[Token], rest: Sequence[str]) -> Iterator[DdlType | None]:
    if rest[0] == "CONSTRAINT":
        yield next((_ADDED[word] for word in rest[1:] if word in _ADDED), None)
    elif rest[0] in _ADDED:
        yield _ADDED[rest[0]]
    elif rest[0] == "(" or rest[:2] == ["COLUMN", "("]:
        opening = next(number for number, token in enumerate(part) if token.word == "(")
        for element in parts([*part[opening + 1 : -1], Token(Kind.SIGN, ",", 0, 0)]):
            yield _ADDED.get(element[0].word, DdlType.ADD_COLUMN)
    else:
        yield DdlType.ADD_COLUMN
