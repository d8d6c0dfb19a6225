"""A cursor over tokens, with the small phrases every statement is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tidewire.ddl.lex import Kind, Token, lex
from tidewire.model import TableName

T = TypeVar("T")

LONGEST_INTEGER = 20
"""Digits of the largest number MySQL has."""


class Unreadable(Exception):
    """A statement is not what its beginning promised. It stays inside this package."""


def same_table(one: TableName, other: TableName) -> bool:
    """TiDB compares names without regard to case."""
    return (one.schema.lower(), one.table.lower()) == (other.schema.lower(), other.table.lower())


class Reader:
    """A cursor over the tokens of one text.

    Names without a database are in ``schema``. ``known`` are tables whose spelling is known: a statement may write
    their names in other letters.
    """

    def __init__(self, query: str, schema: str = "", known: Iterable[TableName] = ()) -> None:
        self._query = query
        self._schema = schema
        self._known = tuple(known)
        self._tokens = lex(query)
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further on."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """The next token, which is then behind us."""
        token = self.peek()
        if token.kind is Kind.BROKEN:
            raise self.wrong("a string or name that ends")
        self._at += token.kind is not Kind.END
        return token

    @property
    def ended(self) -> bool:
        """Is nothing left, or does the next statement begin?"""
        return self.peek().kind is Kind.END or self.peek().word == ";"

    def wrong(self, expected: str) -> Unreadable:
        """What to raise where something else was expected."""
        token = self.peek()
        found = "the end" if token.kind is Kind.END else repr(self._query[token.start : token.end][:40])
        return Unreadable(f"expected {expected}, found {found} at character {token.start}")

    def sees(self, *words: str) -> bool:
        """Do these words come next?"""
        return all(self.peek(ahead).word == word for ahead, word in enumerate(words))

    def sees_any(self, *words: str) -> bool:
        """Does one of these words come next?"""
        return self.peek().word in words

    def accept(self, *words: str) -> bool:
        """Pass these words if they come next, all of them or none."""
        found = self.sees(*words)
        self._at += len(words) * found
        return found

    def accept_any(self, *words: str) -> str | None:
        """Pass one of these words if it comes next, and say which."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        """Pass these words, which have to be there."""
        for word in words:
            if not self.accept(word):
                raise self.wrong(word)

    def name(self) -> str:
        """An identifier. MySQL in ANSI mode puts it in double quotes."""
        token = self.peek()
        if token.kind in (Kind.NAME, Kind.WORD) or (
            token.kind is Kind.STRING and self._query[token.start : token.start + 1] == '"'
        ):
            return self.next().text
        raise self.wrong("a name")

    def table(self, schema: str | None = None) -> TableName:
        """A table's name; ``schema`` is the database of a name that says none, where it is not the reader's."""
        first = self.name()
        name = TableName(first, self.name()) if self.accept(".") else TableName(schema or self._schema, first)
        if not name.schema:
            raise Unreadable(f"nothing says which database the table {first!r} is in")
        spellings = {known for known in self._known if same_table(known, name)}
        return spellings.pop() if len(spellings) == 1 else name

    def column_name(self) -> str:
        """A column's name; a table's name in front of it, as in ``t.c``, says nothing new."""
        name = self.name()
        while self.accept("."):
            name = self.name()
        return name

    def string(self) -> str:
        """A string; strings side by side are one, and a character set in front says how they are stored, not what."""
        if self.peek().kind is Kind.WORD and self.peek().text.startswith("_"):
            self.next()
        if self.peek().kind not in (Kind.STRING, Kind.BYTES):
            raise self.wrong("a string")
        parts = []
        while self.peek().kind in (Kind.STRING, Kind.BYTES):
            token = self.next()
            parts.append(token.text if token.kind is Kind.STRING else self.decoded(token))
        return "".join(parts)

    def decoded(self, token: Token) -> str:
        """The text behind a hexadecimal literal."""
        try:
            return bytes.fromhex(token.text).decode("utf-8")
        except UnicodeDecodeError:
            raise Unreadable(f"0x{token.text} at character {token.start} is no UTF-8 text") from None

    def integer(self) -> int:
        """A whole number without a sign."""
        text = self.peek().text
        if self.peek().kind is not Kind.NUMBER or not text.isdecimal() or len(text) > LONGEST_INTEGER:
            raise self.wrong("a whole number")
        return int(self.next().text)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """What ``read`` reads, or ``None`` and no step taken where it cannot."""
        start = self._at
        try:
            return read()
        except Unreadable:
            self._at = start
            return None

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Items between parentheses, separated by commas."""
        self.expect("(")
        items = [item()]
        while self.accept(","):
            items.append(item())
        self.expect(")")
        return items

    def pass_parentheses(self) -> None:
        """Pass an expression in parentheses."""
        self.expect("(")
        depth = 1
        while depth:
            token = self.next()
            if token.kind is Kind.END:
                raise self.wrong("a closing parenthesis")
            depth += {"(": 1, ")": -1}.get(token.word, 0)

    def pass_call(self) -> None:
        """Pass a function's name and its arguments, if it has any."""
        self.next()
        while self.accept("."):
            self.next()
        if self.sees("("):
            self.pass_parentheses()

    def pass_element(self) -> list[str]:
        """Pass what is left of an element of a list, and say which words it has outside parentheses."""
        words = []
        while not (self.ended or self.sees(",") or self.sees(")")):
            if self.sees("("):
                self.pass_parentheses()
            else:
                words.append(self.next().word)
        return words

    def pass_statement(self) -> None:
        """Pass what is left of the statement, whatever it is."""
        while not self.ended:
            self._at += 1

    def pass_all(self) -> None:
        """Pass everything: the bodies of procedures have statements in them."""
        self._at = len(self._tokens) - 1

    def index_parts(self) -> list[str | None]:
        """The columns of an index, without lengths and directions; ``None`` if a part is an expression."""
        return self.listed(self._index_part)

    def _index_part(self) -> str | None:
        column = None
        if self.sees("("):
            self.pass_parentheses()
        else:
            column = self.column_name()
            if self.sees("("):
                self.listed(self.integer)
        self.accept_any("ASC", "DESC")
        return column
