"""A cursor over the tokens of an expression, with signs of several characters put together."""

from __future__ import annotations

from tidewire.ddl.lex import Kind, Token, lex

_START = "where "
"""An expression is read as a statement's clause: in lower case, the lexer takes it for a user's text with escapes."""

_LONG_SIGNS = ("<=>", "->>", "<=", ">=", "<>", "!=", "&&", "||", "<<", ">>", "->")
_LONGEST_SIGN = 3


class SyntaxProblem(Exception):
    """A text is not an expression. It stays inside this package."""


class Cursor:
    """The tokens of one expression, in turn."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _joined(lex(_START + text)[1:])
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

    def sees(self, *words: str) -> bool:
        """Do these words or signs come next?"""
        return all(self.peek(ahead).word == word for ahead, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Pass these words if they come next, all of them or none."""
        found = self.sees(*words)
        self._at += len(words) * found
        return found

    def accept_any(self, *words: str) -> str | None:
        """Pass one of these words if it comes next, and say which."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, word: str) -> None:
        """Pass a word, which has to be there."""
        if not self.accept(word):
            raise self.wrong(word)

    def integer(self) -> int:
        """A whole number."""
        if self.peek().kind is not Kind.NUMBER or not self.peek().text.isdecimal():
            raise self.wrong("a whole number")
        return int(self.next().text)

    def wrong(self, expected: str) -> SyntaxProblem:
        """What to raise where something else was expected."""
        token = self.peek()
        start, end = token.start - len(_START), token.end - len(_START)
        found = "the end" if token.kind is Kind.END else repr(self._text[start:end][:40])
        return SyntaxProblem(f"expected {expected}, found {found} at character {start + 1}")


def _joined(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    at = 0
    while at < len(tokens):
        token = _longest_sign(tokens[at : at + _LONGEST_SIGN]) if tokens[at].kind is Kind.SIGN else tokens[at]
        joined.append(token)
        at += len(token.text) if token.kind is Kind.SIGN else 1
    return joined


def _longest_sign(tokens: list[Token]) -> Token:
    """The longest sign these tokens begin with, which has nothing in between."""
    first = tokens[0]
    for sign in _LONG_SIGNS:
        parts = tokens[: len(sign)]
        adjacent = parts[-1].end - first.start == len(sign)
        if adjacent and "".join(part.word for part in parts) == sign:
            return Token(Kind.SIGN, sign, first.start, parts[-1].end)
    return first
