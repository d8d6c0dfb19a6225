"""MySQL text as tokens: names, words, literals and signs, with TiDB's special comments opened up.

What stands in ``/*T! ... */``, ``/*T![feature] ... */`` and ``/*!40101 ... */`` counts as if there were no comment
around it; every other comment is left out. A text that breaks off inside a literal ends with a ``BROKEN`` token, so
that a caller which needs only the beginning of a statement can still read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    BYTES = "bytes"
    NUMBER = "number"
    SIGN = "sign"
    BROKEN = "broken"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a statement.

    ``text`` is what it means: a name without its quotes, a string with its escapes resolved, a word as it is written,
    the hexadecimal digits of a bit or hexadecimal literal. ``start`` and ``end`` are its place in the statement.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A word in capitals, a sign as it is, and nothing for all that cannot be a keyword."""
        return self.text.upper() if self.kind in (Kind.WORD, Kind.SIGN) else ""


_LEXEMES = r"""
      (?P<space> \s+ | /\*T?!(?:\[[\w,]*\]|\d{5,6})? | \*/ | /\*.*?\*/ | --(?=\s|\Z)[^\n]* | \#[^\n]* )
    | (?P<name> `(?:[^`]|``)*+` )
    | (?P<hex> [xX]'[0-9a-fA-F]*' | 0x[0-9a-fA-F]+(?![\w$\u0080-\uffff]) )
    | (?P<bit> [bB]'[01]*' | 0b[01]+(?![\w$\u0080-\uffff]) )
    | (?P<string> {strings} )
    | (?P<number> (?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+(?![\w$\u0080-\uffff]) )
    | (?P<word> [\w$\u0080-\uffff]+ )
    | (?P<broken> [`'"].* )
    | (?P<sign> . )
"""
_ESCAPED_STRINGS = r"""[nN]?'(?:[^'\\]|''|\\.)*+' | "(?:[^"\\]|""|\\.)*+" """
_LITERAL_STRINGS = r"""'(?:[^']|'')*+'"""


def _pattern(strings: str) -> re.Pattern[str]:
    return re.compile(_LEXEMES.replace("{strings}", strings), re.VERBOSE | re.DOTALL)


_WITH_ESCAPES, _WITHOUT_ESCAPES = _pattern(_ESCAPED_STRINGS), _pattern(_LITERAL_STRINGS)
_ESCAPE = {quote: re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL) for quote in "'\""}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": r"\%", "_": r"\_"}


def _meaning(kind: str, text: str, escapes: bool) -> str:
    match kind:
        case "name":
            return text[1:-1].replace("``", "`")
        case "hex":
            digits = text[2:].rstrip("'")
            return digits.rjust(len(digits) + len(digits) % 2, "0")
        case "bit":
            bits = text[2:].rstrip("'")
            return f"{int(bits or '0', 2):0{(len(bits) + 7) // 8 * 2}x}" if bits else ""
        case "string":
            quoted = text.lstrip("nN")
            if not escapes:
                return quoted[1:-1].replace("''", "'")
            quote, body = quoted[0], quoted[1:-1]
            return _ESCAPE[quote].sub(lambda found: _ESCAPED.get(found[1], found[1]) if found[1] else quote, body)
    return text


_KINDS = {"hex": Kind.BYTES, "bit": Kind.BYTES}


def _lex(query: str, escapes: bool) -> Iterator[Token]:
    pattern = _WITH_ESCAPES if escapes else _WITHOUT_ESCAPES
    for found in pattern.finditer(query):
        kind = found.lastgroup or "sign"
        if kind != "space":
            meaning = _meaning(kind, found[0], escapes)
            yield Token(_KINDS.get(kind) or Kind(kind), meaning, found.start(), found.end())


_AS_GIVEN = frozenset({"COLLATE", "ENGINE"})
"""Words after which TiDB prints what the user wrote, in the user's letters."""


def _is_restored(tokens: list[Token]) -> bool:
    """Did TiDB's own printer write this?

    It puts every name in back quotes, every word in capitals, and a charset in front of a default.
    """
    previous = ""
    for token in tokens:
        if token.kind is Kind.BROKEN or (token.kind is Kind.STRING and previous == "DEFAULT"):
            return False
        if token.kind is Kind.WORD and token.text != token.word and previous not in _AS_GIVEN:
            return False
        previous = previous if token.text == "=" else token.word
    return True


def lex(query: str) -> list[Token]:
    r"""The tokens of a text, an ``END`` after the last one.

    TiCDC prints strings without escaping backslashes: the default ``a\b`` arrives as ``'a\b'``. A text in the form of
    TiDB's printer is read that way, any other one with MySQL's escapes.

    >>> [token.text for token in lex(r"CREATE TABLE `t` (`c` INT) COMMENT = 'a\b'")][-2]
    'a\\b'
    >>> [token.text for token in lex(r"create table t (c int) comment = 'it\'s'")][-2]
    "it's"
    """
    tokens = list(_lex(query, escapes="\\" not in query))
    if "\\" in query and not _is_restored(tokens):
        tokens = list(_lex(query, escapes=True))
    return [*tokens, Token(Kind.END, "", len(query), len(query))]


@lru_cache(maxsize=4096)
def signature(query: str) -> str:
    """A query's text for comparing: copies and replays of a statement have the same one.

    White space, comments, the case of words and a closing semicolon make no difference. Names in back quotes and
    strings stay as they are.

    >>> signature("create  table `T` (a int) -- note") == signature("CREATE TABLE `T` (A INT);")
    True
    """
    tokens = lex(query)[:-1]
    while tokens and tokens[-1].word == ";":
        tokens.pop()
    return " ".join(_SHOWN.get(token.kind, "{}").format(token.word or token.text) for token in tokens)


_SHOWN = {Kind.NAME: "`{}`", Kind.STRING: "'{}'", Kind.BYTES: "0x{}"}
