"""Other names for tables downstream: ``target-schema`` and ``target-table`` of ``sink.dispatchers``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidewire.changefeed.config.sections import DispatchRule
from tidewire.dispatch.table_rules import TablePatterns
from tidewire.errors import ChangefeedError
from tidewire.model import TableName

INVALID = "CDC:ErrInvalidTableRoutingRule"
CONFLICT = "CDC:ErrTableRouteConflict"

_EXPRESSION = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")


@dataclass(frozen=True, slots=True)
class _Route:
    tables: TablePatterns
    schema: str
    table: str


@dataclass(frozen=True, slots=True)
class Routing:
    """The rules that give other names, in their order; the first that matches a table counts."""

    _routes: tuple[_Route, ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[DispatchRule], *, case_sensitive: bool = False) -> Routing:
        """Routing by the rules that have a target; raises ``CDC:ErrInvalidTableRoutingRule`` if one is wrong."""
        routed = ((number, rule) for number, rule in enumerate(rules) if rule.target_schema or rule.target_table)
        return cls(tuple(_route(number, rule, case_sensitive) for number, rule in routed))

    def target(self, name: TableName) -> TableName:
        """The name of a table downstream. Of a schema alone only the schema's name can change.

        >>> rules = [DispatchRule(("sales.*",), target_schema="archive", target_table="{schema}_{table}")]
        >>> str(Routing.parse(rules).target(TableName("sales", "orders")))
        'archive.sales_orders'
        """
        for route in self._routes:
            if route.tables.covers(name):
                table = _filled(route.table, name, name.table) if name.table else ""
                return TableName(_filled(route.schema, name, name.schema), table)
        return name

    def verify(self, tables: Iterable[TableName]) -> None:
        """Refuse rules that give two tables the same name."""
        sources: dict[TableName, TableName] = {}
        for name in tables:
            target = self.target(name)
            other = sources.setdefault(target.folded, name)
            if other != name:
                raise ChangefeedError(
                    CONFLICT,
                    f"{other} and {name} would both become {target}; put {{schema}} or {{table}} into the targets",
                )


def _route(number: int, rule: DispatchRule, case_sensitive: bool) -> _Route:
    for key, text in (("target-schema", rule.target_schema), ("target-table", rule.target_table)):
        if not _EXPRESSION.fullmatch(text):
            raise ChangefeedError(
                INVALID,
                f"sink.dispatchers[{number}].{key} is {text!r}; only {{schema}} and {{table}} may be in braces",
            )
    tables = TablePatterns.parse(rule.matcher, case_sensitive=case_sensitive)
    return _Route(tables, rule.target_schema, rule.target_table)


def _filled(expression: str, name: TableName, otherwise: str) -> str:
    if not expression:
        return otherwise
    values = {"{schema}": name.schema, "{table}": name.table}
    return re.sub(r"\{schema\}|\{table\}", lambda match: values[match[0]], expression)
