"""Which events of a table are left out: the rules of ``filter.event-filters``.

An event is left out if at least one rule that matches its table says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidewire.dispatch.expression import Expression
from tidewire.dispatch.patterns import Search, searching
from tidewire.dispatch.statements import named_events, old_name, type_of
from tidewire.dispatch.table_rules import INVALID, TablePatterns
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, Op, Row, RowChange, TableName, TableSchema


@dataclass(frozen=True, slots=True)
class EventFilterRule:
    """One of ``filter.event-filters``, as it is written: events of some tables that are left out."""

    matcher: tuple[str, ...] = ()
    ignore_event: tuple[str, ...] = ()
    ignore_sql: tuple[str, ...] = ()
    ignore_insert_value_expr: str = ""
    ignore_update_new_value_expr: str = ""
    ignore_update_old_value_expr: str = ""
    ignore_delete_value_expr: str = ""
    ignore_update_only_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Condition:
    """An expression over one image of a row; an INSERT has no old image, and then the condition is false."""

    op: Op
    expression: Expression
    old: bool

    def holds(self, change: RowChange) -> bool:
        row: Row | None = change.before if self.old else change.after
        return change.op is self.op and row is not None and self.expression.holds(row, change.table)


@dataclass(frozen=True, slots=True)
class _Rule:
    tables: TablePatterns
    exact_tables: TablePatterns
    ops: frozenset[Op]
    types: frozenset[DdlType]
    statements: tuple[Search, ...]
    conditions: tuple[_Condition, ...]
    unimportant: frozenset[str]

    def ignores_ddl(self, ddl: Ddl, name: TableName) -> bool:
        return self.tables.covers(name) and (
            type_of(ddl) in self.types or any(search(ddl.query) for search in self.statements)
        )

    def ignores_type(self, change: RowChange) -> bool:
        return (change.op in self.ops or self._is_unimportant(change)) and self.tables.matches(change.table.name)

    def ignores_values(self, change: RowChange) -> bool:
        return (
            bool(self.conditions)
            and self.exact_tables.matches(change.table.name)
            and any(condition.holds(change) for condition in self.conditions)
        )

    def _is_unimportant(self, change: RowChange) -> bool:
        """Does an UPDATE change only listed columns, and none that an index has?"""
        if not self.unimportant or change.op is not Op.UPDATE:
            return False
        changed = _changed_columns(change)
        return bool(changed) and changed <= self.unimportant and changed.isdisjoint(_indexed_columns(change.table))


class EventFilter:
    """The rules about events.

    Matchers of ``ignore-*-value-expr`` are always case-sensitive, as in TiCDC; the others are if ``case_sensitive`` is
    set.
    """

    def __init__(self, rules: Iterable[EventFilterRule] = (), *, case_sensitive: bool = False) -> None:
        self._rules = tuple(_rule(rule, case_sensitive) for rule in rules)

    def ignores_ddl(self, ddl: Ddl) -> bool:
        """Is a statement left out? A RENAME is judged by the old name, schema DDL by its schema."""
        name = old_name(ddl) or ddl.table
        return any(rule.ignores_ddl(ddl, name) for rule in self._rules)

    def ignores_type(self, change: RowChange) -> bool:
        """Is a change left out because of its type, or because of the columns that it changes?"""
        return any(rule.ignores_type(change) for rule in self._rules)

    def ignores_values(self, change: RowChange) -> bool:
        """Is a change left out because of its values?"""
        return any(rule.ignores_values(change) for rule in self._rules)

    def verify(self, tables: Iterable[TableSchema]) -> None:
        """Refuse expressions about columns that some of these tables do not have."""
        for table in tables:
            for rule in self._rules:
                if rule.exact_tables.matches(table.name):
                    for condition in rule.conditions:
                        condition.expression.verify(table)


def _rule(rule: EventFilterRule, case_sensitive: bool) -> _Rule:
    ops, types = named_events(rule.ignore_event)
    return _Rule(
        tables=TablePatterns.parse(rule.matcher, case_sensitive=case_sensitive),
        exact_tables=TablePatterns.parse(rule.matcher, case_sensitive=True),
        ops=ops,
        types=types,
        statements=tuple(_statement(pattern) for pattern in rule.ignore_sql),
        conditions=_conditions(rule),
        unimportant=frozenset(name.lower() for name in rule.ignore_update_only_columns),
    )


def _statement(pattern: str) -> Search:
    try:
        return searching(pattern, ignore_case=True)
    except ValueError as error:
        raise ChangefeedError(INVALID, f"ignore-sql: {pattern!r} is not a regular expression ({error})") from None


def _conditions(rule: EventFilterRule) -> tuple[_Condition, ...]:
    given: Sequence[tuple[Op, str, bool]] = (
        (Op.INSERT, rule.ignore_insert_value_expr, False),
        (Op.UPDATE, rule.ignore_update_new_value_expr, False),
        (Op.UPDATE, rule.ignore_update_old_value_expr, True),
        (Op.DELETE, rule.ignore_delete_value_expr, True),
    )
    return tuple(_Condition(op, Expression.parse(text), old) for op, text, old in given if text)


def _changed_columns(change: RowChange) -> frozenset[str]:
    before, after = change.before or {}, change.after or {}
    return frozenset(name.lower() for name in after if name not in before or before[name] != after[name])


def _indexed_columns(table: TableSchema) -> frozenset[str]:
    keys = {column.name.lower() for column in table.columns if column.handle_key or column.primary_key}
    return frozenset(keys.union(*({name.lower() for name in index.columns} for index in table.indexes)))
