"""Patterns over names and texts: Go's regular expressions, wildcards, and the halves of a table filter's line.

A half of ``schema.table`` is a plain name, one with wildcards, a quoted one or a ``/regexp/``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from tidewire.errors import MissingExtra

Search: TypeAlias = Callable[[str], bool]
"""Is there a match anywhere in a text?"""


@lru_cache(maxsize=1024)
def searching(pattern: str, *, ignore_case: bool = False) -> Search:
    """A search for a pattern, not anchored; raises ``ValueError`` with RE2's reason if it is not valid."""
    try:
        import re2
    except ImportError:
        raise MissingExtra("google-re2", "changefeed") from None
    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise ValueError(_reason(error)) from None
    return lambda text: compiled.search(text) is not None


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def with_wildcards(segments: Sequence[str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """A pattern for ``fullmatch``: these segments, with any run of characters between two of them.

    A segment is a regular expression of fixed length. Those in the middle match as early as possible and without
    backtracking, so that a match takes one pass over the text: what matches later also matches after the first place.
    """
    first, *rest = segments
    middle, last = rest[:-1], rest[-1:]
    found = "".join(f"(?>.*?{segment})" for segment in middle)
    return re.compile(first + found + "".join(f".*{segment}" for segment in last), re.DOTALL | flags)


class PatternError(Exception):
    """A text is not a pattern; ``at`` is where the mistake is. Only this package raises and catches it."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem, at)
        self.problem = problem
        self.at = at


class NamePattern(NamedTuple):
    """A test for a name, which is in lower case if case does not count. ``everything``: every name matches."""

    matches: Callable[[str], bool]
    everything: bool = False


def read_pattern(text: str, at: int, fold: bool) -> tuple[NamePattern, int]:
    """Read the pattern at a position of a text, and return its end too; ``fold``: case does not count."""
    if at >= len(text):
        raise PatternError("a pattern is missing", at)
    return _READERS.get(text[at], _wildcard)(text, at, fold)


_REGEXP = re.compile(r"/((?:\\.|[^/\\])*)/", re.DOTALL)
_QUOTED = {quote: re.compile(f"{quote}((?:{quote}{quote}|[^{quote}])+){quote}", re.DOTALL) for quote in '"`'}
_PART = re.compile(
    r"""
      (?P<plain> [A-Za-z0-9$_\u0080-\U0010ffff]+ )
    | \\(?P<escaped> [^A-Za-z0-9] )
    | (?P<run> \* )
    | (?P<one> \? )
    | \[ (?P<negated> !)?+ (?P<class> (?: \\[^A-Za-z0-9] | [^\\\]] )+ ) \]
    """,
    re.VERBOSE | re.DOTALL,
)
_EVERY_NAME = frozenset({"", ".*", "(?s)^.*$"})
"""Regular expressions that are known to match every name."""


def _regexp(text: str, at: int, fold: bool) -> tuple[NamePattern, int]:
    found = _REGEXP.match(text, at)
    if found is None:
        raise PatternError("the regular expression has no closing slash", at)
    pattern = found[1].replace(r"\/", "/")
    try:
        return NamePattern(searching(pattern, ignore_case=fold), pattern in _EVERY_NAME), found.end()
    except ValueError as error:
        raise PatternError(f"not a regular expression ({error})", at) from None


def _quoted(text: str, at: int, fold: bool) -> tuple[NamePattern, int]:
    quote = text[at]
    found = _QUOTED[quote].match(text, at)
    if found is None:
        raise PatternError("the quoted name is empty or does not end", at)
    return _exactly(found[1].replace(quote * 2, quote), fold), found.end()


def _exactly(name: str, fold: bool) -> NamePattern:
    return NamePattern((name.lower() if fold else name).__eq__)


def _wildcard(text: str, at: int, fold: bool) -> tuple[NamePattern, int]:
    start, parts = at, []
    while (found := _PART.match(text, at)) is not None:
        parts.append(found)
        at = found.end()
    if text[at : at + 1] not in ("", "."):
        raise PatternError(_UNEXPECTED.get(text[at], f"{text[at]!r} must have a backslash before it"), at)
    if not parts:
        raise PatternError("a pattern is missing", start)
    if all(part["plain"] or part["escaped"] for part in parts):
        return _exactly("".join(part["plain"] or part["escaped"] for part in parts), fold), at
    pattern = with_wildcards(_segments(parts), re.IGNORECASE if fold else re.NOFLAG)
    everything = all(part["run"] for part in parts)
    return NamePattern(lambda name: pattern.fullmatch(name) is not None, everything), at


_UNEXPECTED: Mapping[str, str] = {
    "\\": "a backslash must stand before a character that is neither letter nor digit",
    "[": "the character class is empty or does not end",
    **dict.fromkeys('"`', "quotes must stand around the whole name"),
}


def _segments(parts: Iterable[re.Match[str]]) -> list[str]:
    """The parts between runs."""
    segments = [""]
    for part in parts:
        if part["run"]:
            segments.append("")
        else:
            segments[-1] += _source(part)
    return segments


def _source(part: re.Match[str]) -> str:
    """A part, not a run, as Python's ``re`` writes it."""
    match part.lastgroup:
        case "one":
            return "."
        case "class":
            return f"[{'^' if part['negated'] else ''}{_members(part['class'], part.start('class'))}]"
        case _:
            return re.escape(part["plain"] or part["escaped"])


_MEMBER = re.compile(r"(\\?.)(?:-(\\?.))?", re.DOTALL)


def _members(text: str, at: int) -> str:
    members = []
    for found in _MEMBER.finditer(text):
        first, last = found[1][-1], (found[2] or found[1])[-1]
        if last < first:
            raise PatternError(f"the range {first}-{last} is empty", at + found.start())
        members.append(re.escape(first) if found[2] is None else f"{re.escape(first)}-{re.escape(last)}")
    return "".join(members)


_READERS: Mapping[str, Callable[[str, int, bool], tuple[NamePattern, int]]] = {
    "/": _regexp,
    '"': _quoted,
    "`": _quoted,
}
