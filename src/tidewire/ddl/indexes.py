"""Index and constraint definitions, as tables and ALTER statements contain them."""

from __future__ import annotations

from dataclasses import dataclass

from tidewire.ddl.edits import AddIndex
from tidewire.ddl.reader import Reader
from tidewire.ddl.table_builder import PRIMARY
from tidewire.model import Index


@dataclass(frozen=True, slots=True)
class Constraint:
    """An index or constraint; checks, foreign keys and indexes over expressions add nothing we keep."""

    add: AddIndex | None = None
    clustered: bool = True


def begins_constraint(reader: Reader) -> bool:
    """Does an index or a constraint come next, and not a column? Some of the words may also name a column."""
    word, then = reader.peek().word, reader.peek(1)
    if word in ("VECTOR", "COLUMNAR", "HYBRID"):
        return then.word in ("INDEX", "KEY")
    if word == "PERIOD":
        return then.word == "FOR"
    return word in _CONSTRAINTS


_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK"})


def read_constraint(reader: Reader) -> Constraint:
    """An index or a constraint up to the comma or parenthesis after it."""
    symbol = ""
    if reader.accept("CONSTRAINT"):
        reader.accept("IF", "NOT", "EXISTS")
        if reader.peek().word not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            symbol = reader.name()
    if reader.accept_any("FOREIGN", "CHECK", "PERIOD"):
        reader.pass_element()
        return Constraint()
    primary = reader.accept("PRIMARY")
    unique = primary or reader.accept("UNIQUE")
    reader.accept_any("FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID")
    reader.accept_any("INDEX", "KEY")
    return _read_index(reader, symbol, unique, primary)


def _read_index(reader: Reader, symbol: str, unique: bool, primary: bool) -> Constraint:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = symbol
    if not reader.sees("(") and not reader.sees("USING"):
        name = reader.name()
    if reader.accept_any("USING", "TYPE"):
        reader.name()
    parts = reader.index_parts()
    options = reader.pass_element()
    columns = tuple(part for part in parts if part is not None)
    if len(columns) < len(parts):
        return Constraint()
    index = Index(PRIMARY if primary else name, columns, unique and covers_all_rows(options), primary)
    return Constraint(AddIndex(index, if_not_exists), "NONCLUSTERED" not in options)


def covers_all_rows(options: list[str]) -> bool:
    """Does an index with these options hold all rows? If it has a condition, it is unique among some rows only."""
    return "WHERE" not in options
