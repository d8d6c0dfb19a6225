"""The parsed form of what a configuration says about tables: which events are sent, where to, under which names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidewire.changefeed.config.replica import DispatchRule
from tidewire.changefeed.config.settings import Settings
from tidewire.dispatch import ColumnSelectors, Dispatch, EventFilter, Filter, TableRules
from tidewire.dispatch import DispatchRule as RouterRule
from tidewire.dispatch.per_table import PerTable
from tidewire.dispatch.table_rules import TablePatterns
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, RowChange, TableName, TableSchema

ROUTING_INVALID = "CDC:ErrInvalidTableRoutingRule"
ROUTING_CONFLICT = "CDC:ErrTableRouteConflict"

_TARGET = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")


@dataclass(frozen=True, slots=True)
class _Route:
    tables: TablePatterns
    schema: str
    table: str


@dataclass(frozen=True, slots=True)
class Routing:
    """Names downstream: ``target-schema`` and ``target-table`` of ``sink.dispatchers``; the first match counts."""

    _routes: tuple[_Route, ...] = ()

    @classmethod
    def parse(cls, rules: Iterable[DispatchRule], *, case_sensitive: bool = False) -> Routing:
        """Routing by the rules that have a target; raises ``CDC:ErrInvalidTableRoutingRule`` if one is wrong."""
        routed = ((number, rule) for number, rule in enumerate(rules) if rule.target_schema or rule.target_table)
        return cls(tuple(_route(number, rule, case_sensitive) for number, rule in routed))

    def target(self, name: TableName) -> TableName:
        """The name of a table downstream. If only a schema is given, only the schema's name can change.

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
                    ROUTING_CONFLICT,
                    f"{other} and {name} would both become {target}; put {{schema}} or {{table}} into the targets",
                )


def _route(number: int, rule: DispatchRule, case_sensitive: bool) -> _Route:
    for key, text in (("target-schema", rule.target_schema), ("target-table", rule.target_table)):
        if not _TARGET.fullmatch(text):
            raise ChangefeedError(
                ROUTING_INVALID,
                f"sink.dispatchers[{number}].{key} is {text!r}; only {{schema}} and {{table}} may be in braces",
            )
    tables = TablePatterns.parse(rule.matcher, case_sensitive=case_sensitive)
    return _Route(tables, rule.target_schema, rule.target_table)


def _filled(expression: str, name: TableName, otherwise: str) -> str:
    if not expression:
        return otherwise
    values = {"{schema}": name.schema, "{table}": name.table}
    return re.sub(r"\{schema\}|\{table\}", lambda match: values[match[0]], expression)


@dataclass(frozen=True, slots=True)
class Dispatching:
    """The rules that apply to every event. ``dispatch`` is ``None`` if the sink has no topics."""

    filter: Filter
    dispatch: Dispatch | None
    routing: Routing

    @property
    def projection(self) -> Projection:
        """What is sent of an event: the selected columns, under the names that tables have downstream."""
        return Projection(self.filter.selectors, self.routing)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the rules."""
        return () if self.dispatch is None else self.dispatch.warnings

    def verify(self, tables: Iterable[TableSchema], *, ignore_ineligible: bool = False) -> None:
        """Refuse rules that do not fit the tables upstream."""
        tables = tuple(tables)
        self.filter.verify(tables, self.dispatch, ignore_ineligible=ignore_ineligible)
        self.routing.verify(table.name for table in tables if self.filter.takes(table))


def dispatching(settings: Settings) -> Dispatching:
    """Parse the rules of some settings; raises ``ChangefeedError`` if a pattern or an expression is wrong."""
    return Dispatching(
        _filter(settings),
        _dispatch(settings) if settings.topic else None,
        Routing.parse(settings.dispatchers, case_sensitive=settings.case_sensitive),
    )


def _filter(settings: Settings) -> Filter:
    rules, sensitive = settings.filter, settings.case_sensitive
    return Filter(
        TableRules.parse(rules.rules, case_sensitive=sensitive),
        EventFilter(rules.event_filters, case_sensitive=sensitive),
        ColumnSelectors(settings.column_selectors, case_sensitive=sensitive),
        frozenset(rules.ignore_txn_start_ts),
        settings.force_replicate,
        settings.output_raw_change_event,
    )


def _dispatch(settings: Settings) -> Dispatch:
    rules = (
        RouterRule(rule.matcher, rule.topic, rule.partition, rule.index, rule.columns) for rule in settings.dispatchers
    )
    protocol = settings.protocol if settings.kind.has_topics else ""
    return Dispatch(settings.topic, rules, protocol=protocol, case_sensitive=settings.case_sensitive)


class Projection:
    """Selects columns and gives tables their names downstream; without arguments it changes nothing.

    Topics and partitions are computed from the original events; only what is sent is projected.
    """

    def __init__(self, selectors: ColumnSelectors | None = None, routing: Routing = Routing()) -> None:
        self._selectors = selectors or ColumnSelectors()
        self._routing = routing
        self._renamed = PerTable(self._rename)

    def row(self, change: RowChange) -> RowChange:
        """A change as it is sent."""
        selected = self._selectors.change(change)
        table = self._renamed(selected.table)
        return selected if table is selected.table else replace(selected, table=table)

    def table(self, table: TableSchema) -> TableSchema:
        """A table as it is sent."""
        return self._renamed(self._selectors.table(table))

    def ddl(self, ddl: Ddl) -> Ddl:
        """A statement as it is sent; its text stays."""
        return replace(
            ddl,
            table=self._routing.target(ddl.table),
            old_name=ddl.old_name and self._routing.target(ddl.old_name),
            table_schema=ddl.table_schema and self.table(ddl.table_schema),
            pre_table_schema=ddl.pre_table_schema and self.table(ddl.pre_table_schema),
        )

    def _rename(self, table: TableSchema) -> TableSchema:
        name = self._routing.target(table.name)
        return table if name == table.name else replace(table, name=name)
