"""Which tables of the upstream a configuration means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidewire.changefeed.config.replica import ReplicaConfig
from tidewire.dispatch import TableRules, is_eligible
from tidewire.model import TableSchema


@dataclass(frozen=True, slots=True)
class MatchedTables:
    """The tables that ``filter.rules`` keep; rows of ineligible ones cannot be told apart."""

    eligible: tuple[TableSchema, ...]
    ineligible: tuple[TableSchema, ...]

    @property
    def all(self) -> tuple[TableSchema, ...]:
        """Both kinds."""
        return self.eligible + self.ineligible


def matched_tables(config: ReplicaConfig, tables: Iterable[TableSchema]) -> MatchedTables:
    """The tables that take part by the rules of a configuration."""
    rules = TableRules.parse(config.filter.rules, case_sensitive=config.case_sensitive)
    kept = [table for table in tables if rules.matches(table.name)]
    return MatchedTables(
        tuple(table for table in kept if is_eligible(table)), tuple(table for table in kept if not is_eligible(table))
    )
