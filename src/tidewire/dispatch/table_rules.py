r"""Which tables a list of patterns means: the grammar of TiDB's table filter.

A line is ``schema.table``; each half is a plain name, a name with wildcards, a quoted name or a ``/regexp/``. ``!``
in front takes tables out again, ``#`` begins a comment, ``@file`` reads more lines from a file. The last line that
matches decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tidewire.dispatch.patterns import NamePattern, PatternError, read_pattern
from tidewire.errors import ChangefeedError
from tidewire.model import TableName

INVALID = "CDC:ErrFilterRuleInvalid"

SYSTEM_SCHEMAS = frozenset(
    {"information_schema", "performance_schema", "metrics_schema", "inspection_schema", "mysql", "sys"}
    | {"tidb_cdc", "lightning_task_info", "workload_schema"}
)
"""Schemas that are never replicated, whatever the rules say."""


class _Line(NamedTuple):
    """A line of rules and where it stands."""

    text: str
    place: str = ""

    def wrong(self, problem: str, at: int) -> ChangefeedError:
        """What to raise for a line that is not a rule; columns count from 1."""
        return ChangefeedError(INVALID, f"the rule {self.text!r}{self.place}: {problem} at column {at + 1}")


@dataclass(frozen=True, slots=True)
class _TableRule:
    keeps: bool
    schema: NamePattern
    table: NamePattern


@dataclass(frozen=True, slots=True)
class _ColumnRule:
    keeps: bool
    column: NamePattern


@dataclass(frozen=True, slots=True)
class TablePatterns:
    """A list of patterns over tables: the ``matcher`` of dispatch rules, selectors and event filters."""

    _rules: tuple[_TableRule, ...]
    _fold: bool

    @classmethod
    def parse(cls, patterns: Iterable[str], *, case_sensitive: bool = False) -> TablePatterns:
        """Patterns from their lines; ``CDC:ErrFilterRuleInvalid`` names the line and the column.

        >>> tables = TablePatterns.parse(["shop.*", "!shop.tmp_?"])
        >>> tables.matches(TableName("shop", "orders")), tables.matches(TableName("shop", "tmp_1"))
        (True, False)
        """
        fold = not case_sensitive
        return cls(tuple(_table_rule(line, fold) for line in _lines(patterns)), fold)

    def matches(self, name: TableName) -> bool:
        """Does the last pattern that matches a table keep it?"""
        schema, table = name.folded if self._fold else name
        for rule in reversed(self._rules):
            if rule.schema.matches(schema) and rule.table.matches(table):
                return rule.keeps
        return False

    def matches_schema(self, schema: str) -> bool:
        """Could a table of this schema be kept? A pattern that takes out only some of its tables does not count."""
        folded = schema.lower() if self._fold else schema
        for rule in reversed(self._rules):
            if rule.schema.matches(folded) and (rule.keeps or rule.table.everything):
                return rule.keeps
        return False

    def covers(self, name: TableName) -> bool:
        """Does this match a table, or its schema if the table's name is empty?"""
        return self.matches(name) if name.table else self.matches_schema(name.schema)


@dataclass(frozen=True, slots=True)
class TableRules:
    """The tables of a changefeed, ``filter.rules``: every table where there are no rules, never a system schema."""

    patterns: TablePatterns

    @classmethod
    def parse(cls, patterns: Iterable[str] = (), *, case_sensitive: bool = False) -> TableRules:
        """Rules from their lines.

        >>> rules = TableRules.parse(["test.t1"])
        >>> rules.matches(TableName("TEST", "T1")), rules.matches_schema("test")
        (True, True)
        """
        return cls(TablePatterns.parse(tuple(patterns) or ("*.*",), case_sensitive=case_sensitive))

    def matches(self, name: TableName) -> bool:
        """Is a table replicated?"""
        return name.schema.lower() not in SYSTEM_SCHEMAS and self.patterns.matches(name)

    def matches_schema(self, schema: str) -> bool:
        """Are statements about a schema sent?"""
        return schema.lower() not in SYSTEM_SCHEMAS and self.patterns.matches_schema(schema)

    def covers(self, name: TableName) -> bool:
        """Is a table replicated, or its schema if the table's name is empty?"""
        return self.matches(name) if name.table else self.matches_schema(name.schema)


@dataclass(frozen=True, slots=True)
class ColumnPatterns:
    """A list of patterns over column names: the same grammar without the dot, never case-sensitive."""

    _rules: tuple[_ColumnRule, ...]

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> ColumnPatterns:
        """Patterns from their lines.

        >>> ColumnPatterns.parse(["*", "!secret*"]).matches("Secret_key")
        False
        """
        return cls(tuple(_column_rule(line) for line in _lines(patterns)))

    def matches(self, column: str) -> bool:
        """Does the last pattern that matches a column keep it?"""
        folded = column.lower()
        return next((rule.keeps for rule in reversed(self._rules) if rule.column.matches(folded)), False)


def _lines(patterns: Iterable[str]) -> Iterator[_Line]:
    """The lines that are rules; an import is replaced by the lines of its file."""
    for pattern in patterns:
        line = _Line(pattern.strip(" \t"))
        yield from _imported(line) if line.text.startswith("@") else _rule_lines([line])


def _rule_lines(lines: Iterable[_Line]) -> Iterator[_Line]:
    return (line for line in lines if line.text and not line.text.startswith("#"))


def _imported(line: _Line) -> Iterator[_Line]:
    file = line.text[1:]
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise line.wrong(f"the file {file!r} cannot be read ({error})", 1) from None
    rows = enumerate(text.split("\n"), 1)
    for found in _rule_lines(
        [_Line(row.rstrip("\r").strip(" \t"), f" in line {number} of {file!r}") for number, row in rows]
    ):
        if found.text.startswith("@"):
            raise found.wrong("a file that is imported cannot import another one", 0)
        yield found


def _table_rule(line: _Line, fold: bool) -> _TableRule:
    keeps, (schema, table) = _rule(line, fold, 2)
    return _TableRule(keeps, schema, table)


def _column_rule(line: _Line) -> _ColumnRule:
    keeps, (column,) = _rule(line, True, 1)
    return _ColumnRule(keeps, column)


def _rule(line: _Line, fold: bool, halves: int) -> tuple[bool, Sequence[NamePattern]]:
    """The sign of a line and its patterns, which have dots between them."""
    text, found = line.text, []
    at = int(text.startswith("!"))
    try:
        for half in range(halves):
            if half:
                at = _dot(text, at)
            pattern, at = read_pattern(text, at, fold)
            found.append(pattern)
        if at < len(text):
            raise PatternError(f"{text[at]!r} is not expected after the pattern", at)
    except PatternError as error:
        raise line.wrong(error.problem, error.at) from None
    return not text.startswith("!"), found


def _dot(text: str, at: int) -> int:
    if not text.startswith(".", at):
        raise PatternError("a dot between schema and table is missing", at)
    return at + 1
