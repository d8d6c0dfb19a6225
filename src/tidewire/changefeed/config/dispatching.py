"""The parsed form of what a configuration says about tables: what is sent of them, where it goes, under which names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from tidewire.changefeed.config.routing import Routing
from tidewire.changefeed.config.settings import Settings
from tidewire.dispatch import (
    ColumnSelector,
    ColumnSelectors,
    Dispatch,
    DispatchRule,
    EventFilter,
    EventFilterRule,
    Filter,
    TableRules,
)
from tidewire.model import TableSchema


@dataclass(frozen=True, slots=True)
class Dispatching:
    """What a changefeed asks about every event. ``dispatch`` is missing where there are no topics."""

    filter: Filter
    dispatch: Dispatch | None
    routing: Routing

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the author of the rules."""
        return () if self.dispatch is None else self.dispatch.warnings

    def verify(self, tables: Iterable[TableSchema], *, ignore_ineligible: bool = False) -> None:
        """Refuse rules that tables upstream do not fit."""
        tables = tuple(tables)
        self.filter.verify(tables, self.dispatch, ignore_ineligible=ignore_ineligible)
        self.routing.verify(table.name for table in tables if self.filter.takes(table))


def dispatching(settings: Settings) -> Dispatching:
    """The parsed objects of some settings; raises ``ChangefeedError`` if a pattern or an expression is wrong."""
    return Dispatching(
        _filter(settings),
        _dispatch(settings) if settings.topic else None,
        Routing.parse(settings.dispatchers, case_sensitive=settings.case_sensitive),
    )


def _filter(settings: Settings) -> Filter:
    rules, sensitive = settings.filter, settings.case_sensitive
    events = (EventFilterRule(*astuple(rule)) for rule in rules.event_filters)
    selectors = (ColumnSelector(rule.matcher, rule.columns) for rule in settings.column_selectors)
    return Filter(
        TableRules.parse(rules.rules, case_sensitive=sensitive),
        EventFilter(events, case_sensitive=sensitive),
        ColumnSelectors(selectors, case_sensitive=sensitive),
        frozenset(rules.ignore_txn_start_ts),
        settings.force_replicate,
        settings.output_raw_change_event,
    )


def _dispatch(settings: Settings) -> Dispatch:
    rules = (
        DispatchRule(rule.matcher, rule.topic, rule.partition, rule.index, rule.columns)
        for rule in settings.dispatchers
    )
    protocol = settings.protocol if settings.kind.has_topics else ""
    return Dispatch(settings.topic, rules, protocol=protocol, case_sensitive=settings.case_sensitive)
